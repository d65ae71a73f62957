package pup

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// entry is a copy of one entry of a map: entries have no address of their own. Those that are sorted by their packed
// key find it in scratch.
type entry[K comparable, V any] struct {
	key      K
	val      V
	from, to int
}

// Map visits a map: its length, or that it is nil, and its entries in the order of their keys (strings, int, uint and
// integers of 32 and 64 bits by value, other keys by their packed bytes), so that equal maps have equal bytes.
func Map[M ~map[K]V, K comparable, V any](p *Stream, v *M, key func(*Stream, *K), val func(*Stream, *V)) {
	at := placeOf(unsafe.Pointer(v), mapShape)
	switch p.mode {
	case failed:
	case observing:
		observeMap(p, v, key, val)
	case unpacking:
		if p.graph == nil || p.sharedMap((*unsafe.Pointer)(unsafe.Pointer(v)), infoFor[M](p)) {
			unpackMap(p, v, key, val)
		}
	default:
		if p.graph != nil && !p.sharedMap((*unsafe.Pointer)(unsafe.Pointer(v)), infoFor[M](p)) {
			return
		}
		p.putLength(len(*v), *v == nil, at)
		if len(*v) == 0 || !p.enter(at) {
			return
		}
		p.push(frame{at: at, of: unsafe.Pointer(v), t: reflect.TypeFor[M]()})
		if !p.grant(reflect.TypeFor[M](), len(*v), entrySize[K, V](), at) {
			return
		}
		if p.anyOrder(reflect.TypeFor[K]()) {
			sizeMap(p, *v, key, val)
		} else {
			packMap(p, *v, key, val)
		}
		p.pop()
		p.leave()
	}
}

// entrySize is what an entry of a map is charged with.
func entrySize[K comparable, V any]() uintptr {
	var e entry[K, V]
	return unsafe.Sizeof(e.key) + unsafe.Sizeof(e.val)
}

// sizeMap adds up a map's entries; their order does not matter.
func sizeMap[M ~map[K]V, K comparable, V any](p *Stream, m M, key func(*Stream, *K), val func(*Stream, *V)) {
	e := new(entry[K, V])
	p.entry(unsafe.Pointer(&e.key), unsafe.Pointer(&e.val))
	for e.key, e.val = range m {
		before := p.pay(entrySize[K, V]())
		key(p, &e.key)
		val(p, &e.val)
		if !p.paid(before, entrySize[K, V](), place{}) {
			return
		}
	}
}

func packMap[M ~map[K]V, K comparable, V any](p *Stream, m M, key func(*Stream, *K), val func(*Stream, *V)) {
	list := sorted(p, m, key, val)
	for i := range list {
		e := &list[i]
		p.entry(unsafe.Pointer(&e.key), unsafe.Pointer(&e.val))
		before := p.pay(entrySize[K, V]())
		key(p, &e.key)
		val(p, &e.val)
		if !p.paid(before, entrySize[K, V](), place{}) {
			return
		}
	}
}

// sorted lists a map's entries in the order in which they are stored.
func sorted[M ~map[K]V, K comparable, V any](p *Stream, m M, key func(*Stream, *K), val func(*Stream, *V)) []entry[K, V] {
	list := make([]entry[K, V], 0, len(m))
	for k, v := range m {
		list = append(list, entry[K, V]{key: k, val: v})
	}
	if (len(list) > 1 || p.unordered(reflect.TypeFor[K]())) && !sortBasic(list) {
		sortPacked(p, list, key, val)
	}
	return list
}

// unordered tells whether keys of a type may have no order: pointers in a tree have none. That is refused even where nothing
// needs to be sorted, so that a map that can be saved still can when it has grown.
func (p *Stream) unordered(t reflect.Type) bool {
	return p.graph == nil && p.keyGraph == nil && holdsPointers(t)
}

// anyOrder tells whether the entries of a map may be visited as they come.
func (p *Stream) anyOrder(t reflect.Type) bool {
	return p.mode == sizing && p.graph == nil && !p.inOrder && !p.unordered(t)
}

// sortBasic sorts by keys that have an order of their own, and tells whether they have.
func sortBasic[K comparable, V any](list []entry[K, V]) bool {
	switch reflect.TypeFor[K]().Kind() {
	case reflect.String:
		slices.SortFunc(list, func(a, b entry[K, V]) int { return strings.Compare(as[string](&a.key), as[string](&b.key)) })
	case reflect.Int:
		sortAs[int](list)
	case reflect.Int64:
		sortAs[int64](list)
	case reflect.Int32:
		sortAs[int32](list)
	case reflect.Uint:
		sortAs[uint](list)
	case reflect.Uint64:
		sortAs[uint64](list)
	case reflect.Uint32:
		sortAs[uint32](list)
	default:
		return false
	}
	return true
}

func as[B, K any](k *K) B { return *(*B)(unsafe.Pointer(k)) }

func sortAs[B cmp.Ordered, K comparable, V any](list []entry[K, V]) {
	slices.SortFunc(list, func(a, b entry[K, V]) int { return cmp.Compare(as[B](&a.key), as[B](&b.key)) })
}

// sortPacked sorts by the packed bytes of the keys. Keys that are not equal to themselves may have the same bytes; then
// those of the values decide.
func sortPacked[K comparable, V any](p *Stream, list []entry[K, V], key func(*Stream, *K), val func(*Stream, *V)) {
	s := p.scratch()
	for i := range list {
		list[i].from = s.len()
		key(s.stream(), &list[i].key)
		list[i].to = s.len()
	}
	packed := func(e entry[K, V]) []byte { return s.data[e.from:e.to] }
	slices.SortFunc(list, func(a, b entry[K, V]) int { return bytes.Compare(packed(a), packed(b)) })
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && bytes.Equal(packed(list[i]), packed(list[j])) {
			j++
		}
		if j-i > 1 {
			for k := i; k < j; k++ {
				if list[k].key == list[k].key && s.close() == nil {
					p.alike(reflect.TypeFor[K](), j-i)
				}
				list[k].from = s.len()
				val(s.stream(), &list[k].val)
				list[k].to = s.len()
			}
			slices.SortFunc(list[i:j], func(a, b entry[K, V]) int { return bytes.Compare(packed(a), packed(b)) })
		}
		i = j
	}
	if err := s.close(); err != nil {
		p.stop(err)
	}
}

// alike refuses n keys of a map, not all of them NaNs, of which the data would keep one.
func (p *Stream) alike(t reflect.Type, n int) {
	p.fail(place{}, "%w: %d different keys of type %v are stored alike", ErrType, n, t)
}

func unpackMap[M ~map[K]V, K comparable, V any](p *Stream, v *M, key func(*Stream, *K), val func(*Stream, *V)) {
	at := placeOf(unsafe.Pointer(v), mapShape)
	k, i := infoFor[K](p), infoFor[V](p)
	n := p.getLength(0, at)
	if n < 0 {
		if p.mode != failed {
			*v = nil
		}
		return
	}
	if !p.enter(at) {
		return
	}
	if !p.grant(reflect.TypeFor[M](), n, entrySize[K, V](), at) {
		return
	}
	if p.reuse(*(*unsafe.Pointer)(unsafe.Pointer(v)), 1) {
		clear(*v)
	} else {
		*v = make(M, n)
	}
	p.madeMap(*(*unsafe.Pointer)(unsafe.Pointer(v)))
	p.push(frame{at: at, of: unsafe.Pointer(v), t: reflect.TypeFor[M]()})
	m, e := *v, new(entry[K, V])
	p.entry(unsafe.Pointer(&e.key), unsafe.Pointer(&e.val))
	for range n {
		*e = entry[K, V]{}
		unset := p.unset()
		p.construct(k, unsafe.Pointer(&e.key), 1)
		p.construct(i, unsafe.Pointer(&e.val), 1)
		before := p.pay(entrySize[K, V]())
		key(p, &e.key)
		val(p, &e.val)
		if !p.paid(before, entrySize[K, V](), place{}) {
			break
		}
		if late := e; p.unset() != unset {
			p.graph.later.atEnd(func() { m[late.key] = late.val })
			e = new(entry[K, V])
			p.entry(unsafe.Pointer(&e.key), unsafe.Pointer(&e.val))
			continue
		}
		m[e.key] = e.val
	}
	if p.mode != failed && p.graph == nil && len(m) != n && !nanKeys(k.t) {
		p.fail(at, "%w: %d entries, %d different keys", ErrData, n, len(m))
	}
	p.pop()
	p.leave()
}

// nanKeys tells whether a key may differ from itself.
func nanKeys(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128, reflect.Interface:
		return true
	case reflect.Array:
		return nanKeys(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if nanKeys(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

func observeMap[M ~map[K]V, K comparable, V any](p *Stream, v *M, key func(*Stream, *K), val func(*Stream, *V)) {
	at := placeOf(unsafe.Pointer(v), mapShape)
	switch p.watch.visit(p, reflect.TypeFor[M](), unsafe.Pointer(v)) {
	case content:
		if p.enter(at) {
			for k, x := range *v {
				e := &entry[K, V]{key: k, val: x}
				p.watch.entry(unsafe.Pointer(v), reflect.ValueOf(&e.key).Elem(), reflect.ValueOf(&e.val).Elem())
				key(p, &e.key)
				val(p, &e.val)
			}
			p.leave()
		}
		p.watch.leave()
	}
}
