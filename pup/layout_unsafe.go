package pup

import (
	"encoding/binary"
	"math"
	"reflect"
	"unsafe"
)

// A layout says where the numbers of a plain type lie: one without pointers of any kind. In the data its numbers
// follow each other without padding, little-endian, int, uint and uintptr as 8 bytes.
type layout struct {
	size  uintptr // in memory
	wire  uint64  // in the data
	raw   bool    // the memory is the data, but for bools, which must be 0 or 1
	bools bool
	parts []part
}

// A part is count equal things that lie stride bytes apart: numbers, or layouts of their own.
type part struct {
	off    uintptr
	stride uintptr
	count  int
	kind   reflect.Kind // a number's; Struct when sub is set
	sub    *layout
}

// layoutOf returns the layout of a type, or nil when it is not plain.
func layoutOf(t reflect.Type) *layout {
	switch k := t.Kind(); {
	case k >= reflect.Bool && k <= reflect.Complex128:
		return &layout{size: t.Size(), wire: wireSize(k), raw: uint64(t.Size()) == wireSize(k) && native,
			bools: k == reflect.Bool, parts: []part{{stride: t.Size(), count: 1, kind: k}}}
	case k == reflect.Array:
		e := layoutOf(t.Elem())
		if e == nil {
			return nil
		}
		l := &layout{size: t.Size(), wire: e.wire * uint64(t.Len()), raw: e.raw, bools: e.bools}
		if t.Len() > 0 && e.wire > 0 {
			l.parts = []part{e.times(t.Len(), 0)}
		}
		return l
	case k == reflect.Struct:
		return layoutOfStruct(t)
	}
	return nil
}

// times is the part that holds n of a layout.
func (l *layout) times(n int, off uintptr) part {
	if only := l.parts[0]; len(l.parts) == 1 && only.count == 1 && only.off == 0 && only.sub == nil && only.stride == l.size {
		return part{off: off, stride: l.size, count: n, kind: only.kind}
	}
	return part{off: off, stride: l.size, count: n, kind: reflect.Struct, sub: l}
}

func layoutOfStruct(t reflect.Type) *layout {
	l := &layout{raw: native}
	for i := range t.NumField() {
		f := t.Field(i)
		if _, skip := skipTag(f); skip || f.Name == "_" {
			continue
		}
		e := layoutOf(f.Type)
		if e == nil {
			return nil
		}
		l.join(e, f.Offset)
	}
	l.size = t.Size()
	l.raw = l.raw && l.wire == uint64(l.size)
	return l
}

// join adds what lies at an offset to a layout. While all of it is raw and without gaps, so is the whole.
func (l *layout) join(e *layout, off uintptr) {
	if e.wire == 0 {
		return
	}
	l.raw = l.raw && e.raw && uint64(off) == l.wire
	l.bools = l.bools || e.bools
	l.wire += e.wire
	l.size = off + e.size
	l.parts = append(l.parts, e.times(1, off))
}

// wireSize is how many bytes a number takes in the data.
func wireSize(k reflect.Kind) uint64 {
	switch k {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return 1
	case reflect.Int16, reflect.Uint16:
		return 2
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		return 4
	case reflect.Complex128:
		return 16
	default:
		return 8
	}
}

// view is the memory of n bytes at v.
func view(v unsafe.Pointer, n uintptr) []byte { return unsafe.Slice((*byte)(v), n) }

func placeOf(v unsafe.Pointer, s shape) place { return place{uintptr(v), s} }

// plain packs, unpacks or counts the n values of layout l that lie one after the other at v.
func (p *Stream) plain(l *layout, v unsafe.Pointer, n int) {
	switch {
	case l.wire == 0: // nothing to save, however many
	case p.mode == sizing:
		p.size += l.wire * uint64(n)
	case l.raw:
		p.bytes(view(v, l.size*uintptr(n)), placeOf(v, anyShape))
		if l.bools && p.mode == unpacking {
			p.checkBools(l, v, n)
		}
	default:
		for k := range n {
			for _, part := range l.parts {
				p.part(part, unsafe.Add(v, uintptr(k)*l.size+part.off))
			}
			if p.mode == failed {
				return
			}
		}
	}
}

func (p *Stream) part(t part, v unsafe.Pointer) {
	switch {
	case t.sub != nil:
		p.plain(t.sub, v, t.count)
	case native:
		p.bytes(view(v, t.stride*uintptr(t.count)), placeOf(v, anyShape))
		if t.kind == reflect.Bool && p.mode == unpacking {
			p.checkBool(v, t.count)
		}
	default:
		for k := range t.count {
			if t.kind == reflect.Bool {
				at := unsafe.Add(v, uintptr(k)*t.stride)
				p.bytes(view(at, 1), placeOf(at, leafShape))
				if p.mode == unpacking {
					p.checkBool(at, 1)
				}
				continue
			}
			p.foreign(t.kind, unsafe.Add(v, uintptr(k)*t.stride))
		}
	}
}

// checkBools makes sure that every bool among n values of layout l is 0 or 1: any other byte would make a bool that
// is neither true nor false.
func (p *Stream) checkBools(l *layout, v unsafe.Pointer, n int) {
	for k := range n {
		for _, t := range l.parts {
			at := unsafe.Add(v, uintptr(k)*l.size+t.off)
			if t.sub != nil && t.sub.bools {
				p.checkBools(t.sub, at, t.count)
			} else if t.kind == reflect.Bool {
				p.checkBool(at, t.count)
			}
		}
	}
}

func (p *Stream) checkBool(v unsafe.Pointer, n int) {
	for i, b := range view(v, uintptr(n)) {
		if b > 1 {
			clear(view(v, uintptr(n)))
			p.fail(placeOf(unsafe.Add(v, i), leafShape), "%w: a bool of %d", ErrData, b)
			return
		}
	}
}

// foreign packs or unpacks one number on a machine whose memory is not as the data.
func (p *Stream) foreign(k reflect.Kind, v unsafe.Pointer) {
	var b [16]byte
	n := wireSize(k)
	if p.mode == packing {
		toWire(b[:], k, v)
	}
	p.bytes(b[:n], placeOf(v, leafShape))
	if p.mode == unpacking && !fromWire(b[:], k, v) {
		p.fail(placeOf(v, leafShape), "%w: % x does not fit a %v of this machine", ErrData, b[:n], k)
	}
}

func toWire(b []byte, k reflect.Kind, v unsafe.Pointer) {
	le := binary.LittleEndian
	switch k {
	case reflect.Int8, reflect.Uint8:
		b[0] = *(*byte)(v)
	case reflect.Int16, reflect.Uint16:
		le.PutUint16(b, *(*uint16)(v))
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		le.PutUint32(b, *(*uint32)(v))
	case reflect.Int:
		le.PutUint64(b, uint64(*(*int)(v)))
	case reflect.Uint:
		le.PutUint64(b, uint64(*(*uint)(v)))
	case reflect.Uintptr:
		le.PutUint64(b, uint64(*(*uintptr)(v)))
	case reflect.Complex64:
		c := *(*complex64)(v)
		le.PutUint32(b, math.Float32bits(real(c)))
		le.PutUint32(b[4:], math.Float32bits(imag(c)))
	case reflect.Complex128:
		c := *(*complex128)(v)
		le.PutUint64(b, math.Float64bits(real(c)))
		le.PutUint64(b[8:], math.Float64bits(imag(c)))
	default:
		le.PutUint64(b, *(*uint64)(v))
	}
}

// fromWire tells whether the number fits this machine's type.
func fromWire(b []byte, k reflect.Kind, v unsafe.Pointer) bool {
	le := binary.LittleEndian
	x := le.Uint64(b)
	switch k {
	case reflect.Int8, reflect.Uint8:
		*(*byte)(v) = b[0]
	case reflect.Int16, reflect.Uint16:
		*(*uint16)(v) = le.Uint16(b)
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		*(*uint32)(v) = le.Uint32(b)
	case reflect.Int:
		*(*int)(v) = int(x)
		return int64(int(x)) == int64(x)
	case reflect.Uint:
		*(*uint)(v) = uint(x)
		return uint64(uint(x)) == x
	case reflect.Uintptr:
		*(*uintptr)(v) = uintptr(x)
		return uint64(uintptr(x)) == x
	case reflect.Complex64:
		*(*complex64)(v) = complex(math.Float32frombits(le.Uint32(b)), math.Float32frombits(le.Uint32(b[4:])))
	case reflect.Complex128:
		*(*complex128)(v) = complex(math.Float64frombits(x), math.Float64frombits(le.Uint64(b[8:])))
	default:
		*(*uint64)(v) = x
	}
	return true
}
