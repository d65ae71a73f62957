package pup

import (
	"cmp"
	"math"
	"reflect"
	"runtime/metrics"
	"slices"
	"unsafe"
)

// Footprint returns how many bytes of the heap v takes: the variable itself (what v points to) and all memory that its
// traversal leads to, each allocation once, rounded up as the allocator does. Fields that are skipped count with their
// own size only, constants of the program not at all. Options are those of Marshal.
func Footprint(v any, opts ...Option) (uint64, error) {
	t, err := source(v)
	if err != nil {
		return 0, err
	}
	w := &weigher{entered: map[visited]bool{}}
	w.span(t.v.Pointer(), t.info.t.Size(), hasPointers(t.info.t))
	p := &Stream{state: state{mode: observing, watch: w, maxDepth: math.MaxInt}}
	p.push(frame{t: t.info.t, val: t.v.UnsafePointer()})
	p.value(t.info, t.v.UnsafePointer())
	for len(w.queue) > 0 && p.mode != failed {
		d := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		d.visit(p, d.v)
	}
	if p.err != nil {
		return 0, p.err
	}
	return w.sum(), nil
}

// weigher is the observer that finds out which memory a value takes.
type weigher struct {
	entered map[visited]bool
	spans   []memorySpan
	loose   []uintptr // sizes of allocations whose addresses are not known
	queue   []deferred
}

// memorySpan is memory that something leads to.
type memorySpan struct {
	base, size uintptr
	pointers   bool
}

func (w *weigher) span(base, size uintptr, pointers bool) {
	if size > 0 && !(runtimeHas.image.holds() && static(base)) {
		w.spans = append(w.spans, memorySpan{base, size, pointers})
	}
}

func (w *weigher) enter(addr uintptr, t reflect.Type) descent {
	key := visited{addr, t}
	if w.entered[key] {
		return stop
	}
	w.entered[key] = true
	return content
}

func (w *weigher) visit(_ *Stream, t reflect.Type, v unsafe.Pointer) descent {
	switch t.Kind() {
	case reflect.String:
		s := *(*string)(v)
		w.span(uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(len(s)), false)
	case reflect.Slice:
		h := (*sliceHeader)(v)
		w.span(uintptr(h.data), uintptr(h.cap)*t.Elem().Size(), hasPointers(t.Elem()))
		if h.len > 0 && hasPointers(t.Elem()) {
			return w.enter(uintptr(h.data), t)
		}
	case reflect.Pointer:
		if at := *(*uintptr)(v); at != 0 {
			w.span(at, t.Elem().Size(), hasPointers(t.Elem()))
			return w.enter(at, t)
		}
	case reflect.Map:
		if at := *(*unsafe.Pointer)(v); at != nil && w.enter(uintptr(at), t) == content {
			w.mapSpans(t, at, reflect.NewAt(t, v).Elem().Len())
			return content
		}
	case reflect.Interface:
		return w.boxed(reflect.NewAt(t, v).Elem(), v)
	default:
		w.inside(t, v)
	}
	return stop
}

// boxed counts what an interface has on the heap for itself.
func (w *weigher) boxed(x reflect.Value, v unsafe.Pointer) descent {
	if x.IsNil() {
		return stop
	}
	t := x.Elem().Type()
	if !known.info(t).direct {
		w.span(uintptr((*eface)(v).data), t.Size(), hasPointers(t))
	}
	return content
}

// inside counts what a value that is visited as a whole leads to, as far as it is known: big numbers have a slice.
func (w *weigher) inside(t reflect.Type, v unsafe.Pointer) {
	if t.Kind() != reflect.Struct || !hasPointers(t) || t.PkgPath() != "math/big" {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		at := unsafe.Add(v, f.Offset)
		if f.Type.Kind() == reflect.Slice {
			w.visit(nil, f.Type, at)
		} else {
			w.inside(f.Type, at)
		}
	}
}

func (w *weigher) leave()                                             {}
func (w *weigher) entry(unsafe.Pointer, reflect.Value, reflect.Value) {}
func (w *weigher) skip(*Stream, reflect.Type, unsafe.Pointer, string) {}

func hasPointers(t reflect.Type) bool {
	switch k := t.Kind(); {
	case k <= reflect.Complex128:
		return false
	case k == reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case k == reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return true
}

// sum adds up the allocations that the spans lie in. Spans that overlap are one.
func (w *weigher) sum() uint64 {
	slices.SortFunc(w.spans, func(a, b memorySpan) int { return cmp.Compare(a.base, b.base) })
	classes := sizeClasses()
	total, tiny := uint64(0), uintptr(0)
	for i := 0; i < len(w.spans); {
		s := w.spans[i]
		for i++; i < len(w.spans) && w.spans[i].base < s.base+s.size; i++ {
			s.size = max(s.size, w.spans[i].base+w.spans[i].size-s.base)
			s.pointers = s.pointers || w.spans[i].pointers
		}
		if s.size < 16 && !s.pointers { // the allocator puts several of these into one block
			if block := s.base &^ 15; block != tiny {
				total, tiny = total+16, block
			}
			continue
		}
		total += allocated(classes, s.size, s.pointers)
	}
	for _, size := range w.loose {
		total += allocated(classes, size, true)
	}
	return total
}

// allocated is what the allocator takes for an object.
func allocated(classes []uintptr, size uintptr, pointers bool) uint64 {
	const header, withHeader, page = 8, 512, 8 << 10
	if pointers && size > withHeader {
		size += header
	}
	if i, _ := slices.BinarySearch(classes, size); i < len(classes) {
		return uint64(classes[i])
	}
	if pointers {
		size -= header // large objects have none
	}
	return uint64(size+page-1) / page * page
}

// sizeClasses asks the runtime for the sizes of its small objects.
func sizeClasses() []uintptr {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs-by-size:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil
	}
	var list []uintptr
	for _, b := range sample[0].Value.Float64Histogram().Buckets {
		if b > 1 && !math.IsInf(b, 1) {
			list = append(list, uintptr(b)-1)
		}
	}
	return list
}

// The runtime's maps, as far as their size goes (internal/runtime/maps, from Go 1.24 on).
type runtimeMap struct {
	used        uint64
	seed        uintptr
	dir         unsafe.Pointer
	dirLen      int
	globalDepth uint8
}

type runtimeTable struct {
	used, capacity, growthLeft uint16
	localDepth                 uint8
	index                      int
	groups                     unsafe.Pointer
	lengthMask                 uint64
}

const (
	groupSlots   = 8
	mostInline   = 128 // bytes of a key or value that stands in the map itself
	mapHeader    = 48
	tableHeader  = 32
	pointerBytes = unsafe.Sizeof(uintptr(0))
)

// group is how many bytes eight entries take in a map, and what an entry takes outside.
func group(t reflect.Type) (size, outside uintptr) {
	part := func(t reflect.Type) (size, align uintptr) {
		if t.Size() > mostInline {
			outside += t.Size()
			return pointerBytes, pointerBytes
		}
		return t.Size(), uintptr(t.Align())
	}
	k, ka := part(t.Key())
	v, va := part(t.Elem())
	align := max(ka, va)
	slot := (k + va - 1) / va * va
	slot = (slot + v + align - 1) / align * align
	if v == 0 && k > 0 {
		slot += align // so that a pointer to the value stays inside
	}
	return (8 + groupSlots*slot + align - 1) / align * align, outside
}

// mapSpans counts the memory of a map with n entries.
func (w *weigher) mapSpans(t reflect.Type, at unsafe.Pointer, n int) {
	size, outside := group(t)
	pointers := hasPointers(t.Key()) || hasPointers(t.Elem()) || outside > 0
	w.span(uintptr(at), mapHeader, true)
	for range n * min(int(outside), 1) {
		w.loose = append(w.loose, outside)
	}
	m := (*runtimeMap)(at)
	if !runtimeHas.tables.holds() || m.used != uint64(n) {
		w.loose = append(w.loose, size*uintptr(tableGroups(n)))
		return
	}
	if m.dirLen == 0 {
		if m.dir != nil {
			w.span(uintptr(m.dir), size, pointers)
		}
		return
	}
	w.span(uintptr(m.dir), uintptr(m.dirLen)*pointerBytes, true)
	for _, t := range unsafe.Slice((**runtimeTable)(m.dir), m.dirLen) {
		w.span(uintptr(unsafe.Pointer(t)), tableHeader, true)
		w.span(uintptr(t.groups), size*uintptr(t.lengthMask+1), pointers)
	}
}

// tableGroups is how many groups a map with n entries has that only grew.
func tableGroups(n int) int {
	groups := 1
	for groups*groupSlots*7/8 < n {
		groups *= 2
	}
	return groups
}

// tablesAreKnown tells whether this runtime's maps are as they are written down above.
func tablesAreKnown() bool {
	const n = 3000
	m := map[int32]int64{}
	for i := range int32(n) {
		m[i] = int64(i)
	}
	r := *(**runtimeMap)(unsafe.Pointer(&m))
	if r.used != n || r.dirLen < 2 || r.dirLen > 64 || r.dirLen&(r.dirLen-1) != 0 || r.dirLen != 1<<r.globalDepth {
		return false
	}
	sum, last := 0, (*runtimeTable)(nil)
	for _, t := range unsafe.Slice((**runtimeTable)(r.dir), r.dirLen) {
		if t != last {
			sum, last = sum+int(t.used), t
		}
		if uint64(t.capacity) != (t.lengthMask+1)*groupSlots {
			return false
		}
	}
	return sum == n && len(m) == n
}
