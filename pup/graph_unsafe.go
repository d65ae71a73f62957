package pup

import (
	"fmt"
	"unsafe"
)

// A graph keeps track of the memory that pointers and slices lead to, so that what is shared is stored once.
//
// Memory is known as regions: count values of one type, one after the other. Packing goes over the value twice, in the
// same order: first to discover all regions, then, when it is known which lie in others (seal), to pack. Unpacking
// numbers objects in the order in which the data brings them.
type graph struct {
	regions regions
	nesting nesting
	objects objects
	later   later
	sealed  bool // all regions are discovered
	rooted  bool // packing: the first region is the packed variable itself
}

// regions are what packing has found, in the order of discovery.
type regions struct {
	list    pieces[region]
	index   index
	sizes   []uintptr // of the types of regions, by their numbers
	named   uint64    // how many have the number of an object
	touched byte      // the sum of bytes that were read for nothing but to be near
}

// nesting is which regions lie in others.
type nesting struct {
	owners map[int]int // a region that lies in another: which
	inner  bool        // some do, or sizes come out otherwise for another reason
}

// objects are what unpacking has made, in the order in which the data brings them.
type objects struct {
	list     pieces[object]
	pending  map[uint64][]fixup // pointers and slices into objects that are not made yet
	open     int                // how many there were so far
	newMap   *typeInfo          // of the map that comes
	lastPath resolved
}

// later is what waits until a traversal is further.
type later struct {
	queue []deferred
	final []func()
}

// region is memory that the packed value leads to. It keeps the memory alive: that of temporaries must not be used again
// for others meanwhile.
type region struct {
	base  unsafe.Pointer
	info  *typeInfo // of one element
	count int
	id    uint64 // 0: not named in the data yet, else its object's number + 1; with regionOut
}

const regionOut = 1 << 63 // the content is in the data

func (r *region) begin() uintptr { return uintptr(r.base) }
func (r *region) end() uintptr   { return uintptr(r.base) + uintptr(r.count)*r.info.t.Size() }
func (r *region) out() bool      { return r.id&regionOut != 0 }

// object is the number of the region's object.
func (r *region) object() uint64 { return r.id&^regionOut - 1 }

// pieces is a list that grows without moving what it holds.
type pieces[T any] struct {
	list [][]T
	len  int
}

const pieceLen = 1 << 12

func (l *pieces[T]) at(n int) *T { return &l.list[n/pieceLen][n%pieceLen] }

func (l *pieces[T]) add(x T) int {
	if l.len%pieceLen == 0 {
		l.list = append(l.list, make([]T, pieceLen))
	}
	l.len++
	*l.at(l.len - 1) = x
	return l.len - 1
}

// at is region n.
func (r *regions) at(n int) *region { return r.list.at(n) }

// at is object n.
func (o *objects) at(n int) *object { return o.list.at(n) }

// len is how many objects there are.
func (o *objects) len() int { return o.list.len }

func (o *objects) add(x object) { o.list.add(x) }

// object is memory that unpacking has made, or, until ready, that pointers into it have announced.
type object struct {
	ptr   unsafe.Pointer
	info  *typeInfo // nil: only announced so far
	count int
}

// fixup is a pointer or a slice into an object that is not made yet.
type fixup struct {
	at    *unsafe.Pointer
	info  *typeInfo
	index uint64
	path  string
	slice *span // not nil: it is a slice; its length and capacity
}

// deferred is the content of an object that lies too deep to go on at once.
type deferred struct {
	v     unsafe.Pointer
	visit func(*Stream, unsafe.Pointer)
}

// deferDepth is from how many levels on the content of a pointer waits until the levels above are done: lists may be
// as long as memory allows. Both directions count alike.
const deferDepth = 200

// find returns the number of the region that begins at base and holds values of a type, or -1, and whether it holds more
// than one.
func (r *regions) find(base unsafe.Pointer, i *typeInfo) (n int, many bool) {
	s := r.index.slot(uintptr(base), false)
	switch tag := i.tag(uintptr(base)); {
	case s == nil || s.n == 0:
		return -1, false
	case s.tag&^slotMany == tag:
		return int(s.n - 1), s.tag&slotMany != 0
	}
	x := r.index.crowd[crowded{uintptr(base), i}]
	return int(x.n) - 1, x.tag&slotMany != 0
}

// add makes a new region.
func (r *regions) add(v unsafe.Pointer, i *typeInfo, count int) int {
	n := r.list.add(region{base: v, info: i, count: count})
	if int(i.number) >= len(r.sizes) || r.sizes[i.number] == 0 {
		r.sizes = append(r.sizes, make([]uintptr, max(0, int(i.number)+1-len(r.sizes)))...)
		r.sizes[i.number] = i.t.Size()
	}
	x := slot{uint32(n + 1), i.tag(uintptr(v))}
	if count > 1 {
		x.tag |= slotMany
	}
	r.index.set(uintptr(v), i, x)
	return n
}

// grow makes region n longer.
func (r *regions) grow(n, count int) {
	x := r.at(n)
	if x.count = count; count > 1 {
		r.index.set(x.begin(), x.info, slot{uint32(n + 1), x.info.tag(x.begin()) | slotMany})
	}
}

// top returns the region that a region lies in, itself if in no other.
func (t *nesting) top(n int) int {
	for {
		owner, inside := t.owners[n]
		if !inside {
			return n
		}
		n = owner
	}
}

// name gives a region the next object's number if it has none, and returns it.
func (r *regions) name(x *region) uint64 {
	if x.id == 0 {
		r.named++
		x.id = r.named
	}
	return x.object()
}

// Tokens of pointers; those of other objects follow: tokenObject+2*number, one more for a pointer into the object.
const (
	tokenNil    = 0
	tokenNew    = 1
	tokenObject = 2
)

// graphPointer packs or unpacks a pointer whose target may be shared.
func (p *Stream) graphPointer(v *unsafe.Pointer, i *typeInfo, make maker, visit func(*Stream, unsafe.Pointer)) {
	at := placeOf(unsafe.Pointer(v), pointerShape)
	if p.mode == unpacking {
		p.unpackPointer(v, i, make, visit)
		return
	}
	g, token := p.graph, uint64(tokenNil)
	if *v == nil {
		p.uvarint(&token, at)
		return
	}
	token = tokenNew
	if i.t.Size() == 0 { // values of no size have no identity
		p.uvarint(&token, at)
		p.content(*v, at, visit)
		return
	}
	n, many := g.regions.find(*v, i)
	known := n >= 0
	if !known { // what is new when all was discovered belongs to the author's code, which made it for this visit
		n = g.regions.add(*v, i, 1)
	}
	switch {
	case many || g.nesting.owners != nil && g.nesting.top(n) != n:
		g.nesting.inner = true
		p.packInterior(v, g.nesting.top(n), i)
		return
	case known && !g.sealed: // objects are numbered like regions
		token = tokenObject + 2*uint64(n)
		p.uvarint(&token, at)
		return
	}
	r := g.regions.at(n)
	fresh := !r.out()
	if r.id != 0 {
		token = tokenObject + 2*r.object()
	}
	g.regions.name(r)
	r.id |= regionOut
	if p.uvarint(&token, at); fresh {
		p.content(*v, at, visit)
	}
}

// near reads from what the pointers of a structure lead to, and from the slots of the index for it. Memory far away takes
// long; what is read here comes all at once, not one after the other.
func (r *regions) near(steps []step, v unsafe.Pointer) {
	for k := range steps {
		s := &steps[k]
		if s.kind != pointerStep {
			continue
		}
		to, first := *(*unsafe.Pointer)(unsafe.Add(v, s.off)), s.info.elem.steps
		if to == nil || len(first) == 0 || first[0].kind != rawStep {
			continue
		}
		r.touched += *(*byte)(unsafe.Add(to, first[0].off))
		if slot := r.index.slot(uintptr(to), false); slot != nil {
			r.touched += byte(slot.n)
		}
	}
}

// content visits an object now, or later when it lies deep.
func (p *Stream) content(v unsafe.Pointer, at place, visit func(*Stream, unsafe.Pointer)) {
	if p.depth >= deferDepth {
		p.graph.later.queue = append(p.graph.later.queue, deferred{v, visit})
		return
	}
	p.depth++
	visit(p, v)
	p.depth--
}

// sharedMap packs or unpacks which map a variable holds, and tells whether the map's entries follow: not if it is nil or came
// before. A map is known by where it lies; nothing points into it.
func (p *Stream) sharedMap(v *unsafe.Pointer, i *typeInfo) bool {
	at, g, token := placeOf(unsafe.Pointer(v), mapShape), p.graph, uint64(tokenNil)
	if p.mode == unpacking {
		p.uvarint(&token, at)
		n := (token - tokenObject) / 2
		switch {
		case p.mode == failed:
		case token == tokenNil:
			*v = nil
		case token == tokenNew:
			g.objects.newMap = i
			return true
		case token%2 == 1 || n >= uint64(g.objects.len()) || g.objects.at(int(n)).info == nil || g.objects.at(int(n)).info.t != i.t:
			p.fail(at, "%w: object %d of %d is no %v", ErrData, n, g.objects.len(), i.t)
		default:
			*v = g.objects.at(int(n)).ptr
		}
		return false
	}
	if *v == nil {
		p.uvarint(&token, at)
		return false
	}
	n, _ := g.regions.find(*v, i)
	if n < 0 {
		n = g.regions.add(*v, i, 1)
	}
	r := g.regions.at(n)
	fresh := !r.out()
	token = tokenNew
	if id := g.regions.name(r); !fresh {
		token = tokenObject + 2*id
	}
	r.id |= regionOut
	p.uvarint(&token, at)
	return fresh
}

// madeMap enters a map that was just made, before its entries.
func (p *Stream) madeMap(v unsafe.Pointer) {
	if p.graph != nil {
		p.graph.objects.add(object{v, p.graph.objects.newMap, 1})
	}
}

// drain visits what was put off, and what is put off meanwhile.
func (p *Stream) drain() {
	var batch []deferred
	for len(p.graph.later.queue) > 0 && p.mode != failed {
		batch, p.graph.later.queue = p.graph.later.queue, batch[:0]
		for _, d := range batch {
			d.visit(p, d.v)
		}
		clear(batch)
	}
}

// packInterior packs a pointer into region n.
func (p *Stream) packInterior(v *unsafe.Pointer, n int, i *typeInfo) {
	at, r := placeOf(unsafe.Pointer(v), pointerShape), p.graph.regions.at(n)
	x := r.locate(uintptr(*v), i.t)
	if x.room == 0 {
		p.fail(at, "%w: it points %d bytes into %v, where no %v is", ErrType, uintptr(*v)-r.begin(), r, i.t)
		return
	}
	token := tokenObject + 2*p.graph.regions.name(r) + 1
	p.uvarint(&token, at)
	p.uvarint(&x.index, at)
	String(p, &x.path)
}

// unpackPointer is graphPointer from data.
func (p *Stream) unpackPointer(v *unsafe.Pointer, i *typeInfo, make maker, visit func(*Stream, unsafe.Pointer)) {
	at, token := placeOf(unsafe.Pointer(v), pointerShape), uint64(0)
	p.uvarint(&token, at)
	g := p.graph
	switch n := (token - tokenObject) / 2; {
	case p.mode == failed:
	case token == tokenNil:
		*v = nil
	case token == tokenNew:
		p.unpackObject(v, i, make, uint64(g.objects.len()), visit)
	case n > uint64(g.objects.len()) || n == uint64(g.objects.len()) && token%2 == 0:
		p.fail(at, "%w: object %d of %d", ErrData, n, g.objects.len())
	case token%2 == 1:
		p.unpackInterior(v, i, n)
	case g.objects.at(int(n)).info == nil:
		p.unpackObject(v, i, make, n, visit)
	case g.objects.at(int(n)).info.t != i.t || g.objects.at(int(n)).count != 1:
		p.fail(at, "%w: object %d is %d of %v, want one %v", ErrData, n, g.objects.at(int(n)).count, g.objects.at(int(n)).info.t, i.t)
	default:
		*v = g.objects.at(int(n)).ptr
	}
}

// unpackObject makes object n and fills it.
func (p *Stream) unpackObject(v *unsafe.Pointer, i *typeInfo, make maker, n uint64, visit func(*Stream, unsafe.Pointer)) {
	at := placeOf(unsafe.Pointer(v), pointerShape)
	if !p.reuse(*v, i.t.Size()) {
		p.makeAt(v, i, make)
	}
	if i.t.Size() > 0 {
		p.made(n, object{*v, i, 1})
	}
	p.content(*v, at, visit)
}

// made enters an object and sets the pointers that waited for it.
func (p *Stream) made(n uint64, o object) {
	g := p.graph
	if n == uint64(g.objects.len()) {
		g.objects.add(o)
		return
	}
	*g.objects.at(int(n)) = o
	for _, f := range g.objects.pending[n] {
		p.resolve(f, o)
	}
	delete(g.objects.pending, n)
}

// unpackInterior sets a pointer into object n, now or when it is made.
func (p *Stream) unpackInterior(v *unsafe.Pointer, i *typeInfo, n uint64) {
	at, f, g := placeOf(unsafe.Pointer(v), pointerShape), fixup{at: v, info: i}, p.graph
	p.uvarint(&f.index, at)
	String(p, &f.path)
	if p.mode == failed {
		return
	}
	*v = nil
	g.objects.lead(p, f, n)
}

// lead sets a pointer or a slice into object n, now or when it is made.
func (o *objects) lead(p *Stream, f fixup, n uint64) {
	if n == uint64(o.len()) {
		o.add(object{})
	}
	if to := *o.at(int(n)); to.info != nil {
		p.resolve(f, to)
		return
	}
	if o.pending == nil {
		o.pending = map[uint64][]fixup{}
	}
	o.pending[n] = append(o.pending[n], f)
	o.open++
}

// resolved remembers the last path that was followed.
type resolved struct {
	info *typeInfo
	path string
	part section
}

// resolve sets a pointer or a slice into an object. What the data says is checked: a wrong type here would let one type's memory
// be read as another's.
func (p *Stream) resolve(f fixup, o object) {
	at, lastPath := placeOf(unsafe.Pointer(f.at), pointerShape), &p.graph.objects.lastPath
	if f.index >= uint64(o.count) {
		p.fail(at, "%w: it points to element %d of %d", ErrData, f.index, o.count)
		return
	}
	if lastPath.info != o.info || lastPath.path != f.path {
		*lastPath = resolved{o.info, f.path, follow(o.info.t, f.path)}
	}
	x := lastPath.part
	if f.path == "" {
		x.room = uint64(o.count) - f.index
	}
	switch room := inARow(x.room, x.t, f.info.t); {
	case room == 0:
		p.fail(at, "%w: a %v has no %v at %q", ErrData, o.info.t, f.info.t, f.path)
		return
	case f.slice != nil && f.slice.cap > room:
		p.fail(at, "%w: a %v has %d of %v at %q, want %d", ErrData, o.info.t, room, f.info.t, f.path, f.slice.cap)
		return
	}
	*f.at = unsafe.Add(o.ptr, uintptr(f.index)*o.info.t.Size()+x.offset)
	if f.slice != nil {
		h := (*sliceHeader)(unsafe.Pointer(f.at))
		h.len, h.cap = int(f.slice.len), int(f.slice.cap)
	}
}

// unset is how many pointers were left to be set later, so far. A value during which the number has grown must not be
// copied before they are.
func (p *Stream) unset() int {
	if p.graph == nil {
		return 0
	}
	return p.graph.objects.open
}

// atEnd runs f when all pointers are set.
func (l *later) atEnd(f func()) { l.final = append(l.final, f) }

// finish unpacks what was put off and makes sure that nothing is missing.
func (p *Stream) finish() {
	p.drain()
	if p.mode != unpacking {
		p.allOut()
		return
	}
	for n, list := range p.graph.objects.pending {
		p.fail(placeOf(unsafe.Pointer(list[0].at), pointerShape), "%w: object %d never came", ErrData, n)
		return
	}
	for _, f := range p.graph.later.final {
		f()
	}
}

// allOut makes sure that all objects that pointers lead into are in the data themselves.
func (p *Stream) allOut() {
	g := p.graph
	if !g.sealed || p.mode == failed || g.nesting.owners == nil {
		return
	}
	for n := range g.regions.list.len {
		if r := g.regions.at(n); r.id != 0 && !r.out() {
			p.fail(place{}, "%w: %v: it is reached only by pointers into it; what holds it must be visited before them", ErrType, r)
			return
		}
	}
}

// restart forgets which regions are in the data, but for the root, and begins another pass.
func (g *graph) restart() {
	g.regions.named = 0
	for n := range g.regions.list.len {
		g.regions.at(n).id = 0
	}
	g.root()
}

// root makes the packed variable itself the first object.
func (g *graph) root() {
	if g.rooted {
		g.regions.name(g.regions.at(0))
		g.regions.at(0).id |= regionOut
	}
}

func (r *region) String() string {
	if r.count == 1 {
		return fmt.Sprintf("a %v", r.info.t)
	}
	return fmt.Sprintf("%d of %v", r.count, r.info.t)
}
