package pupcheck

import (
	"go/types"
)

// checkCond reports a branch or loop that takes another course when unpacking, or from run to run.
func (r *run) checkCond(n *Node, what string) {
	if n.Op == OpBranch && sameTraces(visible(n.Then), visible(n.Else)) || len(visible(n.Then))+len(visible(n.Else)) == 0 {
		return
	}
	pos := r.position(n.pos)
	c := n.Cond
	said := true
	switch {
	case c.MapKey:
		r.report(pos, "order", "visits in map order, which differs from run to run: use pup.Map")
	case flags(c.Flags)&fromClock != 0:
		r.report(pos, "unstable", "the %s depends on the time", what)
	case flags(c.Flags)&fromRandom != 0:
		r.report(pos, "unstable", "the %s depends on random numbers", what)
	case flags(c.Flags)&fromEnvironment != 0:
		r.report(pos, "unstable", "the %s depends on the environment of the process", what)
	case flags(c.Flags)&fromChannel != 0:
		r.report(pos, "unstable", "the %s depends on what other goroutines do", what)
	case flags(c.Flags)&fromGlobal != 0:
		r.report(pos, "unstable", "the %s depends on %s, which may differ when unpacking", what, c.Global)
	default:
		said = false
	}
	if said || r.mode != unpacking || len(c.Unset) == 0 || !r.isPUP && !r.inElement(c.Unset) {
		return
	}
	p := c.Unset[0]
	r.report(pos, "unset", "the %s depends on %s, which is not restored yet when unpacking: visit it first", what, p)
}

// inElement reports whether places belong to the element that an element function works on.
func (r *run) inElement(places []Place) bool {
	if len(r.elems) == 0 {
		return false
	}
	for _, p := range places {
		if r.elems[len(r.elems)-1].place.covers(p) {
			return true
		}
	}
	return false
}

// checkType reports helpers that do not suit the type of what they visit.
func (r *run) checkType(kind string, p Place, typ types.Type, a visitArg) {
	if typ == nil || generic(typ) {
		return
	}
	elem := typ
	if s, ok := under(typ).(*types.Slice); ok && kind == "PlainSlice" {
		elem = s.Elem()
	}
	switch kind {
	case "Plain", "PlainSlice":
		if found := pointerIn(elem); found != "" {
			r.reportFix(r.position(a.pos), "plain", r.plainToValue(a.pos), "pup.%s copies the memory of %s, which holds a pointer: %s",
				kind, typeText(elem), found)
			return
		}
	case "Number", "Block":
	default:
		return
	}
	if found := addressIn(elem); found != "" {
		r.reportAddress(r.position(a.pos), found)
	} else if p.param() && addressIn(typeAt(r.typeOfRoot(p.Root), p.Steps)) != "" {
		r.reportAddress(r.position(a.pos), p.String())
	}
}

// checkRaw reports a view of the bytes of a value that has pointers or padding.
func (r *run) checkRaw(a visitArg) {
	t := a.v.raw
	if generic(t) {
		return
	}
	if found := pointerIn(t); found != "" {
		r.report(r.position(a.pos), "raw", "the bytes of %s hold a pointer: %s", typeText(t), found)
	} else if n := padding(t, r.pass.TypesSizes); n > 0 {
		r.report(r.position(a.pos), "raw", "%s has %d padding bytes; their content is stored with it: use pup.Plain", typeText(t), n)
	} else if found := addressIn(t); found != "" {
		r.reportAddress(r.position(a.pos), found)
	}
}

// compareTraces reports the first difference between packing and unpacking, or sizing.
func (c *checker) compareTraces(runs [modes]*run) bool {
	pack := visible(runs[packing].nodes)
	for _, other := range []struct {
		m    mode
		name string
	}{{unpacking, "unpacking"}, {sizing, "sizing"}} {
		d := firstDifference(pack, visible(runs[other.m].nodes))
		if d == nil {
			continue
		}
		a, b := d.a.first(), d.b.first()
		at := b
		if at == nil {
			at = a
		}
		what := ""
		switch {
		case d.why != "":
			what = ": " + a.about(a.Src) + " " + d.why
		case a != nil && b != nil && a.Op == OpVisit && b.Op == OpVisit && a.Place.object().key() == b.Place.object().key() && a.Kind != b.Kind:
			what = ": " + a.about(nil) + " as " + a.Kind + " and as " + b.Kind
		default:
			what = ": packing visits " + about(a, true) + " here, " +
				other.name + " " + about(b, other.m != unpacking)
		}
		c.report(at.pos, "differs", "packing and %s differ%s", other.name, what)
		return true
	}
	return false
}

// about describes a leaf of a traversal that may have ended.
func about(n *Node, packs bool) string {
	if n == nil {
		return "nothing"
	}
	if packs {
		return n.about(n.Src)
	}
	return n.about(n.Dst)
}
