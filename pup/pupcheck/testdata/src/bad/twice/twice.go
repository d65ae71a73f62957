// Package twice has types that visit something twice.
package twice

import "github.com/byssus-hpc/byssus/pup"

// The same statement twice.
type Same struct{ a, b int }

func (x *Same) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.Number(p, &x.b)
	pup.Number(p, &x.a) // want `x.a is visited twice`
}

type Base struct{ N, M int }

func (b *Base) PUP(p *pup.Stream) {
	pup.Number(p, &b.N)
	pup.Number(p, &b.M)
}

// The embedded struct and one of its fields.
type Embedded struct {
	Base
	k int
}

func (x *Embedded) PUP(p *pup.Stream) {
	x.Base.PUP(p)
	pup.Number(p, &x.M) // want `x.Base.M is visited again: x.Base as a whole`
	pup.Number(p, &x.k)
}

// A field, and then the struct that holds it.
type Outer struct{ in Base }

func (x *Outer) PUP(p *pup.Stream) {
	pup.Number(p, &x.in.N)
	x.in.PUP(p) // want `x.in as a whole is visited, and x.in.N already`
}

// Once in a helper.
type Helped struct{ a, b int }

func (x *Helped) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	x.rest(p) // want `x.a is visited twice`
}

func (x *Helped) rest(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.Number(p, &x.b)
}

// Through an alias.
type Aliased struct{ a int }

func (x *Aliased) PUP(p *pup.Stream) {
	v := &x.a
	pup.Number(p, &x.a)
	pup.Number(p, v) // want `x.a is visited twice`
}

// Once always and once under a condition.
type Under struct {
	has bool
	a   int
}

func (x *Under) PUP(p *pup.Stream) {
	pup.Bool(p, &x.has)
	pup.Number(p, &x.a)
	if x.has {
		pup.Number(p, &x.a) // want `x.a is visited twice`
	}
}

// In every pass of a loop.
type Loop struct {
	n, a int
	list []int
}

func (x *Loop) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.list)
	pup.Number(p, &x.n)
	for range x.list {
		pup.Number(p, &x.a) // want `x.a is visited in every pass of the loop`
	}
}

// The first element in every pass.
type Element struct{ list [4]int }

func (x *Element) PUP(p *pup.Stream) {
	for range x.list {
		pup.Number(p, &x.list[0]) // want `x.list\[0\] is visited in every pass of the loop`
	}
	pup.Number(p, &x.list[1])
	pup.Number(p, &x.list[2])
	pup.Number(p, &x.list[3])
}

// The elements, and then the slice.
type Elements struct{ list []Base }

func (x *Elements) PUP(p *pup.Stream) {
	pup.Slice(p, &x.list, pup.Object)
	for i := range x.list {
		x.list[i].PUP(p) // want `x.list\[...\] is visited again`
	}
}

// Twice in a table.
type Table struct{ a, b int }

func (x *Table) PUP(p *pup.Stream) {
	for _, v := range []*int{&x.a, &x.b, &x.a} {
		pup.Number(p, v) // want `x.a is visited twice`
	}
}

// The block and one of its fields.
type Block struct{ a, b float64 }

var pupBlock = pup.BlockOf[Block]("a", "b")

func (x *Block) PUP(p *pup.Stream) {
	pupBlock.PUP(p, x)
	pup.Number(p, &x.b) // want `x.b is visited twice`
}

// Two versions that overlap.
type Versions struct{ a int }

func (x *Versions) PUP(p *pup.Stream) {
	v := pup.Version[Versions](p)
	if v <= 2 {
		pup.Number(p, &x.a)
	}
	if v >= 2 {
		pup.Number(p, &x.a) // want `x.a is visited twice`
	}
}

// Overlapping parts of an array.
type Parts struct{ list [6]int }

func (x *Parts) PUP(p *pup.Stream) {
	pup.Array(p, x.list[:4], pup.Number)
	pup.Array(p, x.list[3:], pup.Number) // want `x.list\[...\] is visited twice`
}

// In the element function.
type Inside struct{ list []pair }

type pair struct{ a, b int }

func (x *Inside) PUP(p *pup.Stream) {
	pup.Slice(p, &x.list, func(p *pup.Stream, q *pair) {
		pup.Number(p, &q.a)
		pup.Number(p, &q.b)
		pup.Number(p, &q.b) // want `is visited twice`
	})
}

// A generic type.
type Generic[T any] struct{ a, b T }

func (x *Generic[T]) PUP(p *pup.Stream) {
	pup.Value(p, &x.a)
	pup.Value(p, &x.b)
	pup.Value(p, &x.a) // want `x.a is visited twice`
}

// PUP calls itself.
type Endless struct{ a int }

func (x *Endless) PUP(p *pup.Stream) {
	pup.Value(p, x) // want `PUP calls itself for the same value`
}

// Deferred, and at once.
type Deferred struct{ a int }

func (x *Deferred) PUP(p *pup.Stream) {
	defer pup.Number(p, &x.a) // want `x.a is visited twice`
	pup.Number(p, &x.a)
}

// A loop over the wrong index.
type Matrix struct{ m [2][2]int }

func (x *Matrix) PUP(p *pup.Stream) {
	for i := range x.m {
		for range x.m[i] {
			pup.Number(p, &x.m[i][i]) // want `is visited in every pass of the loop`
		}
	}
}

// Two fields of an anonymous struct, one twice.
type Anonymous struct{ pos struct{ x, y int } }

func (a *Anonymous) PUP(p *pup.Stream) { // want `a.pos.y is not visited`
	pup.Number(p, &a.pos.x)
	pup.Number(p, &a.pos.x) // want `a.pos.x is visited twice`
}
