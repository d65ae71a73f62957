package amt

import "encoding/binary"

// A baggage is what goes with some elements, beside what goes with all.
type baggage struct {
	tallies []tally
}

// A tally is what an element has given to one kind of reduction over a section.
type tally struct {
	section uint64
	nth     uint64 // of the kinds over the collection
	next    uint64 // one more than the last number that it has given a value for
}

const tallyWords = 3

// tally is where the next number of a reduction over a section is.
func (s *seat) tally(section uint64, nth int) *uint64 {
	if s.baggage == nil {
		s.baggage = &baggage{}
	}
	b := s.baggage
	for i := range b.tallies {
		if of := &b.tallies[i]; of.section == section && of.nth == uint64(nth) {
			return &of.next
		}
	}
	b.tallies = append(b.tallies, tally{section: section, nth: uint64(nth)})
	return &b.tallies[len(b.tallies)-1].next
}

// tidy leaves behind what an element that leaves has given to sections that are no more.
func (m *members[I, T]) tidy(e *element[I, T]) {
	b := e.baggage
	if b == nil {
		return
	}
	left := b.tallies[:0]
	for _, s := range b.tallies {
		if m.sections[s.section] != nil {
			left = append(left, s)
		}
	}
	if b.tallies = left; len(left) == 0 {
		e.baggage = nil
	}
}

// words is how many words of 8 bytes it takes on its way.
func (b *baggage) words() int {
	if b == nil {
		return 0
	}
	return 1 + tallyWords*len(b.tallies)
}

// pack fills in so many words: how many tallies there are, and these.
func (b *baggage) pack(to []byte) {
	put := func(v uint64) {
		binary.LittleEndian.PutUint64(to, v)
		to = to[8:]
	}
	put(uint64(len(b.tallies)))
	for _, s := range b.tallies {
		put(s.section)
		put(s.nth)
		put(s.next)
	}
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
	return b, from
}
