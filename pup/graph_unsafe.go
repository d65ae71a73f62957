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
	regions  []region
	table    []uint32 // hash of base: number of the region + 1
	mask     uintptr
	sealed   bool
	inner    bool // some regions lie in others
	ids      uint64
	objects  []object
	pending  map[uint64][]fixup
	open     int // fixups so far
	queue    []deferred
	final    []func()
	newMap   *typeInfo // unpacking: of the map that comes
	lastPath resolved
}

// region is memory that the packed value leads to.
type region struct {
	base  uintptr
	keep  unsafe.Pointer // the same: memory of temporaries must not be used again meanwhile
	info  *typeInfo      // of one element
	count int
	id    uint64 // 0: not named in the data yet, else its object's number + 1
	out   bool   // its content is in the data
	owner int32  // number + 1 of the region that it lies in, 0: none
}

func (r *region) end() uintptr { return r.base + uintptr(r.count)*r.info.t.Size() }

// object is memory that unpacking has made, or, until ready, that pointers into it have announced.
type object struct {
	ptr   unsafe.Pointer
	info  *typeInfo
	count int
	ready bool
}

// fixup is a pointer into an object that is not made yet.
type fixup struct {
	at    *unsafe.Pointer
	info  *typeInfo
	index uint64
	path  string
}

// deferred is the content of an object that lies too deep to go on at once.
type deferred struct {
	v     unsafe.Pointer
	visit func(*Stream, unsafe.Pointer)
}

// deferDepth is from how many levels on the content of a pointer waits until the levels above are done: lists may be
// as long as memory allows. Both directions count alike.
const deferDepth = 200

// find returns the number of the region that begins at base and holds values of a type, or -1.
func (g *graph) find(base uintptr, i *typeInfo) int {
	if len(g.table) == 0 {
		return -1
	}
	for h := hash(base) & g.mask; ; h = (h + 1) & g.mask {
		n := g.table[h]
		if n == 0 {
			return -1
		}
		if r := &g.regions[n-1]; r.base == base && r.info == i {
			return int(n - 1)
		}
	}
}

// hash keeps neighbours in memory neighbours in the table: values are mostly visited in the order they were made in.
func hash(base uintptr) uintptr { return base>>4 + base>>27*0x9E3779B9 }

// add makes a new region.
func (g *graph) add(v unsafe.Pointer, i *typeInfo, count int) int {
	if 2*(len(g.regions)+1) > len(g.table) {
		g.rehash(max(1024, 4*len(g.table)))
	}
	g.regions = append(g.regions, region{base: uintptr(v), keep: v, info: i, count: count})
	g.enter(len(g.regions) - 1)
	return len(g.regions) - 1
}

func (g *graph) rehash(size int) {
	g.table, g.mask = make([]uint32, size), uintptr(size-1)
	for n := range g.regions {
		g.enter(n)
	}
}

func (g *graph) enter(n int) {
	h := hash(g.regions[n].base) & g.mask
	for g.table[h] != 0 {
		h = (h + 1) & g.mask
	}
	g.table[h] = uint32(n + 1)
}

// top returns the region that a region lies in, itself if in no other.
func (g *graph) top(n int) int {
	for g.regions[n].owner != 0 {
		n = int(g.regions[n].owner - 1)
	}
	return n
}

// name gives a region the next object's number if it has none, and returns it.
func (g *graph) name(r *region) uint64 {
	if r.id == 0 {
		g.ids++
		r.id = g.ids
	}
	return r.id - 1
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
	token := uint64(tokenNil)
	if *v == nil {
		p.uvarint(&token, at)
		return
	}
	g := p.graph
	n := -1
	if i.t.Size() > 0 { // values of no size have no identity
		n = g.find(uintptr(*v), i)
	}
	switch {
	case n < 0: // what is new when all was discovered belongs to the author's code, which made it for this visit
		if i.t.Size() > 0 {
			n = g.add(*v, i, 1)
			g.name(&g.regions[n])
			g.regions[n].out = true
		}
		token = tokenNew
		p.uvarint(&token, at)
		p.content(*v, at, visit)
		return
	}
	if r := &g.regions[n]; r.owner != 0 || r.count > 1 {
		g.inner = true
		p.packInterior(v, g.top(n), i)
	} else if r.out {
		token = tokenObject + 2*(r.id-1)
		p.uvarint(&token, at)
	} else {
		token = tokenNew
		if r.id != 0 {
			token = tokenObject + 2*(r.id-1)
		}
		g.name(r)
		r.out = true
		p.uvarint(&token, at)
		p.content(*v, at, visit)
	}
}

// content visits an object now, or later when it lies deep.
func (p *Stream) content(v unsafe.Pointer, at place, visit func(*Stream, unsafe.Pointer)) {
	if p.depth >= deferDepth {
		p.graph.queue = append(p.graph.queue, deferred{v, visit})
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
			g.newMap = i
			return true
		case token%2 == 1 || n >= uint64(len(g.objects)) || g.objects[n].info == nil || g.objects[n].info.t != i.t:
			p.fail(at, "%w: object %d of %d is no %v", ErrData, n, len(g.objects), i.t)
		default:
			*v = g.objects[n].ptr
		}
		return false
	}
	if *v == nil {
		p.uvarint(&token, at)
		return false
	}
	n := g.find(uintptr(*v), i)
	if n < 0 {
		n = g.add(*v, i, 1)
	}
	r := &g.regions[n]
	fresh := !r.out
	token = tokenNew
	if id := g.name(r); !fresh {
		token = tokenObject + 2*id
	}
	r.out = true
	p.uvarint(&token, at)
	return fresh
}

// madeMap enters a map that was just made, before its entries.
func (p *Stream) madeMap(v unsafe.Pointer) {
	if p.graph != nil {
		p.graph.objects = append(p.graph.objects, object{v, p.graph.newMap, 1, true})
	}
}

// drain visits what was put off, and what is put off meanwhile.
func (p *Stream) drain() {
	var batch []deferred
	for len(p.graph.queue) > 0 && p.mode != failed {
		batch, p.graph.queue = p.graph.queue, batch[:0]
		for _, d := range batch {
			d.visit(p, d.v)
		}
		clear(batch)
	}
}

// packInterior packs a pointer into region n.
func (p *Stream) packInterior(v *unsafe.Pointer, n int, i *typeInfo) {
	at, r := placeOf(unsafe.Pointer(v), pointerShape), &p.graph.regions[n]
	offset, size := uintptr(*v)-r.base, r.info.t.Size()
	path, ok := subobject(r.info.t, offset%size, i.t)
	if !ok {
		p.fail(at, "%w: it points %d bytes into a %v, where no %v is", ErrType, offset%size, r.info.t, i.t)
		return
	}
	token, index := tokenObject+2*p.graph.name(r)+1, uint64(offset/size)
	p.uvarint(&token, at)
	p.uvarint(&index, at)
	String(p, &path)
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
		p.unpackObject(v, i, make, uint64(len(g.objects)), visit)
	case n > uint64(len(g.objects)) || n == uint64(len(g.objects)) && token%2 == 0:
		p.fail(at, "%w: object %d of %d", ErrData, n, len(g.objects))
	case token%2 == 1:
		p.unpackInterior(v, i, n)
	case !g.objects[n].ready:
		p.unpackObject(v, i, make, n, visit)
	case g.objects[n].info.t != i.t || g.objects[n].count != 1:
		p.fail(at, "%w: object %d is %d of %v, want one %v", ErrData, n, g.objects[n].count, g.objects[n].info.t, i.t)
	default:
		*v = g.objects[n].ptr
	}
}

// unpackObject makes object n and fills it.
func (p *Stream) unpackObject(v *unsafe.Pointer, i *typeInfo, make maker, n uint64, visit func(*Stream, unsafe.Pointer)) {
	at := placeOf(unsafe.Pointer(v), pointerShape)
	if !p.inPlace || *v == nil {
		p.makeAt(v, i, make)
	}
	if i.t.Size() > 0 {
		p.made(n, object{*v, i, 1, true})
	}
	p.content(*v, at, visit)
}

// made enters an object and sets the pointers that waited for it.
func (p *Stream) made(n uint64, o object) {
	g := p.graph
	if n == uint64(len(g.objects)) {
		g.objects = append(g.objects, o)
		return
	}
	g.objects[n] = o
	for _, f := range g.pending[n] {
		p.resolve(f, o)
	}
	delete(g.pending, n)
}

// unpackInterior sets a pointer into object n, now or when it is made.
func (p *Stream) unpackInterior(v *unsafe.Pointer, i *typeInfo, n uint64) {
	at, f, g := placeOf(unsafe.Pointer(v), pointerShape), fixup{at: v, info: i}, p.graph
	p.uvarint(&f.index, at)
	String(p, &f.path)
	if p.mode == failed {
		return
	}
	if n == uint64(len(g.objects)) {
		g.objects = append(g.objects, object{})
	}
	if g.objects[n].ready {
		p.resolve(f, g.objects[n])
		return
	}
	if g.pending == nil {
		g.pending = map[uint64][]fixup{}
	}
	g.pending[n] = append(g.pending[n], f)
	g.open++
	*v = nil
}

// resolved remembers the last path that was followed.
type resolved struct {
	info, to *typeInfo
	path     string
	offset   uintptr
}

// resolve sets a pointer into an object. What the data says is checked: a wrong type here would let one type's memory
// be read as another's.
func (p *Stream) resolve(f fixup, o object) {
	at, g := placeOf(unsafe.Pointer(f.at), pointerShape), p.graph
	if f.index >= uint64(o.count) {
		p.fail(at, "%w: it points to element %d of %d", ErrData, f.index, o.count)
		return
	}
	want := resolved{o.info, f.info, f.path, g.lastPath.offset}
	if want != g.lastPath {
		offset, ok := follow(o.info.t, f.path, f.info.t)
		if !ok {
			p.fail(at, "%w: a %v has no %v at %q", ErrData, o.info.t, f.info.t, f.path)
			return
		}
		want.offset = offset
		g.lastPath = want
	}
	*f.at = unsafe.Add(o.ptr, uintptr(f.index)*o.info.t.Size()+want.offset)
}

// unset is how many pointers were left to be set later, so far. A value during which the number has grown must not be
// copied before they are.
func (p *Stream) unset() int {
	if p.graph == nil {
		return 0
	}
	return p.graph.open
}

// atEnd runs f when all pointers are set.
func (g *graph) atEnd(f func()) { g.final = append(g.final, f) }

// finish unpacks what was put off and makes sure that nothing is missing.
func (p *Stream) finish() {
	p.drain()
	if p.mode != unpacking {
		return
	}
	for n, list := range p.graph.pending {
		p.fail(placeOf(unsafe.Pointer(list[0].at), pointerShape), "%w: object %d never came", ErrData, n)
		return
	}
	for _, f := range p.graph.final {
		f()
	}
}

// restart forgets which regions are in the data, but for the root, and begins another pass.
func (g *graph) restart() {
	g.ids = 0
	for n := range g.regions {
		g.regions[n].id, g.regions[n].out = 0, false
	}
	g.root()
}

// root makes the packed variable itself the first object.
func (g *graph) root() {
	if len(g.regions) > 0 {
		g.name(&g.regions[0])
		g.regions[0].out = true
	}
}

func (r *region) String() string {
	if r.count == 1 {
		return fmt.Sprintf("a %v", r.info.t)
	}
	return fmt.Sprintf("%d of %v", r.count, r.info.t)
}
