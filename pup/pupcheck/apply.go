package pupcheck

import (
	"go/token"
	"go/types"
)

// A CallArg is an argument of the call of a function that is itself a parameter.
type CallArg struct {
	Stream bool
	Places []Place // what a pointer or slice refers to
	Slice  bool
}

// callParameter calls a function that the function under analysis got as a parameter: whoever calls this one from
// another package knows it.
func (r *run) callParameter(fn *value, args []arg, pos token.Pos, result types.Type) *value {
	given := append(args, arg{v: &value{deps: fn.deps, kind: fn.kind, refs: fn.refs}})
	if fn.kind != copyOf || len(fn.refs) != 1 || !fn.refs[0].param() || len(fn.refs[0].Steps) > 0 {
		return r.unknown("", given, pos, result)
	}
	n := &Node{Op: OpCall, Place: fn.refs[0], pos: pos}
	for _, a := range args {
		out := CallArg{Stream: a.v.stream, Slice: a.v.kind == headerOf}
		for _, p := range a.v.refs {
			if p = r.st.resolve(p); !p.param() {
				return r.unknown("", given, pos, result)
			}
			if a.v.kind != copyOf {
				out.Places = append(out.Places, r.refine(p))
			}
		}
		n.Args = append(n.Args, out)
	}
	nodes := r.nodes
	r.nodes = nil
	v := r.unknown("", given, pos, result)
	n.Then = r.nodes
	r.nodes = append(nodes, n)
	return v
}

// replayCall calls the function that stands for a parameter of a function of another package.
func (r *run) replayCall(n *Node, args []arg, pos token.Pos) {
	fn := args[n.Place.Root].v
	if fn.fn == nil || fn.fn.literal() && r.active[fn.fn.lit] {
		for _, m := range n.Then {
			r.replayNode(m, args, pos)
		}
		return
	}
	var list []arg
	for _, a := range n.Args {
		list = append(list, r.replayArg(a, args))
	}
	r.apply(fn.fn, list, pos)
}

func (r *run) replayArg(a CallArg, args []arg) arg {
	if a.Stream {
		return arg{&value{stream: true}, types.Typ[types.Invalid]}
	}
	v := &value{kind: pointerTo}
	if a.Slice {
		v.kind = headerOf
	}
	var typ types.Type = types.Typ[types.Invalid]
	for _, p := range a.Places {
		typ = typeAt(r.argType(p, args), p.Steps)
		v.refs = append(v.refs, r.substitute(p, args)...)
	}
	if !a.Slice {
		typ = types.NewPointer(typ)
	}
	return arg{v, typ}
}

// apply calls a function value where no call is written.
func (r *run) apply(c *closure, args []arg, pos token.Pos) {
	switch {
	case c.native != nil:
		c.native(args)
	case c.lit != nil:
		r.inlineLit(c, args, pos)
	case c.recv != nil:
		r.invokeFunc(c, append([]arg{{c.recv, types.NewPointer(c.recvType)}}, args...), pos, nil, nil)
	default:
		r.invokeFunc(c, args, pos, nil, nil)
	}
}
