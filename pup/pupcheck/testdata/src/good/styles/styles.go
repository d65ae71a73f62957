// Package styles has correct types in unusual styles.
package styles

import (
	"fmt"
	"slices"

	ck "github.com/byssus-hpc/byssus/pup"
)

// Another name for the package, the stream and the receiver.
type Alias struct{ a, b int }

func (self *Alias) PUP(stream *ck.Stream) {
	ck.Number(stream, &self.a)
	ck.Number(stream, &self.b)
}

// A table of pointers.
type Looped struct{ a, b, c float64 }

func (x *Looped) PUP(p *ck.Stream) {
	for _, f := range []*float64{&x.a, &x.b, &x.c} {
		ck.Number(p, f)
	}
}

type Sub struct{ n int }

func (s *Sub) PUP(p *ck.Stream) { ck.Number(p, &s.n) }

// A table of PUPers.
type Parts struct{ a, b Sub }

func (x *Parts) PUP(p *ck.Stream) {
	for _, q := range []ck.PUPer{&x.a, &x.b} {
		q.PUP(p)
	}
}

// A variadic helper.
type Variadic struct{ a, b, c int }

func all(p *ck.Stream, vs ...*int) {
	for _, v := range vs {
		ck.Number(p, v)
	}
}

func (x *Variadic) PUP(p *ck.Stream) { all(p, &x.a, &x.b, &x.c) }

// Helper methods.
type Split struct{ a, b, c int }

func (x *Split) PUP(p *ck.Stream) {
	x.head(p)
	tail(p, x)
}

func (x *Split) head(p *ck.Stream)     { ck.Number(p, &x.a) }
func tail(stream *ck.Stream, s *Split) { all(stream, &s.b, &s.c) }

// A table of methods.
type Steps struct{ a, b int }

func (x *Steps) one(p *ck.Stream) { ck.Number(p, &x.a) }
func (x *Steps) two(p *ck.Stream) { ck.Number(p, &x.b) }

func (x *Steps) PUP(p *ck.Stream) {
	for _, step := range []func(*ck.Stream){x.one, x.two} {
		step(p)
	}
}

// Function literals and method values.
type Literals struct {
	a, b int
	s    Sub
}

func (x *Literals) PUP(p *ck.Stream) {
	num := func(v *int) { ck.Number(p, v) }
	num(&x.a)
	num(&x.b)
	f := x.s.PUP
	f(p)
}

// A literal called at once, and a deferred call.
type Deferred struct{ a, b int }

func (x *Deferred) PUP(p *ck.Stream) {
	defer func() { ck.Number(p, &x.b) }()
	func() { ck.Number(p, &x.a) }()
}

// Aliases.
type Aliased struct {
	head struct{ n, m int }
	subs [4]Sub
	z    int
}

func (x *Aliased) PUP(p *ck.Stream) {
	y := x
	h := &y.head
	ck.Number(p, &h.n)
	m := &h.m
	ck.Number(p, m)
	subs := y.subs[:]
	for i := range subs {
		s := &subs[i]
		s.PUP(p)
	}
	ck.Number(p, &(*y).z)
}

// A wrapper around the stream.
type enc struct{ p *ck.Stream }

func (e enc) num(v *int)     { ck.Number(e.p, v) }
func (e *enc) str(v *string) { ck.String(e.p, v) }

type Wrapped struct {
	n int
	s string
}

func (x *Wrapped) PUP(p *ck.Stream) {
	e := enc{p}
	e.num(&x.n)
	e.str(&x.s)
}

// A chain of calls.
type chain struct{ p *ck.Stream }

func (c *chain) num(v *int) *chain { ck.Number(c.p, v); return c }

type Chained struct{ a, b, c int }

func (x *Chained) PUP(p *ck.Stream) {
	(&chain{p: p}).num(&x.a).num(&x.b).num(&x.c)
}

// The direction is a variable.
type Direction struct{ a, b int }

func (x *Direction) PUP(p *ck.Stream) {
	up := p.Unpacking()
	if up {
		x.reset()
	}
	ck.Number(p, &x.a)
	if !up {
		fmt.Println("packed", x.b)
	}
	ck.Number(p, &x.b)
}

func (x *Direction) reset() { *x = Direction{} }

// Both branches visit the same.
type Twins struct{ a, b int }

func (x *Twins) PUP(p *ck.Stream) {
	if p.Packing() {
		ck.Number(p, &x.a)
		ck.Number(p, &x.b)
	} else {
		ck.Number(p, &x.a)
		ck.Number(p, &x.b)
	}
}

// A switch over all directions.
type Switched struct{ a int }

func (x *Switched) PUP(p *ck.Stream) {
	switch {
	case p.Sizing(), p.Packing():
		ck.Number(p, &x.a)
	default:
		ck.Number(p, &x.a)
	}
}

// Exclusive branches may visit the same field.
type Either struct {
	wide bool
	n    int
}

func (x *Either) PUP(p *ck.Stream) {
	ck.Bool(p, &x.wide)
	if x.wide {
		ck.Number(p, &x.n)
	} else {
		s := int8(x.n)
		ck.Number(p, &s)
		x.n = int(s)
	}
}

// Two tests of the same condition exclude each other.
type Excluded struct {
	kind int
	n    int
}

func (x *Excluded) PUP(p *ck.Stream) {
	ck.Number(p, &x.kind)
	if x.kind == 1 {
		ck.Number(p, &x.n)
	}
	if x.kind != 1 {
		ck.Number(p, &x.n)
	}
}

// Errors end the traversal.
type Careful struct{ n, m int }

func (x *Careful) PUP(p *ck.Stream) {
	ck.Number(p, &x.n)
	if p.Err() != nil {
		return
	}
	if x.n < 0 {
		p.Fail(fmt.Errorf("n is %d", x.n))
		return
	}
	ck.Number(p, &x.m)
	if err := p.Err(); err != nil {
		fmt.Println(err)
		return
	}
}

// Validation before packing.
type Valid struct{ n int }

func (x *Valid) check() error {
	if x.n < 0 {
		return fmt.Errorf("negative")
	}
	return nil
}

func (x *Valid) PUP(p *ck.Stream) {
	if !p.Unpacking() {
		if err := x.check(); err != nil {
			p.Fail(err)
			return
		}
	}
	ck.Number(p, &x.n)
	if p.Unpacking() {
		if err := x.check(); err != nil {
			p.Fail(err)
		}
	}
}

// Generic containers.
type Grid[T any] struct {
	w, h  int
	cells []T
}

func (g *Grid[T]) PUP(p *ck.Stream) {
	ck.Number(p, &g.w)
	ck.Number(p, &g.h)
	ck.Slice(p, &g.cells, ck.Value)
}

type Pair[A, B any] struct {
	a A
	b B
}

func (x *Pair[A, B]) PUP(p *ck.Stream) {
	ck.Value(p, &x.a)
	ck.Value[B](p, &x.b)
}

type UsesGeneric struct {
	g Grid[int]
	q Pair[string, Grid[bool]]
}

func (u *UsesGeneric) PUP(p *ck.Stream) {
	u.g.PUP(p)
	ck.Value(p, &u.q)
}

// A generic type whose elements have PUP.
type puper[T any] interface {
	*T
	ck.PUPer
}

type Set[T any, P puper[T]] struct{ items []T }

func (s *Set[T, P]) PUP(p *ck.Stream) {
	n := len(s.items)
	ck.Number(p, &n)
	if p.Unpacking() {
		s.items = make([]T, n)
	}
	for i := range s.items {
		P(&s.items[i]).PUP(p)
	}
}

// A generic helper.
func number[T ~int | ~float64](p *ck.Stream, v *T) { ck.Number(p, v) }

func each[E any](p *ck.Stream, list *[]E, f func(*ck.Stream, *E)) { ck.Slice(p, list, f) }

type ByGeneric struct {
	n    int
	f    float64
	list []Sub
}

func (x *ByGeneric) PUP(p *ck.Stream) {
	number(p, &x.n)
	number(p, &x.f)
	each(p, &x.list, ck.Object)
}

// A conversion to a type without methods.
type Plainly struct{ a, b int }

func (x *Plainly) PUP(p *ck.Stream) {
	type plain Plainly
	ck.Value(p, (*plain)(x))
}

// A conversion to another type with the same fields.
type Former struct{ a, b int }

func (x *Former) PUP(p *ck.Stream) {
	ck.Number(p, &x.a)
	ck.Number(p, &x.b)
}

type Latter Former

func (x *Latter) PUP(p *ck.Stream) { (*Former)(x).PUP(p) }

// Unknown functions that get the receiver visit all of it.
type Unknown struct{ a, b int }

var hook func(p *ck.Stream, x *Unknown) = func(p *ck.Stream, x *Unknown) {}

func SetHook(f func(p *ck.Stream, x *Unknown)) { hook = f }

func (x *Unknown) PUP(p *ck.Stream) { hook(p, x) }

type visitor interface{ visit(p *ck.Stream, x any) }

type visited struct {
	a int
	v visitor //pup:skip the strategy, set again by the application
}

func (x *visited) PUP(p *ck.Stream) { x.v.visit(p, x) }

// Values are returned and assigned.
type Returned struct{ n, m int }

func num(p *ck.Stream, v int) int {
	ck.Number(p, &v)
	return v
}

func (x *Returned) PUP(p *ck.Stream) {
	x.n = num(p, x.n)
	x.m = num(p, x.m)
}

// A loop with labels, breaks and continues that do not touch the order.
type Labels struct{ list []int }

func (x *Labels) PUP(p *ck.Stream) {
	ck.PlainSlice(p, &x.list)
	if p.Unpacking() {
	outer:
		for i, v := range x.list {
			for j := range i {
				if x.list[j] == v {
					continue outer
				}
				if v < 0 {
					break outer
				}
			}
		}
		slices.Sort(x.list)
	}
}

// A background goroutine is started again after unpacking.
type worker struct {
	n    int
	stop chan struct{} //pup:skip made again by start
}

func (x *worker) start() {
	x.stop = make(chan struct{})
	go func() { <-x.stop }()
}

func (x *worker) PUP(p *ck.Stream) {
	ck.Number(p, &x.n)
	if p.Unpacking() {
		x.start()
	}
}

// A recursive tree.
type Tree struct {
	v           int
	left, right *Tree
	kids        []*Tree
}

func (t *Tree) PUP(p *ck.Stream) {
	ck.Number(p, &t.v)
	ck.Ptr(p, &t.left, ck.Object)
	ck.Ptr(p, &t.right, ck.Object)
	ck.Slice(p, &t.kids, func(p *ck.Stream, k **Tree) { ck.Ptr(p, k, ck.Object) })
}

// Tree nodes without PUP, by a recursive function.
type leaf struct {
	v    int
	l, r *leaf
}

type Trie struct{ root *leaf }

func pupLeaf(p *ck.Stream, n *leaf) {
	ck.Number(p, &n.v)
	ck.Ptr(p, &n.l, pupLeaf)
	ck.Ptr(p, &n.r, pupLeaf)
}

func (t *Trie) PUP(p *ck.Stream) { ck.Ptr(p, &t.root, pupLeaf) }

// A constant table of names chooses the order.
type field int

const (
	first field = iota
	second
)

var order = []field{second, first}

type Ordered struct{ a, b int }

func (x *Ordered) PUP(p *ck.Stream) {
	for _, f := range order {
		switch f {
		case first:
			ck.Number(p, &x.a)
		case second:
			ck.Number(p, &x.b)
		}
	}
}

// Constants of the build choose what is saved.
const debug = false

type built struct {
	a int
	b int //pup:skip only for debugging
}

func (x *built) PUP(p *ck.Stream) {
	if debug {
		ck.Number(p, &x.b)
	}
	ck.Number(p, &x.a)
}

// Object as element function, for a type with PUP.
type Objects struct {
	list []Sub
	one  *Sub
	sub  Sub
}

func (x *Objects) PUP(p *ck.Stream) {
	ck.Slice(p, &x.list, ck.Object)
	ck.Ptr(p, &x.one, ck.Object)
	ck.Object(p, &x.sub)
}
