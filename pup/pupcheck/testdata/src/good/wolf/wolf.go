// Package wolf has correct types that look like faults.
package wolf

import (
	"errors"
	"slices"
	"sort"

	"good/wolf/lib"

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

func row(p *pup.Stream, r []float64) { pup.Array(p, r, pup.Number) }

type B01 struct {
	a, b cell
	m    map[string]cell
	v    cell
	n    int
}

func (x *B01) PUP(p *pup.Stream) {
	lib.Pair(p, &x.a, &x.b, pup.Object)
	lib.Map(p, &x.m, pup.String, func(p *pup.Stream, c *cell) { c.PUP(p) })
	x.v = lib.Value(p, x.v, func(p *pup.Stream, c *cell) { c.PUP(p) })
	x.n = lib.Value(p, x.n, pup.Number)
}

type B02 struct {
	w, h int
	m, k [][]float64
}

func (x *B02) PUP(p *pup.Stream) {
	pup.Number(p, &x.w)
	pup.Number(p, &x.h)
	if p.Unpacking() {
		x.m, x.k = make([][]float64, x.h), make([][]float64, x.h)
		for i := range x.m {
			x.m[i], x.k[i] = make([]float64, x.w), make([]float64, x.w)
		}
	}
	lib.Matrix(p, x.m, row)
	lib.Rows(p, x.k)
}

// The border first, then the inside.
type B03 struct{ a [10]float64 }

func (x *B03) PUP(p *pup.Stream) {
	for i := 0; i < len(x.a); i += len(x.a) - 1 {
		pup.Number(p, &x.a[i])
	}
	for i := 1; i < len(x.a)-1; i++ {
		pup.Number(p, &x.a[i])
	}
}

// A queue that is taken apart.
type B04 struct{ list []cell }

func (x *B04) PUP(p *pup.Stream) {
	size(p, &x.list)
	for rest := x.list; len(rest) > 0; rest = rest[1:] {
		rest[0].PUP(p)
	}
}

// The header is the first element.
type B05 struct{ list []int }

func (x *B05) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := range x.list {
		switch {
		case i == 0:
			pup.Number(p, &x.list[i])
		case i%2 == 1:
			pup.Number(p, &x.list[i])
		default:
			pup.Number(p, &x.list[i])
		}
	}
}

// An order of its own.
type B06 struct {
	list []cell
	perm []int
}

func (x *B06) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.perm)
	size(p, &x.list)
	for _, i := range x.perm {
		x.list[i].PUP(p)
	}
}

// A stack is pushed in the order in which it is popped.
type B07 struct{ list []int }

func (x *B07) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = x.list[:0]
		for range n {
			var v int
			pup.Number(p, &v)
			x.list = append(x.list, v)
		}
		slices.Reverse(x.list)
		return
	}
	for i := n - 1; i >= 0; i-- {
		pup.Number(p, &x.list[i])
	}
}

// Sorted after packing for another purpose: a copy.
type B08 struct{ list []int }

func (x *B08) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.list)
	if p.Packing() {
		view := make([]int, 0, len(x.list))
		view = append(view, x.list...)
		sort.Ints(view)
		if len(view) > 0 && view[0] < 0 {
			p.Fail(errors.New("negative"))
		}
	}
}

// A size that has been read is counted anew.
type B09 struct {
	size int
	head *node
}

type node struct {
	v    int
	next *node
}

func (x *B09) push(v int) {
	x.head = &node{v, x.head}
	x.size++
}

func (x *B09) PUP(p *pup.Stream) {
	pup.Number(p, &x.size)
	if p.Unpacking() {
		n := x.size
		x.size, x.head = 0, nil
		for range n {
			var v int
			pup.Number(p, &v)
			x.push(v)
		}
		return
	}
	for e := x.head; e != nil; e = e.next {
		pup.Number(p, &e.v)
	}
}

// Goto, for a retry that does not touch the stream.
type B10 struct{ n int }

func (x *B10) PUP(p *pup.Stream) {
	tries := 0
again:
	if tries++; tries < 3 {
		goto again
	}
	pup.Number(p, &x.n)
}

// Embedded values are made empty before they are unpacked.
type base struct {
	id   int
	tags []string
}

func (b *base) reset() { *b = base{tags: b.tags[:0]} }

func (b *base) PUP(p *pup.Stream) {
	pup.Number(p, &b.id)
	pup.Slice(p, &b.tags, pup.String)
}

type B11 struct {
	base
	n int
}

func (x *B11) PUP(p *pup.Stream) {
	if p.Unpacking() {
		x.reset()
	}
	x.base.PUP(p)
	pup.Number(p, &x.n)
}

// A zigzag code keeps every bit.
type B12 struct{ n int64 }

func (x *B12) PUP(p *pup.Stream) {
	u := uint64(x.n<<1) ^ uint64(x.n>>63)
	pup.Number(p, &u)
	if p.Unpacking() {
		x.n = int64(u>>1) ^ -int64(u&1)
	}
}

// A varint in bytes.
type B13 struct{ n uint64 }

func (x *B13) PUP(p *pup.Stream) {
	v, shift := x.n, 0
	if p.Unpacking() {
		x.n = 0
	}
	for {
		b := byte(v)
		if v >= 0x80 {
			b |= 0x80
		}
		pup.Number(p, &b)
		if p.Unpacking() {
			x.n |= uint64(b&0x7f) << shift
			shift += 7
		}
		v >>= 7
		if b < 0x80 {
			break
		}
	}
}

// A rune and a byte are numbers, too.
type B14 struct {
	r rune
	b byte
	c [4]bool
}

func (x *B14) PUP(p *pup.Stream) {
	r, b := uint32(x.r), int8(x.b)
	pup.Number(p, &r)
	pup.Number(p, &b)
	var mask uint8
	for i, set := range x.c {
		if set {
			mask |= 1 << i
		}
	}
	pup.Number(p, &mask)
	if p.Unpacking() {
		x.r, x.b = rune(r), byte(b)
		for i := range x.c {
			x.c[i] = mask&(1<<i) != 0
		}
	}
}

// An index that wraps around.
type B15 struct {
	ring [8]int
	head int
}

func (x *B15) PUP(p *pup.Stream) {
	pup.Number(p, &x.head)
	for i := range x.ring {
		pup.Number(p, &x.ring[(x.head+i)%len(x.ring)])
	}
}

// Two slices, one a little shorter.
type B16 struct {
	knots  []float64
	values []float64
}

func (x *B16) PUP(p *pup.Stream) {
	n := len(x.values)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.knots, x.values = make([]float64, n+1), make([]float64, n)
	}
	for i := 0; i < n; i++ {
		pup.Number(p, &x.knots[i])
		pup.Number(p, &x.values[i])
	}
	pup.Number(p, &x.knots[n])
}

// A reset under a condition that is known.
type B17 struct {
	n    int
	list []int
}

func (x *B17) PUP(p *pup.Stream) {
	up := p.Unpacking()
	switch up {
	case true:
		*x = B17{}
	}
	pup.Number(p, &x.n)
	pup.PlainSlice(p, &x.list)
}

// A deferred function looks only.
type B18 struct{ list []int }

func (x *B18) PUP(p *pup.Stream) {
	defer func() {
		if p.Unpacking() && !slices.IsSorted(x.list) {
			p.Fail(errors.New("not sorted"))
		}
	}()
	pup.PlainSlice(p, &x.list)
}

// The first stands for all the others when all are equal.
type B19 struct{ list []int }

func (x *B19) PUP(p *pup.Stream) {
	size(p, &x.list)
	same := len(slices.Compact(slices.Clone(x.list))) <= 1
	pup.Bool(p, &same)
	for i := range x.list {
		if same && i > 0 {
			if p.Unpacking() {
				x.list[i] = x.list[0]
			}
			continue
		}
		pup.Number(p, &x.list[i])
	}
}

// Nothing to save in the elements.
type B20 struct {
	marks []struct{}
	n     int
}

func (x *B20) PUP(p *pup.Stream) {
	pup.Slice(p, &x.marks, func(*pup.Stream, *struct{}) {})
	pup.Number(p, &x.n)
}

// Two loops that meet in the middle.
type B21 struct{ list []int }

func (x *B21) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i, j := 0, len(x.list)-1; i <= j; i, j = i+1, j-1 {
		pup.Number(p, &x.list[i])
		if i < j {
			pup.Number(p, &x.list[j])
		}
	}
}

// Every row from its diagonal on; the rest is mirrored.
type B22 struct {
	n int
	m []float64
}

func (x *B22) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if p.Unpacking() {
		x.m = make([]float64, x.n*x.n)
	}
	for i := range x.n {
		for j := range x.n {
			if j < i {
				if p.Unpacking() {
					x.m[i*x.n+j] = x.m[j*x.n+i]
				}
				continue
			}
			pup.Number(p, &x.m[i*x.n+j])
		}
	}
}

// Commas between elements, as it were.
type B23 struct{ list []string }

func (x *B23) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := range x.list {
		if i > 0 {
			sep := uint8(',')
			pup.Number(p, &sep)
		}
		pup.String(p, &x.list[i])
	}
}

// The previous one is at hand.
type B24 struct{ list []cell }

func (x *B24) PUP(p *pup.Stream) {
	size(p, &x.list)
	var prev *cell
	for i := range x.list {
		c := &x.list[i]
		c.PUP(p)
		if prev != nil && prev.a > c.a {
			p.Fail(errors.New("not in order"))
			return
		}
		prev = c
	}
}

// A length in a byte, for an array that is no longer.
type B25 struct {
	buf [16]byte
	n   uint8
}

func (x *B25) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	pup.Array(p, x.buf[:], pup.Number)
}

// Some elements in one way, the others in another.
type B26 struct{ list []cell }

func (x *B26) PUP(p *pup.Stream) {
	size(p, &x.list)
	for i := range x.list {
		if i < 4 {
			x.list[i].PUP(p)
		} else {
			pup.Number(p, &x.list[i].a)
			pup.Number(p, &x.list[i].b)
		}
	}
}

// A cursor is set back before everything is packed again.
type b27 struct {
	list []int
	pos  int //pup:skip a cursor
	last int
}

func (x *b27) PUP(p *pup.Stream) {
	x.pos = 0
	if p.Unpacking() {
		x.list, x.last = nil, 0
	}
	for n := range counted(p, len(x.list)) {
		if p.Unpacking() {
			x.list = append(x.list, 0)
		}
		pup.Number(p, &x.list[n])
		x.pos++
	}
	pup.Number(p, &x.last)
}

func counted(p *pup.Stream, n int) int {
	pup.Number(p, &n)
	return n
}

// Locks, counters of the package and the like.
type B28 struct {
	list []float32
	sum  float64
}

func (x *B28) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.list)
	sum := 0.0
	for _, v := range x.list {
		sum += float64(v)
	}
	pup.Number(p, &x.sum)
	if p.Unpacking() && float32(sum) != float32(x.sum) {
		p.Fail(errors.New("the sum differs"))
	}
}
