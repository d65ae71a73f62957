package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

// tableOf names the table of a kind of object in saved.h.
var tableOf = map[string]string{
	"comm": "COMM", "group": "GROUP", "request": "REQUEST", "message": "MESSAGE", "op": "OP", "info": "INFO",
	"errhandler": "ERRH", "datatype": "TYPE",
}

// faceKinds are the kinds of objects whose handles cross.
var faceKinds = []string{"comm", "group", "request", "message", "op", "info", "errhandler", "datatype"}

// mpichDynamic is the top of the handles that MPICH makes at run time.
var mpichDynamic = map[string]uint32{
	"comm": 0x84000000, "group": 0x88000000, "datatype": 0x8c000000, "errhandler": 0x94000000, "op": 0x98000000,
	"info": 0x9c000000, "keyval": 0xa4000000, "request": 0xac000000, "message": 0xac000000,
}

// builtinTable writes the handles of the predefined objects of a kind, by neutral number.
func builtinTable(w *writer, m *model, kind string, abi abiInfo, format string) {
	os := m.spec.ABI.Kind(kind)
	w.f("\nstatic %s%s_builtin[] = {", map[bool]string{true: "void *const ", false: "const int "}[abi.pointers], kind)
	for _, o := range os {
		v, ok := o.Value(abi.name)
		if !ok {
			v = lackedBy(o, os, abi)
		}
		w.f("\t[%s] = "+format+",", neutralName(o), v)
	}
	w.f("};")
}

// lackedBy is what a face gives for an object that its ABI has not got: the one that stands in, or the null handle.
func lackedBy(o mpispec.Object, os []mpispec.Object, abi abiInfo) string {
	name := o.StandIn(abi.name)
	for _, other := range os {
		if other.Name == name {
			return mustValue(other, abi)
		}
	}
	return mustValue(os[0], abi)
}

// integerHandles writes in_kind and out_kind for an ABI whose handles are integers made of a kind and an index.
func integerHandles(w *writer, m *model, abi abiInfo) {
	for _, k := range faceKinds {
		builtinTable(w, m, k, abi, "(int)%s")
		t := handleTypes[k]
		w.f("static inline %s out_%s(nx_t nx)\n{", t, k)
		w.f("\treturn nx < NX_FIRST_DYNAMIC ? %s_builtin[nx] : (int)(%#xu | nx);\n}", k, mpichDynamic[k])
		integerIn(w, m.spec.ABI.Kind(k), k)
	}
	w.f("\nstatic inline int out_keyval(nx_t nx) { return nx < NX_FIRST_DYNAMIC ? keyval_builtin_out(nx) : (int)(%#xu | nx); }", mpichDynamic["keyval"])
	w.f("static inline nx_t in_keyval(int key)\n{\n\tuint32_t u = (uint32_t)key;")
	w.f("\treturn u >> 26 == %#xu >> 26 ? u & HANDLE_MASK : keyval_builtin_in(key);\n}", mpichDynamic["keyval"])
}

// integerIn finds the neutral handle: the many builtin types and ops by their low byte, others by comparison.
func integerIn(w *writer, os []mpispec.Object, kind string) {
	many := len(os) > 8
	if many {
		lowTable(w, os, kind)
	}
	w.f("static inline nx_t in_%s(%s h)\n{\n\tuint32_t u = (uint32_t)h;", kind, handleTypes[kind])
	if many {
		w.f("\tif (likely(u >> 26 == %#xu >> 26)) return (nx_t)%s_low[u & 0xff] - 1;", builtinTop(os), kind)
	}
	w.f("\tif (likely(u >> 26 == %#xu >> 26 && (u & HANDLE_MASK) >= NX_FIRST_DYNAMIC)) return u & HANDLE_MASK;", mpichDynamic[kind])
	w.f("\tswitch (u) {")
	for _, o := range os {
		if v, ok := o.Value(mpispec.MPICH); ok && !(many && topOf(v) == builtinTop(os)) {
			w.f("\tcase %s: return %s;", v, neutralName(o))
		}
	}
	w.f("\t}\n\treturn NX_INVALID;\n}")
}

func topOf(v string) uint32 {
	n, err := strconv.ParseUint(v, 0, 32)
	if err != nil {
		return 0
	}
	return uint32(n) &^ 0x3ffffff
}

// builtinTop is the top of the builtin handles of a kind: that of its first object after the null handle.
func builtinTop(os []mpispec.Object) uint32 { return topOf(os[1].MPICH) }

// lowTable maps the low byte of a builtin handle to its neutral number plus one.
func lowTable(w *writer, os []mpispec.Object, kind string) {
	w.f("static const uint8_t %s_low[256] = {", kind)
	for _, o := range os {
		if v, ok := o.Value(mpispec.MPICH); ok && topOf(v) == builtinTop(os) {
			w.f("\t[%s & 0xff] = %s + 1,", v, neutralName(o))
		}
	}
	w.f("};")
}

// pointerHandles writes in_kind and out_kind for an ABI whose handles are addresses of objects: the first word of
// each is its neutral handle.
func pointerHandles(w *writer, m *model, abi abiInfo) {
	for _, k := range faceKinds {
		builtinTable(w, m, k, abi, "&%s")
		t := handleTypes[k]
		w.f("static inline %s out_%s(nx_t nx)\n{", t, k)
		w.f("\treturn nx < NX_FIRST_DYNAMIC ? %s_builtin[nx] : NX_ENTRY(%s, nx);\n}", k, tableOf[k])
		w.f("static inline nx_t in_%s(%s h) { return likely(h != NULL) ? *(const nx_t *)h : NX_INVALID; }", k, t)
		fortranIntegers(w, m.spec.ABI.Kind(k), k)
	}
	w.f("\nstatic inline int out_keyval(nx_t nx) { return nx < NX_FIRST_DYNAMIC ? keyval_builtin_out(nx) : (int)nx; }")
	w.f("static inline nx_t in_keyval(int key) { return key >= NX_FIRST_DYNAMIC ? (nx_t)key : keyval_builtin_in(key); }")
}

// faceSymbols writes the data objects of the library: predefined objects with their neutral handle as first word.
func faceSymbols(w *writer, m *model) {
	w.f("\n/* -- data objects of the library, in their original sizes -- */")
	w.f("#define OBJECT(name, size, id) struct { nx_t nx; char rest[size - 4]; } name ALIGNED = { id, { 0 } };")
	ids := map[string]string{}
	for _, o := range m.spec.ABI.Objects {
		ids[o.OpenMPI] = neutralName(o)
		ids["="+o.Name] = neutralName(o)
	}
	for _, s := range m.spec.ABI.Symbols {
		switch {
		case s.Value == "object":
			w.f("OBJECT(%s, %d, %s)", s.Name, s.Size, ids[s.Name])
		case strings.HasPrefix(s.Value, "="):
			w.f("OBJECT(%s, %d, %s)", s.Name, s.Size, ids[s.Value])
		case s.Value == "zero":
			w.f("char %s[%d] ALIGNED;", s.Name, s.Size)
		}
	}
	for _, s := range m.spec.ABI.Symbols {
		if target, ok := strings.CutPrefix(s.Value, "&"); ok {
			w.f("void *%s = %s;", s.Name, "(void *)&"+target)
		}
	}
	w.WriteString(fmt.Sprintln())
}

// fortranIntegers writes the translation of handles to Fortran's integers where those are not the handles themselves:
// predefined objects have the numbers of mpif.h, others their neutral handle, and what is neither is the null handle.
func fortranIntegers(w *writer, os []mpispec.Object, kind string) {
	w.f("static inline MPI_Fint fint_of_%s(nx_t nx)\n{\n\tswitch (nx) {", kind)
	for _, o := range os {
		if o.Fortran != "-" {
			w.f("\tcase %s: return %s;", neutralName(o), o.Fortran)
		}
	}
	w.f("\t}\n\treturn (MPI_Fint)nx;\n}")
	w.f("static inline nx_t %s_of_fint(MPI_Fint f)\n{\n\tswitch (f) {", kind)
	for _, o := range os {
		if o.Fortran != "-" {
			w.f("\tcase %s: return %s;", o.Fortran, neutralName(o))
		}
	}
	w.f("\t}\n\treturn f >= NX_FIRST_DYNAMIC ? (nx_t)f : %s;\n}", neutralName(os[0]))
}
