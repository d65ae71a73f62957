package amt

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/hang"
	"github.com/byssus-hpc/byssus/amt/internal/locate"
)

// Ordered is an option of a method (Method.Is): messages to it, and to other ordered methods of the same element, are handled in the order in
// which they were sent by one element, or by all code of one rank that is no element's, wherever both are by then and whatever their epochs
// and priorities. What an epoch holds back (After) counts as sent when that ends, if no element has sent it. There is no order between
// them and other messages or broadcasts, nor between messages of two senders; and none between what was sent before a Modify and after
// it, unless that was over by then, nor among those that go to an element within the Modify that inserts it.
const Ordered = orderedOption(true)

type orderedOption bool

func (orderedOption) of(o *methodOptions) { o.ordered = true }

// ordered is what a rank has of ordered messages.
type ordered struct {
	sent locate.Numbers // by code that is no element's
	era  uint32         // how often elements were inserted or deleted
}

// The payload of an ordered message has, behind its stamp, who has sent it, and its number:
//
//	16 8  number of the element's index, or the rank
//	24 8  number of its collection; noElement: it is a rank
//	32 8  number of the message among those of the pair; notNumbered: it has none yet
const (
	orderSize   = 24
	noElement   = ^uint64(0) >> 32
	notNumbered = ^uint64(0)
)

func orderOf(payload []byte) (from locate.Element, number uint64) {
	b := payload[stampSize:]
	return locate.Element{Collection: uint32(binary.LittleEndian.Uint64(b[8:])), Key: binary.LittleEndian.Uint64(b)}, binary.LittleEndian.Uint64(b[16:])
}

func putOrder(payload []byte, from locate.Element, number uint64) {
	b := payload[stampSize:]
	binary.LittleEndian.PutUint64(b, from.Key)
	binary.LittleEndian.PutUint64(b[8:], uint64(from.Collection))
	binary.LittleEndian.PutUint64(b[16:], number)
}

// postOrdered sends a message on its way, from an element, or another code if that is nil.
func (h *Method[I, T, M]) postOrdered(ep *Epoch, sender *seat, w what, record []byte) {
	r, payload := ep.r, record[headerSize:]
	key, _ := stampOf(payload)
	switch {
	case sender != nil:
		putOrder(payload, locate.Element{Collection: sender.of, Key: sender.key}, sender.has().sent.Next(h.target(key), r.population.ordered.era))
	default:
		putOrder(payload, locate.Element{Collection: uint32(noElement), Key: uint64(r.self)}, notNumbered)
		if !ep.gate.closed() {
			h.number(r, payload)
		}
	}
	if s := h.of.members(r); !ep.gate.closed() && s.elements.find(key) == nil {
		s.find(ep, r.self, w, payload)
		return
	}
	ep.post(r.self, w, record)
}

func (h *Method[I, T, M]) target(key uint64) locate.Element {
	return locate.Element{Collection: uint32(h.of.entry.id), Key: key}
}

// number numbers a message of this rank that has no number yet.
func (h *Method[I, T, M]) number(r *rank, payload []byte) {
	if from, number := orderOf(payload); number == notNumbered {
		key, _ := stampOf(payload)
		putOrder(payload, from, r.population.ordered.sent.Next(h.target(key), r.population.ordered.era))
	}
}

// numbers numbers what an epoch has held back.
func (d *dispatcher) numbers(m heldMessage) {
	if n := int(m.what.id()) - int(firstHandler); n >= 0 && n < len(d.table) && d.table[n].number != nil {
		d.table[n].number(d.r, m.record[headerSize:])
	}
}

// receiveOrdered takes a message from a rank: its element runs it if it is here and the message's turn. Of an epoch that has failed it is not
// run, but those after it do not wait for it.
func (h *Method[I, T, M]) receiveOrdered(c Context, payload []byte) (err error) {
	f := c.f
	s := h.of.members(f.r)
	if s == nil || len(payload) < h.head {
		return errors.New("its collection was not created")
	}
	key, stamp := stampOf(payload)
	e := s.elements.find(key)
	if e == nil {
		s.find(f.ep, f.from, f.r.dispatcher.now, payload)
		return nil
	}
	from, number := orderOf(payload)
	turn := &e.has().expected
	switch {
	case f.ep.err != nil:
		turn.Skip(from, number)
	case turn.Take(from, number):
		f.from = int(stamp.Origin)
		if s.measuring.on {
			f.r.measures.enters(subphaseOf(payload))
		}
		err = h.invoke(c, s, e, payload[h.head:])
	default:
		turn.Hold(from, number, &parked{f.ep, f.r.dispatcher.now, append(make([]byte, headerSize, wholeSize(len(payload))), payload...)})
		f.ep.detector.hold()
	}
	if p, ok := turn.Next(from); ok {
		f.r.again(p)
	}
	return err
}

// again has a message that was held come again.
func (r *rank) again(p *parked) {
	p.ep.sent(r.self)
	r.outgoing.record(r.self, p.w, p.ep.id, p.record)
	p.ep.release(1)
}

// handOn has messages come again that are held for an element that is here no longer: they follow it.
func (r *rank) handOn(s *seat) {
	if s.baggage == nil {
		return
	}
	for _, p := range s.baggage.expected.Leave() {
		r.again(p)
	}
}

// waitTheirTurn are the elements that hold ordered messages.
func waitTheirTurn[I Index[I], T any](m *members[I, T]) (all []hang.Lack) {
	for _, e := range m.elements.all {
		if e.baggage == nil {
			continue
		}
		e.baggage.expected.Held(func(p *parked) {
			from, _ := orderOf(p.record[headerSize:])
			who := fmt.Sprintf("rank %d", from.Key)
			if from.Collection != uint32(noElement) {
				who = fmt.Sprintf("element number %d of collection %d", from.Key, from.Collection)
			}
			all = append(all, hang.Lack{Epoch: p.ep.number(), Elements: fmt.Sprintf("element %v of the collection %q", e.index, m.of.entry.name), Why: fmt.Sprintf("holds an ordered message of %s, until those before have come", who)})
		})
	}
	return all
}

// newEra has ordered messages be numbered anew, when elements were inserted or deleted: whoever is there now waits for nothing that was sent to
// another, or to nobody. When it is over anywhere, all ranks count so.
func (c Context) newEra() error {
	r := c.f.r
	if !r.dispatcher.ordered {
		return nil
	}
	return c.Collective("number ordered messages anew", func(Context) error {
		r.population.ordered.era++
		return nil
	}).Wait(c)
}
