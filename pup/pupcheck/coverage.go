package pupcheck

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// A side is what one direction does to the parts of the receiver.
type side struct {
	visited []Place
	moved   []Place // packed from, or restored from, a temporary
}

// A missing is a field, or a part of one, that is not saved and restored.
type missing struct {
	place Place
	typ   types.Type
	field *types.Var // nil: an element
	why   string
}

// A coverage looks for what a PUP does not visit.
type coverage struct {
	*checker
	pack, unpack side
	skips        []Place
	known        []knownPlace // at the end of unpacking
	found        []missing
}

// sideOf collects what a run did.
func sideOf(nodes []*Node, reads bool) side {
	var s side
	walk(nodes, func(n *Node) {
		switch {
		case n.Op == OpVisit:
			s.visited = append(s.visited, everyIndex(n.Place))
		case n.Op == OpTemp && !reads:
			for _, p := range n.Src {
				s.moved = append(s.moved, everyIndex(p))
			}
		case n.Op == OpRestore && reads:
			s.moved = append(s.moved, everyIndex(n.Place))
		}
	})
	walk(nodes, func(n *Node) {
		if n.Op == OpDerive && !slices.ContainsFunc(n.Src, func(p Place) bool { return !s.covers(everyIndex(p.object())) }) {
			s.moved = append(s.moved, everyIndex(n.Place)) // it does not matter what it was before
		}
	})
	return s
}

// everyIndex replaces indexes that are not constant by all, and forgets the direction of loops.
func everyIndex(p Place) Place {
	p.Steps = slices.Clone(p.Steps)
	for i, s := range p.Steps {
		if s.Op == opIndex && s.Name != "" && s != mapKey() {
			p.Steps[i] = everyElement()
		}
		p.Steps[i].Dir = 0
	}
	return p
}

func (s side) covers(p Place) bool {
	covers := func(q Place) bool { return !q.shapeOnly() && q.covers(p) }
	return slices.ContainsFunc(s.visited, covers) || slices.ContainsFunc(s.moved, covers)
}

// inside reports whether something beyond the shape of what p holds is moved.
func (s side) inside(p Place) bool {
	return slices.ContainsFunc(s.moved, func(q Place) bool { return !q.shapeOnly() && p.covers(q) })
}

func (s side) touches(p Place) bool {
	return p.meetsAny(s.visited) || p.meetsAny(s.moved)
}

// content reports whether more than shapes at or around p are touched.
func (s side) content(p Place) bool {
	touches := func(q Place) bool { return !q.shapeOnly() && q.meets(p) }
	return slices.ContainsFunc(s.visited, touches) || slices.ContainsFunc(s.moved, touches)
}

// Why a field is missing, besides not being visited at all.
const (
	notRestored = "is packed, but not assigned from the data when unpacking"
	notPacked   = "is assigned when unpacking, but its value is not packed (is it derived? then //pup:skip reason)"
)

// checkCoverage reports the fields of a receiver that its PUP does not save and restore.
func (c *checker) checkCoverage(f *types.Func, decl *ast.FuncDecl, runs [modes]*run) {
	runs[packing].checkNarrow()
	recv := f.Signature().Recv()
	t := pointee(recv.Type())
	root := Place{Root: 0, Name: recv.Name()}
	cov := &coverage{checker: c, pack: sideOf(runs[packing].nodes, false), unpack: sideOf(runs[unpacking].nodes, true)}
	cov.known = runs[unpacking].st.known
	walk(runs[packing].nodes, func(n *Node) {
		if n.Op == OpSkip {
			cov.skips = append(cov.skips, n.Place)
		}
	})
	if root.Name == "" || root.Name == "_" {
		root.Name = receiverName(f).Name()
	}
	c.checkSkipped(cov, t, root)
	if c.empty(t) || c.allSkipped(t) {
		return
	}
	if !cov.pack.touches(root) && !cov.unpack.touches(root) && !root.meetsAny(cov.skips) {
		c.reportFix(decl.Name.Pos(), "missed", c.insertAll(decl, t, root), "PUP of %s visits nothing of it", receiverName(f).Name())
		return
	}
	cov.look(root, t, nil, false, 0)
	for _, m := range cov.found {
		var fixes []analysis.SuggestedFix
		if m.field != nil && m.why == "" && !throughElement(m.place) {
			fixes = c.insertVisit(decl, m)
		}
		why := m.why
		if why == "" {
			why = "is not visited"
		}
		what := m.place.String() + " " + why
		if strings.Contains(why, "%s") {
			what = fmt.Sprintf(why, m.place)
		}
		c.reportFix(decl.Name.Pos(), "missed", fixes, "PUP of %s: %s", receiverName(f).Name(), what)
	}
}

func throughElement(p Place) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Op != opField })
}

// allSkipped reports whether every field of a struct is deliberately not saved.
func (c *checker) allSkipped(t types.Type) bool {
	s, ok := under(t).(*types.Struct)
	if !ok {
		return false
	}
	for i := range s.NumFields() {
		if f := s.Field(i); f.Name() != "_" && !c.empty(f.Type()) && !c.isSkipped(f, s.Tag(i)) {
			return false
		}
	}
	return true
}

// checkSkipped reports fields that are declared as not saved and visited all the same.
func (c *checker) checkSkipped(cov *coverage, t types.Type, root Place) {
	s, ok := under(t).(*types.Struct)
	if !ok {
		return
	}
	for i := range s.NumFields() {
		f := s.Field(i)
		at := root.field(f.Name())
		explicit := slices.ContainsFunc(cov.pack.visited, at.covers) || cov.pack.inside(at) && cov.unpack.inside(at)
		switch {
		case explicit && c.isSkipped(f, s.Tag(i)):
			c.report(f.Pos(), "skipped", "%s is declared as skipped, but PUP visits it", at)
		case explicit && slices.ContainsFunc(cov.skips, func(q Place) bool { return q.meets(at) && q.meetsAny(cov.pack.visited) }):
			c.report(f.Pos(), "skipped", "%s is given to pup.Skip, but PUP visits it", at)
		}
	}
}

// look collects what is missing of a place.
func (c *coverage) look(p Place, t types.Type, field *types.Var, link bool, depth int) {
	if c.empty(t) || depth > 12 || slices.ContainsFunc(c.skips, func(q Place) bool { return q.covers(p) }) {
		return
	}
	packed, unpacked := c.pack.covers(p), c.unpack.covers(p)
	u := under(t)
	if _, isStruct := u.(*types.Struct); !isStruct && !isArrayType(t) {
		packed, unpacked = packed || c.pack.inside(p), unpacked || c.unpack.inside(p)
	}
	if link || c.lookForGap(p, t, u) || packed && unpacked {
		return
	}
	if !c.pack.touches(p) && !c.unpack.touches(p) {
		c.miss(p, t, field, "")
		return
	}
	switch {
	case packed && !c.unpack.content(p):
		c.miss(p, t, field, notRestored)
		return
	case unpacked && !c.pack.content(p):
		c.miss(p, t, field, notPacked)
		return
	case c.lookInside(p, t, u, depth):
		return
	}
	switch {
	case packed:
		c.miss(p, t, field, notRestored)
	case unpacked:
		c.miss(p, t, field, notPacked)
	case isBasic(u):
		c.miss(p, t, field, "")
	case isSequence(t) && c.empty(elementType(u)):
	default:
		c.miss(p, t, field, "is visited only in its length, not in its content")
	}
}

func isBasic(u types.Type) bool {
	_, ok := u.(*types.Basic)
	return ok
}

func (c *coverage) miss(p Place, t types.Type, field *types.Var, why string) {
	c.found = append(c.found, missing{p, t, field, why})
}

// lookInside looks at the parts of a place and reports whether it has any that are touched.
func (c *coverage) lookInside(p Place, t, u types.Type, depth int) bool {
	switch u := u.(type) {
	case *types.Struct:
		pointed := len(p.Steps) > 0 && p.Steps[len(p.Steps)-1].Op == opDeref
		for i := range u.NumFields() {
			f := u.Field(i)
			if f.Name() != "_" && !c.isSkipped(f, u.Tag(i)) {
				c.look(p.field(f.Name()), f.Type(), f, pointed && linksTo(f.Type(), t), depth+1)
			}
		}
		return true
	case *types.Pointer:
		if at := p.deref(); c.touched(at) {
			c.look(at, u.Elem(), nil, false, depth+1)
			return true
		}
	case *types.Interface:
		return c.touched(p.deref())
	case *types.Array:
		return c.lookArray(p, u, depth)
	case *types.Slice, *types.Map:
		steps := c.pack.indexSteps(p)
		if len(steps) == 0 {
			steps = c.indexSteps(p)
		}
		for _, s := range steps {
			c.look(p.with(s), stepType(u, s), nil, false, depth+1)
		}
		return len(steps) > 0
	}
	return false
}

// lookForGap reports the elements of a slice or array that are left out.
func (c *coverage) lookForGap(p Place, t, u types.Type) bool {
	length := int64(-1)
	switch u := u.(type) {
	case *types.Array:
		length = u.Len()
	case *types.Slice:
	default:
		return false
	}
	if c.pack.covers(p) {
		return false
	}
	next, why := gap(c.pack.indexSteps(p), length)
	at := p.with(Step{Op: opIndex, Lo: next, Hi: next + 1})
	covers := func(q Place) bool { return q.covers(at) }
	known := func(k knownPlace) bool { return length < 0 && k.place.key() == at.key() }
	switch {
	case why != "":
		c.miss(p, t, nil, why)
	case next < 0 || slices.ContainsFunc(c.skips, covers) || slices.ContainsFunc(c.known, known):
		return false
	default:
		c.miss(at, elementType(u), nil, "")
	}
	return length < 0 || why != ""
}

// Why elements are missing that have no number.
const (
	someElements = "not every element of %s is visited"
	lastElement  = "the last element of %s is not visited"
)

// gap finds an element that is not among the given steps, or says which are not. Without the length, constant indexes
// tell nothing.
func gap(steps []Step, length int64) (next int64, why string) {
	outs, fromEnd, last := 0, length >= 0, int64(0)
	for _, s := range steps {
		switch {
		case s.every():
			return -1, ""
		case s.Out != "":
			outs++
		case s.Hi < 0:
			fromEnd = true
		}
	}
	switch {
	case outs == 1 && len(steps) == 1:
		return -1, someElements
	case outs > 0 || !fromEnd || len(steps) == 0:
		return -1, ""
	}
	for _, s := range steps {
		if s.Lo > next {
			return next, ""
		}
		next = max(next, s.Hi)
		if s.Hi < 0 && (last == 0 || s.Hi > last) {
			last = s.Hi
		}
	}
	switch {
	case length >= 0 && next < length:
		return next, ""
	case length < 0 && last < -1:
		return -1, lastElement
	}
	return -1, ""
}

// linksTo reports whether a field leads from one node of a linked structure to others.
func linksTo(field, node types.Type) bool {
	switch u := under(field).(type) {
	case *types.Pointer:
		return types.Identical(u.Elem(), node)
	case *types.Slice:
		return types.Identical(deref(u.Elem()), node)
	case *types.Array:
		return types.Identical(deref(u.Elem()), node)
	}
	return false
}

func (c *coverage) touched(p Place) bool { return c.pack.touches(p) || c.unpack.touches(p) }

// lookArray looks at the elements of an array; constant indexes must name all of them.
func (c *coverage) lookArray(p Place, u *types.Array, depth int) bool {
	steps := c.indexSteps(p)
	if len(steps) == 0 {
		return false
	}
	for _, s := range steps {
		c.look(p.with(s), u.Elem(), nil, false, depth+1)
	}
	return true
}

// indexSteps lists the indexes with which elements of a place are touched.
func (c *coverage) indexSteps(p Place) []Step {
	both := side{slices.Concat(c.pack.visited, c.unpack.visited), slices.Concat(c.pack.moved, c.unpack.moved)}
	return both.indexSteps(p)
}

func (s side) indexSteps(p Place) []Step {
	var out []Step
	for _, q := range slices.Concat(s.visited, s.moved) {
		if !p.covers(q) || len(q.Steps) <= len(p.Steps) {
			continue
		}
		if s := q.Steps[len(p.Steps)]; s.Op == opIndex && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Step) int { return int(a.Lo - b.Lo) })
	return out
}
