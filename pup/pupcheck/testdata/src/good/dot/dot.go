// Package dot has correct types, with a dot import and helpers of another package.
package dot

import (
	. "github.com/byssus-hpc/byssus/pup"
	"good/lib"
)

type In struct{ N int }

func (i *In) PUP(p *Stream) { Number(p, &i.N) }

type H01 struct {
	a In
	b lib.Opt[string]
	c int
	l []In
}

func (x *H01) PUP(p *Stream) {
	lib.Obj(p, &x.a)
	lib.Obj(p, &x.b)
	lib.Any(p, &x.c)
	lib.List(p, &x.l)
}

type H02 struct{ a, b, c int }

func (x *H02) PUP(p *Stream) {
	e := lib.New(p)
	e.Int(&x.a)
	e.Two(&x.b, &x.c)
}

type H03 struct {
	on bool
	n  int
}

func (x *H03) PUP(p *Stream) {
	Bool(p, &x.on)
	lib.When(p, x.on, &x.n)
}

type H04 struct {
	o lib.Opt[int]
}

func (x *H04) PUP(p *Stream) {
	x.o.Head(p)
	Number(p, &x.o.V)
}

// block as element, local block
type part struct{ a, b float64 }

var pb = BlockOf[part]("a", "b")

type H05 struct {
	ps []part
	q  part
}

func (x *H05) PUP(p *Stream) {
	Slice(p, &x.ps, pb.PUP)
	b := BlockOf[part]("a", "b")
	b.PUP(p, &x.q)
}

// equality versions
type H06 struct{ a, b int }

func (x *H06) PUP(p *Stream) {
	switch Version[H06](p) {
	case 1:
		Number(p, &x.a)
	default:
		Number(p, &x.a)
		Number(p, &x.b)
	}
}

type H07 struct{ a, b int }

func (x *H07) PUP(p *Stream) {
	Number(p, &x.a)
	if Version[H07](p) == 1 {
		return
	}
	Number(p, &x.b)
}

type H08 struct{ a, b int }

func (x *H08) PUP(p *Stream) {
	const added = 3
	old := Version[H08](p) < added
	Number(p, &x.a)
	if !old {
		Number(p, &x.b)
	} else if p.Unpacking() {
		x.b = x.a
	}
}

// alias type receiver
type H09 struct{ a int }
type alias = H09

func (x *alias) PUP(p *Stream) { Number(p, &x.a) }

// foreign type visited through Register
type foreign struct{ A, B int }

var _ = Register[foreign]("f", Visit(func(p *Stream, f *foreign) {
	Number(p, &f.A)
	Number(p, &f.B)
}))

type H10 struct{ f foreign }

func (x *H10) PUP(p *Stream) { Value(p, &x.f) }

// version and state mix
type H11 struct {
	n    int
	list []int
	m    map[int]bool
}

func (x *H11) PUP(p *Stream) {
	v := Version[H11](p)
	if v >= 2 {
		PlainSlice(p, &x.list)
	} else {
		Number(p, &x.n)
		if p.Unpacking() {
			x.list = make([]int, x.n)
		}
		for i := range x.list {
			Number(p, &x.list[i])
		}
	}
	if v >= 3 {
		Map(p, &x.m, Number, Bool)
	}
	if v >= 2 {
		x.n = len(x.list)
	}
}

// closures as named inner functions with recursion
type tn struct {
	v    int
	kids []*tn
}
type H12 struct{ root *tn }

func (x *H12) PUP(p *Stream) {
	var visit func(p *Stream, n *tn)
	visit = func(p *Stream, n *tn) {
		Number(p, &n.v)
		Slice(p, &n.kids, func(p *Stream, k **tn) { Ptr(p, k, visit) })
	}
	Ptr(p, &x.root, visit)
}

// options pattern
type H13 struct{ a, b int }
type step func(*Stream)

func (x *H13) steps() []step {
	return []step{
		func(p *Stream) { Number(p, &x.a) },
		func(p *Stream) { Number(p, &x.b) },
	}
}
func (x *H13) PUP(p *Stream) {
	for _, s := range x.steps() {
		s(p)
	}
}

// struct of pointers to fields, method with switch
type H14 struct {
	kind uint8
	u    struct {
		i int64
		f float64
	}
}

func (x *H14) PUP(p *Stream) {
	Number(p, &x.kind)
	if x.kind == 0 {
		Number(p, &x.u.i)
		return
	}
	Number(p, &x.u.f)
}

// const loops with partial arrays
type H15 struct{ a [8]int }

func (x *H15) PUP(p *Stream) {
	half := len(x.a) / 2
	for i := 0; i < half; i++ {
		Number(p, &x.a[i])
	}
	for i := half; i < len(x.a); i++ {
		Number(p, &x.a[i])
	}
}

// pairs
type H16 struct{ a [8]int }

func (x *H16) PUP(p *Stream) {
	for i := 0; i < len(x.a); i += 2 {
		Number(p, &x.a[i])
		Number(p, &x.a[i+1])
	}
}

// swap on big-endian-like conversion
type H17 struct{ v [2]uint32 }

func (x *H17) PUP(p *Stream) {
	u := uint64(x.v[0])<<32 | uint64(x.v[1])
	Number(p, &u)
	x.v = [2]uint32{uint32(u >> 32), uint32(u)}
}

// nil-able slices distinguished
type H18 struct{ l []int }

func (x *H18) PUP(p *Stream) {
	n := -1
	if x.l != nil {
		n = len(x.l)
	}
	Number(p, &n)
	if n < 0 {
		return
	}
	if p.Unpacking() {
		x.l = make([]int, n)
	}
	Array(p, x.l, Number)
}
