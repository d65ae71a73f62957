package amt

import (
	"encoding/binary"
	"slices"

	"github.com/byssus-hpc/byssus/amt/internal/locate"
)

// A baggage is what goes with some elements, beside what goes with all.
type baggage struct {
	load     *load // nil: it is not measured
	tallies  []tally
	sent     locate.Numbers // of the ordered messages that it sends
	expected locate.Sequence[*parked]
}

// A tally is what an element has given to one kind of reduction over a section.
type tally struct {
	section uint64
	nth     uint64 // of the kinds over the collection
	next    uint64 // one more than the last number that it has given a value for
}

// has is the element's baggage.
func (s *seat) has() *baggage {
	if s.baggage == nil {
		s.baggage = &baggage{}
	}
	return s.baggage
}

// load is the element's load; nil: it is not measured.
func (s *seat) load() *load {
	if s.baggage == nil {
		return nil
	}
	return s.baggage.load
}

// tally is where the next number of a reduction over a section is.
func (s *seat) tally(section uint64, nth int) *uint64 {
	b := s.has()
	for i := range b.tallies {
		if of := &b.tallies[i]; of.section == section && of.nth == uint64(nth) {
			return &of.next
		}
	}
	b.tallies = append(b.tallies, tally{section: section, nth: uint64(nth)})
	return &b.tallies[len(b.tallies)-1].next
}

// pack packs what an element has, but for its load, and what it has given to sections that are no more; nil: nothing. That is words of 8 bytes: lists
// behind their lengths, and the era of the sequence before those that are pairs.
func (b *baggage) pack(sections map[uint64]*section) (all []byte) {
	if b == nil {
		return nil
	}
	put := func(v ...uint64) {
		for _, v := range v {
			all = binary.LittleEndian.AppendUint64(all, v)
		}
	}
	b.tallies = slices.DeleteFunc(b.tallies, func(t tally) bool { return sections[t.section] == nil })
	put(uint64(len(b.tallies)))
	for _, t := range b.tallies {
		put(t.section, t.nth, t.next)
	}
	put(b.expected.Era())
	empty := len(b.tallies) == 0 && b.expected.Era() == 0
	for _, pairs := range [][]locate.Pair{b.sent.Pairs(), b.expected.Pairs(), b.expected.Skipped()} {
		put(uint64(len(pairs)))
		empty = empty && len(pairs) == 0
		for _, p := range pairs {
			put(uint64(p.Other.Collection), p.Other.Key, p.Next)
		}
	}
	if empty {
		return nil
	}
	return all
}

// unpackBaggage reads what pack has written, and returns what follows.
func unpackBaggage(from []byte) (*baggage, []byte) {
	take := func() (v uint64) {
		v, from = binary.LittleEndian.Uint64(from), from[8:]
		return v
	}
	b := &baggage{tallies: make([]tally, take())}
	for i := range b.tallies {
		b.tallies[i] = tally{take(), take(), take()}
	}
	era := take()
	var lists [3][]locate.Pair
	for i := range lists {
		lists[i] = make([]locate.Pair, take())
		for k := range lists[i] {
			lists[i][k] = locate.Pair{Other: locate.Element{Collection: uint32(take()), Key: take()}, Next: take()}
		}
	}
	b.sent, b.expected = locate.NumbersOf(lists[0]), locate.SequenceOf[*parked](era, lists[1], lists[2])
	return b, from
}
