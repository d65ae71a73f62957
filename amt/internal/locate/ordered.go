package locate

import (
	"cmp"
	"slices"
)

// An Element is one of any collection.
type Element struct {
	Collection uint32
	Key        uint64
}

// A Pair is the next number of messages between an element and another one, as it travels with the element.
type Pair struct {
	Other Element
	Next  uint64
}

// next is the next numbers of one era. A number is that of the era, and below it that of the message within it, from 0.
type next struct {
	era uint64
	of  map[Element]uint64
}

const eraShift = 40

// in returns the next number of a pair in an era. Numbers of an era before are of no use then.
func (n *next) in(era uint64, other Element) uint64 {
	if n.of == nil {
		n.of = map[Element]uint64{}
	}
	if era > n.era {
		clear(n.of)
		n.era = era
	}
	return max(n.of[other], n.era<<eraShift)
}

// Pairs is what has to travel, sorted.
func (n *next) Pairs() []Pair {
	all := make([]Pair, 0, len(n.of))
	for other, number := range n.of {
		all = append(all, Pair{other, number})
	}
	slices.SortFunc(all, func(a, b Pair) int { return compare(a.Other, b.Other) })
	return all
}

func nextOf(pairs []Pair) next {
	n := next{of: make(map[Element]uint64, len(pairs))}
	for _, p := range pairs {
		n.of[p.Other], n.era = p.Next, p.Next>>eraShift
	}
	return n
}

func compare(a, b Element) int {
	return cmp.Or(cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Key, b.Key))
}

// Numbers are those of the ordered messages that an element sends: each target has its own. They travel with the element (Pairs).
//
// They begin anew with every era. One ends where elements were inserted or destroyed, so that an element that is inserted waits for nothing
// that went to its index before. The caller sees to it that all ranks are in an era before the first message of it is sent, and that
// what was sent before has been run by then: of messages that have not, the order is not kept any more.
type Numbers struct{ next }

// NumbersOf makes the numbers of an element that has arrived.
func NumbersOf(pairs []Pair) Numbers { return Numbers{nextOf(pairs)} }

// Next gives a message its number.
func (n *Numbers) Next(to Element, era uint32) uint64 {
	number := n.in(uint64(era), to)
	n.of[to] = number + 1
	return number
}

// A Sequence runs the ordered messages to an element in the order of their numbers: those of each source for itself. What it expects
// travels with the element (Pairs, Skipped); the messages that it holds are handed to Take again, once it has left or was destroyed.
//
// Each message that has a number is handed to Take or Skip, so that no other waits for it for ever. One that is of an era before is run
// as it comes; so is one of a number that was run already, as there are when an element is destroyed and made again in one era.
type Sequence[M any] struct {
	next
	early map[Element][]early[M] // sorted
	late  []M                    // were held in an era before
}

type early[M any] struct {
	number  uint64
	skipped bool // there is no message
	message M
}

// SequenceOf makes the sequence of an element that has arrived, or of one that is made: in which era its order begins. Messages of those
// before are run as they come.
func SequenceOf[M any](era uint64, pairs, skipped []Pair) Sequence[M] {
	s := Sequence[M]{next: nextOf(pairs)}
	s.era = era
	for _, p := range skipped {
		s.insert(p.Other, early[M]{number: p.Next, skipped: true})
	}
	return s
}

// Era is that of the messages that are expected.
func (s *Sequence[M]) Era() uint64 { return s.era }

// Take tells whether a message whose element is here is to be run. If so, Next is due then; else Hold.
func (s *Sequence[M]) Take(from Element, number uint64) bool {
	expected := s.expected(from, number)
	if number == expected {
		s.of[from] = number + 1
	}
	return number <= expected
}

// expected is the next number of a source. With the first message of an era it begins anew, and what was held is held no longer.
func (s *Sequence[M]) expected(from Element, number uint64) uint64 {
	if number>>eraShift > s.era {
		s.late = append(s.late, s.Leave()...)
		clear(s.early)
	}
	return s.in(number>>eraShift, from)
}

// Hold holds a message that is not to be run yet. Next is due then.
func (s *Sequence[M]) Hold(from Element, number uint64, message M) {
	s.insert(from, early[M]{number: number, message: message})
}

// Skip says that a message will not be run, now or ever: those after it do not wait for it. Next is due then.
func (s *Sequence[M]) Skip(from Element, number uint64) {
	if !s.Take(from, number) {
		s.insert(from, early[M]{number: number, skipped: true})
	}
}

func (s *Sequence[M]) insert(from Element, e early[M]) {
	if s.early == nil {
		s.early = map[Element][]early[M]{}
	}
	held := s.early[from]
	at, _ := slices.BinarySearchFunc(held, e.number, func(e early[M], n uint64) int { return cmp.Compare(e.number, n) })
	s.early[from] = slices.Insert(held, at, e)
}

// Next gives a message that was held and is held no longer, if there is one: the next of a source. It is handed to Take again.
func (s *Sequence[M]) Next(from Element) (message M, ok bool) {
	if n := len(s.late); n > 0 {
		message, s.late = s.late[0], s.late[1:]
		return message, true
	}
	for held := s.early[from]; len(held) > 0 && held[0].number == s.of[from] && !ok; held = s.early[from] {
		if message, ok = held[0].message, !held[0].skipped; !ok {
			s.of[from]++
		}
		if s.early[from] = held[1:]; len(held) == 1 {
			delete(s.early, from)
		}
	}
	return message, ok
}

// Held calls a function with each message that is held, in no order.
func (s *Sequence[M]) Held(each func(message M)) {
	for _, held := range s.early {
		for _, e := range held {
			if !e.skipped {
				each(e.message)
			}
		}
	}
}

// Skipped are the messages that are not expected yet, and were skipped, in order.
func (s *Sequence[M]) Skipped() (all []Pair) {
	for _, from := range s.sources() {
		for _, e := range s.early[from] {
			if e.skipped {
				all = append(all, Pair{from, e.number})
			}
		}
	}
	return all
}

// sources are those of which something is held, in order.
func (s *Sequence[M]) sources() []Element {
	all := make([]Element, 0, len(s.early))
	for from := range s.early {
		all = append(all, from)
	}
	slices.SortFunc(all, compare)
	return all
}

// Leave gives up the messages that are held.
func (s *Sequence[M]) Leave() (all []M) {
	all, s.late = s.late, nil
	for _, from := range s.sources() {
		for _, e := range s.early[from] {
			if !e.skipped {
				all = append(all, e.message)
			}
		}
		s.early[from] = slices.DeleteFunc(s.early[from], func(e early[M]) bool { return !e.skipped })
	}
	return all
}
