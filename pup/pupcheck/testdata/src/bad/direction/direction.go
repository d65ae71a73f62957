// Package direction has types whose packing and unpacking differ.
package direction

import "github.com/byssus-hpc/byssus/pup"

// The order differs.
type Order struct{ a, b int }

func (x *Order) PUP(p *pup.Stream) {
	if p.Packing() || p.Sizing() {
		pup.Number(p, &x.a)
		pup.Number(p, &x.b)
	} else {
		pup.Number(p, &x.b) // want `packing and unpacking differ: packing visits x.a here, unpacking x.b`
		pup.Number(p, &x.a)
	}
}

// Visited only when unpacking.
type OnlyUnpack struct{ a, b int }

func (x *OnlyUnpack) PUP(p *pup.Stream) {
	if p.Unpacking() {
		pup.Number(p, &x.a) // want `packing visits nothing here, unpacking x.a`
	}
	pup.Number(p, &x.b)
}

// Visited only when not unpacking.
type OnlyPack struct{ a, b int }

func (x *OnlyPack) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	if !p.Unpacking() {
		pup.Number(p, &x.b) // want `packing visits x.b here, unpacking nothing`
	}
}

// Sizing is forgotten.
type NoSizing struct{ a int }

func (x *NoSizing) PUP(p *pup.Stream) {
	switch {
	case p.Packing():
		pup.Number(p, &x.a) // want `packing and sizing differ`
	case p.Unpacking():
		pup.Number(p, &x.a)
	}
}

// Another helper.
type Helper struct{ list []int }

func (x *Helper) PUP(p *pup.Stream) {
	if p.Unpacking() {
		pup.PlainSlice(p, &x.list) // want `x.list as Slice and as PlainSlice`
		return
	}
	pup.Slice(p, &x.list, func(p *pup.Stream, v *int) { pup.Number(p, v) })
}

// Another type of temporary.
type Width struct{ n int }

func (x *Width) PUP(p *pup.Stream) {
	if p.Unpacking() {
		var n int64
		pup.Number(p, &n) // want `as int32 and as int64`
		x.n = int(n)
	} else {
		n := int32(x.n)
		pup.Number(p, &n)
	}
}

// An early return before the second field.
type Early struct{ a, b int }

func (x *Early) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	if p.Unpacking() {
		return
	}
	pup.Number(p, &x.b) // want `packing visits x.b here, unpacking nothing`
}

// The direction in a variable.
type Variable struct{ a, b int }

func (x *Variable) PUP(p *pup.Stream) {
	in := p.Unpacking()
	if in {
		pup.Number(p, &x.b) // want `packing visits x.a here, unpacking x.b`
	}
	pup.Number(p, &x.a)
	if !in {
		pup.Number(p, &x.b)
	}
}

// Two helpers with another order.
type Split struct {
	a int
	b string
}

func (x *Split) PUP(p *pup.Stream) {
	if p.Unpacking() {
		x.load(p)
	} else {
		x.save(p)
	}
}

func (x *Split) save(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.String(p, &x.b)
}

func (x *Split) load(p *pup.Stream) {
	pup.String(p, &x.b) // want `packing visits x.a here, unpacking x.b`
	pup.Number(p, &x.a)
}

// One loop more.
type Loops struct {
	n    int
	list [4]int
}

func (x *Loops) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if p.Unpacking() {
		for i := 0; i < 3; i++ {
			pup.Number(p, &x.list[i]) // want `packing and unpacking differ`
		}
		return
	}
	for i := range x.list {
		pup.Number(p, &x.list[i])
	}
}

// A loop against a single visit.
type Single struct{ list [2]int }

func (x *Single) PUP(p *pup.Stream) {
	if p.Unpacking() {
		pup.Number(p, &x.list[0]) // want `packing and unpacking differ`
		pup.Number(p, &x.list[1])
		return
	}
	for i := range x.list {
		pup.Number(p, &x.list[i])
	}
}

// The order inside of a loop.
type Inside struct{ list []pair }

type pair struct{ a, b int }

func (x *Inside) PUP(p *pup.Stream) {
	pup.Slice(p, &x.list, func(p *pup.Stream, q *pair) {
		if p.Unpacking() {
			pup.Number(p, &q.b) // want `packing visits x.list\[...\].a here, unpacking x.list\[...\].b`
			pup.Number(p, &q.a)
			return
		}
		pup.Number(p, &q.a)
		pup.Number(p, &q.b)
	})
}

// A condition in one direction only.
type Cond struct{ a, b int }

func (x *Cond) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	if p.Unpacking() || x.a > 0 {
		pup.Number(p, &x.b) // want `packing and unpacking differ`
	}
}

// Temporaries are swapped.
type Swapped struct{ a, b int }

func (x *Swapped) PUP(p *pup.Stream) {
	a, b := x.a, x.b
	pup.Number(p, &a) // want `packing visits a copy of x.a here, unpacking a copy of x.b`
	pup.Number(p, &b)
	if p.Unpacking() {
		x.a, x.b = b, a
	}
}

// A field that was packed first is read last, through temporaries.
type Crossed struct{ a, b int }

func (x *Crossed) PUP(p *pup.Stream) {
	if !p.Unpacking() {
		pup.Number(p, &x.a)
		pup.Number(p, &x.b)
		return
	}
	var first, second int
	pup.Number(p, &first) // want `packing visits x.a here, unpacking a copy of x.b`
	pup.Number(p, &second)
	x.b = first
	x.a = second
}

// The length is packed twice.
type Lengths struct{ list []string }

func (x *Lengths) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Packing() {
		pup.Number(p, &n) // want `packing and unpacking differ`
	}
	if p.Unpacking() {
		x.list = make([]string, n)
	}
	for i := range x.list {
		pup.String(p, &x.list[i])
	}
}

// Encoded only when packing: sizing counts an empty slice.
type Encoded struct{ a map[string]int }

func encode(map[string]int) []byte
func decode([]byte) map[string]int

func (x *Encoded) PUP(p *pup.Stream) {
	var b []byte
	if p.Packing() {
		b = encode(x.a)
	}
	pup.PlainSlice(p, &b) // want `packing and sizing differ`
	if p.Unpacking() {
		x.a = decode(b)
	}
}

// Switch over directions with another order.
type Switch struct {
	a int
	s string
}

func (x *Switch) PUP(p *pup.Stream) {
	switch {
	case p.Unpacking():
		pup.String(p, &x.s) // want `packing visits x.a here, unpacking x.s`
		pup.Number(p, &x.a)
	default:
		pup.Number(p, &x.a)
		pup.String(p, &x.s)
	}
}

// The loop is left early in one direction.
type Jump struct{ list [3]int }

func (x *Jump) PUP(p *pup.Stream) {
	for i := range x.list {
		if i == 1 && p.Unpacking() {
			break
		}
		pup.Number(p, &x.list[i]) // want `packing and unpacking differ`
	}
}

// A helper without a PUP, element function in another package's hands.
func Orphan(p *pup.Stream, x *pair) { // want Orphan:"visits"
	if p.Packing() {
		pup.Number(p, &x.a) // want `packing and unpacking differ`
	}
	pup.Number(p, &x.b)
}
