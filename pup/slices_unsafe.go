package pup

import (
	"reflect"
	"unsafe"
)

// maker makes n zero values of a type, one after the other. It is handed down by itself, never as part of something else,
// so that the compiler sees that nobody keeps it: it would be allocated for each visit.
type maker = func(n int) unsafe.Pointer

// untyped forgets the type of an element function's argument, which is a pointer either way.
func untyped[E any](elem func(*Stream, *E)) func(*Stream, unsafe.Pointer) {
	return *(*func(*Stream, unsafe.Pointer))(unsafe.Pointer(&elem))
}

// Slice visits a slice: its length, or that it is nil, and each element by elem.
func Slice[S ~[]E, E any](p *Stream, v *S, elem func(*Stream, *E)) {
	if p.mode == failed {
		return
	}
	p.slice(reflect.TypeFor[S](), (*sliceHeader)(unsafe.Pointer(v)), infoFor[E](p), makeArray[E], untyped(elem))
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

// slice is Slice without its type.
func (p *Stream) slice(t reflect.Type, v *sliceHeader, i *typeInfo, make maker, visit func(*Stream, unsafe.Pointer)) {
	at := placeOf(unsafe.Pointer(v), sliceShape)
	switch {
	case p.mode == observing:
		p.observeSlice(t, v, visit)
		return
	case p.graph != nil:
		p.graphSlice(v, i, make, visit)
		return
	case p.mode == unpacking:
		p.unpackSlice(v, i, make, visit)
		return
	}
	p.putLength(v.len, v.data == nil, at)
	if v.len > 0 && p.enter(at) {
		if i.least == 0 {
			p.countEach(v, i, visit)
		} else {
			p.each(v.data, v.len, i.t.Size(), visit)
		}
		p.leave()
	}
}

// countEach packs or sizes elements of which nothing is known, and refuses what unpacking would take for a made-up
// length.
func (p *Stream) countEach(v *sliceHeader, i *typeInfo, visit func(*Stream, unsafe.Pointer)) {
	before, free := p.done(), uint64(p.free)
	p.fill(v, i, 0, visit)
	if n, took := uint64(v.len), p.done()-before; n > max(took, free) {
		p.fail(placeOf(unsafe.Pointer(v), sliceShape), "%w: %d elements take only %d bytes", ErrType, n, took)
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

// unpackSlice makes a slice and fills it. When nothing says how many bytes an element takes at least, memory grows
// with what has come.
func (p *Stream) unpackSlice(v *sliceHeader, i *typeInfo, make maker, visit func(*Stream, unsafe.Pointer)) {
	at := placeOf(unsafe.Pointer(v), sliceShape)
	n := p.getLength(p.least(i), at)
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
	size := i.t.Size()
	have := p.step(n, size, p.least(i))
	if v.cap >= n && p.reuse(v.data, size*uintptr(n)) {
		v.len, have = n, n
	} else {
		*v = sliceHeader{make(have), have, have}
		p.construct(i, v.data, have)
	}
	done := p.fill(v, i, 0, visit)
	for done < n && p.mode != failed {
		more := further(n, max(done, 1))
		grown := make(done + more)
		reflect.Copy(sliceAt(i.t, grown, done+more), sliceAt(i.t, v.data, done))
		*v = sliceHeader{grown, done + more, done + more}
		p.construct(i, unsafe.Add(grown, size*uintptr(done)), more)
		done = p.fill(v, i, done, visit)
	}
}

// sliceAt is the n elements at v, for reflection.
func sliceAt(elem reflect.Type, v unsafe.Pointer, n int) reflect.Value {
	h := sliceHeader{v, n, n}
	return reflect.NewAt(reflect.SliceOf(elem), unsafe.Pointer(&h)).Elem()
}

// fill unpacks (or sizes), by their steps if visit is nil, the elements from number done on and returns how many there are now.
func (p *Stream) fill(v *sliceHeader, i *typeInfo, done int, visit func(*Stream, unsafe.Pointer)) int {
	size := i.t.Size()
	if p.least(i) > 0 && done < v.len {
		if at := unsafe.Add(v.data, size*uintptr(done)); visit == nil {
			p.unpackAll(i, at, v.len-done, size)
		} else {
			p.each(at, v.len-done, size, visit)
		}
		return v.len
	}
	for ; done < v.len && p.mode != failed; done++ {
		before, at := p.done(), unsafe.Add(v.data, size*uintptr(done))
		visit(p, at)
		if p.mode != failed && p.done() == before && !p.spend(placeOf(at, anyShape)) {
			return done
		}
	}
	return v.len
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
