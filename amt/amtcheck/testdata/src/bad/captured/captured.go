// Package captured has handlers and reductions that are not the same on all ranks.
package captured

import (
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/amt"
)

type number struct{ X int64 }

type counter struct{ n int64 }

func (k *counter) add(_ amt.Context, m *number) { k.n += m.X }

func (k *counter) plus(a, b int64) int64 { return a + b + k.n }

var (
	a, b, c, d, e, f, g, h, i amt.Handler[number]
	sum, product              amt.Reduction[int64]
	shared                    = &counter{}
)

func plain(amt.Context, *number) {}

func init() {
	total := int64(0)
	a.Is(func(_ amt.Context, m *number) { total += m.X }) // want `^total is captured by a handler, and other ranks do not have it: put it into the message, an amt.Local or a constant$`
	seen := map[int64]bool{}
	b.Is(func(_ amt.Context, m *number) { seen[m.X] = true }) // want `^seen is captured by a handler`
	// What is never changed is refused too.
	name := os.Args[0]
	const constant = 3
	five := 5
	c.Is(func(amt.Context, *number) { fmt.Println(name, constant, five) }) // want `^name is captured by a handler` `^five is captured by a handler`
	for n := range 2 {
		if n == 1 {
			d.Is(func(amt.Context, *number) { fmt.Println(n) }) // want `^n is captured by a handler`
		}
	}
	k := &counter{}
	e.Is(k.add)      // want `^k.add is the method of a value, which other ranks do not have: give Is a function of the package, and keep k in an amt.Local$`
	f.Is(shared.add) // want `^shared.add is the method of a value`
	g.Is(logged("g", plain))
	on := func(_ amt.Context, m *number) { k.n += m.X } // want `^k is captured by a handler`
	h.Is(on)
	declare(&i)
	scale := int64(2)
	sum.Is(func(a, b int64) int64 { return scale*a + b }) // want `^scale is captured by a reduction's function, and other ranks do not have it: put it into the values that are combined, or make it a constant$`
	product.Is(k.plus)                                    // want `^k.plus is the method of a value`
}

// logged wraps a handler.
func logged(name string, do func(amt.Context, *number)) func(amt.Context, *number) {
	return func(c amt.Context, m *number) {
		fmt.Println(name) // want `^name is captured by a handler`
		do(c, m)          // want `^do is captured by a handler`
	}
}

type pair[T any] struct{ First, Second T }

func on[T any](amt.Context, *T) {}

// In a generic function, functions of its types have these with them.
func declare[T any](h *amt.Handler[T]) {
	h.Is(func(amt.Context, *T) {}) // want `^this function depends on the type parameter T, which a run takes for a captured variable: hand on a function that is a parameter`
	h.Is(on[T])                    // want `^on\[T\] depends on the type parameter T`
}

func declarePairs[T any](h *amt.Handler[pair[T]]) {
	h.Is(func(amt.Context, *pair[T]) {}) // want `^this function depends on the type parameter T`
}
