package pupcheck

import (
	"go/token"
	"go/types"
	"slices"
)

// A visitArg is the pointer that a helper gets.
type visitArg struct {
	v       *value
	typ     types.Type // of what the pointer points to
	pos     token.Pos
	assumed bool
	shape   bool // only the length; the elements follow
}

// visit notes that a helper visits what a pointer points to.
func (r *run) visit(kind string, a visitArg) {
	assumed := a.assumed || len(a.v.refs) > 1
	if len(a.v.refs) == 0 {
		r.nodes = append(r.nodes, r.temp(kind, a, a.v.deep()))
		return
	}
	for _, p := range a.v.refs {
		p = r.st.resolve(p)
		typ := a.typ
		if a.v.raw != nil {
			r.checkRaw(a)
			typ = a.v.raw
		}
		if p.param() {
			r.visitPlace(kind, p, a, typ, assumed)
		} else {
			r.visitTemp(kind, p, a)
		}
	}
}

// visitPlace notes the visit of a part of a parameter.
func (r *run) visitPlace(kind string, p Place, a visitArg, typ types.Type, assumed bool) {
	at := r.refine(p)
	if a.shape {
		at = at.shape()
	}
	r.notePacked(at)
	n := &Node{Op: OpVisit, Kind: kind, Type: typeText(typ), Place: at, Assumed: assumed, pos: a.pos}
	r.nodes = append(r.nodes, n)
	v := &visit{node: n, path: slices.Clone(r.st.path), loops: p.loops, typ: typ, pos: r.position(a.pos)}
	r.visits = append(r.visits, v)
	if len(r.visits) > 2000 || len(p.Steps) > 40 {
		panic(gaveUp{})
	}
	r.checkElement(p, a.pos)
	if !assumed {
		r.checkBase(p, a.pos)
		r.checkRepeated(v)
	}
	r.checkType(kind, p, typ, a)
	if !assumed && kind != "" && len(p.Steps) == 0 && p.Root == 0 && !a.shape {
		r.checkRecursion(kind, typ, a.pos)
	}
	if r.mode.reads() {
		r.forget(p)
		r.st.setKnown(at, true)
	}
}

// forget drops what was stored at a place before it was visited, also as part of a larger value.
func (r *run) forget(p Place) {
	within := false
	for k, e := range r.st.store {
		if p.Root == e.place.Root && p.covers(e.place) {
			delete(r.st.store, k)
		}
		within = within || e.place.covers(p)
	}
	if within {
		r.vars++
		r.st.store[p.key()] = entry{p, &value{text: "data" + itoa(r.vars)}}
	}
}

// visitTemp notes the visit of a variable of the function itself.
func (r *run) visitTemp(kind string, p Place, a visitArg) {
	if len(r.elems) > 0 && -p.Root <= r.elems[len(r.elems)-1].since {
		r.report(r.position(a.pos), "element",
			"the element function visits %s instead of its argument: every element gets the same value", p)
	}
	old := r.load(p, a.typ)
	d := old.deep().and(r.contentOf(p)).and(r.content(old))
	if old.raw != nil {
		r.checkRaw(visitArg{v: old, typ: a.typ, pos: a.pos})
		for _, ref := range old.refs {
			if ref.param() {
				r.visitPlace(kind, ref, a, old.raw, true)
			}
		}
		return
	}
	if d.flags&inMapOrder != 0 && isSequence(a.typ) {
		r.report(r.position(a.pos), "order", "%s holds elements in map order, which differs from run to run; sort it or use pup.Map", p)
		d.flags &^= inMapOrder
		w := *old
		w.flags &^= inMapOrder
		r.st.set(p, &w)
	}
	n := r.temp(kind, a, d)
	r.nodes = append(r.nodes, n)
	if !r.mode.reads() {
		return
	}
	kindOf, refs := reference(p, a.typ)
	if kindOf == headerOf || kindOf == copyOf {
		kindOf, refs = noRef, nil
	}
	got := &value{deps: deps{flags: fromStream, temps: map[*Node]bool{n: true}, loops: d.loops | r.bit()}, kind: kindOf, refs: refs,
		data: true}
	r.vars++
	got.text = "data" + itoa(r.vars)
	r.st.set(p, got)
	if kindOf == pointerTo {
		content := *got
		content.kind, content.refs = noRef, nil
		r.st.set(p.deref(), &content)
	}
}

// bit is that of the innermost loop: data read in it differs from pass to pass.
func (r *run) bit() uint64 {
	if len(r.loops) == 0 {
		return 0
	}
	return r.loops[len(r.loops)-1].bit
}

// temp makes the node of a temporary that was computed from d.
func (r *run) temp(kind string, a visitArg, d deps) *Node {
	r.checkType(kind, Place{Root: -1}, a.typ, a)
	n := &Node{Op: OpTemp, Kind: kind, Type: typeText(a.typ), Assumed: a.assumed, pos: a.pos, mode: r.mode, varies: varies(a.typ)}
	for _, p := range d.src {
		n.Src = append(n.Src, r.refine(p))
	}
	r.notePacked(n.Src...)
	n.Lost, n.at = r.losses(d), r.position(a.pos)
	slices.SortFunc(n.Src, func(a, b Place) int { return compareStrings(a.key(), b.key()) })
	return n
}

// skip notes pup.Skip.
func (r *run) skip(a visitArg) {
	for _, p := range a.v.refs {
		if p = r.st.resolve(p); p.param() {
			r.nodes = append(r.nodes, &Node{Op: OpSkip, Place: p, pos: a.pos})
		}
	}
}

// checkElement reports an element function that visits something else than its element.
func (r *run) checkElement(p Place, pos token.Pos) {
	if len(r.elems) == 0 {
		return
	}
	if e := r.elems[len(r.elems)-1].place; !e.contains(p) {
		r.report(r.position(pos), "element", "the element function visits %s instead of its argument", p)
	}
}

// checkBase reports a visit through a pointer or slice that unpacking has not set.
func (r *run) checkBase(p Place, pos token.Pos) {
	if r.mode != unpacking || !r.isPUP && len(r.elems) == 0 {
		return
	}
	t := r.typeOfRoot(p.Root)
	for i, s := range p.Steps {
		base := p
		base.Steps = p.Steps[:i]
		u := under(t)
		t = stepType(t, s)
		_, isArray := u.(*types.Array)
		if s.Op == opField || isArray || isMapType(u) || r.st.established(base) || r.reported[base.key()] {
			continue
		}
		r.reported[base.key()] = true
		if s.Op == opDeref {
			if !r.constructs {
				r.report(r.position(pos), "unset", "%s is nil when unpacking: make it first, or use pup.Ptr", base)
			}
		} else if s.Op == opIndex {
			r.report(r.position(pos), "unset", "%s has no elements when unpacking: its length is not restored before; use pup.Slice", base)
		}
		return
	}
}

func isMapType(t types.Type) bool {
	_, ok := t.(*types.Map)
	return ok
}

func isMap(t types.Type) bool { return isMapType(under(t)) }

func (r *run) typeOfRoot(root int) types.Type {
	if root >= 0 && root < len(r.params) {
		return r.params[root]
	}
	return types.Typ[types.Invalid]
}

// checkRepeated reports a visit that an earlier one of the same path has made already.
func (r *run) checkRepeated(v *visit) {
	for _, old := range r.visits {
		if old == v || old.node.Assumed || !old.node.Place.meets(v.node.Place) || contradict(old.path, v.path) {
			continue
		}
		if old.pos == v.pos && r.site != token.NoPos {
			continue
		}
		r.reportTwice(old, v)
		return
	}
	for _, l := range r.loops {
		tested := slices.ContainsFunc(v.path, func(c lit) bool { return c.loops&l.bit != 0 })
		if l.bit&v.loops == 0 && !tested {
			l.twice = append(l.twice, v)
			return
		}
	}
}

func (r *run) reportTwice(old, v *visit) {
	a, b := old.node.Place.object(), v.node.Place.object()
	line := r.pass.Fset.Position(old.pos).Line
	fixes := r.deleteVisit(v)
	switch {
	case len(a.Steps) < len(b.Steps):
		r.reportFix(v.pos, "twice", fixes, "%s is visited again: %s as a whole is visited in line %d", b, a, line)
	case len(b.Steps) < len(a.Steps):
		r.reportFix(v.pos, "twice", nil, "%s as a whole is visited, and %s already in line %d", b, a, line)
	default:
		r.reportFix(v.pos, "twice", fixes, "%s is visited twice: first in line %d", b, line)
	}
}

// checkRecursion reports a PUP that hands its own receiver to itself.
func (r *run) checkRecursion(kind string, typ types.Type, pos token.Pos) {
	if !r.isPUP || kind != "PUP" && kind != "Value" && kind != "Object" || len(r.elems) > 0 {
		return
	}
	if n, ok := types.Unalias(typ).(*types.Named); ok && n.Origin().Obj() == receiverName(r.self) {
		r.report(r.position(pos), "recursion", "PUP calls itself for the same value and does not end")
	}
}

// isSequence reports whether a type is that of a slice or array.
func isSequence(t types.Type) bool {
	switch under(t).(type) {
	case *types.Slice, *types.Array:
		return true
	}
	return false
}

// varies reports whether values of a type differ in size.
func varies(t types.Type) bool {
	switch under(t).(type) {
	case *types.Slice, *types.Map:
		return true
	}
	return isString(t)
}
