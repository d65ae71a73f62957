package pup

import (
	"reflect"
	"unsafe"
)

// Ptr visits a pointer: whether it is nil, and what it points to by elem. With the option Graph, what was visited
// before is not visited again, and pointers that were equal are equal afterwards; elem must then not look at what
// other pointers lead to, which may not be filled yet.
func Ptr[T any](p *Stream, v **T, elem func(*Stream, *T)) {
	if p.mode == failed {
		return
	}
	p.pointer(reflect.TypeFor[*T](), (*unsafe.Pointer)(unsafe.Pointer(v)), infoFor[T](p), makeOne[T], untyped(elem))
}

func makeOne[T any](int) unsafe.Pointer { return unsafe.Pointer(new(T)) }

// pointer is Ptr without its type.
func (p *Stream) pointer(t reflect.Type, v *unsafe.Pointer, i *typeInfo, make maker, visit func(*Stream, unsafe.Pointer)) {
	at := placeOf(unsafe.Pointer(v), pointerShape)
	switch {
	case i.pointer != nil:
		i.pointer(p, v)
		return
	case p.mode == observing:
		p.observePointer(t, v, visit)
		return
	case p.graph != nil:
		p.graphPointer(v, i, make, visit)
		return
	case p.keys:
		p.keyPointer(v, i)
		return
	}
	x := uint64(0)
	if p.mode != unpacking && *v != nil {
		x = 1
	}
	if p.uvarint(&x, at); x == 0 || p.mode == failed {
		if p.mode == unpacking {
			*v = nil
		}
		return
	}
	if x != 1 {
		p.fail(at, "%w: a pointer of %d, want 0 or 1", ErrData, x)
		return
	}
	if !p.enter(at) {
		return
	}
	if p.mode == unpacking && !p.reuse(*v, i.t.Size()) {
		p.makeAt(v, i, make)
	}
	visit(p, *v)
	p.leave()
}

// makeAt sets v to a new value.
func (p *Stream) makeAt(v *unsafe.Pointer, i *typeInfo, make maker) {
	*v = make(1)
	p.construct(i, *v, 1)
}

// keyPointer packs a pointer in a map's key: only its order counts there.
func (p *Stream) keyPointer(v *unsafe.Pointer, i *typeInfo) {
	at, n := placeOf(unsafe.Pointer(v), pointerShape), uint64(0)
	if *v != nil {
		r := -1
		if p.keyGraph != nil {
			r, _ = p.keyGraph.regions.find(*v, i)
		}
		if r < 0 {
			p.fail(at, "%w: pointers as keys of a map have no order of their own: use the option Graph and visit what they point to before the map", ErrType)
			return
		}
		n = uint64(r) + 1
	}
	p.uvarint(&n, at)
}

func (p *Stream) observePointer(t reflect.Type, v *unsafe.Pointer, visit func(*Stream, unsafe.Pointer)) {
	switch p.watch.visit(p, t, unsafe.Pointer(v)) {
	case content:
		if p.enter(placeOf(unsafe.Pointer(v), pointerShape)) {
			visit(p, *v)
			p.leave()
		}
		p.watch.leave()
	}
}
