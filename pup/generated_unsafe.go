package pup

import (
	"reflect"
	"unsafe"
)

// Generated is what package gen is made of, for code from pupgen. It is of no use to anybody else.
type Generated struct{}

// Old tells whether the T at v was unpacked from data of an older version by the rules of its type.
func (Generated) Old(p *Stream, t reflect.Type, v unsafe.Pointer) bool {
	return p.evolving && p.readOld(t, v)
}

// Short enters short code of a type.
func (Generated) Short(t reflect.Type, pack func(room []byte, x unsafe.Pointer) int, unpack func(p *Stream, data []byte, x unsafe.Pointer) int) {
	known.addShort(t, &shortCode{pack, unpack})
}

// Text makes *s a string of what b holds.
func (Generated) Text(p *Stream, b []byte, s *string) {
	if p.claims == nil || string(b) != *s {
		*s = p.shortString(b)
	}
}

// Slice makes the slice at v one of n plain elements, whose memory b holds.
func (Generated) Slice(p *Stream, b []byte, n int, v unsafe.Pointer) {
	h, size := (*sliceHeader)(v), uintptr(len(b))
	if h.cap >= n && p.reuse(h.data, size) {
		h.len = n
	} else {
		*h = sliceHeader{p.plainRoom(size), n, n}
	}
	copy(view(h.data, size), b)
}
