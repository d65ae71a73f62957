// Package narrow has numbers that lose bits on the way.
package narrow

import (
	"encoding/binary"
	"time"

	"bad/narrow/lib"

	"github.com/byssus-hpc/byssus/pup"
)

type N01 struct{ N int64 }

func (x *N01) PUP(p *pup.Stream) {
	n := int32(x.N)
	pup.Number(p, &n) // want `x\.N of type int64 is packed through int32, which cannot hold all its values`
	if p.Unpacking() {
		x.N = int64(n)
	}
}

type N02 struct{ f float64 }

func (x *N02) PUP(p *pup.Stream) {
	f := float32(x.f)
	pup.Number(p, &f) // want `x\.f of type float64 is packed through float32`
	x.f = float64(f)
}

type N03 struct{ n int }

func (x *N03) PUP(p *pup.Stream) {
	n := uint8(x.n)
	pup.Number(p, &n) // want `x\.n of type int is packed through uint8`
	if p.Unpacking() {
		x.n = int(n)
	}
}

// An unsigned number through a signed one, by way of a type that could hold it.
type N04 struct{ u uint64 }

func (x *N04) PUP(p *pup.Stream) {
	n := int32(int(x.u))
	pup.Number(p, &n) // want `x\.u of type uint64 is packed through int32`
	x.u = uint64(n)
}

// The length of a slice.
type N05 struct{ list []string }

func (x *N05) PUP(p *pup.Stream) {
	n := uint8(len(x.list))
	pup.Number(p, &n) // want `the length of x\.list is packed through uint8`
	if p.Unpacking() {
		x.list = make([]string, n)
	}
	for i := range x.list {
		pup.String(p, &x.list[i])
	}
}

// Integers through floating-point numbers, and back.
type N06 struct {
	n int64
	f float64
}

func (x *N06) PUP(p *pup.Stream) {
	f := float64(x.n)
	pup.Number(p, &f) // want `x\.n of type int64 is packed through float64`
	n := int64(x.f)
	pup.Number(p, &n) // want `x\.f of type float64 is packed through int64`
	if p.Unpacking() {
		x.n, x.f = int64(f), float64(n)
	}
}

// Both ways apart.
type N07 struct{ n int64 }

func (x *N07) PUP(p *pup.Stream) {
	if p.Unpacking() {
		var n int32
		pup.Number(p, &n)
		x.n = int64(n)
		return
	}
	n := int32(x.n)
	pup.Number(p, &n) // want `x\.n of type int64 is packed through int32`
}

// Only what is unpacked loses bits.
type N08 struct{ n int64 }

func (x *N08) PUP(p *pup.Stream) {
	n := x.n
	pup.Number(p, &n)
	if p.Unpacking() {
		x.n = int64(int32(n)) // want `x\.n of type int64 is unpacked through int32`
	}
}

// A wire struct.
type wire struct {
	A int32
	F float32
}

func (w *wire) PUP(p *pup.Stream) {
	pup.Number(p, &w.A)
	pup.Number(p, &w.F)
}

type N09 struct {
	a int
	f float32
}

func (x *N09) PUP(p *pup.Stream) {
	w := wire{A: int32(x.a), F: x.f}
	w.PUP(p) // want `x\.a of type int is packed through int32`
	if p.Unpacking() {
		x.a, x.f = int(w.A), w.F
	}
}

// Helpers of another package.
type N10 struct {
	n int64
	f float64
}

func (x *N10) PUP(p *pup.Stream) {
	lib.Int(p, &x.n)     // want `x\.n of type int64 is packed through int32`
	x.f = lib.As(p, x.f) // want `x\.f of type float64 is packed through float32`
}

// Elements.
type N11 struct{ list []float64 }

func (x *N11) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]float64, n)
	}
	for i := range x.list {
		f := float32(x.list[i])
		pup.Number(p, &f) // want `x\.list\[\.\.\.\] of type float64 is packed through float32`
		x.list[i] = float64(f)
	}
}

// A copy of a slice.
type N12 struct{ list []int64 }

func (x *N12) PUP(p *pup.Stream) {
	var small []int32
	for _, v := range x.list {
		small = append(small, int32(v))
	}
	pup.PlainSlice(p, &small) // want `x\.list\[\.\.\.\] of type int64 is packed through int32`
	if p.Unpacking() {
		x.list = nil
		for _, v := range small {
			x.list = append(x.list, int64(v))
		}
	}
}

// Bytes.
type N13 struct{ n uint64 }

func (x *N13) PUP(p *pup.Stream) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(x.n))
	pup.Plain(p, &b) // want `x\.n of type uint64 is packed through uint32`
	if p.Unpacking() {
		x.n = uint64(binary.LittleEndian.Uint32(b[:]))
	}
}

// Types with names.
type Level int

const (
	low  Level = 1
	high Level = 1000
)

type small uint8

type N14 struct {
	l Level
	d time.Duration
	c complex128
}

func (x *N14) PUP(p *pup.Stream) {
	l := small(x.l)
	pup.Number(p, &l) // want `x\.l of type narrow\.Level is packed through narrow\.small`
	d := int32(x.d)
	pup.Number(p, &d) // want `x\.d of type time\.Duration is packed through int32`
	c := complex64(x.c)
	pup.Number(p, &c) // want `x\.c of type complex128 is packed through complex64`
	if p.Unpacking() {
		x.l, x.d, x.c = Level(l), time.Duration(d), complex128(c)
	}
}

// A generic helper of this package.
func through[A, B ~int8 | ~int64](p *pup.Stream, v *A) {
	n := B(*v)
	pup.Number(p, &n)
	if p.Unpacking() {
		*v = A(n)
	}
}

type N15 struct{ n int64 }

func (x *N15) PUP(p *pup.Stream) {
	through[int64, int8](p, &x.n) // want `x\.n of type int64 is packed through int8`
}

// A literal, a getter and a variable in between.
type N16 struct{ n, m int64 }

func (x *N16) get() int64 { return x.m }

func (x *N16) PUP(p *pup.Stream) {
	num := func(v int64) int64 {
		w := int16(v)
		pup.Number(p, &w) // want `x\.n of type int64 is packed through int16`
		return int64(w)
	}
	x.n = num(x.n)
	m := x.get()
	k := uint32(m)
	pup.Number(p, &k) // want `x\.m of type int64 is packed through uint32`
	if p.Unpacking() {
		x.m = int64(k)
	}
}
