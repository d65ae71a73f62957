// Package dot has faults, with a dot import and helpers of another package.
package dot

import (
	. "github.com/byssus-hpc/byssus/pup"
	"good/lib"
)

type In struct{ N int }

func (i *In) PUP(p *Stream) { Number(p, &i.N) }

// C01
type C01 struct{ a, b In }

func (x *C01) PUP(p *Stream) { lib.Obj(p, &x.a) } // want `PUP of C01: x\.b is not visited`

// C02
type C02 struct{ a, b int }

func (x *C02) PUP(p *Stream) { // want `PUP of C02: x\.b is not visited`
	e := lib.New(p)
	e.Two(&x.a, &x.a)
}

// C03
type C03 struct {
	on bool
	n  int
}

func (x *C03) PUP(p *Stream) {
	lib.When(p, x.on, &x.n) // want `the condition depends on x\.on, which is not restored yet when unpacking: visit it first`
	Bool(p, &x.on)
}

// C04
type C04 struct{ o lib.Opt[int] }

func (x *C04) PUP(p *Stream) { x.o.Head(p) } // want `PUP of C04: x\.o\.V is not visited`

type part struct{ a, b, c float64 }

var pb = BlockOf[part]("a", "b")

// C05
type C05 struct{ ps []part }

func (x *C05) PUP(p *Stream) { Slice(p, &x.ps, pb.PUP) } // want `PUP of C05: x\.ps\[\.\.\.\]\.c is not visited`

// C07
var _ = Register[int]("i", Visit(pupF))

func pupF(p *Stream, f *int) {
	if p.Packing() {
		Number(p, f) // want `packing and unpacking differ: packing visits f here, unpacking nothing`
	}
}

// C08
type C08 struct{ a, b int }

func (x *C08) PUP(p *Stream) {
	Number(p, &x.a)
	if Version[C08](p) > 1 && p.Unpacking() {
		Number(p, &x.b) // want `packing and unpacking differ: packing visits nothing here, unpacking x\.b`
	}
}

// C09
type C09 struct {
	n    int
	list []int
}

func (x *C09) PUP(p *Stream) {
	if p.Unpacking() {
		x.list = make([]int, 10)
	}
	for i := 0; i < x.n; i++ { // want `the number of passes of this loop depends on x\.n, which is not restored yet when unpacking: visit it first`
		Number(p, &x.list[i])
	}
	Number(p, &x.n)
}

// C10
type C10 struct{ a [8]int }

func (x *C10) PUP(p *Stream) { // want `PUP of C10: x\.a\[4\] is not visited`
	for i := 0; i < 4; i++ {
		Number(p, &x.a[i])
	}
	for i := 5; i < len(x.a); i++ {
		Number(p, &x.a[i])
	}
}

// C11
type C11 struct{ root *tn }
type tn struct {
	v, w int
	next *tn
}

func (x *C11) PUP(p *Stream) { // want `PUP of C11: x\.root\.w is not visited`
	var visit func(p *Stream, n *tn)
	visit = func(p *Stream, n *tn) {
		Number(p, &n.v)
		Ptr(p, &n.next, visit)
	}
	Ptr(p, &x.root, visit)
}

// C12
type C12 struct {
	a int
	b string
	c bool
}

func (x *C12) PUP(p *Stream) {
	if !p.Unpacking() {
		x.save(p)
		return
	}
	x.load(p)
}
func (x *C12) save(p *Stream) { Number(p, &x.a); String(p, &x.b); Bool(p, &x.c) }
func (x *C12) load(p *Stream) { Number(p, &x.a); Bool(p, &x.c); String(p, &x.b) } // want `packing and unpacking differ: packing visits x\.b here, unpacking x\.c`

// C13
type C13 struct{ l [][]int }

func (x *C13) PUP(p *Stream) {
	n := len(x.l)
	Number(p, &n)
	if p.Unpacking() {
		x.l = make([][]int, n)
	}
	for i := range x.l {
		for j := range x.l[i] {
			Number(p, &x.l[i][j]) // want `x\.l\[\.\.\.\] has no elements when unpacking: its length is not restored before; use pup\.Slice`
		}
	}
}

// C15 elem via wrong method expr: partial helper method
type C15 struct{ os []lib.Opt[int] }

func (x *C15) PUP(p *Stream) { // want `PUP of C15: x\.os\[\.\.\.\]\.V is not visited`
	Slice(p, &x.os, func(p *Stream, o *lib.Opt[int]) { o.Head(p) })
}

// C16 map value function partial
type C16 struct{ m map[string]part }

func (x *C16) PUP(p *Stream) { // want `PUP of C16: x\.m\[\.\.\.\]\.c is not visited`
	Map(p, &x.m, String, func(p *Stream, v *part) { pb.PUP(p, v) })
}

// C17 embedded pointer's fields promoted w/o alloc
type C17 struct{ *In }

func (x *C17) PUP(p *Stream) { Number(p, &x.N) } // want `x\.In is nil when unpacking: make it first, or use pup\.Ptr`

// C18 Plain of generic struct with pointer arg
type box[T any] struct{ v T }
type C18 struct {
	b box[*int]
	c box[string]
}

func (x *C18) PUP(p *Stream) {
	Plain(p, &x.b) // want `pup\.Plain copies the memory of dot\.box\[\*int\], which holds a pointer: v of type \*int`
	Plain(p, &x.c) // want `pup\.Plain copies the memory of dot\.box\[string\], which holds a pointer: v of type string`
}

// C20 swapped nested helper order
type C20 struct{ a, b In }

func (x *C20) PUP(p *Stream) {
	first, second := &x.a, &x.b
	if p.Unpacking() {
		first, second = second, first
	}
	first.PUP(p) // want `packing and unpacking differ: packing visits x\.a here, unpacking x\.b`
	second.PUP(p)
}
