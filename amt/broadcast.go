package amt

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/amt/internal/rounds"
)

// broadcasts is a rank's part in those to the elements of a collection, which package rounds decides about.
type broadcasts struct {
	rounds *rounds.Broadcasts[*announced]
	known  map[uint64]*announced // by number: those whose epochs are not over
}

// An announced broadcast is a message for all elements, or the members of a section.
type announced struct {
	ep     *Epoch
	to     *section // nil: all
	w      what
	origin int
	b      []byte
}

func (b *broadcasts) init(r *rank) {
	b.rounds, b.known = rounds.NewBroadcasts[*announced](r.self, r.ranks), map[uint64]*announced{}
}

// carry holds and releases epochs.
func (b *broadcasts) carry(orders []rounds.Order[*announced]) {
	for _, o := range orders {
		switch o.Do {
		case rounds.Hold:
			b.known[o.Number].ep.detector.hold()
		case rounds.Release:
			b.known[o.Number].ep.release(1)
		}
	}
}

// The payload of a broadcast:
//
//	0  2  number of the collection
//	2  2  the subphase in which it was sent
//	4  4  what its record would be for an element: its method, and its priority
//	8  8  number of the broadcast; 0: rank 0 has not given it one yet
//	16 8  the rank that it comes from
//	24 8  the section that it is for; 0: all elements
//	32    the message
const broadcastHead = 32

// Broadcast sends a message to all elements of the collection, within the epoch of the context, which is a collective one: each runs it
// once, and all broadcasts of a collection in the same order, wherever they migrate meanwhile.
func (h *Method[I, T, M]) Broadcast(c Context, m *M) { h.broadcast(c, 0, m) }

// BroadcastTo is Broadcast for the members of a section alone, in the same order as all broadcasts of the collection.
func (h *Method[I, T, M]) BroadcastTo(c Context, to Section[I, T], m *M) {
	h.broadcast(c, cmp.Or(to.ID, noSection), m)
}

func (h *Method[I, T, M]) broadcast(c Context, section uint64, m *M) {
	f := c.own()
	f.waitForRoom()
	record, err := h.announce(f, section, m)
	ep := f.ep
	post := func() {
		if err == nil && section != 0 {
			if _, wrong := sectionOf(h.of.members(f.r), section); wrong != nil {
				err = h.trouble(f, wrong)
			}
		}
		if err != nil {
			ep.fail(err)
			return
		}
		record[headerSize+2] = byte(f.r.measures.subphase)
		ep.post(0, what(recordBroadcast), record)
	}
	if f.task != nil {
		f.r.memory.askToSend(len(record), post)
		return
	}
	post()
}

func (h *Method[I, T, M]) announce(f *frame, section uint64, m *M) ([]byte, error) {
	switch {
	case h.entry == nil:
		return nil, h.trouble(f, errUndeclared)
	case h.entry.fault != nil:
		return nil, h.trouble(f, h.entry.fault)
	case h.of.members(f.r) == nil:
		return nil, h.trouble(f, errors.New("its collection was not created"))
	case !f.ep.collective():
		return nil, h.trouble(f, fmt.Errorf("a broadcast to elements belongs to a collective epoch, %q is a rooted one", f.ep.label))
	}
	b, err := h.code.packBehind(m, headerSize+broadcastHead)
	if err != nil {
		return nil, h.trouble(f, err)
	}
	p := b[headerSize:]
	binary.LittleEndian.PutUint32(p, uint32(h.of.entry.id))
	binary.LittleEndian.PutUint32(p[4:], uint32(h.entry.what))
	binary.LittleEndian.PutUint64(p[16:], uint64(f.r.self))
	binary.LittleEndian.PutUint64(p[24:], section)
	return b, nil
}

// broadcast takes one, numbers it on rank 0, passes it on, and has the elements here run it.
func (m *members[I, T]) broadcast(ep *Epoch, _ int, payload []byte) {
	m.r.measures.enters(int(binary.LittleEndian.Uint16(payload[2:])))
	number := binary.LittleEndian.Uint64(payload[8:])
	if number == 0 {
		number = m.broadcasts.rounds.Number()
	}
	a := &announced{ep: ep, w: what(binary.LittleEndian.Uint32(payload[4:])), origin: int(binary.LittleEndian.Uint64(payload[16:])), b: append([]byte(nil), payload...)}
	binary.LittleEndian.PutUint64(a.b[8:], number)
	if id := binary.LittleEndian.Uint64(payload[24:]); id != 0 {
		var err error
		if a.to, err = sectionOf(m, id); err != nil {
			a.to = &section{} // it has no members any more, but the broadcast has its number
			ep.fail(fmt.Errorf("amt: rank %d: a broadcast of rank %d: %w", m.r.self, a.origin, err))
		}
	}
	m.broadcasts.known[number] = a
	ep.ended = append(ep.ended, func() { m.ended(number) })
	ep.detector.hold() // until it is taken in its order
	orders := m.broadcasts.rounds.Take(number, a, nil)
	m.broadcasts.carry(orders) // before an element runs any
	due := 0
	for _, o := range orders {
		switch o.Do {
		case rounds.Pass:
			ep.sent(o.To)
			m.r.outgoing.control(o.To, what(recordBroadcast), ep.id, a.b)
		case rounds.Run:
			due++
		}
	}
	switch {
	case due == 0:
		return
	case due == 1 && a.to != nil:
		toMembers(m, number, a.to.keys)
	default:
		for _, e := range m.elements.inOrder() {
			m.catchUp(e)
		}
	}
	for _, o := range orders {
		if o.Do == rounds.Run {
			o.Message.ep.release(1)
		}
	}
}

// toMembers has the elements here run a broadcast that is for those with some numbers, in order, all at once if it is not for them.
func toMembers[I Index[I], T any](m *members[I, T], number uint64, keys []uint64) {
	all, others := m.elements.inOrder(), 0
	if len(all) > 0 {
		first, _ := slices.BinarySearch(keys, all[0].key)
		keys = keys[first:]
	}
	for _, e := range all {
		for len(keys) > 0 && keys[0] < e.key {
			keys = keys[1:]
		}
		if len(keys) > 0 && keys[0] == e.key {
			m.catchUp(e)
		} else if e.done == number-1 {
			e.done = number
			others++
		}
	}
	if others > 0 {
		m.broadcasts.carry(m.broadcasts.rounds.Ran(number, others, nil))
	}
}

// ended: the epoch of a broadcast is over.
func (m *members[I, T]) ended(number uint64) {
	m.broadcasts.rounds.Over(number)
	delete(m.broadcasts.known, number)
}

// catchUp has an element run the broadcasts that it has not run, as long as it stays.
func (m *members[I, T]) catchUp(e *element[I, T]) {
	for m.elements.find(e.key) == e {
		number, a, ok := m.broadcasts.rounds.Due(e.done)
		if !ok {
			return
		}
		e.done = number // also if it leaves by it
		orders := m.broadcasts.rounds.Ran(number, 1, nil)
		if a.isFor(e.key) {
			m.r.dispatcher.announced(a, e.key, func(c Context, method elementMethod) error { return method.announced(c, e.key, a.b[broadcastHead:]) })
		}
		m.broadcasts.carry(orders)
	}
}

// isFor tells whether a broadcast is for an element.
func (a *announced) isFor(key uint64) bool {
	if a.to == nil {
		return true
	}
	_, member := a.to.place(key)
	return member
}

// elementMethod is a method of any type.
type elementMethod interface {
	collection() *collectionEntry
	here(r *rank, key uint64) bool
	announced(c Context, key uint64, payload []byte) error
}

func (h *Method[I, T, M]) collection() *collectionEntry { return h.of.entry }

// here tells whether an element is on a rank.
func (h *Method[I, T, M]) here(r *rank, key uint64) bool {
	m := h.of.members(r)
	return m != nil && m.elements.find(key) != nil
}

// announced runs the method for an element that is here. The message is the element's own.
func (h *Method[I, T, M]) announced(c Context, key uint64, payload []byte) error {
	s := h.of.members(c.f.r)
	b := payload
	if h.code.size > 0 {
		b = append(make([]byte, 0, (len(payload)+7)&^7), payload...)
	}
	e := s.elements.find(key)
	if e.load() != nil {
		e.load().broadcasts++
	}
	return h.invoke(c, s, e, b)
}

// announced runs what a broadcast is for, unless its epoch has failed.
func (d *dispatcher) announced(a *announced, key uint64, run func(Context, elementMethod) error) {
	if a.ep.err != nil {
		return
	}
	n := int(a.w.id()) - int(firstHandler)
	if n < 0 || n >= len(d.table) {
		a.ep.fail(fmt.Errorf("amt: rank %d: a broadcast of rank %d is for handler %d of %d", d.r.self, a.origin, n, len(d.table)))
		return
	}
	e, around := d.table[n], d.handler
	method, ok := e.handler.(elementMethod)
	if !ok {
		a.ep.fail(fmt.Errorf("amt: rank %d: a broadcast of rank %d to elements is for %v", d.r.self, a.origin, e))
		return
	}
	if tr := d.r.tracer; tr != nil {
		tr.announced(e, method, key, a.origin)
		defer tr.end()
	}
	if d.regions.on {
		defer d.regions.announced(a.ep, e).End()
	}
	f := &d.handler
	f.gen++
	f.ep, f.from, f.entry = a.ep, a.origin, e
	if err := run(Context{f, f.gen}, method); err != nil {
		a.ep.fail(fmt.Errorf("amt: rank %d: a broadcast from rank %d for %v: %w", d.r.self, a.origin, e, err))
	}
	f.gen++
	f.ep, f.from, f.entry = around.ep, around.from, around.entry
}
