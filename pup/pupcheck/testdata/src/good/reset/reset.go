// Package reset has correct types that are made empty before they are unpacked.
package reset

import (
	"maps"

	"github.com/byssus-hpc/byssus/pup"
)

type inner struct{ n, m int }

func (i *inner) PUP(p *pup.Stream) { pup.Plain(p, i) }

// The whole value, then its fields by helpers of all kinds.
type Whole struct {
	n    int
	s    string
	list []inner
	tags map[string]int
	in   inner
	next *inner
	arr  [3]int
}

func (x *Whole) PUP(p *pup.Stream) {
	if p.Unpacking() {
		*x = Whole{}
	}
	pup.Number(p, &x.n)
	pup.String(p, &x.s)
	pup.Slice(p, &x.list, pup.Object)
	pup.Map(p, &x.tags, pup.String, pup.Number)
	x.in.PUP(p)
	pup.Ptr(p, &x.next, pup.Object)
	pup.Array(p, x.arr[:], pup.Number)
}

// The whole value, then temporaries.
type Temps struct {
	n    int64
	list []string
	m    map[string]int
}

func (x *Temps) PUP(p *pup.Stream) {
	if p.Unpacking() {
		*x = Temps{}
	}
	n := x.n
	pup.Number(p, &n)
	l := len(x.list)
	pup.Number(p, &l)
	if p.Unpacking() {
		x.n = n
		x.list = make([]string, l)
	}
	for i := range x.list {
		pup.String(p, &x.list[i])
	}
	pup.Map(p, &x.m, pup.String, pup.Number)
}

// A generic value.
type Generic[T any] struct {
	v    T
	list []T
	n    int
}

func (g *Generic[T]) PUP(p *pup.Stream) {
	if p.Unpacking() {
		*g = Generic[T]{}
	}
	pup.Number(p, &g.n)
	pup.Value(p, &g.v)
	pup.Slice(p, &g.list, pup.Value)
}

// A value that keeps what is not saved.
type kept struct {
	n    int
	list []int
	hook func() //pup:skip set by the caller
}

func (x *kept) PUP(p *pup.Stream) {
	if p.Unpacking() {
		*x = kept{hook: x.hook, list: x.list[:0]}
	}
	pup.Number(p, &x.n)
	pup.PlainSlice(p, &x.list)
}

// Fields, one by one.
type Fields struct {
	m    map[string]int
	k    map[string]int
	list []int
	rest []int
	n    int
	p    *inner
	in   inner
}

func (x *Fields) PUP(p *pup.Stream) {
	if p.Unpacking() {
		x.m = nil
		clear(x.k)
		x.list = x.list[:0]
		x.rest = nil
		x.n = 0
		x.p = nil
		x.in = inner{}
	}
	pup.Map(p, &x.m, pup.String, pup.Number)
	pup.Map(p, &x.k, pup.String, pup.Number)
	pup.PlainSlice(p, &x.list)
	pup.Slice(p, &x.rest, pup.Number)
	pup.Number(p, &x.n)
	pup.Ptr(p, &x.p, pup.Object)
	x.in.PUP(p)
}

// Cleared maps and slices that are filled by hand.
type Filled struct {
	m    map[string]int
	list []*inner
}

func (x *Filled) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if !p.Unpacking() {
		for _, e := range x.list {
			e.PUP(p)
		}
	} else {
		clear(x.list)
		x.list = x.list[:0]
		for range n {
			e := new(inner)
			e.PUP(p)
			x.list = append(x.list, e)
		}
	}
	m := maps.Clone(x.m)
	pup.Map(p, &m, pup.String, pup.Number)
	if p.Unpacking() {
		clear(x.m)
		maps.Copy(x.m, m)
	}
}

// Another variable of the type.
type Zero struct {
	n    int
	list []int
}

func (x *Zero) PUP(p *pup.Stream) {
	if p.Unpacking() {
		var zero Zero
		*x = zero
	}
	pup.Number(p, &x.n)
	pup.PlainSlice(p, &x.list)
}

// A method that makes it empty, early return on errors.
type Reset struct {
	n int
	b []byte
	m map[int]*inner
}

func (x *Reset) Reset() {
	x.n = 0
	x.b = x.b[:0]
	for k := range x.m {
		delete(x.m, k)
	}
}

func (x *Reset) PUP(p *pup.Stream) {
	if p.Unpacking() {
		x.Reset()
	}
	pup.Number(p, &x.n)
	if p.Err() != nil {
		return
	}
	pup.PlainSlice(p, &x.b)
	pup.Map(p, &x.m, pup.Number, func(p *pup.Stream, v **inner) { pup.Ptr(p, v, pup.Object) })
}

// Not a struct.
type List []int

func (x *List) PUP(p *pup.Stream) {
	if p.Unpacking() {
		*x = nil
	}
	n := len(*x)
	pup.Number(p, &n)
	if p.Unpacking() {
		*x = make(List, n)
	}
	for i := range *x {
		pup.Number(p, &(*x)[i])
	}
}

// A grid whose cells are made again.
type grid struct {
	w, h  int
	cells [][]float64
}

func (g *grid) PUP(p *pup.Stream) {
	if p.Unpacking() {
		*g = grid{}
	}
	pup.Number(p, &g.w)
	pup.Number(p, &g.h)
	if p.Unpacking() {
		g.cells = make([][]float64, g.h)
		for y := range g.cells {
			g.cells[y] = make([]float64, g.w)
		}
	}
	for y := range g.cells {
		for x := range g.cells[y] {
			pup.Number(p, &g.cells[y][x])
		}
	}
}

// A kind that decides, after the reset.
type Union struct {
	kind int
	a    *inner
	s    string
}

func (x *Union) PUP(p *pup.Stream) {
	if p.Unpacking() {
		*x = Union{}
	}
	pup.Number(p, &x.kind)
	switch x.kind {
	case 1:
		if p.Unpacking() {
			x.a = new(inner)
		}
		x.a.PUP(p)
	case 2:
		pup.String(p, &x.s)
	}
}

// An element function that makes its element empty.
type Elems struct{ list []Zero }

func (x *Elems) PUP(p *pup.Stream) {
	pup.Slice(p, &x.list, func(p *pup.Stream, z *Zero) {
		if p.Unpacking() {
			*z = Zero{}
		}
		pup.Number(p, &z.n)
		pup.PlainSlice(p, &z.list)
	})
}

// An embedded value and a pointer's target.
type Outer struct {
	inner
	g *grid
	k int
}

func (x *Outer) PUP(p *pup.Stream) {
	if p.Unpacking() {
		x.inner = inner{}
		if x.g == nil {
			x.g = new(grid)
		} else {
			*x.g = grid{}
		}
		x.k = 0
	}
	x.inner.PUP(p)
	x.g.PUP(p)
	pup.Number(p, &x.k)
}

// What is assigned after unpacking depends on what was unpacked.
type Clamped struct {
	n    int
	m    map[string]int
	list []int
	mode int
}

func (x *Clamped) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	pup.Map(p, &x.m, pup.String, pup.Number)
	pup.PlainSlice(p, &x.list)
	pup.Number(p, &x.mode)
	if p.Unpacking() {
		if x.n < 0 {
			x.n = 0
		}
		if len(x.m) == 0 {
			x.m = nil
		}
		if x.mode == 3 {
			x.list = x.list[:0]
		}
	}
}

// Skipped parts of what has been visited, and pointers that are mended.
type link struct {
	n    int
	up   *parent //pup:skip set by the parent
	seen bool    //pup:skip used by walks
}

type parent struct {
	links []link
	first link
}

func (x *parent) PUP(p *pup.Stream) {
	pup.Slice(p, &x.links, pup.Value)
	pup.Value(p, &x.first)
	if p.Unpacking() {
		x.first.up, x.first.seen = x, false
		for i := range x.links {
			x.links[i].up, x.links[i].seen = x, false
		}
	}
}

// What was unpacked has been used.
type Scratch struct {
	n    int
	list []int
}

func (x *Scratch) PUP(p *pup.Stream) {
	v := x.n
	pup.Number(p, &v)
	if p.Unpacking() {
		x.n = v
		v = 0
	}
	var old Scratch
	pup.PlainSlice(p, &x.list)
	old = Scratch{}
	_ = old
}
