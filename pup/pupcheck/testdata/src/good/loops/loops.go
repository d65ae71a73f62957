// Package loops has correct types whose loops do not go straight through.
package loops

import (
	"errors"
	"slices"

	"good/loops/lib"

	"github.com/byssus-hpc/byssus/pup"
)

type cell struct{ a, b int }

func visitCell(p *pup.Stream, c *cell) {
	pup.Number(p, &c.a)
	pup.Number(p, &c.b)
}

func size(p *pup.Stream, list *[]int) {
	n := len(*list)
	pup.Number(p, &n)
	if p.Unpacking() {
		*list = make([]int, n)
	}
}

// Element functions for helpers of another package.
type M01 struct {
	list []cell
	nums []int
	more []cell
	c    cell
	n    int
	set  bool
	k    int
}

func (x *M01) PUP(p *pup.Stream) {
	lib.Each(p, &x.list, visitCell)
	lib.Each(p, &x.nums, pup.Number)
	lib.Each(p, &x.more, func(p *pup.Stream, c *cell) { visitCell(p, c) })
	lib.Through(p, &x.c, &x.n, func(p *pup.Stream, c *cell, n *int) {
		visitCell(p, c)
		pup.Number(p, n)
	})
	lib.If(p, &x.set, &x.k, pup.Number, func(p *pup.Stream, k *int) { pup.Number(p, k) })
}

// A closure for a helper of another package.
type M02 struct{ a, b int }

func (x *M02) PUP(p *pup.Stream) {
	lib.Do(p, func(p *pup.Stream) { pup.Number(p, &x.a) })
	lib.Do(p, x.second)
}

func (x *M02) second(p *pup.Stream) { pup.Number(p, &x.b) }

// The first by itself.
type M03 struct{ list []int }

func (x *M03) PUP(p *pup.Stream) {
	size(p, &x.list)
	if len(x.list) == 0 {
		return
	}
	pup.Number(p, &x.list[0])
	lib.Rest(p, x.list)
}

// The last by itself.
type M04 struct{ list []int }

func (x *M04) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := 0; i < len(x.list)-1; i++ {
		pup.Number(p, &x.list[i])
	}
	if n := len(x.list); n > 0 {
		pup.Number(p, &x.list[n-1])
	}
}

// Differences.
type M05 struct{ list []int }

func (x *M05) PUP(p *pup.Stream) {
	size(p, &x.list)
	if len(x.list) > 0 {
		pup.Number(p, &x.list[0])
	}
	for i := 1; i < len(x.list); i++ {
		d := x.list[i] - x.list[i-1]
		pup.Number(p, &d)
		if p.Unpacking() {
			x.list[i] = x.list[i-1] + d
		}
	}
}

// Two at a time.
type M06 struct{ list []int }

func (x *M06) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := 0; i+1 < len(x.list); i += 2 {
		pup.Number(p, &x.list[i])
		pup.Number(p, &x.list[i+1])
	}
}

// Blocks of four.
type M07 struct{ list []int }

func (x *M07) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := 0; i < len(x.list); i += 4 {
		pup.Array(p, x.list[i:min(i+4, len(x.list))], pup.Number)
	}
}

// Even ones first.
type M08 struct{ list []int }

func (x *M08) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := 0; i < len(x.list); i += 2 {
		pup.Number(p, &x.list[i])
	}
	for i := 1; i < len(x.list); i += 2 {
		pup.Number(p, &x.list[i])
	}
}

// Two halves.
type M09 struct{ list []int }

func (x *M09) PUP(p *pup.Stream) {
	size(p, &x.list)
	half := len(x.list) / 2
	for i := 0; i < half; i++ {
		pup.Number(p, &x.list[i])
	}
	for i := half; i < len(x.list); i++ {
		pup.Number(p, &x.list[i])
	}
}

// One of them in another way.
type M10 struct{ list []cell }

func (x *M10) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]cell, n)
	}
	for i := range x.list {
		if i == 3 {
			visitCell(p, &x.list[i])
			continue
		}
		pup.Plain(p, &x.list[i])
	}
}

// Backwards in both directions.
type M11 struct{ list []int }

func (x *M11) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := len(x.list) - 1; i >= 0; i-- {
		pup.Number(p, &x.list[i])
	}
}

// Backwards with another loop for unpacking.
type M12 struct{ list []int }

func (x *M12) PUP(p *pup.Stream) {
	size(p, &x.list)
	if p.Unpacking() {
		for i := range x.list {
			pup.Number(p, &x.list[len(x.list)-1-i])
		}
		return
	}
	for i := len(x.list) - 1; i >= 0; i-- {
		pup.Number(p, &x.list[i])
	}
}

// More than are allowed is an error.
type M13 struct{ list []int }

func (x *M13) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := range x.list {
		if i > 1000 {
			p.Fail(errors.New("too many"))
			return
		}
		pup.Number(p, &x.list[i])
	}
}

// A search stops where it finds.
type M14 struct {
	list []cell
	cur  int
}

func (x *M14) PUP(p *pup.Stream) {
	lib.Each(p, &x.list, visitCell)
	pup.Number(p, &x.cur)
	for i := range x.list {
		if i == x.cur {
			break
		}
	}
}

// Neighbours: the index is one more, the loop one less.
type M15 struct{ list []int }

func (x *M15) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := -1; i < len(x.list)-1; i++ {
		pup.Number(p, &x.list[i+1])
	}
	_ = slices.Max(x.list)
}

// Element 0 is never used, and says so.
type M16 struct{ list []int }

func (x *M16) PUP(p *pup.Stream) {
	size(p, &x.list)
	if len(x.list) > 0 {
		pup.Skip(p, &x.list[0], "numbers begin at 1")
	}
	for i := 1; i < len(x.list); i++ {
		pup.Number(p, &x.list[i])
	}
}

// Element 0 is what it always is.
type M17 struct{ off []int }

func (x *M17) PUP(p *pup.Stream) {
	size(p, &x.off)
	if p.Unpacking() && len(x.off) > 0 {
		x.off[0] = 0
	}
	for i := 1; i < len(x.off); i++ {
		pup.Number(p, &x.off[i])
	}
}

// A triangle.
type M18 struct {
	n int
	m [][]float64
}

func (x *M18) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if p.Unpacking() {
		x.m = make([][]float64, x.n)
		for i := range x.m {
			x.m[i] = make([]float64, x.n)
		}
	}
	for i := 0; i < x.n; i++ {
		for j := i; j < x.n; j++ {
			v := x.m[i][j]
			pup.Number(p, &v)
			x.m[i][j], x.m[j][i] = v, v
		}
	}
}

// Two slices of one length.
type M19 struct{ a, b []int }

func (x *M19) PUP(p *pup.Stream) {
	n := min(len(x.a), len(x.b))
	pup.Number(p, &n)
	if p.Unpacking() {
		x.a, x.b = make([]int, n), make([]int, n)
	}
	for i := 0; i < n; i++ {
		pup.Number(p, &x.a[i])
		pup.Number(p, &x.b[i])
	}
}

// A frame around the whole.
type M20 struct{ a [8]int }

func (x *M20) PUP(p *pup.Stream) {
	pup.Number(p, &x.a[0])
	pup.Array(p, x.a[1:7], pup.Number)
	pup.Number(p, &x.a[len(x.a)-1])
}

// Groups.
type M21 struct{ list []int }

func (x *M21) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := range x.list {
		if i%8 == 0 {
			mark := uint8(0xAA)
			pup.Number(p, &mark)
		}
		pup.Number(p, &x.list[i])
	}
}

// Condition and complement.
type M22 struct{ list []int }

func (x *M22) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := range x.list {
		if i%2 == 0 {
			pup.Number(p, &x.list[i])
		}
	}
	for i := range x.list {
		if i%2 != 0 {
			pup.Number(p, &x.list[i])
		}
	}
}

// The loop runs one index behind.
type M23 struct{ list []int }

func (x *M23) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := 1; i <= len(x.list); i++ {
		pup.Number(p, &x.list[i-1])
	}
}

// From the end, counted down.
type M24 struct{ list []int }

func (x *M24) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := len(x.list); i > 0; i-- {
		pup.Number(p, &x.list[i-1])
	}
}
