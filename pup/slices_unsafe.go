package pup

import (
	"reflect"
	"unsafe"
)

// maker makes n zero values of a type, one after the other. It is handed down by itself, never as part of something else,
// so that the compiler sees that nobody keeps it: it would be allocated for each visit.
type maker = func(n int) unsafe.Pointer

// Slice visits a slice: its length, or that it is nil, and each element by elem.
func Slice[S ~[]E, E any](p *Stream, v *S, elem func(*Stream, *E)) {
	if p.mode == failed {
		return
	}
	p.slice(reflect.TypeFor[S](), (*sliceHeader)(unsafe.Pointer(v)), infoFor[E](p), makeArray[E], 0, untyped(elem))
}

// Array visits the elements of an array, given as a slice of all of it: pup.Array(p, x.Dims[:], pup.Number).
func Array[E any](p *Stream, a []E, elem func(*Stream, *E)) {
	if p.mode == failed || len(a) == 0 {
		return
	}
	at := placeOf(unsafe.Pointer(unsafe.SliceData(a)), arrayShape)
	if p.enter(at) {
		p.each(unsafe.Pointer(unsafe.SliceData(a)), len(a), unsafe.Sizeof(a[0]), untyped(elem))
		p.leave()
	}
}

// each visits n elements.
func (p *Stream) each(v unsafe.Pointer, n int, size uintptr, visit func(*Stream, unsafe.Pointer)) {
	for k := range uintptr(n) {
		visit(p, unsafe.Add(v, k*size))
		if p.mode == failed {
			return
		}
	}
}

// slice is Slice without its type. Each element takes at least least bytes; 0: what visit does is not known.
func (p *Stream) slice(t reflect.Type, v *sliceHeader, i *typeInfo, make maker, least uint64, visit func(*Stream, unsafe.Pointer)) {
	at := placeOf(unsafe.Pointer(v), sliceShape)
	switch {
	case p.mode == observing:
		p.observeSlice(t, v, visit)
		return
	case p.graph != nil:
		p.graphSlice(v, i, make, least, visit)
		return
	case p.mode == unpacking:
		p.unpackSlice(v, i, make, least, visit)
		return
	}
	p.putLength(v.len, v.data == nil, at)
	if v.len > 0 && p.enter(at) {
		p.pack(v.data, v.len, i, least, at, visit)
		p.leave()
	}
}

// pack packs or sizes n elements, and refuses what unpacking would take for a made-up length.
func (p *Stream) pack(v unsafe.Pointer, n int, i *typeInfo, least uint64, at place, visit func(*Stream, unsafe.Pointer)) {
	before, free := p.done(), uint64(p.free)
	if !p.grant(i.t, n, i.t.Size(), at) {
		return
	}
	p.elements(v, n, i.t.Size(), visit)
	if took := p.done() - before; least == 0 && uint64(n) > max(took, free) {
		p.fail(at, "%w: %d elements take only %d bytes", ErrType, n, took)
	}
}

// elements visits n elements that were granted.
func (p *Stream) elements(v unsafe.Pointer, n int, size uintptr, visit func(*Stream, unsafe.Pointer)) {
	for k := range uintptr(n) {
		at, before := unsafe.Add(v, k*size), p.pay(size)
		visit(p, at)
		if !p.paid(before, size, placeOf(at, anyShape)) {
			return
		}
	}
}

func (p *Stream) observeSlice(t reflect.Type, v *sliceHeader, visit func(*Stream, unsafe.Pointer)) {
	at := placeOf(unsafe.Pointer(v), sliceShape)
	switch p.watch.visit(p, t, unsafe.Pointer(v)) {
	case content:
		if p.enter(at) {
			p.each(v.data, v.len, t.Elem().Size(), visit)
			p.leave()
		}
		p.watch.leave()
	}
}

// unpackSlice makes a slice and fills it, by the steps of its elements if visit is nil.
func (p *Stream) unpackSlice(v *sliceHeader, i *typeInfo, make maker, least uint64, visit func(*Stream, unsafe.Pointer)) {
	at, size := placeOf(unsafe.Pointer(v), sliceShape), i.t.Size()
	n := p.getLength(least, at)
	if n < 0 {
		if p.mode != failed {
			*v = sliceHeader{}
		}
		return
	}
	if !p.enter(at) {
		return
	}
	defer p.leave()
	if !p.grant(i.t, n, size, at) {
		return
	}
	if v.cap >= n && p.reuse(v.data, size*uintptr(n)) {
		v.len = n
	} else {
		*v = sliceHeader{make(n), n, n}
		p.construct(i, v.data, n)
	}
	if visit == nil {
		p.unpackAll(i, v.data, n, size)
		return
	}
	p.elements(v.data, n, size, visit)
}

// construct gives n new values of a type the start that registrations ask for.
func (p *Stream) construct(i *typeInfo, v unsafe.Pointer, n int) {
	if i.init == nil {
		return
	}
	for k := range uintptr(n) {
		i.init(unsafe.Add(v, k*i.t.Size()))
	}
}
