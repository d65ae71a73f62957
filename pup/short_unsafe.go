package pup

import (
	"bytes"
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

// shortCode is two functions without the type of their argument, a pointer either way.
type shortCode struct {
	pack   func(room []byte, x unsafe.Pointer) int
	unpack func(p *Stream, data []byte, x unsafe.Pointer) int
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
		p := &Stream{state: state{mode: unpacking, direct: true}}
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
	p := &Stream{state: state{mode: packing, direct: true, win: make([]byte, size)}}
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
