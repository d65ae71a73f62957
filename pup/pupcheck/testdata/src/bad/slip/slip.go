// Package slip has faults that hide behind the language.
package slip

import (
	"slices"

	"bad/slip/lib"

	"github.com/byssus-hpc/byssus/pup"
)

func size[T any](p *pup.Stream, list *[]T) {
	n := len(*list)
	pup.Number(p, &n)
	if p.Unpacking() {
		*list = make([]T, n)
	}
}

type cell struct{ a, b int }

func (c *cell) PUP(p *pup.Stream) { pup.Plain(p, c) }

func (c *cell) first(p *pup.Stream) { pup.Number(p, &c.a) }

// A helper that calls a helper.
type A01 struct{ list []int }

func (x *A01) PUP(p *pup.Stream) { // want `PUP of A01: x\.list\[0\] is not visited`
	size(p, &x.list)
	lib.Two(p, x.list, pup.Number)
}

// A generic with a constraint.
type A02 struct{ list []int64 }

func (x *A02) PUP(p *pup.Stream) { // want `PUP of A02: the last element of x\.list is not visited`
	size(p, &x.list)
	lib.Sum(p, x.list)
}

// A method expression as element function.
type A03 struct{ list []cell }

func (x *A03) PUP(p *pup.Stream) { // want `PUP of A03: x\.list\[\.\.\.\]\.b is not visited`
	size(p, &x.list)
	for i := range x.list {
		f := (*cell).first
		f(&x.list[i], p)
	}
}

// A method value in a variable.
type A04 struct{ c, d cell }

func (x *A04) PUP(p *pup.Stream) { // want `PUP of A04: x\.d\.b is not visited`
	for _, f := range []func(*pup.Stream){x.c.PUP, x.d.first} {
		f(p)
	}
}

// An embedded generic type of another package.
type A05 struct {
	lib.Visitor[cell]
	n int
}

func (x *A05) PUP(p *pup.Stream) { // want `PUP of A05: x\.Visitor\.List\[0\] is not visited`
	size(p, &x.List)
	x.Visit(p, func(p *pup.Stream, c *cell) { c.PUP(p) })
	pup.Number(p, &x.n)
}

// switch on p.Packing().
type A06 struct{ a, b int }

func (x *A06) PUP(p *pup.Stream) {
	switch p.Packing() {
	case true:
		pup.Number(p, &x.a)
		pup.Number(p, &x.b)
	case false:
		pup.Number(p, &x.b) // want `packing and (sizing|unpacking) differ`
		pup.Number(p, &x.a)
	}
}

// A deferred closure changes.
type A07 struct{ list []int }

func (x *A07) PUP(p *pup.Stream) {
	defer func() {
		if p.Packing() {
			slices.Reverse(x.list) // want `x\.list is changed while it is packed`
		}
	}()
	pup.PlainSlice(p, &x.list)
}

// A closure that is called later changes.
type A08 struct{ n int }

func (x *A08) PUP(p *pup.Stream) {
	bump := func() { x.n++ } // want `x\.n is changed while it is packed`
	pup.Number(p, &x.n)
	if !p.Unpacking() {
		bump()
	}
}

// The condition in a variable.
type A10 struct{ list []int }

func (x *A10) PUP(p *pup.Stream) { // want `PUP of A10: x\.list\[0\] is not visited`
	size(p, &x.list)
	for i := range x.list {
		skip := i == 0
		if skip {
			continue
		}
		pup.Number(p, &x.list[i])
	}
}

// The bound in a variable, and a helper for it.
func last(n int) int { return n - 1 }

type A11 struct{ list []int }

func (x *A11) PUP(p *pup.Stream) { // want `PUP of A11: the last element of x\.list is not visited`
	size(p, &x.list)
	end := last(len(x.list))
	for i := 0; i != end; i++ {
		pup.Number(p, &x.list[i])
	}
}

// An array behind a pointer and a window of it.
type A12 struct{ a *[8]int }

func (x *A12) PUP(p *pup.Stream) { // want `PUP of A12: x\.a\[7\] is not visited`
	if p.Unpacking() {
		x.a = new([8]int)
	}
	w := x.a[:7]
	for i := range w {
		pup.Number(p, &w[i])
	}
}

// Named types and conversions through several variables.
type celsius float64

type A13 struct{ t celsius }

func (x *A13) PUP(p *pup.Stream) {
	t := float64(x.t)
	u := t
	v := float32(u)
	pup.Number(p, &v) // want `x\.t of type slip\.celsius is packed through float32`
	if p.Unpacking() {
		x.t = celsius(v)
	}
}

// A struct literal in a slice.
type rec struct{ K int16 }

type A14 struct{ ks []int }

func (x *A14) PUP(p *pup.Stream) {
	var rs []rec
	for _, k := range x.ks {
		rs = append(rs, rec{K: int16(k)})
	}
	pup.Slice(p, &rs, func(p *pup.Stream, r *rec) { pup.Number(p, &r.K) }) // want `x\.ks\[\.\.\.\] of type int is packed through int16`
	if p.Unpacking() {
		x.ks = nil
		for _, r := range rs {
			x.ks = append(x.ks, int(r.K))
		}
	}
}

// Range over a function of this package.
func (x *A15) tail(yield func(*int) bool) {
	for i := 1; i < len(x.list); i++ {
		if !yield(&x.list[i]) {
			return
		}
	}
}

type A15 struct{ list []int }

func (x *A15) PUP(p *pup.Stream) { // want `PUP of A15: x\.list\[0\] is not visited`
	size(p, &x.list)
	for e := range x.tail {
		pup.Number(p, e)
	}
}

// slices.Backward in one direction.
type A16 struct{ list []int }

func (x *A16) PUP(p *pup.Stream) {
	size(p, &x.list)
	if p.Unpacking() {
		for i := range slices.Backward(x.list) {
			pup.Number(p, &x.list[i]) // want `x\.list\[\.\.\.\] is visited in opposite orders`
		}
		return
	}
	for i := range x.list {
		pup.Number(p, &x.list[i])
	}
}

// max as a start.
type A17 struct{ list []int }

func (x *A17) PUP(p *pup.Stream) { // want `PUP of A17: x\.list\[0\] is not visited`
	size(p, &x.list)
	for i := max(0, 1); i < len(x.list); i++ {
		pup.Number(p, &x.list[i])
	}
}

// Swapped by a helper method through a pointer to the field.
type A18 struct{ a, b int }

func swap(a, b *int) { *a, *b = *b, *a }

func (x *A18) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.Number(p, &x.b)
	if p.Packing() {
		swap(&x.a, &x.b) // want `x\.a is changed while it is packed`
	}
}

// Unpacking resets in a loop.
type A19 struct{ list []cell }

func (x *A19) PUP(p *pup.Stream) {
	pup.Slice(p, &x.list, pup.Object)
	if p.Unpacking() {
		for i := range x.list {
			x.list[i] = cell{} // want `is unpacked before, and lost here`
		}
	}
}

// A closure in a struct, called in a loop from 1.
type A20 struct{ list []cell }

func (x *A20) PUP(p *pup.Stream) { // want `PUP of A20: x\.list\[0\] is not visited`
	size(p, &x.list)
	at := func(i int) *cell { return &x.list[i] }
	for i := 1; i < len(x.list); i++ {
		at(i).PUP(p)
	}
}

// Sorted by a method of the elements' own type.
type cells []cell

func (c cells) sort() { slices.SortFunc(c, func(a, b cell) int { return a.a - b.a }) }

type A22 struct{ list cells }

func (x *A22) PUP(p *pup.Stream) {
	if p.Packing() {
		x.list.sort() // want `x\.list is changed while it is packed`
	}
	pup.Slice(p, &x.list, pup.Object)
}

// Assigned back to itself, shorter.
type A23 struct{ list []int }

func (x *A23) PUP(p *pup.Stream) {
	if !p.Unpacking() {
		x.list = x.list[1:] // want `x\.list is changed while it is packed`
	}
	pup.PlainSlice(p, &x.list)
}

// A map's values.
type A24 struct{ m map[string]int64 }

func (x *A24) PUP(p *pup.Stream) {
	keys := slices.Sorted(func(yield func(string) bool) {
		for k := range x.m {
			if !yield(k) {
				return
			}
		}
	})
	pup.Slice(p, &keys, pup.String)
	if p.Unpacking() {
		x.m = make(map[string]int64, len(keys))
	}
	for _, k := range keys {
		v := int32(x.m[k])
		pup.Number(p, &v) // want `x\.m\[\.\.\.\] of type int64 is packed through int32`
		x.m[k] = int64(v)
	}
}

// Embedded by pointer.
type A25 struct {
	*cell
	f float64
}

func (x *A25) PUP(p *pup.Stream) {
	pup.Ptr(p, &x.cell, pup.Object)
	if p.Packing() {
		x.cell.a++ // want `x\.cell\.a is changed while it is packed`
	}
	f := float32(x.f)
	pup.Number(p, &f) // want `x\.f of type float64 is packed through float32`
	if p.Unpacking() {
		x.f = float64(f)
	}
}

// The whole value is replaced by a function's result that holds nothing.
func fresh() A26 { return A26{} }

type A26 struct{ n int }

func (x *A26) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if p.Unpacking() {
		*x = fresh() // want `x\.n is unpacked before, and lost here`
	}
}

// A generic with a constraint that packs through another of its types.
func via[T, V interface{ ~int | ~uint8 | ~float32 }](p *pup.Stream, v *T) {
	w := V(*v)
	pup.Number(p, &w)
	if p.Unpacking() {
		*v = T(w)
	}
}

type A27 struct{ n int }

func (x *A27) PUP(p *pup.Stream) { via[int, uint8](p, &x.n) } // want `x\.n of type int is packed through uint8`
