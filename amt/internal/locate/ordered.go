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

// next is the next numbers of one phase. A number is that of the phase, and below it that of the message within it, from 0.
type next struct {
	phase uint64
	of    map[Element]uint64
}

const phaseShift = 32

// in returns the next number of a pair in a phase. Numbers of a phase before are of no use then.
func (n *next) in(phase uint64, other Element) uint64 {
	if n.of == nil {
		n.of = map[Element]uint64{}
	}
	if phase > n.phase {
		clear(n.of)
		n.phase = phase
	}
	return max(n.of[other], n.phase<<phaseShift)
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
		n.of[p.Other], n.phase = p.Next, p.Next>>phaseShift
	}
	return n
}

func compare(a, b Element) int {
	return cmp.Or(cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Key, b.Key))
}

// Numbers are those of the ordered messages that an element sends: each target has its own. They travel with the element (Pairs).
//
// They begin anew with every phase, as all messages of the one before have been run then, so that an element that was destroyed and
// inserted again waits for nothing that its predecessor was sent. The caller sees to it that all ranks have counted a phase before
// the first message of it is sent.
type Numbers struct{ next }

// NumbersOf makes the numbers of an element that has arrived.
func NumbersOf(pairs []Pair) Numbers { return Numbers{nextOf(pairs)} }

// Next gives a message its number.
func (n *Numbers) Next(to Element, phase uint32) uint64 {
	number := n.in(uint64(phase), to)
	n.of[to] = number + 1
	return number
}

// A Sequence runs the ordered messages to an element in the order of their numbers: those of each source for itself. What it expects
// travels with the element (Pairs); the messages that it holds are handed to Deliver again, with their stamps, once it has left or was
// destroyed.
type Sequence[M any] struct {
	next
	early map[Element][]early[M] // sorted
}

type early[M any] struct {
	number  uint64
	message M
}

// SequenceOf makes the sequence of an element that has arrived.
func SequenceOf[M any](pairs []Pair) Sequence[M] { return Sequence[M]{next: nextOf(pairs)} }

// Take takes a message whose element is here. It tells whether it is to be run: else it is held. When it has been run, Next is due.
func (s *Sequence[M]) Take(from Element, number uint64, message M) bool {
	expected := s.in(number>>phaseShift, from)
	if number < expected {
		panic(fmt.Sprintf("locate: message %#x from element %+v comes after those before %#x", number, from, expected))
	}
	if number == expected {
		s.of[from] = number + 1
		return true
	}
	if s.early == nil {
		s.early = map[Element][]early[M]{}
	}
	held := s.early[from]
	at, _ := slices.BinarySearchFunc(held, number, func(e early[M], n uint64) int { return cmp.Compare(e.number, n) })
	s.early[from] = slices.Insert(held, at, early[M]{number, message})
	return false
}

// Next gives the next message of a source, if it was held.
func (s *Sequence[M]) Next(from Element) (message M, ok bool) {
	held := s.early[from]
	if len(held) == 0 || held[0].number != s.of[from] {
		return message, false
	}
	message = held[0].message
	s.of[from]++
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

// Leave gives up the messages that are held.
func (s *Sequence[M]) Leave() (all []M) {
	sources := make([]Element, 0, len(s.early))
	for from := range s.early {
		sources = append(sources, from)
	}
	slices.SortFunc(sources, compare)
	for _, from := range sources {
		for _, e := range s.early[from] {
			all = append(all, e.message)
		}
	}
	clear(s.early)
	return all
}
