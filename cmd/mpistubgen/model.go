package main

import (
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

// model is the description arranged for the back ends.
type model struct {
	spec    *mpispec.Spec
	wrapped []*mpispec.Function // own a slot and a mid_ function, in order
	refused []*mpispec.Function // own an index, in order; aliases and large-count variants too
	drivers []*mpispec.Function // own a driver entry
}

func newModel(spec *mpispec.Spec) *model {
	m := &model{spec: spec}
	for _, f := range spec.Functions {
		if f.Action == mpispec.Wrap && f.Alias == "" {
			m.wrapped = append(m.wrapped, f)
		}
		if f.Action == mpispec.Refuse {
			m.refused = append(m.refused, f)
		}
		if f.Driver {
			m.drivers = append(m.drivers, f)
		}
	}
	return m
}

// arg is one argument of a crossing.
type arg struct {
	ctype string
	name  string
}

func (a arg) String() string { return declare(a.ctype, a.name) }

// narrow says that the argument fits in half a register.
func (a arg) narrow() bool { return a.ctype == "int" || a.ctype == "nx_t" || a.ctype == "uint32_t" }

// midArgs lists the arguments of mid_name: the parameters in neutral types; behind a callback its thunk; behind a
// string of limited length the limit; at the end the continuation of a call that is resumed.
func midArgs(f *mpispec.Function) []arg {
	var as []arg
	for _, p := range f.Params {
		as = append(as, arg{neutralType(p, "nx_t"), p.Name})
		if kindOf(p).class == callback {
			as = append(as, arg{"void *", p.Name + "_thunk"})
		}
		if limited(p) {
			as = append(as, arg{"int", p.Name + "_max"})
		}
	}
	if f.Yield == mpispec.Resume {
		as = append(as, arg{"nx_cont *", "cont"})
	}
	return as
}

// limited says that the length of an output string is a constant of the ABI.
func limited(p mpispec.Param) bool {
	return p.Kind == "STRING" && p.Dir == mpispec.Out && strings.HasPrefix(p.Len, "MAX_")
}

// driverArgs lists the arguments of a driver's entry.
func driverArgs(f *mpispec.Function) []arg {
	var as []arg
	for _, p := range f.Params {
		t := "rh_t"
		if p.Kind == "KEYVAL" {
			t = "nx_t" // only predefined ones reach a driver
		}
		as = append(as, arg{neutralType(p, t), p.Name})
	}
	return as
}

const registers = 6

// word is one register of a crossing: one argument, or two narrow ones (low half first).
type word []arg

// packed arranges arguments into registers: neighbours that are narrow share one, from the left, until six are
// enough. If six are not enough even so, boxed is true and the arguments travel in a struct.
func packed(args []arg) (words []word, boxed bool) {
	excess := len(args) - registers
	for i := 0; i < len(args); i++ {
		if excess > 0 && i+1 < len(args) && args[i].narrow() && args[i+1].narrow() {
			words = append(words, word{args[i], args[i+1]})
			i++
			excess--
			continue
		}
		words = append(words, word{args[i]})
	}
	return words, excess > 0
}

func list(as []arg) string {
	if len(as) == 0 {
		return "void"
	}
	texts := make([]string, len(as))
	for i, a := range as {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
