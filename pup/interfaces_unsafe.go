package pup

import (
	"reflect"
	"unsafe"
)

// Tokens of interface values; those of types that came before follow: tokenType+number.
const (
	tokenDefine = 1 // a new type: its name, whether it is a pointer to it, its schema
	tokenType   = 2
)

// dynamic is which types interfaces have held so far in a stream.
type dynamic struct {
	numbers map[reflect.Type]uint64 // packing: number + 1
	types   []dynamicType           // unpacking
}

// dynamicType is a type that interfaces hold: T, or *T.
type dynamicType struct {
	info    *typeInfo
	pointer bool
	t       reflect.Type // unpacking: of what the interface holds
	fits    reflect.Type // the interface type that t was last found to implement
}

// Interface visits an interface value: nil, or its dynamic type by the name under which it is registered, and its
// content. T and *T may both stand in interfaces when T is registered; bool, string, numbers, []byte, []any,
// map[string]any and a few more are from the start.
func Interface[I any](p *Stream, v *I) {
	t := reflect.TypeFor[I]()
	switch {
	case p.mode == failed:
	case t.Kind() != reflect.Interface:
		Value(p, v)
	case p.mode == observing:
		p.observeInterface(t, unsafe.Pointer(v), any(*v))
	case p.mode == unpacking:
		p.unpackInterface(t, unsafe.Pointer(v), func(x any) bool {
			i, ok := x.(I)
			if ok || x == nil {
				*v = i
			}
			return ok || x == nil
		})
	default:
		p.packInterface(unsafe.Pointer(v), any(*v))
	}
}

func (p *Stream) packInterface(v unsafe.Pointer, x any) {
	at := placeOf(v, interfaceShape)
	if x == nil {
		token := uint64(tokenNil)
		p.uvarint(&token, at)
		return
	}
	t := reflect.TypeOf(x)
	line := p.infoOf(t)
	d := dynamicType{info: line.info}
	if d.info.reg == nil && t.Kind() == reflect.Pointer {
		d = dynamicType{info: d.info.elem, pointer: true}
	}
	if d.info.reg == nil {
		p.fail(at, "%w: it holds a %v, which is not registered", ErrType, t)
		return
	}
	if p.keys {
		name := d.info.reg.name
		String(p, &name)
		Bool(p, &d.pointer)
	} else {
		p.packType(line, d, at)
	}
	p.push(frame{at: at, of: v, t: t})
	if p.enter(at) {
		p.packContent(v, t, d)
		p.leave()
	}
	p.pop()
}

func (p *Stream) packContent(v unsafe.Pointer, t reflect.Type, d dynamicType) {
	data := contentOf(v, d.pointer || d.info.direct)
	if d.pointer {
		p.entry(nil, data)
		p.pointer(t, (*unsafe.Pointer)(data), d.info, nil, d.info.value)
		return
	}
	if d.info.code {
		data = variableOf(reflect.NewAt(t, data).Elem()).Addr().UnsafePointer()
	}
	p.entry(nil, data)
	p.value(d.info, data)
}

// packType names a dynamic type: at first by its definition, then by its number.
func (p *Stream) packType(line *cachedInfo, d dynamicType, at place) {
	y := &p.dynamic
	if line.number == 0 {
		t := line.info.t
		if y.numbers[t] == 0 {
			if y.numbers == nil {
				y.numbers = map[reflect.Type]uint64{}
			}
			y.numbers[t] = uint64(len(y.numbers)) + 1
			line.number = y.numbers[t]
			p.defineType(d, at)
			return
		}
		line.number = y.numbers[t]
	}
	token := tokenType + line.number - 1
	p.uvarint(&token, at)
}

func (p *Stream) defineType(d dynamicType, at place) {
	schema, err := d.info.schemaOf()
	if err != nil {
		p.fail(at, "%w", err)
		return
	}
	token, name := uint64(tokenDefine), d.info.reg.name
	p.uvarint(&token, at)
	String(p, &name)
	Bool(p, &d.pointer)
	String(p, &schema.text)
}

func (p *Stream) unpackInterface(i reflect.Type, v unsafe.Pointer, set func(any) bool) {
	at, token := placeOf(v, interfaceShape), uint64(0)
	p.uvarint(&token, at)
	y := &p.dynamic
	switch {
	case p.mode == failed:
		return
	case token == tokenNil:
		set(nil)
		return
	case token == tokenDefine:
		if p.undefineType(at); p.mode == failed {
			return
		}
		token = tokenType + uint64(len(y.types)) - 1
	case token-tokenType >= uint64(len(y.types)):
		p.fail(at, "%w: dynamic type %d of %d", ErrData, token-tokenType, len(y.types))
		return
	}
	d := &y.types[token-tokenType]
	if d.fits != i && !d.t.Implements(i) {
		p.fail(at, "%w: %v does not implement %v", ErrSchema, d.t, i)
		return
	}
	d.fits = i
	p.push(frame{at: at, of: v, t: d.t})
	if p.enter(at) {
		p.unpackContent(*d, set)
		p.leave()
	}
	p.pop()
}

func (p *Stream) unpackContent(d dynamicType, set func(any) bool) {
	make := func(int) unsafe.Pointer { return reflect.New(d.info.t).UnsafePointer() }
	unset := p.unset()
	if d.pointer {
		pointer := new(unsafe.Pointer)
		p.entry(nil, unsafe.Pointer(pointer))
		p.pointer(reflect.PointerTo(d.info.t), pointer, d.info, make, d.info.value)
		p.setLater(unset, func() { set(d.info.reg.boxPtr(*pointer)) })
		return
	}
	v := make(1)
	p.construct(d.info, v, 1)
	p.entry(nil, v)
	p.value(d.info, v)
	p.setLater(unset, func() { set(d.info.reg.box(v)) })
}

// setLater runs set now, or at the end when pointers in the value are not set yet.
func (p *Stream) setLater(unset int, set func()) {
	switch {
	case p.mode == failed:
	case p.unset() != unset:
		p.graph.later.atEnd(set)
	default:
		set()
	}
}

// undefineType reads the definition of a dynamic type and compares it with the program's type of that name.
func (p *Stream) undefineType(at place) {
	var name, text string
	var d dynamicType
	String(p, &name)
	Bool(p, &d.pointer)
	String(p, &text)
	if p.mode == failed {
		return
	}
	r := known.named(name)
	if r == nil {
		p.fail(at, "%w: no type of this program is registered as %.200q, nor has it as an alias", ErrSchema, name)
		return
	}
	d.info, d.t = known.info(r.t), r.t
	if d.pointer {
		d.t = reflect.PointerTo(r.t)
	}
	if d.info.fault != nil {
		p.fail(at, "%w", d.info.fault)
		return
	}
	if err := p.compare(d.info, text); err != nil {
		p.fail(at, "%w", err)
		return
	}
	p.dynamic.types = append(p.dynamic.types, d)
}

func (p *Stream) observeInterface(i reflect.Type, v unsafe.Pointer, x any) {
	if p.watch.visit(p, i, v) != content {
		return
	}
	defer p.watch.leave()
	if x == nil || !p.enter(placeOf(v, interfaceShape)) {
		return
	}
	defer p.leave()
	t := reflect.TypeOf(x)
	info := p.infoOf(t).info
	switch {
	case info.reg == nil && t.Kind() == reflect.Pointer:
		p.pointer(t, (*unsafe.Pointer)(contentOf(v, true)), info.elem, nil, info.elem.value)
	case info.reg == nil:
		p.fail(placeOf(v, interfaceShape), "%w: it holds a %v, which is not registered", ErrType, t)
	case info.code:
		x := variableOf(reflect.ValueOf(x))
		p.watch.entry(v, reflect.Value{}, x)
		p.value(info, x.Addr().UnsafePointer())
	default:
		p.value(info, contentOf(v, info.direct))
	}
}
