// Package gen is what code from pupgen calls, beside what everybody calls of package pup. Only such code should use it: the two
// change together, and pupgen writes the code anew.
//
// Short code packs or unpacks one value at once: no dispatch over its fields, one test for room. pupgen writes it for structures
// of numbers, strings and slices of numbers, and package pup uses it only where it was seen to do what the type says.
package gen

import (
	"math"
	"reflect"
	"unsafe"

	"github.com/byssus-hpc/byssus/pup"
)

// Old tells whether *v was unpacked from data of an older version by the rules of its type, so that nothing is left to do.
// Generated code calls it first.
func Old[T any](p *pup.Stream, v *T) bool {
	return pup.Generated{}.Old(p, reflect.TypeFor[T](), unsafe.Pointer(v))
}

// Limits of what has a length of one byte.
const (
	shortText  = 0x7f
	shortSlice = 0x7e // nil takes one more
)

// tooLong is the room that is never there; some hundred of them can be added up.
const tooLong = math.MaxInt >> 9

// ShortCode is the proof that a type has short code.
type ShortCode[T any] struct{}

// Short enters short code of T: pack packs *x to the beginning of room and returns how many bytes that took; unpack
// unpacks *x from the beginning of data and returns how many bytes it used. They return 0, and change nothing, when
// room, data or a length of one byte does not suffice.
func Short[T any](pack func(room []byte, x *T) int, unpack func(p *pup.Stream, data []byte, x *T) int) ShortCode[T] {
	pup.Generated{}.Short(reflect.TypeFor[T](), *(*func([]byte, unsafe.Pointer) int)(unsafe.Pointer(&pack)),
		*(*func(*pup.Stream, []byte, unsafe.Pointer) int)(unsafe.Pointer(&unpack)))
	return ShortCode[T]{}
}

// PlainRoom is what ShortPlain takes.
func PlainRoom[T any](x *T) int { return int(unsafe.Sizeof(*x)) }

// TextRoom is what ShortText takes.
func TextRoom[S ~string](s S) int {
	if len(s) > shortText {
		return tooLong
	}
	return 1 + len(s)
}

// SliceRoom is what ShortSlice takes.
func SliceRoom[S ~[]E, E any](s S) int {
	if len(s) > shortSlice {
		return tooLong
	}
	var e E
	return 1 + len(s)*int(unsafe.Sizeof(e))
}

// ShortPlain copies the memory of *x, which is without pointers and padding.
func ShortPlain[T any](room []byte, x *T) int {
	_ = room[unsafe.Sizeof(*x)-1]
	*(*T)(unsafe.Pointer(unsafe.SliceData(room))) = *x
	return int(unsafe.Sizeof(*x))
}

// ShortText packs a string.
func ShortText[S ~string](room []byte, s S) int {
	room[0] = byte(len(s))
	return 1 + copy(room[1:], s)
}

// ShortSlice packs a slice of elements without pointers and padding.
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

// TextEnd is where the string ends that begins at offset at of the data.
func TextEnd(data []byte, at int) int {
	if at >= len(data) || data[at] > shortText {
		return tooLong
	}
	return at + 1 + int(data[at])
}

// SliceEnd is where the slice ends that begins at offset at of the data. Empty slices are left to
// the steps.
func SliceEnd[E any](data []byte, at int, _ []E) int {
	if at >= len(data) || data[at] > shortSlice+1 || data[at] == 1 {
		return tooLong
	}
	var e E
	return at + 1 + max(int(data[at])-1, 0)*int(unsafe.Sizeof(e))
}

// FillPlain unpacks what ShortPlain packed.
func FillPlain[T any](data []byte, x *T) {
	_ = data[unsafe.Sizeof(*x)-1]
	*x = *(*T)(unsafe.Pointer(unsafe.SliceData(data)))
}

// FillText unpacks the string that data ends with.
func FillText[S ~string](p *pup.Stream, data []byte, s *S) {
	pup.Generated{}.Text(p, data[1:], (*string)(unsafe.Pointer(s)))
}

// FillSlice unpacks the slice that data ends with.
func FillSlice[S ~[]E, E any](p *pup.Stream, data []byte, s *S) {
	if n := int(data[0]) - 1; n >= 0 {
		pup.Generated{}.Slice(p, data[1:], n, unsafe.Pointer(s))
		return
	}
	*s = nil
}

// view is the memory of n bytes at v.
func view(v unsafe.Pointer, n uintptr) []byte { return unsafe.Slice((*byte)(v), n) }
