package main

import (
	"fmt"
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

func faceSource(m *model, abi abiInfo) []byte {
	w := file(fmt.Sprintf("face_%s.c: MPI as an application compiled for %s knows it.\n"+
		" * Context: upper half; see face.h for the rules.", abi.name, abi.title))
	w.f("#define FACE_%s 1\n#include \"face.h\"", strings.ToUpper(abi.name))
	if abi.pointers {
		faceSymbols(w, m)
		pointerHandles(w, m, abi)
	} else {
		integerHandles(w, m, abi)
	}
	w.f("")
	for _, f := range m.spec.Functions {
		if f.Action != mpispec.Refuse && f.Alias == "" && f.In(abi.name) {
			w.f("%s;", prototype(f))
		}
	}
	for _, f := range m.wrapped {
		if f.Hand {
			crossingHelper(w, crossingOf(f))
		}
	}
	w.f("\n#include \"face_local.inc.c\"\n\n/* -- across to the middle -- */")
	refused := 0
	for _, f := range m.spec.Functions {
		faceFunction(w, m, f, abi, refused)
		if f.Action == mpispec.Refuse {
			refused++
		}
	}
	w.f("\n#include \"face_fast.inc.c\"")
	w.f("#include \"fit.inc.c\"")
	w.f("#include \"fortran_attributes.inc.c\"")
	if abi.pointers {
		fortranLayer(w, m, abi)
	} else {
		w.f("#include \"fortran_%s.inc.c\"", abi.name)
	}
	w.f("\n/* -- other names -- */")
	for _, f := range m.spec.Functions {
		otherNames(w, f, abi)
	}
	return w.Bytes()
}

// otherNames declares a function's alias and its name without P.
func otherNames(w *writer, f *mpispec.Function, abi abiInfo) {
	if !f.In(abi.name) || !f.Profiled() {
		return
	}
	if f.Alias != "" && f.Action != mpispec.Refuse {
		w.f("SAME(%s, P%s)", strong(f), f.Alias)
	}
	w.f("WEAK(%s, %s)", f.Name, strong(f))
}

// byHand says that face_local.inc.c defines the function.
func byHand(f *mpispec.Function) bool {
	return f.Alias == "" && (f.Action == mpispec.Local || f.Hand)
}

func faceFunction(w *writer, m *model, f *mpispec.Function, abi abiInfo, refused int) {
	if !f.In(abi.name) {
		return
	}
	switch {
	case f.Action == mpispec.Refuse:
		refusedFunction(w, m, f, refused)
	case f.Alias == "" && !byHand(f):
		wrappedFunction(w, f)
	}
}

// refusedFunction takes as many arguments as it needs to see the communicator that carries the error handler.
func refusedFunction(w *writer, m *model, f *mpispec.Function, index int) {
	if answer := m.spec.Reasons[f.Reason].Answer; answer != "" {
		w.f("int P%s(void) { return ABI_%s; }", f.Name, answer)
		return
	}
	var as []string
	for i, p := range f.Params {
		if p.Kind == "COMM" && p.Dir == mpispec.In {
			as = append(as, "MPI_Comm comm")
			w.f("int %s(%s) { return face_refused(%d, in_comm(comm)); }", strong(f), strings.Join(as, ", "), index)
			return
		}
		as = append(as, fmt.Sprintf("UNUSED long a%d", i))
	}
	w.f("int %s(void) { return face_refused(%d, NX_COMM_NULL); }", strong(f), index)
}

// wrappedName is the head of a wrapped function. What face_fast.inc.c has a way of its own for gets another name.
func wrappedName(f *mpispec.Function) string {
	if !f.Fast {
		return prototype(f)
	}
	head := "static " + strings.Replace(prototype(f), strong(f), "middle_"+f.Short(), 1)
	if !f.Hot {
		head = "COLD " + head
	}
	return head
}

func wrappedFunction(w *writer, f *mpispec.Function) {
	b := newBridge(f, side{})
	w.f("\n%s\n{", wrappedName(f))
	if f.Short() == "init" || f.Short() == "init_thread" {
		w.f("\tcheck_fit();")
	}
	checkResults(w, f)
	lines(w, b.pre)
	call := crossingCall(w, crossingOf(f), b.args)
	switch f.Yield {
	case mpispec.None:
		w.f("\tlong rc = %s;", call)
	case mpispec.Recall:
		w.f("\tlong rc;\n\tdo rc = %s;\n\twhile (unlikely(rc == BY_AGAIN) && face_park());", call)
	case mpispec.Resume:
		w.f("\tlong rc = %s;\n\tif (unlikely(rc == BY_AGAIN)) rc = face_resume(&cont, %s);", call, statusArg(f, b))
	}
	lines(w, b.post)
	lines(w, b.end)
	w.f("\treturn error_out((int)rc);\n}")
}

// checkResults lets a call without a place for a result, or without an array of numbers, fail, as both families of
// libraries do. Arrays of no elements may be nowhere, and buffers, weights and statuses have special addresses.
func checkResults(w *writer, f *mpispec.Function) {
	var missing []string
	comm := "NX_COMM_WORLD"
	for _, p := range f.Params {
		switch k := kindOf(p).class; {
		case p.Kind == "COMM" && p.Dir == mpispec.In:
			comm = fmt.Sprintf("in_comm(%s)", p.Name)
		case p.Dir != mpispec.In && !p.Array() && (k == plain || k == wide || k == handle || k == mapped):
			missing = append(missing, "!"+p.Name)
		case !f.Hot && f.HasParam(p.Len) && (p.Kind == "RANK" || p.Kind == "INT" || p.Kind == "LOGICAL"):
			missing = append(missing, fmt.Sprintf("(%s > 0 && !%s)", p.Len, p.Name))
		}
	}
	if missing == nil {
		return
	}
	w.f("\tif (unlikely(%s)) return face_raise_in(\"%s\", %s, NX_ERR_ARG);", strings.Join(missing, " || "), strings.TrimPrefix(f.Name, "MPI_"), comm)
}

// crossingHelper writes a function that crosses, for face functions written by hand.
func crossingHelper(w *writer, c crossing) {
	names := make([]string, len(c.args))
	for i, a := range c.args {
		names[i] = a.name
	}
	w.f("\nstatic inline long cross_%s(%s)\n{", c.f.Short(), list(c.args))
	w.f("\treturn %s;\n}", crossingCall(w, c, names))
}

// statusArg is the status that a resumed call fills in.
func statusArg(f *mpispec.Function, b *bridge) string {
	for i, p := range f.Params {
		if p.Kind == "STATUS" {
			return b.args[i]
		}
	}
	return "NULL"
}

// crossingCall is the expression that crosses; a struct for the arguments is declared before it if they need one.
func crossingCall(w *writer, c crossing, args []string) string {
	if c.boxed {
		w.f("\tstruct nx_box_%s box = { %s };", c.f.Short(), strings.Join(args, ", "))
		args = []string{"&box"}
	} else {
		args = packedArgs(c, args)
	}
	return fmt.Sprintf("CROSS(%s, %s)(%s)", slotName(c.f.Short()), types(c.registers()), strings.Join(args, ", "))
}

// packedArgs joins the expressions of the arguments that share a register.
func packedArgs(c crossing, args []string) []string {
	var out []string
	for _, w := range c.words {
		if len(w) == 1 {
			out = append(out, args[0])
		} else {
			out = append(out, fmt.Sprintf("PACK(%s, %s)", args[0], args[1]))
		}
		args = args[len(w):]
	}
	return out
}
