// Package changed has types that are changed while they are packed.
package changed

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/byssus-hpc/byssus/pup"
)

type C01 struct{ list []int }

func (x *C01) PUP(p *pup.Stream) {
	if p.Packing() {
		sort.Slice(x.list, func(i, j int) bool { return x.list[i] < x.list[j] }) // want `x\.list is changed while it is packed`
	}
	pup.PlainSlice(p, &x.list)
}

type C02 struct{ list []int }

func (x *C02) PUP(p *pup.Stream) {
	slices.Sort(x.list) // want `x\.list is changed while it is packed`
	pup.Slice(p, &x.list, pup.Number)
}

type C03 struct{ list []string }

func (x *C03) PUP(p *pup.Stream) {
	if !p.Unpacking() {
		l := x.list
		sort.Strings(l) // want `x\.list is changed while it is packed`
	}
	pup.Slice(p, &x.list, pup.String)
}

type byValue []int

func (b byValue) Len() int           { return len(b) }
func (b byValue) Less(i, j int) bool { return b[i] < b[j] }
func (b byValue) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

type C04 struct{ list []int }

func (x *C04) PUP(p *pup.Stream) {
	if p.Packing() {
		sort.Sort(sort.Reverse(byValue(x.list))) // want `x\.list is changed while it is packed`
	}
	pup.PlainSlice(p, &x.list)
}

func (x *C05) sorted() { slices.SortFunc(x.list, func(a, b int) int { return a - b }) }

type C05 struct{ list []int }

func (x *C05) PUP(p *pup.Stream) {
	if p.Packing() {
		x.sorted() // want `x\.list is changed while it is packed`
	}
	pup.PlainSlice(p, &x.list)
}

type C06 struct{ list []int }

func (x *C06) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.list)
	if p.Packing() {
		slices.Reverse(x.list) // want `x\.list is changed while it is packed`
	}
}

type C07 struct{ list []int }

func (x *C07) PUP(p *pup.Stream) {
	if p.Packing() {
		x.list = append(x.list, -1) // want `x\.list is changed while it is packed`
	}
	pup.PlainSlice(p, &x.list)
}

type C08 struct{ m map[string]int }

func (x *C08) PUP(p *pup.Stream) {
	if !p.Unpacking() {
		delete(x.m, "tmp") // want `x\.m is changed while it is packed`
	}
	pup.Map(p, &x.m, pup.String, pup.Number)
}

type C09 struct{ m map[string]int }

func (x *C09) PUP(p *pup.Stream) {
	pup.Map(p, &x.m, pup.String, pup.Number)
	if p.Packing() {
		clear(x.m) // want `x\.m is changed while it is packed`
	}
}

type C10 struct{ n, saves int }

func (x *C10) PUP(p *pup.Stream) {
	if p.Packing() {
		x.saves++ // want `x\.saves is changed while it is packed`
	}
	pup.Number(p, &x.n)
	pup.Number(p, &x.saves)
}

type C11 struct{ n int }

func (x *C11) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if p.Packing() {
		x.n = 0 // want `x\.n is changed while it is packed`
	}
}

type C12 struct{ n int }

func (x *C12) PUP(p *pup.Stream) {
	if p.Packing() {
		x.n = 0 // want `x\.n is changed while it is packed`
	}
	pup.Number(p, &x.n)
}

type C13 struct{ list []int }

func (x *C13) PUP(p *pup.Stream) {
	if p.Sizing() {
		x.list = slices.Compact(x.list) // want `x\.list is changed while it is packed`
	}
	pup.PlainSlice(p, &x.list)
}

type C14 struct{ q byValue }

func (q *byValue) Push(v any) { *q = append(*q, v.(int)) }
func (q *byValue) Pop() any   { return nil }

func (x *C14) PUP(p *pup.Stream) {
	if p.Packing() {
		heap.Init(&x.q) // want `x\.q is changed while it is packed`
	}
	pup.PlainSlice(p, &x.q)
}

type C15 struct{ list []int }

func (x *C15) PUP(p *pup.Stream) {
	if p.Packing() {
		rand.Shuffle(len(x.list), func(i, j int) {
			x.list[i], x.list[j] = x.list[j], x.list[i] // want `x\.list\[\.\.\.\] is changed while it is packed`
		})
	}
	pup.PlainSlice(p, &x.list)
}

type C16 struct{ list []int }

func (x *C16) PUP(p *pup.Stream) {
	if p.Packing() {
		for i, j := 0, len(x.list)-1; i < j; i, j = i+1, j-1 {
			x.list[i], x.list[j] = x.list[j], x.list[i] // want `x\.list\[\.\.\.\] is changed while it is packed`
		}
	}
	pup.Slice(p, &x.list, pup.Number)
}

type in struct{ list []int }

func (i *in) PUP(p *pup.Stream) { pup.PlainSlice(p, &i.list) }

type C17 struct{ subs []in }

func (x *C17) PUP(p *pup.Stream) {
	pup.Slice(p, &x.subs, func(p *pup.Stream, s *in) {
		if p.Packing() {
			slices.Sort(s.list) // want `x\.subs\[\.\.\.\]\.list is changed while it is packed`
		}
		s.PUP(p)
	})
}

func bump(n *int) { *n += 2 }

type C18 struct{ n int }

func (x *C18) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	bump(&x.n) // want `x\.n is changed while it is packed`
}

// A copy shares the elements.
type C19 struct{ list []int }

func (x *C19) PUP(p *pup.Stream) {
	y := *x
	if p.Packing() {
		slices.Sort(y.list) // want `x\.list is changed while it is packed`
	}
	pup.PlainSlice(p, &x.list)
}

// The elements are packed one by one.
type C20 struct{ list []int }

func (x *C20) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]int, n)
	} else {
		sort.Ints(x.list) // want `x\.list is changed while it is packed`
	}
	for i := range x.list {
		v := x.list[i]
		pup.Number(p, &v)
		x.list[i] = v
	}
}

// A part of it.
type C21 struct{ list []int }

func (x *C21) PUP(p *pup.Stream) {
	if p.Packing() {
		slices.Sort(x.list[1:]) // want `x\.list is changed while it is packed`
	}
	pup.PlainSlice(p, &x.list)
}

type C22 struct{ n int }

func (x *C22) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if p.Packing() {
		defer func() { x.n = 7 }() // want `x\.n is changed while it is packed`
	}
}

// A helper with the stream.
func sortAndVisit(p *pup.Stream, list *[]int) {
	if p.Packing() {
		slices.Sort(*list)
	}
	pup.PlainSlice(p, list)
}

type C23 struct{ list []int }

func (x *C23) PUP(p *pup.Stream) {
	sortAndVisit(p, &x.list) // want `x\.list is changed while it is packed`
}

type C24 struct{ list []int }

func (x *C24) PUP(p *pup.Stream) {
	f := slices.Sort[[]int]
	switch {
	case p.Packing():
		f(x.list) // want `x\.list is changed while it is packed`
	}
	pup.PlainSlice(p, &x.list)
}
