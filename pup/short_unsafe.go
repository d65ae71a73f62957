package pup

import (
	"bytes"
	"math"
	"reflect"
	"runtime"
	"unsafe"
)

// Short code packs or unpacks one value at once: no dispatch over its fields, one test for room. pupgen writes it for
// structures of numbers, strings and slices of numbers, which it takes as long as their strings and slices are short. It
// is an addition to the type's steps and used only where it was seen to do the same (agrees), so that code that is older
// than its type costs time, never data.

// anyAlignment says that this processor copies a variable from and to any address at once. On others short code is not used.
const anyAlignment = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "ppc64le"

// Limits of what has a length of one byte.
const (
	shortText  = 0x7f
	shortSlice = 0x7e // nil takes one more
)

// tooLong is the room that is never there; some hundred of them can be added up.
const tooLong = math.MaxInt >> 9

// ShortCode is the proof that a type has short code.
type ShortCode[T any] struct{}

// Short is for code from pupgen. pack packs *x to the beginning of room and returns how many bytes that took; unpack
// unpacks *x from the beginning of data and returns how many bytes it used. They return 0, and change nothing, when
// room, data or a length of one byte does not suffice.
func Short[T any](pack func(room []byte, x *T) int, unpack func(p *Stream, data []byte, x *T) int) ShortCode[T] {
	known.addShort(reflect.TypeFor[T](), &shortCode{untypedPack(pack), untypedUnpack(unpack)})
	return ShortCode[T]{}
}

// shortCode is the functions without their type: x is a pointer either way.
type shortCode struct {
	pack   func(room []byte, x unsafe.Pointer) int
	unpack func(p *Stream, data []byte, x unsafe.Pointer) int
}

// PlainRoom is for code from pupgen: what ShortPlain takes.
func PlainRoom[T any](x *T) int { return int(unsafe.Sizeof(*x)) }

// TextRoom is for code from pupgen: what ShortText takes.
func TextRoom[S ~string](s S) int {
	if len(s) > shortText {
		return tooLong
	}
	return 1 + len(s)
}

// SliceRoom is for code from pupgen: what ShortSlice takes.
func SliceRoom[S ~[]E, E any](s S) int {
	if len(s) > shortSlice {
		return tooLong
	}
	var e E
	return 1 + len(s)*int(unsafe.Sizeof(e))
}

// ShortPlain is for code from pupgen: it copies the memory of *x, which is without pointers and padding.
func ShortPlain[T any](room []byte, x *T) int {
	_ = room[unsafe.Sizeof(*x)-1]
	*(*T)(unsafe.Pointer(unsafe.SliceData(room))) = *x
	return int(unsafe.Sizeof(*x))
}

// ShortText is for code from pupgen: it packs a string.
func ShortText[S ~string](room []byte, s S) int {
	room[0] = byte(len(s))
	return 1 + copy(room[1:], s)
}

// ShortSlice is for code from pupgen: it packs a slice of elements without pointers and padding.
func ShortSlice[S ~[]E, E any](room []byte, s S) int {
	if len(s) == 0 {
		room[0] = 0
		if s != nil {
			room[0] = 1
		}
		return 1
	}
	room[0] = byte(len(s) + 1)
	return 1 + copy(room[1:], view(unsafe.Pointer(unsafe.SliceData(s)), uintptr(len(s))*unsafe.Sizeof(s[0])))
}

// TextEnd is for code from pupgen: where the string ends that begins at offset at of the data.
func TextEnd(data []byte, at int) int {
	if at >= len(data) || data[at] > shortText {
		return tooLong
	}
	return at + 1 + int(data[at])
}

// SliceEnd is for code from pupgen: where the slice ends that begins at offset at of the data. Empty slices are left to
// the steps.
func SliceEnd[E any](data []byte, at int, _ []E) int {
	if at >= len(data) || data[at] > shortSlice+1 || data[at] == 1 {
		return tooLong
	}
	var e E
	return at + 1 + max(int(data[at])-1, 0)*int(unsafe.Sizeof(e))
}

// FillPlain is for code from pupgen: it unpacks what ShortPlain packed.
func FillPlain[T any](data []byte, x *T) {
	_ = data[unsafe.Sizeof(*x)-1]
	*x = *(*T)(unsafe.Pointer(unsafe.SliceData(data)))
}

// FillText is for code from pupgen: it unpacks the string that data ends with.
func FillText[S ~string](p *Stream, data []byte, s *S) {
	if b := data[1:]; p.claims == nil || string(b) != string(*s) {
		*s = S(p.shortString(b))
	}
}

// FillSlice is for code from pupgen: it unpacks the slice that data ends with.
func FillSlice[S ~[]E, E any](p *Stream, data []byte, s *S) {
	n := int(data[0]) - 1
	if n < 0 {
		*s = nil
		return
	}
	h, size := (*sliceHeader)(unsafe.Pointer(s)), uintptr(len(data)-1)
	if h.cap >= n && p.reuse(h.data, size) {
		h.len = n
	} else {
		*h = sliceHeader{p.plainRoom(size), n, n}
	}
	copy(view(h.data, size), data[1:])
}

// packAll packs n structures that lie stride bytes apart by their short code, if they have it, and those that are not
// short by their steps.
func (p *Stream) packAll(i *typeInfo, v unsafe.Pointer, n int, stride uintptr) {
	if i.short == nil {
		p.packSteps(i.steps, v, n, stride)
		return
	}
	pack, win, pos, paid := i.short.pack, p.win, p.pos, uintptr(0)
	for e := range uintptr(n) {
		x := unsafe.Add(v, e*stride)
		if size := pack(win[pos:], x); size > 0 {
			pos += size
			continue
		}
		p.pos = pos
		paid = p.settle(paid, e+1, stride)
		if p.packSteps(i.steps, x, 1, 0); p.mode == failed {
			return
		}
		win, pos = p.win, p.pos
	}
	p.pos = pos
	p.settle(paid, uintptr(n), stride)
}

// unpackAll is packAll the other way.
func (p *Stream) unpackAll(i *typeInfo, v unsafe.Pointer, n int, stride uintptr) {
	if i.short == nil {
		p.unpackSteps(i.steps, v, n, stride)
		return
	}
	unpack, win, pos, paid := i.short.unpack, p.win, p.pos, uintptr(0)
	for e := range uintptr(n) {
		x := unsafe.Add(v, e*stride)
		if size := unpack(p, win[pos:], x); size > 0 {
			pos += size
			continue
		}
		p.pos = pos
		paid = p.settle(paid, e+1, stride)
		if p.unpackSteps(i.steps, x, 1, 0); p.mode == failed {
			return
		}
		win, pos = p.win, p.pos
	}
	p.pos = pos
	p.settle(paid, uintptr(n), stride)
}

// agrees tells whether short code does what the steps of a structure do, whatever the lengths of its strings and slices,
// and nothing where room or data is too small. The steps are right: they were made from the type itself.
func (i *typeInfo) agrees(code *shortCode) bool {
	for k := range i.steps {
		if kind := i.steps[k].kind; kind != rawStep && kind != textStep && kind != plainsStep {
			return false
		}
	}
	if len(i.steps) == 0 {
		return false
	}
	const missing = -1 // not a length: nil
	for _, n := range []int{missing, 0, 1, 3} {
		v, copied := reflect.New(i.t).UnsafePointer(), reflect.New(i.t).UnsafePointer()
		s, size := sampler{next: byte(n)}, 0
		for k := range i.steps {
			size += s.fill(&i.steps[k], unsafe.Add(v, i.steps[k].off), n)
		}
		want, got := i.packed(v, size), make([]byte, size)
		if code.pack(got, v) != size || !bytes.Equal(got, want) || code.pack(got[:size-1], v) != 0 {
			return false
		}
		p := &Stream{mode: unpacking, direct: true}
		if used := code.unpack(p, want, copied); used == 0 && n == 0 {
			continue // empty slices are left to the steps
		} else if used != size || !bytes.Equal(i.packed(copied, size), want) || code.unpack(p, want[:size-1], copied) != 0 {
			return false
		}
	}
	return true
}

// packed packs a value by its steps, which takes size bytes.
func (i *typeInfo) packed(v unsafe.Pointer, size int) []byte {
	p := &Stream{mode: packing, direct: true, win: make([]byte, size)}
	p.packSteps(i.steps, v, 1, 0)
	return p.win
}

// A sampler fills memory with bytes that differ from their neighbours'.
type sampler struct{ next byte }

func (s *sampler) bytes(v unsafe.Pointer, n int) {
	for k, b := range view(v, uintptr(n)) {
		s.next += 13 + b
		view(v, uintptr(n))[k] = s.next
	}
}

// fill fills the fields of a step, with n bytes of text or n elements, and returns how many bytes they take when packed.
func (s *sampler) fill(step *step, at unsafe.Pointer, n int) int {
	switch step.kind {
	case rawStep:
		s.bytes(at, int(step.size))
		return int(step.size)
	case textStep:
		text := make([]byte, max(n, 0))
		s.bytes(unsafe.Pointer(unsafe.SliceData(text)), len(text))
		*(*string)(at) = string(text)
		return 1 + len(text)
	}
	if n < 0 {
		return 1
	}
	content := step.info.make(n)
	s.bytes(content, n*int(step.size))
	*(*sliceHeader)(at) = sliceHeader{content, n, n}
	return 1 + n*int(step.size)
}
