package pupcheck

import (
	"go/token"
	"go/types"
	"slices"
	"strconv"
)

// A FuncFact is the summary of a function with a *pup.Stream parameter, for packages that call it: what it does to its
// parameters (the receiver is parameter 0) when sizing, packing and unpacking, in this order.
type FuncFact struct {
	Modes [modes][]*Node
}

// AFact marks FuncFact as a fact.
func (*FuncFact) AFact() {}

func (*FuncFact) String() string { return "visits" }

// A SkipFact says that a field of a type is deliberately not saved.
type SkipFact struct{}

// AFact marks SkipFact as a fact.
func (*SkipFact) AFact() {}

func (*SkipFact) String() string { return "skipped" }

// A BlockFact holds the fields that a variable of type pup.Block visits.
type BlockFact struct {
	Fields []string
}

// AFact marks BlockFact as a fact.
func (*BlockFact) AFact() {}

func (b *BlockFact) String() string { return "block " + strconv.Itoa(len(b.Fields)) }

// replay repeats what a function of another package does, for the arguments of this call.
func (r *run) replay(fact *FuncFact, args []arg, pos token.Pos) {
	for _, n := range fact.Modes[r.mode] {
		r.replayNode(n, args, pos)
	}
}

func (r *run) replayNode(n *Node, args []arg, pos token.Pos) {
	r.step()
	switch n.Op {
	case OpVisit:
		for _, p := range r.substitute(n.Place, args) {
			a := visitArg{typ: typeAt(r.argType(n.Place, args), n.Place.Steps), pos: pos, assumed: n.Assumed, shape: p.shapeOnly()}
			a.v = &value{kind: pointerTo, refs: []Place{p.object()}}
			r.visit(n.Kind, a)
		}
	case OpTemp:
		r.replayTemp(n, args, pos)
	case OpSkip:
		for _, p := range r.substitute(n.Place, args) {
			r.skip(visitArg{v: &value{refs: []Place{p}}, pos: pos})
		}
	case OpRestore:
		for _, p := range r.substitute(n.Place, args) {
			if p = r.st.resolve(p); p.param() {
				r.restore(p, deps{})
				r.st.setKnown(p.object(), false)
			} else {
				r.assign([]Place{p}, &value{deps: deps{flags: fromStream}}, r.argType(n.Place, args))
			}
		}
	case OpCall:
		if n.Place.Root < len(args) {
			r.replayCall(n, args, pos)
		}
	case OpBranch:
		r.replayBranch(n, args, pos)
	case OpLoop:
		nodes := r.nodes
		r.nodes = nil
		for _, m := range n.Then {
			r.replayNode(m, args, pos)
		}
		loop := &Node{Op: OpLoop, Then: r.nodes, Cond: r.replayCond(n.Cond, args), pos: pos}
		r.nodes = append(nodes, loop)
		r.checkCond(loop, "number of passes of a loop")
	}
}

func (r *run) replayTemp(n *Node, args []arg, pos token.Pos) {
	m := &Node{Op: OpTemp, Kind: n.Kind, Type: n.Type, Assumed: n.Assumed, pos: pos, at: r.position(pos)}
	for _, src := range n.Src {
		at := r.substitute(src, args)
		m.Src = append(m.Src, at...)
		if src.Root < len(args) && len(at) == 0 {
			m.Src = append(m.Src, sortedPlaces(args[src.Root].v.deep().src)...)
		}
	}
	for _, l := range n.Lost {
		for _, p := range r.substitute(l.Place, args) {
			if p = r.st.resolve(p); p.param() {
				m.Lost = append(m.Lost, Loss{Place: p, From: l.From, To: l.To})
			}
		}
	}
	r.notePacked(m.Src...)
	r.nodes = append(r.nodes, m)
}

func (r *run) replayBranch(n *Node, args []arg, pos token.Pos) {
	nodes, start := r.nodes, r.st
	r.vars++
	cond := lit{text: "condition" + itoa(r.vars)}
	side := func(list []*Node, not bool) ([]*Node, *state) {
		r.nodes, r.st = nil, start.clone()
		cond.not = not
		r.st.path = append(r.st.path, cond)
		for _, m := range list {
			r.replayNode(m, args, pos)
		}
		return r.nodes, r.st
	}
	then, thenState := side(n.Then, false)
	els, elseState := side(n.Else, true)
	branch := &Node{Op: OpBranch, Then: then, Else: els, Cond: r.replayCond(n.Cond, args), pos: pos}
	r.st = join(thenState, elseState, true)
	r.st.path, r.st.ctl = start.path, start.ctl
	r.nodes = append(nodes, branch)
	r.checkCond(branch, "condition")
}

// replayCond is a condition with the parts of parameters that are still not restored at this call.
func (r *run) replayCond(c Cond, args []arg) Cond {
	out := Cond{Flags: c.Flags, Global: c.Global, MapKey: c.MapKey}
	if !r.mode.reads() {
		return out
	}
	for _, u := range c.Unset {
		for _, p := range r.substitute(u, args) {
			if p = r.st.resolve(p); p.param() && !r.st.isKnown(p) {
				out.Unset = append(out.Unset, p)
			}
		}
		if u.Root < len(args) && len(u.Steps) == 0 {
			out.Unset = append(out.Unset, sortedPlaces(args[u.Root].v.deep().unset)...)
		}
	}
	return out
}

// substitute is where a part of a parameter stands for the arguments of a call.
func (r *run) substitute(p Place, args []arg) []Place {
	if p.Root >= len(args) {
		return nil
	}
	var out []Place
	refs := slices.Clone(args[p.Root].v.refs)
	for _, e := range args[p.Root].v.list {
		if len(p.Steps) > 0 && p.Steps[0].Op == opIndex {
			for _, ref := range e.refs {
				steps := p.Steps[1:]
				if len(steps) > 0 && steps[0].Op == opDeref {
					steps = steps[1:]
				}
				out = append(out, ref.with(steps...))
			}
		}
	}
	steps := p.Steps
	if a := args[p.Root]; a.v.kind == pointerTo && len(steps) > 0 && steps[0].Op == opDeref && !isPointer(a.pointsTo()) {
		steps = steps[1:] // the parameter is an interface that holds the pointer
	}
	for _, ref := range refs {
		out = append(out, ref.with(steps...))
	}
	return out
}

func (r *run) argType(p Place, args []arg) types.Type {
	if p.Root >= len(args) {
		return nil
	}
	return args[p.Root].pointsTo()
}
