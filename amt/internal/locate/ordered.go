package locate

import (
	"cmp"
	"fmt"
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

// Numbers are those of the ordered messages that an element sends: each target has its own. They travel with the element.
//
// They begin anew with every phase, as all messages of the one before have been run then, so that an element that was destroyed and
// inserted again waits for nothing that its predecessor was sent. The caller sees to it that all ranks have counted a phase before
// the first message of it is sent.
type Numbers struct{ next map[Element]uint64 }

const phaseShift = 32 // a number is that of the phase, and below it that of the message within it

// first is the first number that a phase may have, or the one that is next in it.
func first(next uint64, phase uint64) uint64 { return max(next, phase<<phaseShift) }

// Next gives a message its number.
func (n *Numbers) Next(to Element, phase uint32) uint64 {
	if n.next == nil {
		n.next = map[Element]uint64{}
	}
	number := first(n.next[to], uint64(phase))
	n.next[to] = number + 1
	return number
}

// Pairs is what has to travel, sorted.
func (n *Numbers) Pairs(phase uint32) []Pair { return pairs(n.next, phase) }

// NumbersOf makes the numbers of an element that has arrived.
func NumbersOf(pairs []Pair) Numbers { return Numbers{byOther(pairs)} }

// A Sequence runs the ordered messages to an element in the order of their numbers: those of each source for itself. What it expects
// travels with the element; the messages that it holds are handed to Deliver again, with their stamps, once it has left.
type Sequence[M any] struct {
	expected map[Element]uint64
	early    map[Element][]early[M] // sorted
}

type early[M any] struct {
	number  uint64
	message M
}

// Take takes a message whose element is here. It tells whether it is to be run: else it is held. When it has been run, Next is due.
func (s *Sequence[M]) Take(from Element, number uint64, message M) bool {
	if s.expected == nil {
		s.expected, s.early = map[Element]uint64{}, map[Element][]early[M]{}
	}
	next := first(s.expected[from], number>>phaseShift)
	if number < next {
		panic(fmt.Sprintf("locate: message %#x from element %+v comes after message %#x", number, from, next))
	}
	if number == next {
		s.expected[from] = number + 1
		return true
	}
	held := s.early[from]
	at, _ := slices.BinarySearchFunc(held, number, func(e early[M], n uint64) int { return cmp.Compare(e.number, n) })
	s.early[from] = slices.Insert(held, at, early[M]{number, message})
	return false
}

// Next gives the next message of a source, if it was held.
func (s *Sequence[M]) Next(from Element) (message M, ok bool) {
	held := s.early[from]
	if len(held) == 0 || held[0].number != s.expected[from] {
		return message, false
	}
	message = held[0].message
	s.expected[from]++
	if s.early[from] = held[1:]; len(held) == 1 {
		delete(s.early, from)
	}
	return message, true
}

// Held is how many messages are held.
func (s *Sequence[M]) Held() (n int) {
	for _, held := range s.early {
		n += len(held)
	}
	return n
}

// Leave gives up the messages that are held, when the element has left: they go after it.
func (s *Sequence[M]) Leave() (all []M) {
	for _, from := range sorted(s.early) {
		for _, e := range s.early[from] {
			all = append(all, e.message)
		}
	}
	clear(s.early)
	return all
}

// Pairs is what has to travel, sorted.
func (s *Sequence[M]) Pairs(phase uint32) []Pair { return pairs(s.expected, phase) }

// SequenceOf makes the sequence of an element that has arrived.
func SequenceOf[M any](pairs []Pair) Sequence[M] {
	return Sequence[M]{byOther(pairs), map[Element][]early[M]{}}
}

// pairs are those of a phase: the numbers of older ones are of no use.
func pairs(next map[Element]uint64, phase uint32) (all []Pair) {
	for _, other := range sorted(next) {
		if next[other]>>phaseShift >= uint64(phase) {
			all = append(all, Pair{other, next[other]})
		}
	}
	return all
}

func byOther(pairs []Pair) map[Element]uint64 {
	next := make(map[Element]uint64, len(pairs))
	for _, p := range pairs {
		next[p.Other] = p.Next
	}
	return next
}

func sorted[V any](of map[Element]V) []Element {
	all := make([]Element, 0, len(of))
	for e := range of {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Element) int {
		return cmp.Or(cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Key, b.Key))
	})
	return all
}
