package pupcheck

import (
	"go/token"
	"math"
	"slices"
	"strings"
)

// A measure is what is known of a number that comes from the length of a slice.
type measure struct {
	of       Place
	offset   int64 // added to the length
	cut      bool  // a part of the length, such as its half
	capacity bool  // the capacity instead
}

// plus is the measure of a sum, or nil.
func (m *measure) plus(n int64) *measure {
	if m == nil || m.cut {
		return nil
	}
	out := *m
	out.offset += n
	return &out
}

// part is the measure of something smaller.
func (m *measure) part() *measure {
	if m == nil {
		return nil
	}
	return &measure{of: m.of, cut: true}
}

// joinMeasures is what is known of a number that is one of two: without a slice, there is nothing to leave out.
func joinMeasures(a, b *value) *measure {
	for _, pair := range [][2]*value{{a, b}, {b, a}} {
		x, y := pair[0], pair[1]
		if n, ok := intOf(y); ok && x.length != nil {
			if n <= 0 {
				return x.length
			}
			return x.length.part()
		}
	}
	if a.length != nil && b.length != nil && a.length.of.key() == b.length.of.key() && a.length.offset == b.length.offset {
		return a.length
	}
	return nil
}

// A bound is the interval of a loop's variable.
type bound struct {
	lo, hi       int64 // the variable lies in [lo, hi)
	hasLo, hasHi bool
	over         *Place // hi counts from the length of this
	cut          *Place // hi is less than the length of this
	capacity     bool   // hi counts from the capacity
	stride       int64
	dir          int8   // as in a Step
	text         string // of the number of passes
}

// shifted is the interval of a loop's variable plus a number.
func (b *bound) shifted(n int64) *bound {
	if b == nil {
		return nil
	}
	out := *b
	out.lo, out.hi, out.text = b.lo+n, b.hi+n, ""
	return &out
}

// mirroredIn is the interval of a length minus a loop's variable.
func (b *bound) mirroredIn(m *measure) *bound {
	if b == nil || m == nil || m.cut {
		return nil
	}
	out := &bound{dir: -b.dir, stride: b.stride}
	if b.hasLo && b.hasHi && b.over != nil && b.over.key() == m.of.key() {
		out.over, out.hasLo, out.hasHi = b.over, true, true
		out.lo, out.hi = m.offset-b.hi+1, m.offset-b.lo+1
	}
	return out
}

// step is the index step that the variable of a loop makes from a place; a window shifts it.
func (b *bound) step(p Place, window *[2]int64) (Step, bool) {
	s := Step{Op: opIndex, Lo: b.lo, Hi: b.hi, Dir: b.dir}
	absolute := false
	switch {
	case !b.hasLo:
		return Step{}, false
	case b.hasHi && b.over != nil && b.over.object().key() == p.key():
		s.Hi--
	case b.hasHi && b.over == nil:
		absolute = true
	case b.cut != nil && b.cut.object().key() == p.key():
		s.Hi, s.Out = -1, "rest"
	case b.lo == 0 && b.text != "":
		return Step{Op: opIndex, Name: "0:" + b.text, Dir: b.dir}, true
	case b.lo <= 0:
		return Step{}, false
	default:
		s.Hi = -1
	}
	if b.stride > 1 {
		s.Out = itoa(int(s.Lo%b.stride)) + " of " + itoa(int(b.stride))
	}
	if window != nil {
		s.Lo, s.Hi = s.Lo+window[0], s.Hi+window[0]
	}
	if s.Lo = max(s.Lo, 0); !absolute {
		s.Hi = min(s.Hi, -1)
	}
	return s, true
}

// inWindow is the part of a window of x that a slice expression selects, or nil.
func inWindow(x *value, lo int64, high *value) *[2]int64 {
	base := [2]int64{0, -1}
	if x.window != nil {
		base = *x.window
	}
	if high == nil {
		return &[2]int64{base[0] + lo, base[1]}
	}
	if n, ok := intOf(high); ok {
		return &[2]int64{base[0] + lo, base[0] + n}
	}
	m := high.length
	if m == nil || m.cut || m.capacity || m.offset > 0 || len(x.refs) != 1 || x.refs[0].key() != m.of.key() {
		return nil
	}
	return &[2]int64{base[0] + lo, m.offset - 1}
}

// windowLength is the length of a window.
func windowLength(w *[2]int64, of Place) (*measure, int64) {
	if w[1] >= 0 {
		return nil, max(w[1]-w[0], 0)
	}
	return &measure{of: of, offset: w[1] + 1 - w[0]}, 0
}

// indexOnly reports whether a condition depends on nothing but the variables of loops and the lengths of slices.
func indexOnly(c *value) bool {
	d := c.deep()
	if d.loops == 0 || d.flags&^fromStream != 0 || len(d.temps) > 0 {
		return false
	}
	for _, p := range d.src {
		if !p.shapeOnly() {
			return false
		}
	}
	return true
}

// refine is a visited place without the elements that the conditions on the path to it leave out.
func (r *run) refine(p Place) Place {
	if p.loops == 0 || p.loops == everyLoop {
		return p
	}
	for _, c := range r.st.path {
		if c.index {
			p = r.refineStep(p, c.loops, func(s Step, b *bound) Step { return s.where(c, b) })
		}
	}
	return p
}

// everyLoop says of a place that no loop visits it twice.
const everyLoop = ^uint64(0)

// refineStep changes the index step of a place that belongs to a loop.
func (r *run) refineStep(p Place, bit uint64, change func(Step, *bound) Step) Place {
	var loops []*loopCtx
	for _, l := range r.loops {
		if l.bit&p.loops != 0 {
			loops = append(loops, l)
		}
	}
	var steps []int
	for i, s := range p.Steps {
		if s.Op == opIndex && s != mapKey() && (s.Name != "" || s.Hi != s.Lo+1) {
			steps = append(steps, i)
		}
	}
	if len(loops) != len(steps) || p.loops == everyLoop {
		return p
	}
	for i, l := range loops {
		if l.bit == bit && l.bound != nil {
			p.Steps = slices.Clone(p.Steps)
			p.Steps[steps[i]] = change(p.Steps[steps[i]], l.bound)
		}
	}
	return p
}

// where is an index step under a condition on the variable of its loop.
func (s Step) where(c lit, b *bound) Step {
	if s.Name != "" || s.Out != "" {
		return s
	}
	rest := s
	rest.Out = unnumbered(c.text)
	if c.not {
		rest.Out = "not " + rest.Out
	}
	if c.cmp == nil || !isPass(c.cmp.subject) || b.shiftedFrom(s) {
		return rest
	}
	lo, hi := c.cmp.lo, c.cmp.hi
	absolute := s.Hi >= 0
	switch outside := c.cmp.not != c.not; {
	case !outside && lo == hi:
		s.Lo, s.Hi = lo, lo+1
	case !outside && hi == math.MaxInt64:
		s.Lo = max(s.Lo, lo)
	case !outside && absolute:
		s.Lo, s.Hi = max(s.Lo, lo), min(s.Hi, hi+1)
	case outside && lo <= s.Lo && hi != math.MaxInt64:
		s.Lo = max(s.Lo, hi+1)
	case outside && absolute && hi >= s.Hi-1:
		s.Hi = max(min(s.Hi, lo), s.Lo)
	default:
		return rest
	}
	return s
}

// shiftedFrom reports whether a step is not simply the variable of the loop.
func (b *bound) shiftedFrom(s Step) bool { return !b.hasLo || s.Lo != b.lo }

// The variable of a loop has this text, with a number.
const pass = "pass"

func isPass(text string) bool {
	rest, ok := strings.CutPrefix(text, pass)
	return ok && strings.Trim(rest, "0123456789") == ""
}

// unnumbered is the same text for all loops.
func unnumbered(text string) string {
	parts := strings.Split(text, pass)
	for i := range parts[1:] {
		parts[i+1] = strings.TrimLeft(parts[i+1], "0123456789")
	}
	return strings.Join(parts, pass)
}

// leaves notes that the loop around a break ends before its last pass.
func (l *loopCtx) leaves(path []lit) {
	for _, c := range path {
		l.cut = l.cut || c.index && c.loops&l.bit != 0
	}
}

// cutShort marks what a loop that ends early has visited.
func (r *run) cutShort(l *loopCtx, nodes []*Node) {
	mark := func(p Place) Place {
		return r.refineStep(p, l.bit, func(s Step, b *bound) Step {
			if s.Name == "" && s.Out == "" && s.Lo == b.lo && (s.Hi < 0 || s.Hi == b.hi) {
				s.Out = "rest"
			}
			return s
		})
	}
	walk(nodes, func(n *Node) {
		n.Place = mark(n.Place)
		for i, p := range n.Src {
			n.Src[i] = mark(p)
		}
	})
}

// arithmetic adds to a sum or difference what is known of its operands as indexes.
func arithmetic(v, x, y *value, op token.Token) *value {
	n, ok := intOf(y)
	if op == token.ADD && !ok {
		if n, ok = intOf(x); ok {
			x = y
		}
	}
	switch {
	case op == token.ADD && ok:
		v.loop, v.length = x.loop.shifted(n), x.length.plus(n)
	case op == token.SUB && ok:
		v.loop, v.length = x.loop.shifted(-n), x.length.plus(-n)
	case op == token.SUB:
		v.loop = y.loop.mirroredIn(x.length)
	case ok && n > 1 && (op == token.QUO || op == token.REM) || ok && n > 0 && (op == token.SHR || op == token.AND):
		v.length = x.length.part()
	}
	return v
}
