// Package missed has types whose PUP forgets something.
package missed

import (
	"math"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

// One field of three.
type One struct{ a, b, c int }

func (x *One) PUP(p *pup.Stream) { // want `x.b is not visited`
	pup.Number(p, &x.a)
	pup.Number(p, &x.c)
}

// All fields: the stream is ignored.
type All struct{ a, b int }

func (x *All) PUP(_ *pup.Stream) {} // want `PUP of All visits nothing of it`

// The receiver has no name.
type Nameless struct{ a int }

func (*Nameless) PUP(p *pup.Stream) {} // want `PUP of Nameless visits nothing of it`

// An embedded struct.
type Base struct{ N, M int }

func (b *Base) PUP(p *pup.Stream) {
	pup.Number(p, &b.N)
	pup.Number(p, &b.M)
}

type Embeds struct {
	Base
	k int
}

func (x *Embeds) PUP(p *pup.Stream) { pup.Number(p, &x.k) } // want `x.Base is not visited`

// One promoted field of an embedded struct.
type Promoted struct {
	Base
	k int
}

func (x *Promoted) PUP(p *pup.Stream) { // want `x.Base.M is not visited`
	pup.Number(p, &x.N)
	pup.Number(p, &x.k)
}

// A field besides the embedded struct.
type Beside struct {
	Base
	k int
}

func (x *Beside) PUP(p *pup.Stream) { x.Base.PUP(p) } // want `x.k is not visited`

// PUP is inherited and knows nothing of k.
type Inherits struct { // want `Inherits has its PUP from the embedded Base, which does not visit k`
	Base
	k int
}

// PUP is inherited from an embedded pointer.
type InheritsPtr struct { // want `InheritsPtr has its PUP from the embedded Base, which does not visit name`
	*Base
	name string
}

// A field of an anonymous struct.
type Nested struct {
	pos struct{ x, y float64 }
	ok  bool
}

func (n *Nested) PUP(p *pup.Stream) { // want `n.pos.y is not visited`
	pup.Number(p, &n.pos.x)
	pup.Bool(p, &n.ok)
}

// A whole anonymous struct.
type NestedAll struct {
	pos struct{ x, y float64 }
	ok  bool
}

func (n *NestedAll) PUP(p *pup.Stream) { pup.Bool(p, &n.ok) } // want `n.pos is not visited`

// A field of a named struct, visited field by field.
type vec struct{ x, y, z float64 }

type ByField struct{ v vec }

func (b *ByField) PUP(p *pup.Stream) { // want `b.v.z is not visited`
	v := &b.v
	pup.Number(p, &v.x)
	pup.Number(p, &v.y)
}

// The element function forgets a field.
type InElement struct{ vs []vec }

func (x *InElement) PUP(p *pup.Stream) { // want `x.vs\[...\].y is not visited`
	pup.Slice(p, &x.vs, func(p *pup.Stream, v *vec) {
		pup.Number(p, &v.x)
		pup.Number(p, &v.z)
	})
}

// The named element function forgets a field.
type InNamed struct{ vs map[string]vec }

func pupVec(p *pup.Stream, v *vec) {
	pup.Number(p, &v.x)
	pup.Number(p, &v.y)
}

func (x *InNamed) PUP(p *pup.Stream) { pup.Map(p, &x.vs, pup.String, pupVec) } // want `x.vs\[...\].z is not visited`

// The loop over the elements forgets a field.
type InLoop struct{ vs []vec }

func (x *InLoop) PUP(p *pup.Stream) { // want `x.vs\[...\].x is not visited`
	n := len(x.vs)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.vs = make([]vec, n)
	}
	for i := range x.vs {
		pup.Number(p, &x.vs[i].y)
		pup.Number(p, &x.vs[i].z)
	}
}

// A field behind a pointer.
type Behind struct{ v *vec }

func (x *Behind) PUP(p *pup.Stream) { // want `x.v.z is not visited`
	pup.Ptr(p, &x.v, pupVec)
}

// A generic type.
type Grid[T any] struct {
	w, h  int
	cells []T
}

func (g *Grid[T]) PUP(p *pup.Stream) { // want `g.h is not visited`
	pup.Number(p, &g.w)
	pup.Slice(p, &g.cells, pup.Value)
}

// A field of the type of a type parameter.
type Pair[A, B any] struct {
	a A
	b B
}

func (x *Pair[A, B]) PUP(p *pup.Stream) { pup.Value(p, &x.a) } // want `x.b is not visited`

// A helper method forgets one.
type Helped struct{ a, b, c int }

func (x *Helped) PUP(p *pup.Stream) { x.rest(p) } // want `x.c is not visited`

func (x *Helped) rest(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.Number(p, &x.b)
}

// One of a table of pointers is missing.
type Table struct{ a, b, c float64 }

func (x *Table) PUP(p *pup.Stream) { // want `x.b is not visited`
	for _, f := range []*float64{&x.a, &x.c} {
		pup.Number(p, f)
	}
}

// A lock without a reason not to save it.
type Locked struct {
	mu interface{ Lock() }
	n  int
}

func (x *Locked) PUP(p *pup.Stream) { pup.Number(p, &x.n) } // want `x.mu is not visited`

// Only in old data: what is packed today lacks it.
type Old struct{ a, b int }

var _ = pup.Register[Old]("Old", pup.SchemaVersion(2))

func (x *Old) PUP(p *pup.Stream) { // want `x.b is not visited`
	pup.Number(p, &x.a)
	if pup.Version[Old](p) < 2 {
		pup.Number(p, &x.b)
	}
}

// The version that adds it is never reached.
type Future struct{ a, b int }

var _ = pup.Register[Future]("Future", pup.SchemaVersion(2))

func (x *Future) PUP(p *pup.Stream) { // want `x.b is not visited`
	v := pup.Version[Future](p)
	pup.Number(p, &x.a)
	if v >= 3 {
		pup.Number(p, &x.b)
	}
}

// A block does not hold all fields.
type Blocked struct {
	a, b float64
	c    float64
}

var pupBlocked = pup.BlockOf[Blocked]("a", "b")

func (x *Blocked) PUP(p *pup.Stream) { pupBlocked.PUP(p, x) } // want `x.c is not visited`

// One element of an array.
type Array struct{ d [3]int }

func (x *Array) PUP(p *pup.Stream) { // want `x.d\[2\] is not visited`
	pup.Number(p, &x.d[0])
	pup.Number(p, &x.d[1])
}

// The loop stops before the last element.
type Short struct{ d [4]int }

func (x *Short) PUP(p *pup.Stream) { // want `x.d\[3\] is not visited`
	for i := 0; i < 3; i++ {
		pup.Number(p, &x.d[i])
	}
}

// A part of the array.
type Part struct{ d [4]int }

func (x *Part) PUP(p *pup.Stream) { pup.Array(p, x.d[1:], pup.Number) } // want `x.d\[0\] is not visited`

// The length is packed, the content is not.
type Length struct{ list []int }

func (x *Length) PUP(p *pup.Stream) { // want `x.list is visited only in its length, not in its content`
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]int, n)
	}
}

// A copy is visited and not assigned back.
type Copied struct{ a, b int }

func (x *Copied) PUP(p *pup.Stream) { // want `x.a is packed, but not assigned from the data when unpacking`
	v := x.a
	pup.Number(p, &v)
	pup.Number(p, &x.b)
}

// A copy in a loop.
type CopiedLoop struct{ subs []Base }

func (x *CopiedLoop) PUP(p *pup.Stream) { // want `x.subs is packed, but not assigned from the data when unpacking`
	n := len(x.subs)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.subs = make([]Base, n)
	}
	for _, s := range x.subs {
		s.PUP(p)
	}
}

// A converted value is not assigned back.
type Converted struct{ t time.Time }

func (x *Converted) PUP(p *pup.Stream) { // want `x.t is packed, but not assigned from the data when unpacking`
	ns := x.t.UnixNano()
	pup.Number(p, &ns)
}

// Assigned when unpacking, but something else was packed.
type Reverse struct{ f float64 }

func (x *Reverse) PUP(p *pup.Stream) { // want `x.f is assigned when unpacking, but its value is not packed`
	var bits uint64
	pup.Number(p, &bits)
	if p.Unpacking() {
		x.f = math.Float64frombits(bits)
	}
}

// A copy of the whole receiver.
type Whole struct{ a, b int }

func (x *Whole) PUP(p *pup.Stream) { // want `x is packed, but not assigned`
	y := *x
	pup.Number(p, &y.a)
	pup.Number(p, &y.b)
}

// A wire struct without one of the fields.
type wire struct{ A, B int }

type Wired struct{ a, b int }

func (x *Wired) PUP(p *pup.Stream) { // want `x.b is assigned when unpacking, but its value is not packed`
	w := wire{A: x.a}
	pup.Plain(p, &w)
	if p.Unpacking() {
		x.a, x.b = w.A, w.B
	}
}

// A wire struct that is not read back completely.
type WiredBack struct{ a, b int }

func (x *WiredBack) PUP(p *pup.Stream) { // want `x.b is packed, but not assigned from the data when unpacking`
	w := wire{A: x.a, B: x.b}
	pup.Plain(p, &w)
	if p.Unpacking() {
		x.a = w.A
	}
}

// A helper gets the value instead of a pointer.
type ByValue struct{ a, b int }

func byValue(p *pup.Stream, v int) { pup.Number(p, &v) }

func (x *ByValue) PUP(p *pup.Stream) { // want `x.a is packed, but not assigned from the data when unpacking`
	byValue(p, x.a)
	pup.Number(p, &x.b)
}

// Only one of two flags is restored.
type Bits struct{ a, b bool }

func (x *Bits) PUP(p *pup.Stream) { // want `x.b is packed, but not assigned from the data when unpacking`
	var f uint8
	if x.a {
		f |= 1
	}
	if x.b {
		f |= 2
	}
	pup.Number(p, &f)
	if p.Unpacking() {
		x.a = f&1 != 0
	}
}

// A named slice whose PUP does nothing.
type Vec []float64

func (v *Vec) PUP(p *pup.Stream) {} // want `PUP of Vec visits nothing of it`

// A derived field that nobody declares as such.
type Derived struct {
	list  []string
	index map[string]int
}

func (x *Derived) PUP(p *pup.Stream) { // want `x.index is`
	pup.Slice(p, &x.list, pup.String)
	if p.Unpacking() {
		x.index = map[string]int{}
		for i, s := range x.list {
			x.index[s] = i
		}
	}
}

// A local type.
func Local() pup.PUPer {
	type local struct{ Base }
	return new(local)
}

// Misspelled: the same field again instead of the other.
type Misspelled struct{ min, max int }

func (x *Misspelled) PUP(p *pup.Stream) { // want `x.max is not visited`
	pup.Number(p, &x.min)
	pup.Number(p, &x.min) // want `x.min is visited twice`
}

// The other object's field.
type Foreign struct{ a int }

var global Foreign

func (x *Foreign) PUP(p *pup.Stream) { // want `PUP of Foreign visits nothing of it`
	pup.Number(p, &global.a)
}

// Only nil or not is packed.
type Nilness struct{ v *vec }

func (x *Nilness) PUP(p *pup.Stream) { // want `x.v is visited only in its length, not in its content`
	set := x.v != nil
	pup.Bool(p, &set)
	if p.Unpacking() && set {
		x.v = new(vec)
	}
}

// The elements are packed as copies: a range variable.
type Range struct{ list []int }

func (x *Range) PUP(p *pup.Stream) { // want `x.list is packed, but not assigned from the data when unpacking`
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]int, n)
	}
	for _, v := range x.list {
		pup.Number(p, &v)
	}
}
