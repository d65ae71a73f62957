package main

import (
	"fmt"
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

// abiInfo is what the generator knows about an ABI beyond the tables.
type abiInfo struct {
	name     string
	title    string
	pointers bool   // handles are pointers, else integers
	status   string // C functions that read and write the fields of MPI_Status that MPI does not name
}

var abis = []abiInfo{
	{name: mpispec.MPICH, title: "MPICH", status: mpichStatus},
	{name: mpispec.OpenMPI, title: "Open MPI 4", pointers: true, status: openmpiStatus},
}

// MPICH keeps the count in 63 bits beside the flag of cancellation.
const mpichStatus = `static inline int64_t status_bytes(const MPI_Status *s)
{
	return (int64_t)((uint32_t)s->count_hi_and_cancelled >> 1) << 32 | (uint32_t)s->count_lo;
}
static inline int status_cancelled(const MPI_Status *s) { return s->count_hi_and_cancelled & 1; }
static inline void status_set(MPI_Status *s, int64_t bytes, int cancelled)
{
	s->count_lo = (int)bytes;
	s->count_hi_and_cancelled = (int)((uint32_t)(bytes >> 32) << 1 | (cancelled != 0));
}
`

const openmpiStatus = `static inline int64_t status_bytes(const MPI_Status *s) { return (int64_t)s->_ucount; }
static inline int status_cancelled(const MPI_Status *s) { return s->_cancelled; }
static inline void status_set(MPI_Status *s, int64_t bytes, int cancelled)
{
	s->_ucount = (size_t)bytes;
	s->_cancelled = cancelled;
}
`

// handleTypes are the C types of handles, by kind of object.
var handleTypes = map[string]string{
	"comm": "MPI_Comm", "group": "MPI_Group", "request": "MPI_Request", "message": "MPI_Message", "op": "MPI_Op",
	"info": "MPI_Info", "errhandler": "MPI_Errhandler", "datatype": "MPI_Datatype", "win": "MPI_Win", "file": "MPI_File",
	"session": "MPI_Session",
}

// mappedGroups are the groups of constants that are translated by value.
var mappedGroups = []string{"rank", "thread", "compare", "topology", "split", "order", "distrib", "darg", "combiner", "typeclass"}

func abiHeader(m *model, abi abiInfo) []byte {
	w := file(fmt.Sprintf("abi_%s.h: the ABI of %s, from the tables of mpispec/abi. Part of abi.h.", abi.name, abi.title))
	guard := "BYSSUS_ABI_" + strings.ToUpper(abi.name) + "_H"
	w.f("#ifndef %s\n#define %s\n#include <stddef.h>\n", guard, guard)
	abiTypes(w, m, abi)
	for _, c := range m.spec.ABI.Constants {
		abiConstant(w, c, abi)
	}
	for _, g := range mappedGroups {
		mapGroup(w, m.spec.ABI.Group(g), g, abi)
	}
	abiErrors(w, m, abi)
	abiKeyvals(w, m, abi)
	w.WriteString("\n" + abi.status + statusCopy)
	w.f("#endif")
	return w.Bytes()
}

func abiTypes(w *writer, m *model, abi abiInfo) {
	base := "int"
	if abi.pointers {
		base = "void *"
	}
	for _, k := range objectKinds {
		if t := handleTypes[k]; t != "" && k != "file" {
			w.f("typedef %s;", declare(base, t))
		}
	}
	w.f("typedef void *MPI_File;\ntypedef nx_aint MPI_Aint, MPI_Count, MPI_Offset;\ntypedef int MPI_Fint;")
	w.f("typedef struct MPI_Status {")
	for _, f := range m.spec.ABI.Status {
		if f.ABI == abi.name {
			w.f("\t%s %s;", f.Type, f.Name)
		}
	}
	w.f("} MPI_Status;\n")
}

func abiConstant(w *writer, c mpispec.Constant, abi abiInfo) {
	v, ok := c.Value(abi.name)
	switch {
	case !ok || v == "symbol":
	case c.Group == "status":
		w.f("#define ABI_%s ((MPI_Status *)%s)", c.Name, v)
	case addressTypes[c.Group] != "":
		w.f("#define ABI_%s ((%s)%s)", c.Name, addressTypes[c.Group], v)
	default:
		w.f("#define ABI_%s (%s)", c.Name, v)
	}
}

// mapGroup writes the two functions that translate a group of constants; other values pass unchanged.
func mapGroup(w *writer, cs []mpispec.Constant, group string, abi abiInfo) {
	for _, dir := range []string{"in", "out"} {
		w.f("\nstatic inline int %s_%s(int v)\n{", group, dir)
		if group == "rank" {
			w.f("\tif (__builtin_expect(v >= 0, 1)) return v;")
		}
		w.f("\tswitch (v) {")
		for _, c := range cs {
			from, to := "ABI_"+c.Name, "NX_"+c.Name
			if _, ok := c.Value(abi.name); !ok {
				if in := c.StandIn(abi.name); in != "" && dir == "out" {
					w.f("\tcase %s: return ABI_%s;", to, in)
				}
				continue
			}
			if dir == "out" {
				from, to = to, from
			}
			w.f("\tcase %s: return %s;", from, to)
		}
		w.f("\t}\n\treturn v;\n}")
	}
}

// abiErrors writes the translation of error classes and of the codes that the application adds.
func abiErrors(w *writer, m *model, abi abiInfo) {
	cs := m.spec.ABI.Group("error")
	w.f("\nstatic inline int error_out_slow(int e)\n{\n\tswitch (e) {")
	for _, c := range cs {
		if _, ok := c.Value(abi.name); ok {
			w.f("\tcase NX_%s: return ABI_%s;", c.Name, c.Name)
		} else if name := c.StandIn(abi.name); name != "" {
			w.f("\tcase NX_%s: return ABI_%s;", c.Name, name)
		}
	}
	w.f("\t}\n\treturn e < NX_FIRST_USER_ERROR ? ABI_ERR_OTHER : ABI_ERR_LASTCODE + 1 + (e - NX_FIRST_USER_ERROR);\n}")
	w.f("static inline int error_out(int e) { return __builtin_expect(e == 0, 1) ? 0 : error_out_slow(e); }")
	w.f("static inline int error_in(int e)\n{\n\tif (e > ABI_ERR_LASTCODE) return NX_FIRST_USER_ERROR + (e - ABI_ERR_LASTCODE - 1);\n\tswitch (e) {")
	for _, c := range cs {
		if _, ok := c.Value(abi.name); ok {
			w.f("\tcase ABI_%s: return NX_%s;", c.Name, c.Name)
		}
	}
	w.f("\t}\n\treturn NX_ERR_UNKNOWN;\n}")
}

// abiKeyvals writes the translation of predefined attribute keys, which are integers everywhere.
func abiKeyvals(w *writer, m *model, abi abiInfo) {
	os := m.spec.ABI.Kind("keyval")
	w.f("\nstatic inline int keyval_builtin_out(nx_t nx)\n{\n\tswitch (nx) {")
	for _, o := range os {
		v, _ := o.Value(abi.name)
		w.f("\tcase %s: return %s;", neutralName(o), v)
	}
	w.f("\t}\n\treturn %s;\n}", mustValue(os[0], abi))
	w.f("static inline nx_t keyval_builtin_in(int key)\n{\n\tswitch (key) {")
	for _, o := range os {
		v, _ := o.Value(abi.name)
		w.f("\tcase %s: return %s;", v, neutralName(o))
	}
	w.f("\t}\n\treturn NX_INVALID;\n}")
}

func mustValue(o mpispec.Object, abi abiInfo) string {
	v, _ := o.Value(abi.name)
	return v
}

const statusCopy = `
/* One message: MPI_ERROR is left alone. */
static inline void status_out(MPI_Status *to, const nx_status *from)
{
	to->MPI_SOURCE = rank_out(from->source);
	to->MPI_TAG = from->tag;
	status_set(to, from->bytes, from->cancelled);
}
static inline void status_in(nx_status *to, const MPI_Status *from)
{
	to->source = rank_in(from->MPI_SOURCE);
	to->tag = from->MPI_TAG;
	to->error = 0;
	to->cancelled = status_cancelled(from);
	to->bytes = status_bytes(from);
}
`
