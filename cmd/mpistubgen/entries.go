package main

import (
	"fmt"
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

// crossing is how the arguments of a wrapped function travel.
type crossing struct {
	f     *mpispec.Function
	args  []arg
	words []word
	boxed bool
}

func crossingOf(f *mpispec.Function) crossing {
	c := crossing{f: f, args: midArgs(f)}
	c.words, c.boxed = packed(c.args)
	return c
}

// direct says that the slot can hold mid_name itself.
func (c crossing) direct() bool { return !c.boxed && len(c.words) == len(c.args) }

// registers lists the arguments of the crossing as the slot's function sees them.
func (c crossing) registers() []arg {
	if c.boxed {
		return []arg{{"const struct nx_box_" + c.f.Short() + " *", "box"}}
	}
	var as []arg
	for _, w := range c.words {
		if len(w) == 1 {
			as = append(as, w[0])
			continue
		}
		as = append(as, arg{"uint64_t", w[0].name + "_" + w[1].name})
	}
	return as
}

// boxesHeader writes the structs of the crossings that need more than six registers.
func boxesHeader(m *model) []byte {
	w := file("boxes.h: arguments of crossings that do not fit in six registers. Part of neutral.h.")
	w.f("#ifndef BYSSUS_BOXES_H\n#define BYSSUS_BOXES_H")
	for _, f := range m.wrapped {
		c := crossingOf(f)
		if !c.boxed {
			continue
		}
		w.f("\nstruct nx_box_%s {", f.Short())
		for _, a := range c.args {
			w.f("\t%s;", a)
		}
		w.f("};")
	}
	w.f("#endif")
	return w.Bytes()
}

func entriesSource(m *model) []byte {
	w := file("entries.c: puts the middle's functions into the call slots, unpacking arguments where two share a register.\n" +
		" * Context: lower half, on the application's stack.")
	w.f("#include \"life.h\"\n")
	w.f("_Static_assert(NX_SLOT_N <= BY_NCALL, \"more crossings than slots\");")
	for _, f := range m.wrapped {
		if c := crossingOf(f); !c.direct() {
			entry(w, c)
		}
	}
	w.f("\nvoid nx_fill_slots(void)\n{")
	for _, s := range fixedSlots {
		w.f("\tcore_set_call(%s, (void *)mid_%s);", slotName(s.name), s.name)
	}
	for _, f := range m.wrapped {
		prefix := "mid_"
		if !crossingOf(f).direct() {
			prefix = "entry_"
		}
		w.f("\tcore_set_call(%s, (void *)%s%s);", slotName(f.Short()), prefix, f.Short())
	}
	w.f("}")
	return w.Bytes()
}

func entry(w *writer, c crossing) {
	w.f("\nstatic long entry_%s(%s)\n{", c.f.Short(), list(c.registers()))
	w.f("\treturn mid_%s(%s);\n}", c.f.Short(), strings.Join(unpacked(c), ", "))
}

// unpacked lists the arguments for mid_name as expressions over the registers.
func unpacked(c crossing) []string {
	var es []string
	for _, w := range c.words {
		switch {
		case c.boxed:
			for _, a := range w {
				es = append(es, "box->"+a.name)
			}
		case len(w) == 1:
			es = append(es, w[0].name)
		default:
			both := w[0].name + "_" + w[1].name
			es = append(es, fmt.Sprintf("(%s)%s", w[0].ctype, both), fmt.Sprintf("(%s)(%s >> 32)", w[1].ctype, both))
		}
	}
	return es
}
