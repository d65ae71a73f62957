package pupcheck

import (
	"go/constant"
	"go/token"
	"go/types"
	"slices"
)

// A Loss is a conversion that cannot hold all values of what is converted.
type Loss struct {
	Place    Place
	From, To string
	to       types.Type
	data     bool // what is converted was visited, and has no place yet
}

func (l Loss) key() string { return l.Place.key() + ":" + l.To }

// noteLoss notes what the conversion of x to another type loses of the value that x was at first.
func (r *run) noteLoss(v, x *value, from, to types.Type) {
	if x.flags&fromPass != 0 || !isNumeric(from) || !isNumeric(to) {
		return
	}
	if v.origin == nil {
		v.origin = from
	}
	loss := Loss{To: typeText(to), From: typeText(v.origin), to: to, data: x.data}
	switch {
	case x.length != nil && !x.length.cut && !x.length.capacity && x.length.of.param():
		if b := under(to).(*types.Basic); b.Info()&types.IsInteger == 0 || r.bytes(b) >= 4 {
			return
		}
		loss.Place = x.length.of.shape()
	case x.kind == copyOf && len(x.refs) == 1 && x.refs[0].param():
		loss.Place = x.refs[0]
		if r.holds(to, v.origin) {
			return
		}
	case !x.data || r.holds(to, v.origin):
		return
	}
	v.lost = union(v.lost, map[string]Loss{loss.key(): loss})
}

func isNumeric(t types.Type) bool {
	b, ok := under(t).(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0 && b.Info()&types.IsUntyped == 0
}

// bytes is the size of a basic type.
func (r *run) bytes(b *types.Basic) int64 { return r.pass.TypesSizes.Sizeof(b) }

// holds reports whether every value of one numeric type becomes the same again after a conversion to another.
func (r *run) holds(to, from types.Type) bool {
	a, b := under(from).(*types.Basic), under(to).(*types.Basic)
	if constantsFit(from, b, r.bytes(b)) {
		return true
	}
	fromInt, toInt := a.Info()&types.IsInteger != 0, b.Info()&types.IsInteger != 0
	switch {
	case fromInt == toInt:
		return r.bytes(b) >= r.bytes(a)
	case toInt:
		return false
	}
	bits, mantissa := 8*r.bytes(a), int64(24)
	if a.Info()&types.IsUnsigned == 0 {
		bits--
	}
	if r.bytes(b) == 8 {
		mantissa = 53
	}
	return bits <= mantissa
}

// constantsFit reports whether a type is an enumeration, all of whose constants an integer type of some size can hold.
func constantsFit(t types.Type, to *types.Basic, size int64) bool {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil || to.Info()&types.IsInteger == 0 {
		return false
	}
	found := 0
	scope := n.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		c, ok := scope.Lookup(name).(*types.Const)
		if !ok || !types.Identical(c.Type(), t) {
			continue
		}
		v := constant.ToInt(c.Val())
		if v.Kind() != constant.Int {
			return false
		}
		bits := int64(constant.BitLen(v))
		if to.Info()&types.IsUnsigned == 0 || constant.Sign(v) < 0 {
			bits++
		}
		if found++; bits > 8*size {
			return false
		}
	}
	return found > 1
}

// checkRestored reports a number that is restored from data by way of too few bits.
func (r *run) checkRestored(p Place, d deps) {
	if r.mode != unpacking || !p.param() || len(d.temps) != 1 {
		return
	}
	t := typeAt(r.typeOfRoot(p.Root), p.Steps)
	if !isNumeric(t) {
		return
	}
	for _, l := range d.lost {
		if l.data && l.to != nil && !r.holds(l.to, t) {
			r.report(r.position(r.at), "narrow", "%s of type %s is unpacked through %s, which cannot hold all its values",
				p, typeText(t), l.To)
			return
		}
	}
}

// noteTested notes that the traversal fails for some values of places.
func (r *run) noteTested(c *value) {
	for k := range c.deep().src {
		r.tested[k] = true
	}
}

// noteSplit notes that a number is taken apart, so that its parts may be narrower.
func (r *run) noteSplit(x *value, op token.Token) {
	if op == token.SHR || op == token.QUO || op == token.REM {
		for k := range x.deep().src {
			r.tested[k] = true
		}
	}
}

// losses are the conversions behind a temporary.
func (r *run) losses(d deps) []Loss {
	var out []Loss
	for _, l := range d.lost {
		if !l.data {
			l.Place = r.refine(l.Place)
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Loss) int { return compareStrings(a.key(), b.key()) })
	return out
}

// checkNarrow reports what packing stores in too few bits, and nowhere in full.
func (r *run) checkNarrow() {
	walk(r.nodes, func(n *Node) {
		for _, l := range n.Lost {
			if r.tested[l.Place.key()] || r.storedElsewhere(n, l.Place) {
				continue
			}
			what := l.Place.String() + " of type " + l.From
			if l.Place.shapeOnly() {
				what = "the length of " + l.Place.object().String()
			}
			r.report(n.at, "narrow", "%s is packed through %s, which cannot hold all its values", what, l.To)
		}
	})
}

// storedElsewhere reports whether another visit than one stores a place, too.
func (r *run) storedElsewhere(but *Node, p Place) bool {
	p = everyIndex(p)
	covers := func(q Place) bool { return everyIndex(q).covers(p) }
	found := false
	walk(r.nodes, func(n *Node) {
		switch {
		case n == but:
		case n.Op == OpVisit:
			found = found || covers(n.Place)
		case n.Op == OpTemp:
			found = found || slices.ContainsFunc(n.Src, covers)
		}
	})
	return found
}
