// Package other has further ways to lose data.
package other

import "github.com/byssus-hpc/byssus/pup"

// A value receiver.
type Value struct{ a int }

func (x Value) PUP(p *pup.Stream) { // want `PUP has a value receiver`
	pup.Number(p, &x.a)
}

// A value receiver of a map type.
type Map map[string]int

func (m Map) PUP(p *pup.Stream) { // want `PUP has a value receiver`
	pup.Map(p, &m, pup.String, pup.Number)
}

// A value receiver of a generic type.
type Generic[T any] struct{ a T }

func (x Generic[T]) PUP(p *pup.Stream) { // want `PUP has a value receiver`
	pup.Value(p, &x.a)
}

// A copy of the stream.
type Copy struct{ a, b int }

func (x *Copy) PUP(p *pup.Stream) {
	q := *p // want `the stream is copied`
	pup.Number(&q, &x.a)
	pup.Number(p, &x.b)
}

// The stream is kept in the value.
type Kept struct {
	a int
	p *pup.Stream `pup:"-,of the last traversal"` // want p:"skipped"
}

func (x *Kept) PUP(p *pup.Stream) {
	x.p = p // want `the stream is stored in x.p`
	pup.Number(p, &x.a)
}

// The stream is kept in a global variable.
var last *pup.Stream

type KeptGlobal struct{ a int }

func (x *KeptGlobal) PUP(p *pup.Stream) {
	last = p // want `the stream is stored`
	pup.Number(p, &x.a)
}

// The stream is kept in a global table.
var streams = map[int]*pup.Stream{}

type KeptTable struct{ a int }

func (x *KeptTable) PUP(p *pup.Stream) {
	streams[0] = p // want `the stream is stored`
	pup.Number(p, &x.a)
}

// The stream is sent away.
type Sent struct {
	a  int
	ch chan *pup.Stream `pup:"-,internal"` // want ch:"skipped"
}

func (x *Sent) PUP(p *pup.Stream) {
	x.ch <- p // want `the stream is sent on a channel`
	pup.Number(p, &x.a)
}

// A closure keeps the stream.
type Closure struct {
	a    int
	save func() `pup:"-,internal"` // want save:"skipped"
}

func (x *Closure) PUP(p *pup.Stream) { // want `PUP of Closure visits nothing of it`
	x.save = func() { pup.Number(p, &x.a) } // want `a function that uses the stream is stored in x.save`
}

// The element function visits the receiver's field.
type Element struct {
	list []float64
	f    float64
}

func (x *Element) PUP(p *pup.Stream) { // want `x.f is not visited|x.list`
	pup.Slice(p, &x.list, func(p *pup.Stream, e *float64) {
		pup.Number(p, &x.f) // want `the element function visits x.f instead of its argument`
	})
}

// The element function visits the first element.
type First struct{ list []float64 }

func (x *First) PUP(p *pup.Stream) {
	pup.Slice(p, &x.list, func(p *pup.Stream, e *float64) {
		pup.Number(p, &x.list[0]) // want `the element function visits x.list\[0\] instead of its argument`
	})
}

// The element function visits a captured variable.
type Captured struct{ list []float64 }

func (x *Captured) PUP(p *pup.Stream) { // want `x.list`
	var v float64
	pup.Slice(p, &x.list, func(p *pup.Stream, e *float64) {
		pup.Number(p, &v) // want `the element function visits v instead of its argument`
	})
}

// The element function does nothing.
type Idle struct{ list []float64 }

func (x *Idle) PUP(p *pup.Stream) { // want `x.list is visited only in its length, not in its content`
	pup.Slice(p, &x.list, func(p *pup.Stream, e *float64) {}) // want `the element function visits nothing of its argument`
}

// The element function visits a copy of its argument.
type CopyElem struct{ list []float64 }

func (x *CopyElem) PUP(p *pup.Stream) { // want `x.list is packed, but not assigned from the data`
	pup.Slice(p, &x.list, func(p *pup.Stream, e *float64) {
		v := *e
		pup.Number(p, &v)
	})
}

// No element function.
type NoElem struct {
	next *NoElem
	list []int
}

func (x *NoElem) PUP(p *pup.Stream) { // want `PUP of NoElem visits nothing of it`
	pup.Ptr(p, &x.next, nil)   // want `pup.Ptr with a nil element function`
	pup.Slice(p, &x.list, nil) // want `pup.Slice with a nil element function`
}

// The values of a map, visited through the captured key.
type Keys struct{ m map[string]int }

func (x *Keys) PUP(p *pup.Stream) { // want `x.m`
	var key string
	pup.Map(p, &x.m, func(p *pup.Stream, k *string) { key = *k; pup.String(p, k) }, func(p *pup.Stream, v *int) {
		n := x.m[key]
		pup.Number(p, &n)
	})
}
