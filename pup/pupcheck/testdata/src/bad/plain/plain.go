// Package plain has types that are copied as bytes and must not be.
package plain

import (
	"unsafe"

	"github.com/byssus-hpc/byssus/pup"
)

type named struct {
	id   int
	name string
}

type linked struct {
	v    float64
	next *linked
}

type deep struct{ in [2]struct{ m map[int]int } }

// A string.
type Str struct{ v named }

func (x *Str) PUP(p *pup.Stream) {
	pup.Plain(p, &x.v) // want `pup.Plain copies the memory of plain.named, which holds a pointer: name of type string`
}

// A pointer.
type Ptr struct{ v linked }

func (x *Ptr) PUP(p *pup.Stream) {
	pup.Plain(p, &x.v) // want `which holds a pointer: next of type \*plain.linked`
}

// A slice.
type Slice struct{ v []int }

func (x *Slice) PUP(p *pup.Stream) {
	pup.Plain(p, &x.v) // want `pup.Plain copies the memory of \[\]int`
}

// A slice of strings.
type Strs struct{ v []string }

func (x *Strs) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.v) // want `pup.PlainSlice copies the memory of string`
}

// A map, deep inside.
type Deep struct{ v deep }

func (x *Deep) PUP(p *pup.Stream) {
	pup.Plain(p, &x.v) // want `which holds a pointer: in.m of type map\[int\]int`
}

// An interface.
type Iface struct{ v [2]any }

func (x *Iface) PUP(p *pup.Stream) {
	pup.Plain(p, &x.v) // want `which holds a pointer`
}

// A function.
type Func struct{ v struct{ f func() } }

func (x *Func) PUP(p *pup.Stream) {
	pup.Plain(p, &x.v) // want `which holds a pointer: f of type func\(\)`
}

// An unsafe.Pointer.
type Unsafe struct{ v unsafe.Pointer }

func (x *Unsafe) PUP(p *pup.Stream) {
	pup.Plain(p, &x.v) // want `which holds a pointer`
}

// As element function.
type Elem struct{ v []named }

func (x *Elem) PUP(p *pup.Stream) {
	pup.Slice(p, &x.v, pup.Plain) // want `pup.Plain copies the memory of plain.named`
}

// The whole receiver.
type Self struct {
	a int
	s string
}

func (x *Self) PUP(p *pup.Stream) {
	pup.Plain(p, x) // want `pup.Plain copies the memory of plain.Self, which holds a pointer: s of type string`
}

// In a generic helper.
type Generic struct{ v named }

func save[T any](p *pup.Stream, v *T) { pup.Plain(p, v) }

func (x *Generic) PUP(p *pup.Stream) {
	save(p, &x.v) // want `pup.Plain copies the memory of plain.named`
}

// An address.
type Addr struct{ at uintptr }

func (x *Addr) PUP(p *pup.Stream) {
	pup.Number(p, &x.at) // want `uintptr is a uintptr|uintptr: an address`
}

// An address of a named type.
type handle uintptr

type Handle struct{ at handle }

func (x *Handle) PUP(p *pup.Stream) {
	pup.Number(p, &x.at) // want `an address means nothing after a restart`
}

// Addresses in a struct.
type Addrs struct{ v struct{ a, b uintptr } }

func (x *Addrs) PUP(p *pup.Stream) {
	pup.Plain(p, &x.v) // want `a of type uintptr is a uintptr: an address means nothing`
}

// Addresses in a slice.
type AddrSlice struct{ v []uintptr }

func (x *AddrSlice) PUP(p *pup.Stream) {
	pup.Slice(p, &x.v, pup.Number) // want `an address means nothing`
}

// An address as another number.
type AddrConv struct{ at uintptr }

func (x *AddrConv) PUP(p *pup.Stream) {
	pup.Number(p, (*uint)(unsafe.Pointer(&x.at))) // want `x.at is a uintptr`
}

// The bytes of a struct with pointers.
type Bytes struct {
	a int
	s string
}

func (x *Bytes) PUP(p *pup.Stream) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(x)), unsafe.Sizeof(*x))
	pup.Array(p, b, pup.Number) // want `the bytes of plain.Bytes hold a pointer: s of type string`
}

// The bytes of a struct with padding.
type Padded struct {
	a uint8
	b uint64
	c uint16
}

func (x *Padded) PUP(p *pup.Stream) {
	pup.Array(p, unsafe.Slice((*byte)(unsafe.Pointer(x)), unsafe.Sizeof(*x)), pup.Number) // want `plain.Padded has 13 padding bytes`
}

// Padding, through an array of bytes.
type Array struct {
	v struct {
		a uint8
		b uint32
	}
}

func (x *Array) PUP(p *pup.Stream) {
	pup.Plain(p, (*[8]byte)(unsafe.Pointer(&x.v))) // want `has 3 padding bytes`
}

// Padding, through a slice variable.
type SliceVar struct {
	v struct {
		a uint8
		b uint32
	}
}

func (x *SliceVar) PUP(p *pup.Stream) {
	raw := (*[8]byte)(unsafe.Pointer(&x.v))[:]
	pup.PlainSlice(p, &raw) // want `has 3 padding bytes`
}

// Padding of the elements of a slice.
type Elems struct{ list []entry }

type entry struct {
	k uint8
	v uint32
}

func (x *Elems) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]entry, n)
	}
	if n > 0 {
		b := unsafe.Slice((*byte)(unsafe.Pointer(&x.list[0])), n*8)
		pup.Array(p, b, pup.Number) // want `plain.entry has 3 padding bytes`
	}
}

type blocked struct {
	a, b float64
	c    int32
	d    float64
	s    string
	e    uint8
	f    uint8
	h    uintptr
}

var (
	// No such field.
	_ = pup.BlockOf[blocked]("a", "B") // want `plain.blocked has no field B`
	// Out of order.
	_ = pup.BlockOf[blocked]("b", "a") // want `field a does not follow field b`
	// Not consecutive.
	_ = pup.BlockOf[blocked]("a", "c") // want `field c does not follow field a`
	// Padding between.
	_ = pup.BlockOf[blocked]("c", "d") // want `plain.blocked has 4 padding bytes before field d`
	// A string.
	_ = pup.BlockOf[blocked]("d", "s") // want `field s of a block holds a pointer`
	// Twice.
	_ = pup.BlockOf[blocked]("a", "a") // want `field a does not follow field a`
	// An address.
	_ = pup.BlockOf[blocked]("h") // want `field h of a block is a uintptr`
	// No struct.
	_ = pup.BlockOf[int]("a") // want `pup.BlockOf needs a struct`
	// Padding within.
	_ = pup.BlockOf[struct{ v entry }]("v") // want `field v of a block has 3 padding bytes`
)
