// Package reset has types that are made empty after they have been unpacked.
package reset

import "github.com/byssus-hpc/byssus/pup"

type inner struct{ n, m int }

type R01 struct{ a, b int }

func (x *R01) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	if p.Unpacking() {
		*x = R01{} // want `x\.a is unpacked before, and lost here`
	}
	pup.Number(p, &x.b)
}

type R02 struct{ a int }

func (x *R02) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	if p.Unpacking() {
		x.a = 0 // want `x\.a is unpacked before, and lost here`
	}
}

type R03 struct{ m map[string]int }

func (x *R03) PUP(p *pup.Stream) {
	pup.Map(p, &x.m, pup.String, pup.Number)
	if p.Unpacking() {
		x.m = nil // want `x\.m is unpacked before, and lost here`
	}
}

type R04 struct{ m map[string]int }

func (x *R04) PUP(p *pup.Stream) {
	pup.Map(p, &x.m, pup.String, pup.Number)
	if p.Unpacking() {
		clear(x.m) // want `x\.m is unpacked before, and lost here`
	}
}

type R05 struct{ list []int }

func (x *R05) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.list)
	if p.Unpacking() {
		x.list = x.list[:0] // want `x\.list is unpacked before, and lost here`
	}
}

type R06 struct{ list []int }

func (x *R06) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.list)
	if p.Unpacking() {
		x.list = make([]int, 10) // want `x\.list is unpacked before, and lost here`
	}
}

type R07 struct {
	in inner
	k  int
}

func (x *R07) reset() { x.in, x.k = inner{}, 0 }

func (x *R07) PUP(p *pup.Stream) {
	pup.Plain(p, &x.in)
	pup.Number(p, &x.k)
	if p.Unpacking() {
		x.reset() // want `x\.in is unpacked before, and lost here`
	}
}

type R08 struct{ in inner }

func (x *R08) PUP(p *pup.Stream) {
	pup.Plain(p, &x.in)
	if p.Unpacking() {
		x.in.n = 0 // want `x\.in\.n is unpacked before, and lost here`
	}
}

// Through a temporary.
type R09 struct{ n int64 }

func (x *R09) PUP(p *pup.Stream) {
	n := x.n
	pup.Number(p, &n)
	if p.Unpacking() {
		x.n = n
		*x = R09{} // want `x\.n is unpacked before, and lost here`
	}
}

// Deferred.
type R10 struct{ n int64 }

func (x *R10) PUP(p *pup.Stream) {
	if p.Unpacking() {
		defer func() { *x = R10{} }() // want `x\.n is unpacked before, and lost here`
	}
	pup.Number(p, &x.n)
}

// In a pointer's target, and an element function.
type R11 struct {
	in   *inner
	list []inner
}

func (x *R11) PUP(p *pup.Stream) {
	pup.Ptr(p, &x.in, pup.Plain)
	if p.Unpacking() {
		*x.in = inner{} // want `\*x\.in is unpacked before, and lost here`
	}
	pup.Slice(p, &x.list, func(p *pup.Stream, i *inner) {
		pup.Plain(p, i)
		if p.Unpacking() {
			*i = inner{} // want `x\.list\[\.\.\.\] is unpacked before, and lost here`
		}
	})
}
