package main

import (
	"fmt"
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

// abiType is the C type of a parameter in an ABI's own mpi.h. Callbacks are plain addresses here.
func abiType(p mpispec.Param) string {
	k := kindOf(p)
	switch k.class {
	case handle:
		base := handleTypes[k.object]
		if k.object == "keyval" {
			base = "int"
		}
		if p.Dir == mpispec.Ref && !p.Array() {
			return pointer(base)
		}
		return pass(p, base)
	case status:
		return constIf(p.Dir == mpispec.In, "MPI_Status *")
	case wide:
		if p.Dir == mpispec.Ref {
			return "const nx_aint *"
		}
	case address:
		if p.Kind == "POINTER" || p.Kind == "ATTRIBUTE" {
			return "void *" // where it is set, the standard says void * too
		}
	}
	switch p.Kind {
	case "FSTATUS":
		return constIf(p.Dir != mpispec.Out, "MPI_Fint *")
	case "FSTATUS08":
		return constIf(p.Dir != mpispec.Out, "void *")
	case "FN":
		return "void *"
	}
	return neutralType(p, "")
}

func abiArgs(f *mpispec.Function) []arg {
	var as []arg
	for _, p := range f.Params {
		if p.Kind == "VARARGS" {
			as = append(as, arg{"...", ""})
			continue
		}
		as = append(as, arg{abiType(p), p.Name})
	}
	return as
}

// resultType is the C type that a function of an ABI returns.
func resultType(f *mpispec.Function) string {
	switch f.Returns {
	case "DOUBLE":
		return "double"
	case "AINT":
		return "MPI_Aint"
	case "FINT":
		return "MPI_Fint"
	case "", "INT":
		return "int"
	}
	return handleTypes[kinds[f.Returns].object]
}

// strong is the name under which a face defines a function: the profiling name, if it has one.
func strong(f *mpispec.Function) string {
	if f.Profiled() {
		return "P" + f.Name
	}
	return f.Name
}

// prototype declares a function under its strong name.
func prototype(f *mpispec.Function) string {
	return declare(resultType(f), fmt.Sprintf("%s(%s)", strong(f), list(abiArgs(f))))
}

func types(as []arg) string {
	if len(as) == 0 {
		return "void"
	}
	ts := make([]string, len(as))
	for i, a := range as {
		ts[i] = strings.TrimSpace(a.ctype)
	}
	return strings.Join(ts, ", ")
}
