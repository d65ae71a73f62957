package pup

import (
	"reflect"
	"unsafe"
)

// number is what Number visits.
type number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Number visits an integer, a float or a complex number. It takes the bytes of its kind, int, uint and uintptr 8.
func Number[T number](p *Stream, v *T) { p.number(any(v), unsafe.Sizeof(*v)) }

// number visits the number that v points to, of size bytes. Like the others below it is given a pointer in an interface: that
// carries the type at no cost, and the short generic function above it disappears in its caller.
func (p *Stream) number(v any, size uintptr) {
	at := (*eface)(unsafe.Pointer(&v)).data
	switch {
	case !native || p.mode == failed || p.mode == observing:
		p.slowNumber(reflect.TypeOf(v).Elem(), hide(at))
	case p.mode == sizing:
		p.size += uint64(size)
	case size > uintptr(len(p.win)-p.pos):
		p.bytes(view(at, size), placeOf(at, leafShape))
	case p.mode == packing:
		p.pos += copy(p.win[p.pos:], view(at, size))
	default:
		p.pos += copy(view(at, size), p.win[p.pos:])
	}
}

// hide keeps the compiler from moving to the heap what is only shown to an observer, which keeps no pointers.
func hide(v unsafe.Pointer) unsafe.Pointer {
	x := uintptr(v)
	return *(*unsafe.Pointer)(unsafe.Pointer(&x))
}

// slowNumber is number for an observer, or for a machine whose memory is not as the data.
func (p *Stream) slowNumber(t reflect.Type, v unsafe.Pointer) {
	switch p.mode {
	case failed:
	case observing:
		p.watch.visit(p, t, v)
	case sizing:
		p.size += wireSize(t.Kind())
	default:
		p.foreign(t.Kind(), v)
	}
}

// Bool visits a bool. It takes one byte.
func Bool[T ~bool](p *Stream, v *T) { p.bool(any(v)) }

func (p *Stream) bool(v any) {
	at := (*eface)(unsafe.Pointer(&v)).data
	switch p.mode {
	case failed:
	case observing:
		p.watch.visit(p, reflect.TypeOf(v).Elem(), hide(at))
	default:
		p.bytes(view(at, 1), placeOf(at, leafShape))
		if p.mode == unpacking {
			p.checkBool(at, 1)
		}
	}
}

// String visits a string. It takes its length and its bytes, whatever they are.
func String[T ~string](p *Stream, v *T) { p.text(any(v)) }

func (p *Stream) text(v any) {
	s := (*string)((*eface)(unsafe.Pointer(&v)).data)
	switch p.mode {
	case packing:
		n := len(*s)
		if n < 0x80 && n < len(p.win)-p.pos {
			w := p.win[p.pos:]
			w[0] = byte(n)
			copy(w[1:], *s)
			p.pos += n + 1
			return
		}
		p.packText(s)
	case unpacking:
		*s = p.unpackText(s)
	case sizing:
		p.size += uint64(uvarintLen(uint64(len(*s))) + len(*s))
	case observing:
		p.watch.visit(p, reflect.TypeOf(v).Elem(), hide(unsafe.Pointer(s)))
	}
}

func (p *Stream) packText(s *string) {
	n, at := uint64(len(*s)), placeOf(unsafe.Pointer(s), textShape)
	p.uvarint(&n, at)
	p.bytes(unsafe.Slice(unsafe.StringData(*s), len(*s)), at)
}

// unpackText returns what v shall be: its old value after a failure.
func (p *Stream) unpackText(v *string) string {
	if p.pos < len(p.win) {
		if n := int(p.win[p.pos]); n < 0x80 && n < len(p.win)-p.pos {
			b := p.win[p.pos+1 : p.pos+1+n]
			p.pos += n + 1
			if p.claims != nil && string(b) == *v {
				return *v
			}
			return p.shortString(b)
		}
	}
	n, at := uint64(0), placeOf(unsafe.Pointer(v), textShape)
	if p.uvarint(&n, at); p.mode == failed || !p.fits(n, 1, at) {
		return *v
	}
	b := p.blobOf(int(n), at)
	if p.mode == failed {
		return *v
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// shortString is a string of what b holds, in memory that it shares with others.
func (p *Stream) shortString(b []byte) string {
	if len(b) > slabMost || len(b) == 0 {
		return string(b)
	}
	s := unsafe.Slice((*byte)(p.slabbed(uintptr(len(b)), 1)), len(b))
	copy(s, b)
	return unsafe.String(unsafe.SliceData(s), len(s))
}

// blobOf unpacks n bytes.
func (p *Stream) blobOf(n int, at place) []byte {
	if !p.here(uint64(n), at) {
		return nil
	}
	b := make([]byte, n)
	p.bytes(b, at)
	return b
}

// Plain visits a value without pointers, strings, slices, maps or interfaces: one copy of its memory, without the
// padding. Methods and rules of the types inside are not asked.
func Plain[T any](p *Stream, v *T) {
	if p.mode != failed {
		p.plainValue(reflect.TypeFor[T](), infoFor[T](p), unsafe.Pointer(v))
	}
}

func (p *Stream) plainValue(t reflect.Type, i *typeInfo, v unsafe.Pointer) {
	switch {
	case p.evolving:
		p.value(i, v)
	case p.mode == observing:
		p.watch.visit(p, t, v)
	case i.layout != nil:
		p.plain(i.layout, v, 1)
	default:
		if l := p.explicit(t, placeOf(v, anyShape)); l != nil {
			p.plain(l, v, 1)
		}
	}
}

// explicit is the layout of a type that its author calls plain although it has code of its own.
func (p *Stream) explicit(t reflect.Type, at place) *layout {
	l := layoutOf(t)
	if l == nil || unsaved(t) != "" {
		p.fail(at, "%w: %v is not plain", ErrType, t)
		return nil
	}
	return l
}

// PlainSlice visits a slice of plain values: its length and one copy of its memory.
func PlainSlice[S ~[]E, E any](p *Stream, v *S) { p.plains(any(v)) }

// plains visits a slice of plain values; the short way first.
func (p *Stream) plains(v any) {
	e := (*eface)(unsafe.Pointer(&v))
	h := (*sliceHeader)(e.data)
	key := uintptr(e.typ)
	line := &p.infos[key>>6%lines]
	if line.key != key {
		if p.mode == failed {
			return
		}
		line = p.infoLine(key, reflect.TypeOf(v).Elem())
	}
	l := line.info.elem.layout
	if !p.direct || l == nil || !l.raw {
		p.plainSlice(line.info, h)
		return
	}
	switch size := int(l.size) * h.len; p.mode {
	case packing:
		if h.len < 0x7f && size < len(p.win)-p.pos && h.data != nil {
			w := p.win[p.pos:]
			w[0] = byte(h.len + 1)
			copy(w[1:], view(h.data, uintptr(size)))
			p.pos += size + 1
			return
		}
		at := placeOf(e.data, sliceShape)
		p.putLength(h.len, h.data == nil, at)
		p.bytes(view(h.data, uintptr(size)), at)
	case sizing:
		p.size += uint64(uvarintLen(uint64(h.len)+1) + size)
	case unpacking:
		p.unpackPlain(h, line.info.elem, l)
	}
}

func makeArray[E any](n int) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(make([]E, n)))
}

// Small strings and slices of plain elements that are unpacked one after the other share memory, which saves most of the
// cost of making them. One that outlives its neighbours keeps slabSize bytes.
const (
	slabSize = 1 << 10
	slabMost = 64 // bytes of what shares memory
)

// slabbed makes room for size bytes.
func (p *Stream) slabbed(size, align uintptr) unsafe.Pointer {
	off := (p.slabUsed + align - 1) &^ (align - 1)
	if off+size > p.slabSize {
		p.slabSize = min(slabSize, max(size, uintptr(p.left()))+7) &^ 7 // no more than can still come
		p.slab, off = unsafe.Pointer(unsafe.SliceData(make([]uint64, p.slabSize/8))), 0
	}
	p.slabUsed = off + size
	return unsafe.Add(p.slab, off)
}

// makePlain makes room for n plain values of a layout: memory without pointers needs no type.
func (p *Stream) makePlain(l *layout, n int) unsafe.Pointer {
	size := l.size * uintptr(n)
	if size >= large && l.raw && !l.bools {
		return unsafe.Pointer(unsafe.SliceData(unzeroed(int(size))))
	}
	return p.plainRoom(size)
}

// plainRoom makes room for size bytes of plain values.
func (p *Stream) plainRoom(size uintptr) unsafe.Pointer {
	if size <= slabMost && size > 0 {
		return p.slabbed(size, 8)
	}
	return unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
}

// large is from how many bytes on it pays not to fill memory with zeros that is about to be filled with data.
const large = 64 << 10

// unzeroed is memory of n bytes, at least large, whose content is anything.
func unzeroed(n int) []byte {
	if !runtimeHas.buffers.holds() {
		return view(unsafe.Pointer(unsafe.SliceData(make([]uint64, (n+7)/8))), uintptr(n))
	}
	return builderMemory(n)
}

// plainSlice visits a slice of plain values with all that may be asked for.
func (p *Stream) plainSlice(i *typeInfo, v *sliceHeader) {
	at := placeOf(unsafe.Pointer(v), sliceShape)
	l, e := i.elem.layout, i.elem
	if p.mode == failed || l == nil && p.mode != observing && !p.evolving {
		if l = p.explicit(e.t, at); l == nil {
			return
		}
	}
	switch {
	case p.mode == observing:
		p.observeSlice(i.t, v, e.visit)
	case p.evolving:
		p.slice(i.t, v, e, i.make, 0, e.value)
	case p.graph != nil && e.layout != nil:
		p.graphSlice(v, e, i.make, e.least, nil)
	case p.graph != nil: // plain in its author's eyes only
		p.graphSlice(v, e, i.make, l.wire, func(p *Stream, v unsafe.Pointer) { p.plain(l, v, 1) })
	case p.mode == unpacking:
		p.unpackPlain(v, e, l)
	case l.wire == 0 && l.size > 0 && v.len > freeElements:
		p.fail(at, "%w: %d elements of which nothing is saved", ErrType, v.len)
	default:
		p.putLength(v.len, v.data == nil, at)
		if p.grantPlain(e.t, l, v.len, at) {
			p.plain(l, v.data, v.len)
		}
	}
}

// plainLength is getLength for plain elements. Those of no size may be any number.
func (p *Stream) plainLength(l *layout, at place) int {
	if l.size > 0 {
		return p.getLength(l.wire, at)
	}
	x := uint64(0)
	if p.uvarint(&x, at); x > uint64(maxInt) {
		p.fail(at, "%w: length %d", ErrData, x-1)
	}
	return int(x) - 1
}

// unpackPlain makes a slice and fills it.
func (p *Stream) unpackPlain(v *sliceHeader, i *typeInfo, l *layout) {
	at := placeOf(unsafe.Pointer(v), sliceShape)
	n := p.plainLength(l, at)
	if n < 0 {
		if p.mode != failed {
			*v = sliceHeader{}
		}
		return
	}
	if !p.grantPlain(i.t, l, n, at) {
		return
	}
	switch {
	case p.owned && p.adopt(v, i, l, n):
		return
	case v.cap >= n && p.reuse(v.data, l.size*uintptr(n)):
		v.len = n
	default:
		*v = sliceHeader{p.makePlain(l, n), n, n}
	}
	if p.plain(l, v.data, n); p.mode == failed {
		*v = sliceHeader{} // nobody shall see what the memory held before
	}
}

// adoptFrom is from how many bytes on a slice stays in data that is owned.
const adoptFrom = 4 << 10

// adopt makes a slice of the n elements that come next in the data, if that pays and nothing of them has to be changed. Where they are
// not aligned they are moved down, over bytes that were read and that no other slice has, if there are enough: between slices of one
// alignment there are.
func (p *Stream) adopt(v *sliceHeader, i *typeInfo, l *layout, n int) bool {
	size := int(l.size) * n
	if size < adoptFrom || !l.raw || l.bools || !p.direct || size > len(p.win)-p.pos {
		return false
	}
	data := p.win[p.pos : p.pos+size : p.pos+size]
	odd := int(uintptr(unsafe.Pointer(&data[0])) % uintptr(i.t.Align()))
	if odd > p.pos-p.adopted {
		return false
	}
	if odd > 0 {
		data = p.win[p.pos-odd : p.pos-odd+size]
		copy(data, p.win[p.pos:])
	}
	p.pos += size
	p.adopted = p.pos - odd
	*v = sliceHeader{unsafe.Pointer(&data[0]), n, n}
	return true
}

// Skip says that a field is deliberately not saved, and why. It does nothing, except that Check then knows.
func Skip[T any](p *Stream, v *T, reason string) {
	if p.probe != nil {
		p.probe.skip(reflect.TypeFor[T](), unsafe.Pointer(v))
	}
	if p.mode == observing {
		p.watch.skip(p, reflect.TypeFor[T](), unsafe.Pointer(v), reason)
	}
}

// Length visits how many elements follow, for code that visits them itself. When unpacking, a length that exceeds the
// bytes left is refused, so that it may be given to make.
func Length(p *Stream, n *int) {
	x, at := uint64(*n), placeOf(unsafe.Pointer(n), leafShape)
	switch {
	case p.mode == failed:
	case p.mode == observing:
		p.watch.visit(p, reflect.TypeFor[int](), hide(unsafe.Pointer(n)))
	case *n < 0 && p.mode != unpacking:
		p.fail(at, "%w: length %d", ErrType, *n)
	default:
		if p.uvarint(&x, at); p.mode == unpacking && p.fits(x, 1, at) && p.here(x, at) {
			*n = int(x)
		}
	}
}

// Value visits a value of any type: by its PUP method if it has one, else as its type allows; the last resort is
// reflection (ClassOf tells).
func Value[T any](p *Stream, v *T) {
	if p.mode != failed {
		p.value(infoFor[T](p), unsafe.Pointer(v))
	}
}

// Object visits a value by its own PUP. It is the element function for types that have one:
// pup.Slice(p, &x.Cells, pup.Object).
func Object[T any, PT interface {
	*T
	PUPer
}](p *Stream, v PT) {
	v.PUP(p)
}

// value visits the variable at v by all that is known of its type.
func (p *Stream) value(i *typeInfo, v unsafe.Pointer) {
	if p.mode == failed {
		return
	}
	if i.fault != nil {
		p.fail(placeOf(v, shapeOf(i.t.Kind())), "%w", i.fault)
		return
	}
	if p.evolving && p.visitOld(i, v) {
		return
	}
	i.visit(p, v)
}
