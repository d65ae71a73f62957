// Package loops has loops that leave out elements, most of them in helpers of another package.
package loops

import (
	"bad/loops/lib"

	"github.com/byssus-hpc/byssus/pup"
)

type cell struct{ a, b int }

func (c *cell) PUP(p *pup.Stream) { pup.Plain(p, c) }

func visitCell(p *pup.Stream, c *cell) { c.PUP(p) }

// A generic helper begins at 1.
type L01 struct{ list []cell }

func (x *L01) PUP(p *pup.Stream) { // want `PUP of L01: x\.list\[0\] is not visited`
	lib.Tail(p, &x.list, visitCell)
}

type L02 struct{ list []int }

func (x *L02) PUP(p *pup.Stream) { // want `PUP of L02: x\.list\[0\] is not visited`
	lib.Tail(p, &x.list, pup.Number)
}

type L03 struct{ list []cell }

func (x *L03) PUP(p *pup.Stream) { // want `PUP of L03: x\.list\[0\] is not visited`
	lib.TailN(p, &x.list)
}

func size(p *pup.Stream, list *[]int) {
	n := len(*list)
	pup.Number(p, &n)
	if p.Unpacking() {
		*list = make([]int, n)
	}
}

type L04 struct{ list []int }

func (x *L04) PUP(p *pup.Stream) { // want `PUP of L04: x\.list\[0\] is not visited`
	size(p, &x.list)
	lib.Numbers(p, x.list)
}

type L05 struct{ list []int }

func (x *L05) PUP(p *pup.Stream) { // want `PUP of L05: the last element of x\.list is not visited`
	size(p, &x.list)
	lib.Init(p, x.list)
}

type L06 struct{ list []int }

func (x *L06) PUP(p *pup.Stream) { // want `PUP of L06: the last element of x\.list is not visited`
	size(p, &x.list)
	lib.Range(p, x.list)
}

type L07 struct{ list []int }

func (x *L07) PUP(p *pup.Stream) { // want `PUP of L07: not every element of x\.list is visited`
	size(p, &x.list)
	lib.Even(p, x.list)
}

type L08 struct{ list []int }

func (x *L08) PUP(p *pup.Stream) { // want `PUP of L08: x\.list\[0\] is not visited`
	size(p, &x.list)
	lib.NotFirst(p, x.list)
}

type L09 struct{ list []int }

func (x *L09) PUP(p *pup.Stream) { // want `PUP of L09: not every element of x\.list is visited`
	size(p, &x.list)
	lib.Few(p, x.list)
}

type L10 struct{ list []int }

func (x *L10) PUP(p *pup.Stream) { // want `PUP of L10: not every element of x\.list is visited`
	size(p, &x.list)
	lib.First(p, x.list)
}

type L11 struct{ list []int }

func (x *L11) PUP(p *pup.Stream) { // want `PUP of L11: x\.list\[0\] is not visited`
	size(p, &x.list)
	lib.Copies(p, x.list)
}

// The helper is right, but not what it is given.
type L12 struct{ list []cell }

func (x *L12) PUP(p *pup.Stream) { // want `PUP of L12: x\.list\[\.\.\.\]\.b is not visited`
	lib.Each(p, &x.list, func(p *pup.Stream, c *cell) { pup.Number(p, &c.a) })
}

func half(p *pup.Stream, c *cell) { pup.Number(p, &c.a) }

type L13 struct{ list []cell }

func (x *L13) PUP(p *pup.Stream) { // want `PUP of L13: x\.list\[\.\.\.\]\.b is not visited`
	lib.Each(p, &x.list, half)
}

type L14 struct{ c, d cell }

func (x *L14) PUP(p *pup.Stream) { // want `PUP of L14: x\.c\.b is not visited`
	lib.With(p, &x.c, half)
	lib.With(p, &x.d, visitCell)
}

type L15 struct{ list []cell }

func (x *L15) PUP(p *pup.Stream) {
	lib.Each(p, &x.list, func(p *pup.Stream, c *cell) {
		if p.Unpacking() {
			pup.Number(p, &c.b) // want `packing visits x\.list\[\.\.\.\]\.a here, unpacking x\.list\[\.\.\.\]\.b`
			pup.Number(p, &c.a)
			return
		}
		pup.Number(p, &c.a)
		pup.Number(p, &c.b)
	})
}

type L16 struct{ l lib.List[int] }

func (x *L16) PUP(p *pup.Stream) { // want `PUP of L16: x\.l\.Items\[0\] is not visited`
	x.l.Rest(p)
}

// In the method itself, and in helpers of this package.
type L20 struct{ list []int }

func (x *L20) PUP(p *pup.Stream) { // want `PUP of L20: x\.list\[0\] is not visited`
	size(p, &x.list)
	for i := 1; i < len(x.list); i++ {
		pup.Number(p, &x.list[i])
	}
}

type L21 struct{ list []int }

func (x *L21) PUP(p *pup.Stream) { // want `PUP of L21: the last element of x\.list is not visited`
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]int, n)
	}
	for i := 0; i < n-1; i++ {
		pup.Number(p, &x.list[i])
	}
}

type L22 struct{ list []cell }

func (x *L22) PUP(p *pup.Stream) { // want `PUP of L22: x\.list\[0\] is not visited`
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]cell, n)
	}
	for i := range x.list {
		c := &x.list[i]
		if i > 0 {
			c.PUP(p)
		}
	}
}

type L23 struct{ list []*cell }

func (x *L23) PUP(p *pup.Stream) { // want `PUP of L23: x\.list\[0\] is not visited`
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]*cell, n)
		for i := range x.list {
			x.list[i] = new(cell)
		}
	}
	for _, c := range x.list[1:] {
		c.PUP(p)
	}
}

type L24 struct{ list []int }

func (x *L24) PUP(p *pup.Stream) { // want `PUP of L24: x\.list\[0\] is not visited`
	size(p, &x.list)
	pup.Array(p, x.list[1:], pup.Number)
}

type L25 struct{ list []int }

func (x *L25) PUP(p *pup.Stream) { // want `PUP of L25: the last element of x\.list is not visited`
	size(p, &x.list)
	pup.Array(p, x.list[:len(x.list)-1], pup.Number)
}

type L26 struct{ list []int }

func (x *L26) PUP(p *pup.Stream) { // want `PUP of L26: not every element of x\.list is visited`
	size(p, &x.list)
	for i := range x.list {
		if i%2 == 0 {
			pup.Number(p, &x.list[i])
		}
	}
}

type L27 struct{ list []int }

func (x *L27) PUP(p *pup.Stream) { // want `PUP of L27: not every element of x\.list is visited`
	size(p, &x.list)
	for i := 0; i < min(len(x.list), 8); i++ {
		pup.Number(p, &x.list[i])
	}
}

type L28 struct{ list []int }

func (x *L28) PUP(p *pup.Stream) { // want `PUP of L28: not every element of x\.list is visited`
	size(p, &x.list)
	for i := 0; i < len(x.list)/2; i++ {
		pup.Number(p, &x.list[i])
	}
}

type L29 struct{ list []int }

func (x *L29) PUP(p *pup.Stream) { // want `PUP of L29: x\.list\[0\] is not visited`
	size(p, &x.list)
	for i := len(x.list) - 1; i > 0; i-- {
		pup.Number(p, &x.list[i])
	}
}

type L30 struct{ a [4]int }

func (x *L30) PUP(p *pup.Stream) { // want `PUP of L30: x\.a\[0\] is not visited`
	for i := len(x.a) - 1; i > 0; i-- {
		pup.Number(p, &x.a[i])
	}
}

type L31 struct{ a [4]int }

func (x *L31) PUP(p *pup.Stream) { // want `PUP of L31: not every element of x\.a is visited`
	for i := 0; i < len(x.a); i += 2 {
		pup.Number(p, &x.a[i])
	}
}

type L32 struct{ a [4]int }

func (x *L32) PUP(p *pup.Stream) { // want `PUP of L32: x\.a\[3\] is not visited`
	for i := range x.a {
		if i == 3 {
			break
		}
		pup.Number(p, &x.a[i])
	}
}

type L33 struct{ list []int }

func (x *L33) PUP(p *pup.Stream) { // want `PUP of L33: not every element of x\.list is visited`
	size(p, &x.list)
	for i := range x.list {
		pup.Number(p, &x.list[i])
		if i == 3 {
			break
		}
	}
}

type L34 struct{ rows [][]int }

func (x *L34) PUP(p *pup.Stream) { // want `PUP of L34: x\.rows\[\.\.\.\]\[0\] is not visited`
	n := len(x.rows)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.rows = make([][]int, n)
	}
	for i := range x.rows {
		size(p, &x.rows[i])
		for j := 1; j < len(x.rows[i]); j++ {
			pup.Number(p, &x.rows[i][j])
		}
	}
}

type L35 struct{ list []int }

func (x *L35) PUP(p *pup.Stream) { // want `PUP of L35: not every element of x\.list is visited`
	size(p, &x.list)
	for i := range x.list {
		if i == len(x.list)-1 {
			break
		}
		pup.Number(p, &x.list[i])
	}
}

type L36 struct{ list []int }

func (x *L36) PUP(p *pup.Stream) { // want `PUP of L36: x\.list\[0\] is not visited`
	size(p, &x.list)
	i := 1
	for i < len(x.list) {
		pup.Number(p, &x.list[i])
		i++
	}
}

type L37 struct{ list []int }

func (x *L37) PUP(p *pup.Stream) { // want `PUP of L37: x\.list\[0\] is not visited`
	size(p, &x.list)
	for i := range x.list {
		switch i {
		case 0:
		default:
			pup.Number(p, &x.list[i])
		}
	}
}
