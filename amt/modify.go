package amt

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/locate"
)

// Modify has the program insert and delete elements of collections, in a collective epoch of its own, which it waits for: all main functions
// call it. Insert and Delete are for its body, and for what follows from that: handlers, methods, tasks. Elements are counted afterwards, and
// those that reductions are over are given their places in the order of indices anew, also if the epoch has failed: what was inserted or
// deleted by then is.
//
// What was begun before should be over by then. If it is not, messages to elements that are deleted meanwhile are errors of their epochs, and
// broadcasts reach elements that are inserted meanwhile or not, but once; elements that are on their way when they are given their places,
// and reductions for which not all have given their values, are an error.
func (c Context) Modify(label string, body func(c Context) error) error {
	ep := c.Collective("modify: "+label, body, modifies)
	err := ep.Wait(c)
	if ep.fault != nil {
		return err
	}
	return errors.Join(err, c.recount())
}

// modification is what an epoch has to do with Insert and Delete.
type modification struct {
	allowed bool
	early   []func(Context) // came before the epoch was begun here: nothing changes on a rank before its main function has called Modify
}

func modifies(ep *Epoch) error {
	ep.modification.allowed = true
	return nil
}

var errNotModify = errors.New("elements are inserted and deleted within Modify alone")

// mayModify says whether elements may be inserted and deleted within the epoch. Where it is not begun yet, that is known when it is.
func (ep *Epoch) mayModify() error {
	if ep.modification.allowed || ep.collective() && !ep.begun {
		return nil
	}
	return fmt.Errorf("%w, found the epoch %q", errNotModify, ep.label)
}

// modify has something done to elements, now, or when the epoch has begun here.
func (ep *Epoch) modify(f *frame, do func(Context)) {
	if ep.begun {
		do(Context{f, f.gen})
		return
	}
	ep.detector.hold()
	ep.modification.early = append(ep.modification.early, do)
}

// begins does what came before the epoch was begun here.
func (m *modification) begins(ep *Epoch, f *frame) error {
	early := m.early
	m.early = nil
	if len(early) == 0 {
		return nil
	}
	defer ep.release(len(early))
	if !m.allowed {
		return fmt.Errorf("amt: %w, found the epoch %q", errNotModify, ep.label)
	}
	if ep.err == nil {
		ep.run(f, func(c Context) error {
			for _, do := range early {
				do(c)
			}
			return nil
		})
	}
	return nil
}

// inserted is an element on its way to its home.
type inserted[T any] struct {
	Key   uint64
	Value T
}

// deletion is a message to an element that ends it.
type deletion struct{ By int32 }

// modifiable declares what insertion and deletion need.
func (k *Collection[I, T]) modifiable() {
	k.inserts.is(func(c Context, m *inserted[T]) {
		s := k.members(c.f.r)
		if s == nil {
			c.Fail(fmt.Errorf("amt: rank %d: %v was not created, rank %d inserts an element", c.f.r.self, k.entry, c.f.from))
			return
		}
		key, value := m.Key, m.Value
		c.f.ep.modify(c.f, func(c Context) { s.insert(c.f.ep, key, value) })
	}, nil)
	k.deletes.is(k, func(c At[I], _ *T, m *deletion) {
		if c.f.ep.begun {
			c.seat.to = ends
			return
		}
		i, again := c.index, *m
		c.f.ep.modify(c.f, func(c Context) { k.deletes.Send(c, i, &again) })
	}, nil, methodOptions{})
}

// Insert inserts an element, on the rank that the mapping gives its index, within Modify. What its value refers to is the element's from
// then on. It is there when the epoch is over: a message that comes before it is an error. That there is one of its index is another.
func (k *Collection[I, T]) Insert(c Context, i I, value T) {
	f := c.own()
	m, key, err := k.modified(f, i)
	if err != nil {
		c.Fail(fmt.Errorf("amt: rank %d: %s cannot insert element %v: %w", f.r.self, f.who(), i, err))
		return
	}
	home := m.home(key)
	if home == f.r.self && f.task == nil && !f.ep.gate.closed() {
		f.ep.modify(f, func(c Context) { m.insert(c.f.ep, key, value) })
		return
	}
	k.inserts.Send(c, home, &inserted[T]{key, value})
}

// Delete ends an element, wherever it is, within Modify; when the method has ended, if it is the element's own. That there is none is an
// error. Its index may be inserted again by the next Modify.
func (k *Collection[I, T]) Delete(c Context, i I) {
	f := c.own()
	if _, _, err := k.modified(f, i); err != nil {
		c.Fail(fmt.Errorf("amt: rank %d: %s cannot delete element %v: %w", f.r.self, f.who(), i, err))
		return
	}
	k.deletes.Send(c, i, &deletion{int32(f.r.self)})
}

// modified is a look at all that may be wrong with an element that is to be inserted or deleted.
func (k *Collection[I, T]) modified(f *frame, i I) (m *members[I, T], key uint64, err error) {
	m = k.members(f.r)
	if k.entry == nil {
		return nil, 0, errUndeclared
	}
	if m == nil {
		return nil, 0, fmt.Errorf("%v was not created", k.entry)
	}
	key, ok := m.extent.Number(i)
	if !ok {
		return nil, 0, fmt.Errorf("%v: there is no index %v: the extent is %v", k.entry, i, m.extent)
	}
	return m, key, f.ep.mayModify()
}

// changes are the elements that were inserted and deleted here since they were counted.
type changes struct{ inserted, deleted uint64 }

// insert inserts an element whose home is this rank.
func (m *members[I, T]) insert(ep *Epoch, key uint64, value T) {
	if !m.make(key, noPlace, value) {
		ep.fail(fmt.Errorf("amt: rank %d: %v: element %v is to be inserted, but there is one", m.r.self, m.of.entry, m.extent.At(key)))
		return
	}
	if m.r.dispatcher.ordered {
		m.elements.find(key).has().expected = locate.SequenceOf[*parked](uint64(m.r.population.ordered.era)+1, nil, nil)
	}
	m.changes.inserted++
}

// end ends an element that is here.
func (m *members[I, T]) end(ep *Epoch, e *element[I, T]) {
	out, _ := m.machine.Destroy(e.key, m.orders[:0])
	m.broadcasts.rounds.Destroyed(e.done)
	m.measuring.ends(&e.seat)
	m.elements.remove(e)
	m.changes.deleted++
	m.carry(ep, out)
	m.r.handOn(&e.seat)
}

func (m *members[I, T]) changed() changes { return m.changes }

// counted takes what all ranks have changed since the last time.
func (m *members[I, T]) counted(all changes) error {
	m.all += all.inserted - all.deleted
	m.changes = changes{}
	if all == (changes{}) {
		return nil
	}
	m.unplaced = m.of.sums > 0
	var wrong error
	for _, k := range m.r.population.reductions {
		wrong = errors.Join(wrong, k.(combiner).reform(m, m.all))
	}
	m.sections = nil
	m.r.forgetSums(m, nil)
	return wrong
}

// A census is what some ranks, or all, have changed, by collection.
type census struct {
	Inserted, Deleted []uint64
	Wrong             string // the first error
}

var censuses Reduction[census]

func init() {
	censuses.Is(func(a, b census) census {
		for i := range min(len(a.Inserted), len(b.Inserted)) {
			a.Inserted[i] += b.Inserted[i]
			a.Deleted[i] += b.Deleted[i]
		}
		a.Wrong = cmp.Or(a.Wrong, b.Wrong)
		return a
	})
}

// recount has all ranks know how many elements there are of collections that were modified, and their places in the order of indices.
func (c Context) recount() error {
	r := c.f.r
	var own census
	for _, part := range r.collections {
		var here changes
		if part != nil {
			here = part.changed()
		}
		own.Inserted, own.Deleted = append(own.Inserted, here.inserted), append(own.Deleted, here.deleted)
	}
	all, err := censuses.All(c, own)
	if err != nil {
		return err
	}
	var list []int
	var wrong error
	for i, part := range r.collections {
		if part == nil {
			continue
		}
		wrong = errors.Join(wrong, part.counted(changes{all.Inserted[i], all.Deleted[i]}))
		if all.Inserted[i]+all.Deleted[i] > 0 {
			list = append(list, i)
		}
	}
	own = census{}
	if wrong != nil {
		own.Wrong = wrong.Error()
	}
	if len(list) == 0 {
		return nil
	}
	if err := c.newEra(); err != nil {
		return err
	}
	if all, err = censuses.All(c, own); err == nil && all.Wrong != "" {
		err = errors.New(all.Wrong)
	}
	return errors.Join(err, c.order(list))
}
