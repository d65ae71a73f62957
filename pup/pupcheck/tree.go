package pupcheck

import (
	"go/token"
	"slices"
)

// A NodeOp says what a node of a summary is.
type NodeOp int

// The nodes of a summary.
const (
	OpVisit   NodeOp = iota // a part of a parameter is visited
	OpTemp                  // a temporary is visited
	OpSkip                  // pup.Skip of a part of a parameter
	OpRestore               // a part of a parameter is assigned from visited data
	OpDerive                // packing: a part of a parameter is assigned what was computed from Src
	OpBranch                // Then or Else
	OpLoop                  // Then, any number of times
	OpCall                  // a parameter is called; Then, if it is not known what it does
)

// A Cond is what the condition of a branch or the number of passes of a loop depends on.
type Cond struct {
	Unset  []Place // parts of parameters that unpacking has not restored before
	Flags  uint
	Global string
	Text   string
	MapKey bool // the loop goes through a map
}

// A Node is an event of a traversal, or several in a branch or loop.
type Node struct {
	Op         NodeOp
	Kind       string // of helper
	Type       string // of the visited value
	Place      Place
	Src        []Place // OpTemp: what the value was computed from
	Dst        []Place // OpTemp: what was assigned from the visited value
	Lost       []Loss  // OpTemp: conversions that cannot hold every value
	Cond       Cond
	Open       bool // OpLoop: what is visited decides whether there is another pass
	Assumed    bool // the place, or that it is visited at all, is a guess in favour of the programmer
	Then, Else []*Node
	Args       []CallArg // OpCall
	pos        token.Pos
	at         token.Pos // where to report it
	mode       mode      // in which it happened
	varies     bool      // the size of the visited value varies
}

// visible drops everything that leaves no trace in the packed data.
func visible(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		switch n.Op {
		case OpVisit, OpTemp:
			out = append(out, n)
		case OpCall:
			out = append(out, visible(n.Then)...)
		case OpLoop:
			if body := visible(n.Then); len(body) > 0 {
				m := *n
				m.Then = body
				out = append(out, &m)
			}
		case OpBranch:
			m := *n
			m.Then, m.Else = visible(n.Then), visible(n.Else)
			switch {
			case len(m.Then)+len(m.Else) == 0:
			case sameTraces(m.Then, m.Else):
				out = append(out, m.Else...)
			default:
				out = append(out, &m)
			}
		}
	}
	return out
}

func sameTraces(a, b []*Node) bool { return firstDifference(a, b) == nil }

// A difference is where two traversals of the same value part.
type difference struct {
	a, b *Node // nil: nothing more is visited
	why  string
}

// firstDifference compares two visible traversals.
func firstDifference(a, b []*Node) *difference {
	for i := range max(len(a), len(b)) {
		switch {
		case i < len(b) && b[i].Open && i < len(a) && a[i].Op == OpLoop:
			return nil // the end of such a loop is packed in many ways
		case i >= len(a):
			return &difference{nil, b[i], ""}
		case i >= len(b):
			return &difference{a[i], nil, ""}
		}
		d := compareNodes(a[i], b[i])
		switch {
		case d == nil:
			continue
		case len(a) == len(b)+1 && sameTraces(a[i+1:], b[i:]):
			return &difference{a[i], nil, ""}
		case len(b) == len(a)+1 && sameTraces(a[i:], b[i+1:]):
			return &difference{nil, b[i], ""}
		}
		return d
	}
	return nil
}

func compareNodes(a, b *Node) *difference {
	leafA, leafB := a.Op == OpVisit || a.Op == OpTemp, b.Op == OpVisit || b.Op == OpTemp
	switch {
	case leafA && leafB:
		return compareLeaves(a, b)
	case a.Op != b.Op:
		return &difference{a, b, ""}
	}
	if d := firstDifference(a.Then, b.Then); d != nil {
		return d
	}
	if a.Op == OpLoop && a.Cond.Text != "" && b.Cond.Text != "" && a.Cond.Text != b.Cond.Text {
		return &difference{a, b, "the loops make different numbers of passes"}
	}
	return firstDifference(a.Else, b.Else)
}

func compareLeaves(a, b *Node) *difference {
	if a.Assumed || b.Assumed {
		return nil
	}
	switch {
	case a.Kind != b.Kind:
		return &difference{a, b, ""}
	case a.Type != b.Type:
		return &difference{a, b, "as " + a.Type + " and as " + b.Type}
	}
	if a.Op == OpTemp && b.Op == OpTemp && len(a.Src) > 0 && len(b.Src) == 0 && a.mode == packing && b.mode == sizing && a.varies {
		return &difference{a, b, "is made for packing only: its size is not known when sizing"}
	}
	if opposite(a.ends(a.Src), b.ends(b.Dst)) {
		return &difference{a, b, "is visited in opposite orders"}
	}
	from, to := a.end(a.Src), b.end(b.Dst)
	if len(from) > 0 && len(to) > 0 && !slices.ContainsFunc(from, func(p Place) bool { return p.meetsAny(to) }) {
		return &difference{a, b, ""}
	}
	return nil
}

// ends is what a leaf is about: the visited place, or the places that a temporary stands for.
func (n *Node) ends(temps []Place) []Place {
	if n.Op == OpVisit {
		return []Place{n.Place}
	}
	return temps
}

// end is what a leaf is about, whichever elements of slices are left out.
func (n *Node) end(temps []Place) []Place {
	var out []Place
	for _, p := range n.ends(temps) {
		if n.Op != OpVisit {
			p = p.object()
		}
		p = everyIndex(p)
		for i, s := range p.Steps {
			if s.Op == opIndex && (s.Out != "" || s.Hi < 0) {
				p.Steps[i] = everyElement()
			}
		}
		out = append(out, p)
	}
	return out
}

// opposite reports whether loops go up in places and down in the same places elsewhere.
func opposite(from, to []Place) bool {
	found := false
	for _, a := range from {
		for _, b := range to {
			for i := range min(len(a.Steps), len(b.Steps)) {
				s, o := a.Steps[i], b.Steps[i]
				if s.Op != o.Op || s.Op != opIndex && !s.meets(o) {
					break
				}
				if s.Dir == o.Dir && s.Op == opIndex {
					return false
				}
				found = found || s.Dir*o.Dir < 0
			}
		}
	}
	return found
}

// first is the first leaf at or below a node, for messages.
func (n *Node) first() *Node {
	for n != nil && (n.Op == OpBranch || n.Op == OpLoop) {
		if len(n.Then) > 0 {
			n = n.Then[0]
		} else {
			n = n.Else[0]
		}
	}
	return n
}

// about describes a leaf.
func (n *Node) about(temps []Place) string {
	switch {
	case n == nil:
		return "nothing"
	case n.Op == OpVisit:
		return n.Place.object().String()
	case len(temps) > 0:
		return "a copy of " + temps[0].object().String()
	}
	return "a temporary " + n.Type
}

// walk calls f for every node.
func walk(nodes []*Node, f func(*Node)) {
	for _, n := range nodes {
		f(n)
		walk(n.Then, f)
		walk(n.Else, f)
	}
}
