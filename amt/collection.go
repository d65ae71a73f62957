package amt

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"slices"
	"sort"
	"sync"
	"unsafe"

	"github.com/byssus-hpc/byssus/amt/internal/locate"
)

// A Collection is elements of type T, more than there are ranks, addressed by indices of type I. They migrate between ranks, and messages
// find them. It is a variable of a package, and said what it is in an init function of that package, as a Handler is:
//
//	var grid amt.Collection[amt.Index2, Block]
//	var relax amt.Method[amt.Index2, Block, Ghost]
//
//	func init() {
//		grid.Is("grid")
//		relax.Is(&grid, func(c amt.At[amt.Index2], b *Block, m *Ghost) { ... })
//	}
//
// Each rank has the elements that a mapping gives it when they are made, those of a block of indices if there is no other; the same rank
// is the element's home afterwards, which knows where it is. An element's state is what package pup saves of T.
type Collection[I Index[I], T any] struct {
	entry    *collectionEntry
	state    codec[T]
	mapping  func(i, extent I, ranks int) int
	sums     int       // reductions over its elements
	measures measuring // of its elements
	inserts  Handler[inserted[T]]
	deletes  Method[I, T, deletion]
}

// A collectionEntry is a row of the table of collections.
type collectionEntry struct {
	name  string
	at    string // where it was declared: file:line
	id    int
	fault error
}

func (e *collectionEntry) String() string { return fmt.Sprintf("the collection %q (%s)", e.name, e.at) }

// collections are those of the program: they are declared before anything runs.
var collections = &collectionRegistry{}

// A collectionRegistry is the collections that were declared.
type collectionRegistry struct {
	sync.Mutex
	all    []*collectionEntry
	sorted bool
}

// A CollectionOption says more of a collection.
type CollectionOption[I any] func(*collectionOptions[I])

// collectionOptions is what options fill.
type collectionOptions[I any] struct {
	to       func(i, extent I, ranks int) int
	graph    bool
	measures measuring
	fault    error
}

// Graph has what is shared within an element's state, by pointers, slices and maps, and circles of pointers, be shared again when it has
// migrated, or was restored (pup.Graph). Without it the state is a tree: what two pointers lead to is two things then.
func Graph[I any]() CollectionOption[I] { return func(o *collectionOptions[I]) { o.graph = true } }

// MappedBy has an element of an index be made on the rank that a function gives, which is the same on all ranks and captures nothing.
func MappedBy[I any](to func(i, extent I, ranks int) int) CollectionOption[I] {
	fault := faultOf(reflect.ValueOf(to), *(*uintptr)(unsafe.Pointer(&to)))
	return func(m *collectionOptions[I]) { m.to, m.fault = to, errors.Join(m.fault, fault) }
}

// Is names the collection: no other has the name, by which what is saved of it is found again. It is called once, from an init function.
func (k *Collection[I, T]) Is(name string, opts ...CollectionOption[I]) {
	_, file, line, _ := runtime.Caller(1)
	e := &collectionEntry{name: name, at: fmt.Sprintf("%s:%d", path.Base(file), line)}
	var m collectionOptions[I]
	for _, set := range opts {
		set(&m)
	}
	var unfit error
	k.state, unfit = codecOf[T]()
	k.state.graph = m.graph && k.state.size == 0
	if e.fault = m.fault; unfit != nil {
		e.fault = errors.Join(e.fault, fmt.Errorf("its elements cannot be saved: %w", unfit))
	}
	if name == "" {
		e.fault = errors.Join(e.fault, errors.New("it has no name"))
	}
	if k.entry != nil {
		e.fault = errors.New("it is said twice what it is")
	}
	k.entry, k.mapping, k.measures = e, m.to, m.measures
	if unfit == nil {
		k.modifiable()
	}
	collections.Lock()
	defer collections.Unlock()
	if collections.sorted {
		e.fault = errors.New("it was declared when the runtime had started: declare it in an init function")
		return
	}
	for _, o := range collections.all {
		if o.name == name {
			e.fault = fmt.Errorf("its name is that of %v", o)
		}
	}
	collections.all = append(collections.all, e)
}

// collectionTable ends the declaring of collections, and returns them by their numbers.
func collectionTable() ([]*collectionEntry, error) {
	collections.Lock()
	defer collections.Unlock()
	if !collections.sorted {
		collections.sorted = true
		slices.SortStableFunc(collections.all, func(a, b *collectionEntry) int { return cmp.Compare(a.name, b.name) })
		for n, e := range collections.all {
			e.id = n
		}
	}
	var faults []error
	for _, e := range collections.all {
		if e.fault != nil {
			faults = append(faults, fmt.Errorf("amt: %v: %w", e, e.fault))
		}
	}
	return collections.all, errors.Join(faults...)
}

// home is the rank on which an element is made, and which knows where it is.
func (k *Collection[I, T]) home(extent I, count uint64, ranks int) func(n uint64) int {
	if to := k.mapping; to != nil {
		return func(n uint64) int {
			rank := to(extent.At(n), extent, ranks)
			if rank < 0 || rank >= ranks {
				panic(fmt.Sprintf("amt: %v: index %v is mapped to rank %d, the last one is %d", k.entry, extent.At(n), rank, ranks-1))
			}
			return rank
		}
	}
	return blocks(count, ranks)
}

// Create makes all elements within an extent; all main functions call it, with the same extent. The function is called on the rank that the
// mapping gives an index.
func (k *Collection[I, T]) Create(c Context, extent I, element func(i I) (T, error)) error {
	return k.begin(c, extent, true, func(m *members[I, T]) error {
		for n := range m.indices {
			if m.home(n) != m.r.self {
				continue
			}
			value, err := element(m.extent.At(n))
			if err != nil {
				return fmt.Errorf("amt: rank %d: %v: element %v: %w", m.r.self, k.entry, m.extent.At(n), err)
			}
			m.make(n, n, value)
		}
		m.all = m.indices
		return nil
	})
}

// CreateEmpty makes a collection without elements, whose indices lie within an extent, which may be as large as numbers of 64 bits are: it
// costs nothing. All main functions call it, with the same extent. Elements are inserted then (Insert).
func (k *Collection[I, T]) CreateEmpty(c Context, extent I) error {
	return k.begin(c, extent, false, func(*members[I, T]) error { return nil })
}

// begin makes a collection on all ranks, whose elements fill makes on each: all of the extent if it is dense.
func (k *Collection[I, T]) begin(c Context, extent I, dense bool, fill func(*members[I, T]) error) error {
	f := c.own()
	if k.entry == nil {
		return fmt.Errorf("amt: rank %d: a collection: %w", f.r.self, errUndeclared)
	}
	made := false
	err := c.Collective("create "+k.entry.name, func(Context) error {
		m, err := k.newMembers(f.r, extent, dense)
		if err != nil {
			return err
		}
		made = true
		return fill(m)
	}).Wait(c)
	if err != nil && made {
		k.forget(f.r)
	}
	return err
}

// newMembers makes a rank's part of the collection, with no elements.
func (k *Collection[I, T]) newMembers(r *rank, extent I, dense bool) (*members[I, T], error) {
	indices, ok := extent.Count()
	switch {
	case r.collections[k.entry.id] != nil:
		return nil, fmt.Errorf("amt: rank %d: %v is there already", r.self, k.entry)
	case !ok:
		return nil, fmt.Errorf("amt: rank %d: %v: extent %v: its indices have no numbers of 64 bits", r.self, k.entry, extent)
	}
	m := &members[I, T]{of: k, r: r, extent: extent, indices: indices, home: k.home(extent, indices, r.ranks), spare: &parked{}, measuring: k.measures}
	m.machine = locate.New[*parked](r.self, m.home, r.places)
	m.elements.kinds = k.sums
	if dense {
		k.expect(m)
	}
	m.broadcasts.init(r)
	r.collections[k.entry.id] = m
	return m, nil
}

// mostScanned is how many indices of a mapping are looked through for those that are mapped here.
const mostScanned = 1 << 24

// expect makes room for elements of all indices: a table of those that are mapped here, if they lie together, or of all, if they are few.
func (k *Collection[I, T]) expect(m *members[I, T]) {
	first, n, own := k.mapped(m)
	if n > 2*own && m.indices > mostByKey {
		return
	}
	m.machine.Expect(first, n)
	if n > 2*own {
		first, n = 0, m.indices
	}
	m.elements.init(first, n, own)
}

// mapped is the range of the indices that are mapped to a rank, and how many these are.
func (k *Collection[I, T]) mapped(m *members[I, T]) (first, n, own uint64) {
	self := m.r.self
	if k.mapping == nil { // blocks
		first = uint64(sort.Search(int(m.indices), func(i int) bool { return m.home(uint64(i)) >= self }))
		n = uint64(sort.Search(int(m.indices), func(i int) bool { return m.home(uint64(i)) > self })) - first
		return first, n, n
	}
	if m.indices > mostScanned {
		return 0, m.indices, 0
	}
	for i := range m.indices {
		if m.home(i) == self {
			if own++; own == 1 {
				first = i
			}
			n = i + 1 - first
		}
	}
	return first, n, own
}

// members is the rank's part of the collection; nil: it was not made.
func (k *Collection[I, T]) members(r *rank) *members[I, T] {
	if k.entry == nil {
		return nil
	}
	m, _ := r.collections[k.entry.id].(*members[I, T])
	return m
}

// Count is how many elements are on this rank.
func (k *Collection[I, T]) Count(c Context) int {
	if m := k.members(c.own().r); m != nil {
		return len(m.elements.all)
	}
	return 0
}

// Size is how many elements there are, on all ranks together.
func (k *Collection[I, T]) Size(c Context) uint64 {
	if m := k.members(c.own().r); m != nil {
		return m.all
	}
	return 0
}

// Each calls a function for each element on this rank, in the order of indices: for main functions, between epochs.
func (k *Collection[I, T]) Each(c Context, do func(i I, element *T)) {
	m := k.members(c.own().r)
	if m == nil {
		return
	}
	for _, e := range m.elements.inOrder() {
		do(e.index, &e.value)
	}
}
