package pup

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

// makeByKind gives a type the traversal that its kind has.
func (k *registry) makeByKind(i *typeInfo) {
	t := i.t
	switch t.Kind() {
	case reflect.String:
		i.least = 1
		i.visit = func(p *Stream, v unsafe.Pointer) {
			if p.mode == observing {
				p.watch.visit(p, t, v)
			} else {
				String(p, (*string)(v))
			}
		}
	case reflect.Slice:
		i.elem, i.least = k.make(t.Elem()), 1
		i.make = func(n int) unsafe.Pointer { return reflect.MakeSlice(reflect.SliceOf(t.Elem()), n, n).UnsafePointer() }
		i.visit = func(p *Stream, v unsafe.Pointer) { p.sliceOf(i, (*sliceHeader)(v)) }
	case reflect.Array:
		i.elem = k.make(t.Elem())
		i.least = i.elem.least * uint64(t.Len())
		if e := i.elem; e.init != nil && i.init == nil {
			i.init = func(v unsafe.Pointer) {
				for n := range uintptr(t.Len()) {
					e.init(unsafe.Add(v, n*e.t.Size()))
				}
			}
		}
		i.visit = func(p *Stream, v unsafe.Pointer) { p.arrayOf(i, v) }
	case reflect.Pointer:
		i.elem, i.least = k.make(t.Elem()), 1
		i.make = func(int) unsafe.Pointer { return reflect.New(t.Elem()).UnsafePointer() }
		i.visit = func(p *Stream, v unsafe.Pointer) {
			p.pointer(t, (*unsafe.Pointer)(v), i.elem, i.make, i.elem.value)
		}
	case reflect.Map:
		i.key, i.elem, i.least = k.make(t.Key()), k.make(t.Elem()), 1
		i.visit = func(p *Stream, v unsafe.Pointer) { p.mapOf(i, v) }
	case reflect.Interface:
		i.least = 1
		i.visit = func(p *Stream, v unsafe.Pointer) { p.interfaceOf(i, v) }
	case reflect.Struct:
		k.makeStruct(i)
	default:
		i.refuse(fmt.Errorf("no values of kind %v", t.Kind()))
	}
}

func (k *registry) makeStruct(i *typeInfo) {
	t := i.t
	for n := range t.NumField() {
		f := t.Field(n)
		if i.skipped(f) {
			continue
		}
		x := k.make(f.Type)
		i.fields = append(i.fields, field{f.Name, f.Offset, x})
		i.least += x.least
	}
	i.initFields()
	i.steps = stepsOf(i.fields)
	i.visit = func(p *Stream, v unsafe.Pointer) { p.structOf(i, i.steps, v) }
}

// initFields makes the start of a structure from those of its fields.
func (i *typeInfo) initFields() {
	if i.init != nil {
		return
	}
	var own []field
	for _, f := range i.fields {
		if f.info.init != nil {
			own = append(own, f)
		}
	}
	if own != nil {
		i.init = func(v unsafe.Pointer) {
			for _, f := range own {
				f.info.init(unsafe.Add(v, f.off))
			}
		}
	}
}

// step is one part of the way through a structure.
type step struct {
	kind stepKind
	off  uintptr
	size uintptr // rawStep: of the memory; plainsStep: of an element
	info *typeInfo
}

type stepKind uint8

const (
	otherStep   stepKind = iota // as its type says
	rawStep                     // memory that is the data
	textStep                    // a string
	plainsStep                  // a slice of elements whose memory is the data
	pointerStep                 // a pointer
)

// stepsOf joins neighbouring plain fields whose memory is the data, and marks the other common ones.
func stepsOf(fields []field) []step {
	var steps []step
	for _, f := range fields {
		s := step{otherStep, f.off, 0, f.info}
		l, n, byKind := f.info.layout, len(steps)-1, f.info.byKind()
		switch {
		case l != nil && l.raw && !l.bools:
			if n >= 0 && steps[n].kind == rawStep && steps[n].off+steps[n].size == f.off {
				steps[n].size += l.size
				continue
			}
			s.kind, s.size = rawStep, l.size
		case byKind && f.info.t.Kind() == reflect.String:
			s.kind = textStep
		case byKind && f.info.t.Kind() == reflect.Pointer:
			s.kind = pointerStep
		case byKind && f.info.t.Kind() == reflect.Slice:
			if e := f.info.elemLayout(); e != nil && e.raw && !e.bools && e.size > 0 {
				s.kind, s.size = plainsStep, e.size
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// byKind tells whether a type is traversed as its kind says, by nobody's code.
func (i *typeInfo) byKind() bool {
	return i.fault == nil && (i.class == ReflectedClass || i.class == GeneratedClass)
}

// elemLayout is the layout of plain elements. A type that is not worked out yet, because it holds itself, has none.
func (i *typeInfo) elemLayout() *layout {
	if i.elem == nil {
		return nil
	}
	return i.elem.layout
}

// structOf visits a structure by its steps. The short ways stand here in full: this is where most of the time of most
// traversals goes.
func (p *Stream) structOf(i *typeInfo, steps []step, v unsafe.Pointer) {
	switch {
	case p.mode == observing || p.evolving:
		for _, f := range i.fields {
			p.value(f.info, unsafe.Add(v, f.off))
		}
		return
	case p.direct && p.mode == packing:
		p.packAll(i, v, 1, 0)
		return
	case p.direct && p.mode == unpacking:
		p.unpackAll(i, v, 1, 0)
		return
	case p.direct && p.mode == sizing:
		p.sizeSteps(steps, v, 1, 0)
		return
	}
	if p.graph != nil && p.mode == packing {
		p.graph.regions.near(steps, v)
	}
	for k := range steps {
		p.step1(&steps[k], unsafe.Add(v, steps[k].off))
	}
}

// step1 makes one step in any direction.
func (p *Stream) step1(s *step, at unsafe.Pointer) {
	switch {
	case s.kind == pointerStep && p.graph != nil:
		p.graphPointer((*unsafe.Pointer)(at), s.info.elem, s.info.make, s.info.elem.value)
	case s.kind != rawStep:
		p.value(s.info, at)
	case p.mode == sizing:
		p.size += uint64(s.size)
	default:
		p.bytes(view(at, s.size), placeOf(at, anyShape))
	}
}

// settle pays for the elements of a slice, stride bytes each, from number done to number n.
func (p *Stream) settle(done, n, stride uintptr) uintptr {
	p.ahead -= uint64((n - done) * stride)
	return n
}

// packSteps packs n structures that lie stride bytes apart. The short ways stand here in full, without calls: most of
// the time of most traversals goes here.
func (p *Stream) packSteps(steps []step, v unsafe.Pointer, n int, stride uintptr) {
	win, pos, paid := p.win, p.pos, uintptr(0)
	for e := range uintptr(n) {
		x := unsafe.Add(v, e*stride)
		for k := range steps {
			s := &steps[k]
			at, room := unsafe.Add(x, s.off), len(win)-pos
			switch s.kind { // a pointer into the window is made only where there is room: one behind the end must not exist
			case rawStep:
				if int(s.size) <= room {
					moveRaw(unsafe.Add(unsafe.Pointer(unsafe.SliceData(win)), pos), at, s.size)
					pos += int(s.size)
					continue
				}
			case textStep:
				text := *(*string)(at)
				if n := len(text); n < 0x80 && n < room {
					win[pos] = byte(n)
					copy(win[pos+1:], text)
					pos += 1 + n
					continue
				}
			case plainsStep:
				h := (*sliceHeader)(at)
				if size := h.len * int(s.size); h.len < 0x7f && size < room && h.len > 0 {
					win[pos] = byte(h.len + 1)
					copy(win[pos+1:], view(h.data, uintptr(size)))
					pos += 1 + size
					continue
				}
			}
			p.pos = pos
			paid = p.settle(paid, e+1, stride)
			if p.step1(s, at); p.mode == failed {
				return
			}
			win, pos = p.win, p.pos
		}
	}
	p.pos = pos
	p.settle(paid, uintptr(n), stride)
}

// sizeSteps is packSteps for sizing.
func (p *Stream) sizeSteps(steps []step, v unsafe.Pointer, n int, stride uintptr) {
	size, paid := uint64(0), uintptr(0)
	for e := range uintptr(n) {
		for k := range steps {
			s := &steps[k]
			at := unsafe.Add(v, e*stride+s.off)
			switch s.kind {
			case rawStep:
				size += uint64(s.size)
			case textStep:
				n := uint64(len(*(*string)(at)))
				size += n + uint64(uvarintLen(n))
			case plainsStep:
				n := uint64((*sliceHeader)(at).len)
				size += n*uint64(s.size) + uint64(uvarintLen(n+1)) // nil takes one byte as well
			default:
				paid = p.settle(paid, e+1, stride)
				if p.step1(s, at); p.mode == failed {
					return
				}
			}
		}
	}
	p.size += size
	p.settle(paid, uintptr(n), stride)
}

func (p *Stream) sliceOf(i *typeInfo, v *sliceHeader) {
	if i.elem.layout != nil {
		p.plainSlice(i, v)
		return
	}
	e := i.elem
	visit, steps := e.value, p.direct && e.steps != nil && e.least > 0 && e.fault == nil
	if at := placeOf(unsafe.Pointer(v), sliceShape); steps && p.mode != unpacking && v.data != nil {
		p.putLength(v.len, false, at)
		if !p.enter(at) {
			return
		}
		if !p.grant(e.t, v.len, e.t.Size(), at) {
			return
		}
		if p.mode == packing {
			p.packAll(e, v.data, v.len, e.t.Size())
		} else {
			p.sizeSteps(e.steps, v.data, v.len, e.t.Size())
		}
		p.leave()
		return
	}
	if steps && p.mode == unpacking {
		visit = nil
	}
	p.slice(i.t, v, e, i.make, p.least(e), visit)
}

func (p *Stream) arrayOf(i *typeInfo, v unsafe.Pointer) {
	if at := placeOf(v, arrayShape); i.t.Len() > 0 && p.enter(at) {
		p.each(v, i.t.Len(), i.elem.t.Size(), i.elem.value)
		p.leave()
	}
}

func (p *Stream) interfaceOf(i *typeInfo, v unsafe.Pointer) {
	variable := reflect.NewAt(i.t, v).Elem()
	switch p.mode {
	case failed:
	case observing:
		p.observeInterface(i.t, v, variable.Interface())
	case unpacking:
		p.unpackInterface(i.t, v, func(x any) bool {
			if x == nil {
				variable.SetZero()
			} else {
				variable.Set(reflect.ValueOf(x))
			}
			return true
		})
	default:
		p.packInterface(v, variable.Interface())
	}
}

// mapOf is Map by reflection.
func (p *Stream) mapOf(i *typeInfo, v unsafe.Pointer) {
	at, m := placeOf(v, mapShape), reflect.NewAt(i.t, v).Elem()
	switch p.mode {
	case failed:
	case observing:
		p.observeMapOf(i, v, m)
	case unpacking:
		if p.graph == nil || p.sharedMap((*unsafe.Pointer)(v), i) {
			p.unpackMapOf(i, v, m)
		}
	default:
		if p.graph != nil && !p.sharedMap((*unsafe.Pointer)(v), i) {
			return
		}
		p.putLength(m.Len(), m.IsNil(), at)
		if m.Len() == 0 || !p.enter(at) {
			return
		}
		if !p.grant(i.t, m.Len(), i.entrySize(), at) {
			return
		}
		p.push(frame{at: at, of: v, t: i.t})
		for _, e := range p.sortedOf(i, m) {
			k, x := e.key.UnsafePointer(), e.val.UnsafePointer()
			p.entry(k, x)
			before := p.pay(i.entrySize())
			p.value(i.key, k)
			p.value(i.elem, x)
			if !p.paid(before, i.entrySize(), place{}) {
				break
			}
		}
		p.pop()
		p.leave()
	}
}

// entrySize is what an entry of a map is charged with.
func (i *typeInfo) entrySize() uintptr { return i.key.t.Size() + i.elem.t.Size() }

// entryOf is a copy of a map's entry: pointers to its key and value.
type entryOf struct {
	key, val reflect.Value
	from, to int // the packed key in scratch
}

func entries(m reflect.Value) []entryOf {
	n := m.Len()
	list := make([]entryOf, 0, n)
	keys, vals := reflect.MakeSlice(reflect.SliceOf(m.Type().Key()), n, n), reflect.MakeSlice(reflect.SliceOf(m.Type().Elem()), n, n)
	for it := m.MapRange(); it.Next(); {
		key, val := keys.Index(len(list)), vals.Index(len(list))
		key.SetIterKey(it)
		val.SetIterValue(it)
		list = append(list, entryOf{key: key.Addr(), val: val.Addr()})
	}
	return list
}

// sortedOf lists the entries of a map in the order in which Map stores them.
func (p *Stream) sortedOf(i *typeInfo, m reflect.Value) []entryOf {
	list := entries(m)
	if p.anyOrder(i.key.t) || len(list) < 2 && !p.unordered(i.key.t) {
		return list
	}
	switch i.key.t.Kind() {
	case reflect.String:
		slices.SortFunc(list, func(a, b entryOf) int { return cmp.Compare(a.key.Elem().String(), b.key.Elem().String()) })
		return list
	case reflect.Int, reflect.Int64, reflect.Int32:
		slices.SortFunc(list, func(a, b entryOf) int { return cmp.Compare(a.key.Elem().Int(), b.key.Elem().Int()) })
		return list
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		slices.SortFunc(list, func(a, b entryOf) int { return cmp.Compare(a.key.Elem().Uint(), b.key.Elem().Uint()) })
		return list
	}
	s := p.scratch()
	pack := func(list []entryOf, what func(e entryOf)) {
		for n := range list {
			list[n].from = s.len()
			what(list[n])
			list[n].to = s.len()
		}
		slices.SortFunc(list, func(a, b entryOf) int { return bytes.Compare(s.data[a.from:a.to], s.data[b.from:b.to]) })
	}
	pack(list, func(e entryOf) { i.key.value(s.stream(), e.key.UnsafePointer()) })
	same := func(a, b entryOf) bool { return bytes.Equal(s.data[a.from:a.to], s.data[b.from:b.to]) }
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && same(list[from], list[to]) {
			to++
		}
		if to-from > 1 { // keys that are not equal to themselves
			if s.close() == nil && slices.ContainsFunc(list[from:to], func(e entryOf) bool { return e.key.Elem().Equal(e.key.Elem()) }) {
				p.alike(i.key.t, to-from)
			}
			pack(list[from:to], func(e entryOf) { i.elem.value(s.stream(), e.val.UnsafePointer()) })
		}
		from = to
	}
	if err := s.close(); err != nil {
		p.stop(err)
	}
	return list
}

func (p *Stream) unpackMapOf(i *typeInfo, v unsafe.Pointer, m reflect.Value) {
	at := placeOf(v, mapShape)
	n := p.getLength(p.least(i.key)+p.least(i.elem), at)
	if n < 0 {
		if p.mode != failed {
			m.SetZero()
		}
		return
	}
	if !p.enter(at) {
		return
	}
	if !p.grant(i.t, n, i.entrySize(), at) {
		return
	}
	if p.reuse(m.UnsafePointer(), 1) {
		m.Clear()
	} else {
		m.Set(reflect.MakeMapWithSize(i.t, n))
	}
	p.madeMap(*(*unsafe.Pointer)(v))
	p.push(frame{at: at, of: v, t: i.t})
	k, x, target := reflect.New(i.key.t), reflect.New(i.elem.t), reflect.ValueOf(m.Interface())
	for range n {
		p.construct(i.key, k.UnsafePointer(), 1)
		p.construct(i.elem, x.UnsafePointer(), 1)
		p.entry(k.UnsafePointer(), x.UnsafePointer())
		unset := p.unset()
		before := p.pay(i.entrySize())
		p.value(i.key, k.UnsafePointer())
		p.value(i.elem, x.UnsafePointer())
		if !p.paid(before, i.entrySize(), place{}) {
			break
		}
		if p.unset() == unset {
			target.SetMapIndex(k.Elem(), x.Elem())
			k.Elem().SetZero()
			x.Elem().SetZero()
			continue
		}
		late, with := k, x
		p.graph.later.atEnd(func() { target.SetMapIndex(late.Elem(), with.Elem()) })
		k, x = reflect.New(i.key.t), reflect.New(i.elem.t)
	}
	if p.mode != failed && p.graph == nil && m.Len() != n && !nanKeys(i.key.t) {
		p.fail(at, "%w: %d entries, %d different keys", ErrData, n, m.Len())
	}
	p.pop()
	p.leave()
}

func (p *Stream) observeMapOf(i *typeInfo, v unsafe.Pointer, m reflect.Value) {
	switch p.watch.visit(p, i.t, v) {
	case content:
		if p.enter(placeOf(v, mapShape)) {
			for _, e := range entries(m) {
				p.watch.entry(v, e.key.Elem(), e.val.Elem())
				p.value(i.key, e.key.UnsafePointer())
				p.value(i.elem, e.val.UnsafePointer())
			}
			p.leave()
		}
		p.watch.leave()
	}
}

// unpackSteps is packSteps the other way.
func (p *Stream) unpackSteps(steps []step, v unsafe.Pointer, n int, stride uintptr) {
	win, pos, paid := p.win, p.pos, uintptr(0)
	for e := range uintptr(n) {
		x := unsafe.Add(v, e*stride)
		for k := range steps {
			s := &steps[k]
			at, room := unsafe.Add(x, s.off), len(win)-pos
			switch s.kind {
			case rawStep:
				if int(s.size) <= room {
					moveRaw(at, unsafe.Add(unsafe.Pointer(unsafe.SliceData(win)), pos), s.size)
					pos += int(s.size)
					continue
				}
			case textStep:
				if text := (*string)(at); room > 0 {
					if n := int(win[pos]); n < 0x80 && n < room {
						if b := win[pos+1 : pos+1+n]; p.claims == nil || string(b) != *text {
							*text = p.shortString(b)
						}
						pos += 1 + n
						continue
					}
				}
			case plainsStep:
				if room == 0 {
					break
				}
				n := int(win[pos]) - 1
				if size := n * int(s.size); n > 0 && n < 0x7f && size < room {
					h := (*sliceHeader)(at)
					if h.cap >= n && p.reuse(h.data, uintptr(size)) {
						h.len = n
					} else {
						*h = sliceHeader{p.makePlain(s.info.elem.layout, n), n, n}
					}
					pos += 1 + copy(view(h.data, uintptr(size)), win[pos+1:])
					continue
				}
			}
			p.pos = pos
			paid = p.settle(paid, e+1, stride)
			if p.step1(s, at); p.mode == failed {
				return
			}
			win, pos = p.win, p.pos
		}
	}
	p.pos = pos
	p.settle(paid, uintptr(n), stride)
}

// moveRaw copies n bytes. Sizes of structures are the same again and again, so the jump is foreseen, and no call is made.
func moveRaw(to, from unsafe.Pointer, n uintptr) {
	switch n {
	case 8:
		*(*[8]byte)(to) = *(*[8]byte)(from)
	case 16:
		*(*[16]byte)(to) = *(*[16]byte)(from)
	case 24:
		*(*[24]byte)(to) = *(*[24]byte)(from)
	case 32:
		*(*[32]byte)(to) = *(*[32]byte)(from)
	case 40:
		*(*[40]byte)(to) = *(*[40]byte)(from)
	case 48:
		*(*[48]byte)(to) = *(*[48]byte)(from)
	case 56:
		*(*[56]byte)(to) = *(*[56]byte)(from)
	case 64:
		*(*[64]byte)(to) = *(*[64]byte)(from)
	case 72:
		*(*[72]byte)(to) = *(*[72]byte)(from)
	case 80:
		*(*[80]byte)(to) = *(*[80]byte)(from)
	case 88:
		*(*[88]byte)(to) = *(*[88]byte)(from)
	case 96:
		*(*[96]byte)(to) = *(*[96]byte)(from)
	case 104:
		*(*[104]byte)(to) = *(*[104]byte)(from)
	case 112:
		*(*[112]byte)(to) = *(*[112]byte)(from)
	case 120:
		*(*[120]byte)(to) = *(*[120]byte)(from)
	case 128:
		*(*[128]byte)(to) = *(*[128]byte)(from)
	default:
		copy(view(to, n), view(from, n))
	}
}
