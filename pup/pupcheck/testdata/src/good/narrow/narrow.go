// Package narrow has correct types whose numbers are packed in another type.
package narrow

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/byssus-hpc/byssus/pup"
)

// More bits.
type W01 struct {
	a int32
	b uint16
	c float32
	d uint8
	e int8
	f int32
}

func (x *W01) PUP(p *pup.Stream) {
	a, b, c, d, e, f := int64(x.a), uint64(x.b), float64(x.c), int(x.d), float32(x.e), float64(x.f)
	pup.Number(p, &a)
	pup.Number(p, &b)
	pup.Number(p, &c)
	pup.Number(p, &d)
	pup.Number(p, &e)
	pup.Number(p, &f)
	if p.Unpacking() {
		x.a, x.b, x.c, x.d, x.e, x.f = int32(a), uint16(b), float32(c), uint8(d), int8(e), int32(f)
	}
}

// As many bits, and back.
type kind uint32

type W02 struct {
	a int64
	b uint32
	c int8
	d kind
	e uint64
	f int
}

func (x *W02) PUP(p *pup.Stream) {
	a, b, c, d, e, f := uint64(x.a), int32(x.b), uint8(x.c), uint32(x.d), int(x.e), int64(x.f)
	pup.Number(p, &a)
	pup.Number(p, &b)
	pup.Number(p, &c)
	pup.Number(p, &d)
	pup.Number(p, &e)
	pup.Number(p, &f)
	if p.Unpacking() {
		x.a, x.b, x.c, x.d, x.e, x.f = int64(a), uint32(b), int8(c), kind(d), uint64(e), int(f)
	}
}

// A signed number goes through a longer unsigned one.
type W03 struct{ n int16 }

func (x *W03) PUP(p *pup.Stream) {
	n := uint64(x.n)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.n = int16(n)
	}
}

// Halves and bytes.
type W04 struct{ n, m, k, l uint64 }

func (x *W04) PUP(p *pup.Stream) {
	lo, hi := uint32(x.n), uint32(x.n>>32)
	pup.Number(p, &lo)
	pup.Number(p, &hi)
	for i := range 8 {
		b := byte(x.m >> (8 * i))
		pup.Number(p, &b)
		if p.Unpacking() {
			x.m |= uint64(b) << (8 * i)
		}
	}
	v := x.k
	for i := range 8 {
		b := byte(v)
		pup.Number(p, &b)
		v >>= 8
		if p.Unpacking() {
			x.k |= uint64(b) << (8 * i)
		}
	}
	var buf [8]byte
	binary.LittleEndian.PutUint32(buf[:], uint32(x.l))
	binary.LittleEndian.PutUint32(buf[4:], uint32(x.l>>32))
	pup.Plain(p, &buf)
	if p.Unpacking() {
		x.n = uint64(hi)<<32 | uint64(lo)
		x.l = binary.LittleEndian.Uint64(buf[:])
	}
}

// The length in 32 bits.
type W05 struct{ list []string }

func (x *W05) PUP(p *pup.Stream) {
	n := int32(len(x.list))
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]string, n)
	}
	for i := range x.list {
		pup.String(p, &x.list[i])
	}
}

// Values that do not fit are refused.
type W06 struct {
	n    int
	m    int64
	list []string
}

func (x *W06) PUP(p *pup.Stream) {
	if x.n > math.MaxInt32 || x.n < math.MinInt32 {
		p.Fail(errors.New("n is too large"))
		return
	}
	n := int32(x.n)
	pup.Number(p, &n)
	m := int16(x.m)
	if int64(m) != x.m && !p.Unpacking() {
		p.Fail(errors.New("m is too large"))
		return
	}
	pup.Number(p, &m)
	if len(x.list) > 255 {
		p.Fail(errors.New("too many"))
		return
	}
	l := uint8(len(x.list))
	pup.Number(p, &l)
	if p.Unpacking() {
		x.n, x.m = int(n), int64(m)
		x.list = make([]string, l)
	}
	for i := range x.list {
		pup.String(p, &x.list[i])
	}
}

// An enumeration whose constants fit.
type State int

const (
	Idle State = iota
	Busy
	Done
)

type W07 struct{ s State }

func (x *W07) PUP(p *pup.Stream) {
	s := uint8(x.s)
	pup.Number(p, &s)
	if p.Unpacking() {
		x.s = State(s)
	}
}

// Small values in few bits, large ones in full.
type W08 struct{ n int64 }

func (x *W08) PUP(p *pup.Stream) {
	small := x.n == int64(int8(x.n))
	pup.Bool(p, &small)
	if small {
		n := int8(x.n)
		pup.Number(p, &n)
		if p.Unpacking() {
			x.n = int64(n)
		}
		return
	}
	pup.Number(p, &x.n)
}

// A check value beside the number itself.
type W09 struct {
	n    int64
	list []byte
}

func (x *W09) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	pup.PlainSlice(p, &x.list)
	sum := uint8(x.n) + uint8(len(x.list))
	pup.Number(p, &sum)
	if p.Unpacking() && sum != uint8(x.n)+uint8(len(x.list)) {
		p.Fail(errors.New("wrong sum"))
	}
}

// Numbers that are narrow by their nature.
type W10 struct {
	hex  byte
	flag bool
	bits float64
	idx  int
	tab  [16]int
}

func (x *W10) PUP(p *pup.Stream) {
	b := uint64(math.Float64bits(x.bits))
	pup.Number(p, &b)
	var f uint8
	if x.flag {
		f = 1
	}
	pup.Number(p, &f)
	pup.Number(p, &x.hex)
	pup.Number(p, &x.idx)
	for i := range x.tab {
		pup.Number(p, &x.tab[i])
	}
	if p.Unpacking() {
		x.bits = math.Float64frombits(b)
		x.flag = f != 0
	}
}

// Old data was narrower.
type W11 struct{ n int64 }

func (x *W11) PUP(p *pup.Stream) {
	if pup.Version[W11](p) < 2 {
		n := int32(x.n)
		pup.Number(p, &n)
		if p.Unpacking() {
			x.n = int64(n)
		}
		return
	}
	pup.Number(p, &x.n)
}

// A mask says which bits matter.
type W12 struct{ n uint32 }

func (x *W12) PUP(p *pup.Stream) {
	n := uint8(x.n & 0x7f)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.n = uint32(n)
	}
}
