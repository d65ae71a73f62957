package pup

import "unsafe"

// Tokens of slices in a graph; those of known objects follow: tokenKnown+number.
const (
	tokenWhole = 1 // a new object, which is all of the slice
	tokenPart  = 2 // a new object: its count, then offset, length and capacity of the slice; count 0: of an array in an object
	tokenKnown = 3
)

// span is which part of an object a slice is: all in elements.
type span struct{ off, len, cap uint64 }

// graphSlice packs or unpacks a slice whose array may be shared.
func (p *Stream) graphSlice(v *sliceHeader, i *typeInfo, make maker, least uint64, visit func(*Stream, unsafe.Pointer)) {
	at := placeOf(unsafe.Pointer(v), sliceShape)
	if !p.enter(at) {
		return
	}
	defer p.leave()
	if p.mode == unpacking {
		p.unpackGraphSlice(v, i, make, least, visit)
		return
	}
	token, size := uint64(tokenWhole), i.t.Size()
	if v.data == nil {
		token = tokenNil
	}
	if v.len == 0 || size == 0 {
		p.uvarint(&token, at)
		if n := uint64(v.len); token != tokenNil {
			p.uvarint(&n, at)
		}
		p.every(v.data, v.len, i, least, at, visit)
		return
	}
	n, _ := p.graph.regions.find(v.data, i)
	if !p.graph.sealed {
		p.discoverSlice(n, v, i, least, visit)
		return
	}
	if n < 0 { // made for this visit by the author's code
		n = p.graph.regions.add(v.data, i, v.len)
	}
	p.packSpan(p.graph.nesting.top(n), v, i, least, visit)
}

// discoverSlice notes a slice's array, and sizes it as if nothing else shared it.
func (p *Stream) discoverSlice(n int, v *sliceHeader, i *typeInfo, least uint64, visit func(*Stream, unsafe.Pointer)) {
	at, g, count := placeOf(unsafe.Pointer(v), sliceShape), p.graph, uint64(v.len)
	known := 0
	if n < 0 {
		n = g.regions.add(v.data, i, v.len)
		g.regions.name(g.regions.at(n))
		g.regions.at(n).id |= regionOut
	} else {
		g.nesting.inner = true // more than one slice, or a pointer: the sizes come out otherwise
		known = g.regions.at(n).count
		g.regions.grow(n, max(known, v.len))
	}
	token := uint64(tokenWhole)
	p.uvarint(&token, at)
	p.uvarint(&count, at)
	if v.len > known {
		p.every(unsafe.Add(v.data, uintptr(known)*i.t.Size()), v.len-known, i, least, at, visit)
	}
}

// every packs n elements, plain ones at once.
func (p *Stream) every(v unsafe.Pointer, n int, i *typeInfo, least uint64, at place, visit func(*Stream, unsafe.Pointer)) {
	if visit != nil {
		p.pack(v, n, i, least, at, visit)
	} else if p.grantPlain(i.t, i.layout, n, at) {
		p.plain(i.layout, v, n)
	}
}

// packSpan packs a slice as a part of region n.
func (p *Stream) packSpan(n int, v *sliceHeader, i *typeInfo, least uint64, visit func(*Stream, unsafe.Pointer)) {
	at, r, size := placeOf(unsafe.Pointer(v), sliceShape), p.graph.regions.at(n), i.t.Size()
	off := uintptr(v.data) - r.begin()
	if r.info != i {
		p.packInner(n, v, i)
		return
	}
	s := span{uint64(off / size), uint64(v.len), 0}
	s.cap = min(uint64(v.cap), uint64(r.count)-s.off)
	count, token, fresh := uint64(r.count), uint64(tokenPart), !r.out()
	whole := s.off == 0 && s.len == count
	switch {
	case r.id != 0:
		token = tokenKnown + r.object()
	case whole:
		token = tokenWhole
	}
	p.graph.regions.name(r)
	r.id |= regionOut
	p.uvarint(&token, at)
	if fresh {
		p.uvarint(&count, at)
	}
	if token != tokenWhole {
		p.uvarint(&s.off, at)
		p.uvarint(&s.len, at)
		p.uvarint(&s.cap, at)
	}
	if fresh {
		p.every(unsafe.Add(v.data, -int(off)), r.count, i, least, at, visit)
	}
}

// packInner packs a slice of an array that lies in region n.
func (p *Stream) packInner(n int, v *sliceHeader, i *typeInfo) {
	at, r := placeOf(unsafe.Pointer(v), sliceShape), p.graph.regions.at(n)
	x := r.locate(uintptr(v.data), i.t)
	if uint64(v.len) > x.room {
		p.fail(at, "%w: it shares memory with %v, where %d of %v do not lie in a row", ErrType, r, v.len, i.t)
		return
	}
	if f := skippedOn(r.info.t, x.offset, x.t); f != "" {
		p.fail(at, "%w: its array lies in %v, in the field %s, which is not saved", ErrType, r, f)
		return
	}
	token, none, object := uint64(tokenPart), uint64(0), p.graph.regions.name(r)
	s := span{0, uint64(v.len), min(uint64(v.cap), x.room)}
	p.uvarint(&token, at)
	p.uvarint(&none, at)
	p.uvarint(&object, at)
	p.uvarint(&x.index, at)
	String(p, &x.path)
	p.uvarint(&s.len, at)
	p.uvarint(&s.cap, at)
}

// unpackInner is packInner from data, after the first two numbers.
func (p *Stream) unpackInner(v *sliceHeader, i *typeInfo) {
	at, g, n := placeOf(unsafe.Pointer(v), sliceShape), p.graph, uint64(0)
	f := fixup{at: &v.data, info: i, slice: &span{}}
	p.uvarint(&n, at)
	p.uvarint(&f.index, at)
	String(p, &f.path)
	p.uvarint(&f.slice.len, at)
	p.uvarint(&f.slice.cap, at)
	switch {
	case p.mode == failed:
	case n > uint64(g.objects.len()):
		p.fail(at, "%w: object %d of %d", ErrData, n, g.objects.len())
	case i.t.Size() == 0 || f.slice.len == 0 || f.slice.len > f.slice.cap || f.slice.cap > uint64(maxInt):
		p.fail(at, "%w: %d elements of %v, capacity %d, of an array in an object", ErrData, f.slice.len, i.t, f.slice.cap)
	default:
		*v = sliceHeader{}
		g.objects.lead(p, f, n)
	}
}

// unpackGraphSlice is graphSlice from data.
func (p *Stream) unpackGraphSlice(v *sliceHeader, i *typeInfo, make maker, least uint64, visit func(*Stream, unsafe.Pointer)) {
	at, g := placeOf(unsafe.Pointer(v), sliceShape), p.graph
	var token, count uint64
	var s span
	if p.uvarint(&token, at); token == tokenNil || p.mode == failed {
		if p.mode != failed {
			*v = sliceHeader{}
		}
		return
	}
	n := uint64(g.objects.len())
	if token >= tokenKnown {
		if n = token - tokenKnown; n >= uint64(g.objects.len()) {
			p.fail(at, "%w: object %d of %d", ErrData, n, g.objects.len())
			return
		}
	}
	fresh := token < tokenKnown || g.objects.at(int(n)).info == nil
	if fresh {
		if p.uvarint(&count, at); p.mode == failed || i.t.Size() > 0 && !p.fits(count, least, at) || count > uint64(maxInt) {
			return
		}
		if token == tokenPart && count == 0 {
			p.unpackInner(v, i)
			return
		}
		s = span{0, count, count}
	} else if o := g.objects.at(int(n)); o.info.t != i.t {
		p.fail(at, "%w: object %d is of %v, want %v", ErrData, n, o.info.t, i.t)
		return
	} else {
		count = uint64(o.count)
	}
	if token != tokenWhole {
		p.uvarint(&s.off, at)
		p.uvarint(&s.len, at)
		p.uvarint(&s.cap, at)
		if p.mode == failed {
			return
		}
		if s.len > s.cap || s.off > count || s.cap > count-s.off {
			p.fail(at, "%w: elements %d to %d, capacity %d, of %d", ErrData, s.off, s.off+s.len, s.cap, count)
			return
		}
	}
	p.setSpan(v, n, fresh, int(count), s, i, make, least, visit)
}

// setSpan makes v a part of object n, and fills the object when it is new.
func (p *Stream) setSpan(v *sliceHeader, n uint64, fresh bool, count int, s span, i *typeInfo, make maker, least uint64, visit func(*Stream, unsafe.Pointer)) {
	size := i.t.Size()
	if s.cap == 0 {
		s.off = 0 // a pointer behind the last element must not exist
	}
	if !fresh {
		*v = sliceHeader{unsafe.Add(p.graph.objects.at(int(n)).ptr, uintptr(s.off)*size), int(s.len), int(s.cap)}
		return
	}
	at, data := placeOf(unsafe.Pointer(v), sliceShape), v.data
	if visit == nil && !p.grantPlain(i.t, i.layout, count, at) || visit != nil && !p.grant(i.t, count, size, at) {
		return
	}
	again := v.cap >= count && s.off == 0 && p.reuse(data, size*uintptr(count))
	if visit == nil { // at once, before anybody sees what the memory held before
		if !again {
			data = p.makePlain(i.layout, count)
		}
		if p.plain(i.layout, data, count); p.mode == failed {
			return
		}
	} else if !again {
		data = make(count)
		p.construct(i, data, count)
	}
	*v = sliceHeader{unsafe.Add(data, uintptr(s.off)*size), int(s.len), int(s.cap)}
	if count > 0 && size > 0 {
		p.made(n, object{data, i, count})
	}
	if visit != nil {
		p.elements(data, count, size, visit)
	}
}
