package amt

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/byssus-hpc/byssus/amt/internal/hang"
	"github.com/byssus-hpc/byssus/amt/internal/rounds"
)

// An ElementReduction combines a value of every element of a collection into one, as often as the program likes: each time has a number. It
// is a variable of a package, and said what it is in an init function of that package, as a Handler is. Values are combined in the order of
// indices, and in groups that depend on the extent alone: results repeat to the last bit, wherever elements are, on any number of ranks. An
// element that has given its value may migrate.
type ElementReduction[I Index[I], T, V any] struct {
	of   *Collection[I, T]
	nth  int // of those over the collection
	op   func(a, b V) V
	up   Handler[combined[V]]
	down Handler[combined[V]]
}

// combined are values on their way to rank 0, and the result on its way to all.
type combined[V any] struct {
	Section uint64 // 0: all elements
	Form    int    // how often the collection was modified by then
	Parts   []rounds.Part[V]
}

// combination is a rank's part in the reductions of one kind.
type combination[V any] struct {
	of      membership // one that is made anew has others
	nth     int        // of those over the collection
	id      uint64     // of the section
	over    *section   // nil: all elements
	rounds  *rounds.Reduction[V]
	begin   func(elements uint64) *rounds.Reduction[V]
	form    int // how often the collection was modified
	send    func(c Context, to int, m *combined[V])
	spread  func(c Context, m *combined[V])
	given   []*Epoch // that are held since the last settling
	results map[uint64]V
	waiting map[uint64]*Epoch // is held until its result is there
	listed  bool              // among those that are combining
}

// A combiner is a combination of values of any type.
type combiner interface {
	settle()
	reform(of membership, elements uint64) error
	lacks() []hang.Lack
}

// Is says how two values are combined, a of the elements before those of b. It need not be commutative.
func (d *ElementReduction[I, T, V]) Is(of *Collection[I, T], op func(a, b V) V) {
	fault := faultOf(reflect.ValueOf(op), *(*uintptr)(unsafe.Pointer(&op)))
	if d.of, d.op = of, op; of != nil {
		d.nth = of.sums
		of.sums++
	}
	d.up.is(func(c Context, m *combined[V]) {
		k, err := d.here(c.f.r, m.Section)
		if err != nil {
			c.Fail(err)
			return
		}
		if m.Form != k.form {
			c.Fail(fmt.Errorf("amt: rank %d: %v: %w", c.f.r.self, d.of.entry, errHalfReduced))
			return
		}
		for _, p := range m.Parts {
			k.rounds.Take(p)
		}
		k.hold(c.f.ep)
	}, fault)
	d.down.is(func(c Context, m *combined[V]) {
		k, err := d.here(c.f.r, m.Section)
		if err != nil {
			c.Fail(err)
			return
		}
		for _, p := range m.Parts {
			k.results[p.Number] = p.Value
			if ep := k.waiting[p.Number]; ep != nil {
				delete(k.waiting, p.Number)
				ep.release(1)
			}
		}
	}, fault)
}

// here is the rank's part in those over a section, or over all elements.
func (d *ElementReduction[I, T, V]) here(r *rank, id uint64) (*combination[V], error) {
	if d.up.entry == nil {
		return nil, fmt.Errorf("amt: rank %d: a reduction of elements: %w", r.self, errUndeclared)
	}
	m := d.of.members(r)
	var key any = d
	if id != 0 {
		key = overSection{m, id, d}
	}
	if k, ok := r.population.reductions[key].(*combination[V]); ok && k.of == membership(m) {
		return k, nil
	}
	if m == nil {
		return nil, fmt.Errorf("amt: rank %d: %v: %w", r.self, d.up.entry, errors.New("its collection was not created"))
	}
	k := &combination[V]{of: m, nth: d.nth, id: id, send: d.up.Send, spread: d.down.Broadcast, results: map[uint64]V{}, waiting: map[uint64]*Epoch{}}
	elements := m.all
	if id != 0 {
		var err error
		if k.over, err = sectionOf(m, id); err != nil {
			return nil, fmt.Errorf("amt: rank %d: %v: %w", r.self, d.up.entry, err)
		}
		elements = uint64(len(k.over.keys))
	}
	k.begin = func(elements uint64) *rounds.Reduction[V] {
		return rounds.NewReduction(r.self, r.ranks, elements, d.op)
	}
	k.rounds = k.begin(elements)
	r.population.reductions[key] = k
	return k, nil
}

// Give is the value of the element whose method this is, for the reduction with a number. Each element gives one, in the order of
// numbers.
func (d *ElementReduction[I, T, V]) Give(c At[I], number uint64, value V) {
	f := c.own()
	k, err := d.here(f.r, 0)
	if err != nil {
		c.Fail(err)
		return
	}
	m := d.of.members(f.r)
	ordinal := m.elements.ordinal(c.seat)
	if m.unplaced || ordinal == noPlace {
		c.Fail(fmt.Errorf("amt: rank %d: %v: element %v gives a value for reduction %d while elements are being inserted and deleted, or after a Modify that has failed", f.r.self, d.of.entry, c.index, number))
		return
	}
	given := &m.elements.of(c.seat.place)[d.nth]
	k.give(c.Context, ordinal, given, number, value, func() string { return fmt.Sprintf("%v: element %v", d.of.entry, c.index) })
}

// GiveTo is Give for a reduction over a section, which the element is a member of. Each section has numbers of its own.
func (d *ElementReduction[I, T, V]) GiveTo(c At[I], to Section[I, T], number uint64, value V) {
	f := c.own()
	k, err := d.here(f.r, cmp.Or(to.ID, noSection))
	if err != nil {
		c.Fail(err)
		return
	}
	who := func() string { return fmt.Sprintf("%v: section %q: element %v", d.of.entry, k.over.label, c.index) }
	place, ok := k.over.place(c.seat.key)
	if !ok {
		c.Fail(fmt.Errorf("amt: rank %d: %s gives a value for reduction %d, and is no member", f.r.self, who(), number))
		return
	}
	k.give(c.Context, place, c.seat.tally(to.ID, d.nth), number, value, who)
}

// give takes the value of the element that has a place. next is one more than the last number that it has given a value for.
func (k *combination[V]) give(c Context, place uint64, next *uint64, number uint64, value V, who func() string) {
	if *next > number {
		c.Fail(fmt.Errorf("amt: rank %d: %s gives a value for reduction %d, and has given one for %d", c.f.r.self, who(), number, *next-1))
		return
	}
	*next = number + 1
	k.rounds.Give(number, place, value)
	k.hold(c.f.ep)
}

// hold keeps an epoch from being over until what was given is given on.
func (k *combination[V]) hold(ep *Epoch) {
	ep.detector.hold()
	k.given = append(k.given, ep)
	if !k.listed {
		k.listed = true
		ep.r.combining = append(ep.r.combining, k)
	}
}

// reform has reductions be over so many elements from now on, if they are of the collection. There are none over its sections any more.
func (k *combination[V]) reform(of membership, elements uint64) error {
	if k.of != of {
		return nil
	}
	waits := k.rounds.Pending() > 0
	k.rounds = k.begin(elements)
	k.form++
	if waits {
		return fmt.Errorf("amt: %w", errHalfReduced)
	}
	return nil
}

// lacks are the elements here that have given no value for a reduction whose result is waited for.
func (k *combination[V]) lacks() (all []hang.Lack) {
	for number, ep := range k.waiting {
		if elements := k.of.without(k.nth, number, k.id); elements != "" {
			all = append(all, hang.Lack{Epoch: ep.number(), Elements: elements, Why: fmt.Sprintf("gave no value for reduction %d", number)})
		}
	}
	return all
}

var errHalfReduced = errors.New("it was modified when some elements had given their values for a reduction, and others had not: modify before, or when all have")

// combine gives on what is there of reductions, when the rank has no messages to handle.
func (r *rank) combine() {
	list := r.combining
	r.combining = nil
	for _, k := range list {
		k.settle()
	}
}

// settle gives on what is there.
func (k *combination[V]) settle() {
	held := k.given
	k.given, k.listed = nil, false
	last := held[len(held)-1]
	if parent, parts := k.rounds.Settle(); len(parts) > 0 {
		around := frame{from: last.r.self}
		last.run(&around, func(c Context) error {
			if parent >= 0 {
				k.send(c, parent, &combined[V]{k.id, k.form, parts})
			} else {
				k.spread(c, &combined[V]{k.id, k.form, parts})
			}
			return nil
		})
	}
	for _, ep := range held {
		ep.release(1)
	}
}

// Wait returns the result of the reduction with a number, when all elements have given their values; all main functions call it. The result is
// forgotten then.
func (d *ElementReduction[I, T, V]) Wait(c Context, number uint64) (V, error) {
	k, err := d.here(c.own().r, 0)
	if err != nil {
		var none V
		return none, err
	}
	return k.wait(c, number, d.of.entry.name, k.of.elementsOfAll())
}

// WaitFor is Wait for a reduction over a section, which has one member at least.
func (d *ElementReduction[I, T, V]) WaitFor(c Context, to Section[I, T], number uint64) (V, error) {
	k, err := d.here(c.own().r, cmp.Or(to.ID, noSection))
	if err != nil {
		var none V
		return none, err
	}
	return k.wait(c, number, fmt.Sprintf("the section %q of %s", k.over.label, d.of.entry.name), uint64(len(k.over.keys)))
}

// wait returns a result over so many elements.
func (k *combination[V]) wait(c Context, number uint64, of string, elements uint64) (V, error) {
	var result V
	if elements == 0 {
		return result, fmt.Errorf("amt: rank %d: reduction %d of %s: there are no elements", c.f.r.self, number, of)
	}
	err := c.Collective(fmt.Sprintf("reduction %d of %s", number, of), func(c Context) error {
		if _, ok := k.results[number]; !ok {
			c.f.ep.detector.hold()
			k.waiting[number] = c.f.ep
		}
		return nil
	}).Wait(c)
	if err == nil {
		result = k.results[number]
		delete(k.results, number)
	}
	return result, err
}
