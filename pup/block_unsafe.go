package pup

import (
	"fmt"
	"reflect"
	"unsafe"
)

// A Block is some neighbouring fields of a structure T that are plain: they are visited with one copy of memory.
type Block[T any] struct{ b block }

// block is a Block without its type.
type block struct {
	t      reflect.Type
	off    uintptr
	l      *layout
	fields []string
	copied bool // nothing but a copy is needed
	fault  error
}

// BlockOf makes a block of fields, in the order of the structure, none left out in between. A mistake is reported when
// the block is used. On machines where the
// fields are not one piece of memory they are visited one by one, with the same bytes as the outcome.
func BlockOf[T any](fields ...string) Block[T] {
	return Block[T]{blockOf(reflect.TypeFor[T](), fields)}
}

func blockOf(t reflect.Type, fields []string) block {
	b := block{t: t, fields: fields}
	if t.Kind() != reflect.Struct || len(fields) == 0 {
		b.fault = fmt.Errorf("%w: a block of %d fields of %v, want some of a structure", ErrType, len(fields), t)
		return b
	}
	first, ok := t.FieldByName(fields[0])
	if !ok || len(first.Index) != 1 || first.Index[0]+len(fields) > t.NumField() {
		b.fault = fmt.Errorf("%w: block of %v: no fields %q", ErrType, t, fields)
		return b
	}
	b.off, b.l = first.Offset, &layout{raw: native}
	for n, name := range fields {
		f := t.Field(first.Index[0] + n)
		l := layoutOf(f.Type)
		if f.Name != name || l == nil {
			b.fault = fmt.Errorf("%w: block of %v: found %s %v, want plain fields %q one after the other", ErrType, t, f.Name, f.Type, fields)
			return b
		}
		b.l.join(l, f.Offset-b.off)
	}
	b.copied = b.l.raw && !b.l.bools
	return b
}

// PUP visits the block's fields of *x.
func (b *Block[T]) PUP(p *Stream, x *T) { b.b.visit(p, unsafe.Pointer(x)) }

func (b *block) visit(p *Stream, x unsafe.Pointer) {
	v := unsafe.Add(x, b.off)
	if p.direct && b.copied {
		switch {
		case p.mode == sizing:
			p.size += b.l.wire
			return
		case int(b.l.size) > len(p.win)-p.pos:
		case p.mode == packing:
			p.pos += copy(p.win[p.pos:], view(v, b.l.size))
			return
		default:
			p.pos += copy(view(v, b.l.size), p.win[p.pos:])
			return
		}
	}
	switch {
	case p.mode == failed:
	case b.fault != nil:
		p.fail(placeOf(x, objectShape), "%w", b.fault)
	case p.mode == observing || p.evolving:
		b.each(p, x)
	default:
		p.plain(b.l, v, 1)
	}
}

// each visits the fields one by one.
func (b *block) each(p *Stream, x unsafe.Pointer) {
	for _, name := range b.fields {
		f, _ := b.t.FieldByName(name)
		p.plainValue(f.Type, p.infoOf(f.Type).info, unsafe.Add(x, f.Offset))
	}
}
