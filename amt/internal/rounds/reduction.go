package rounds

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/amt/internal/tree"
)

// A Part is the value of some neighbours of a reduction: the ordinals from First<<Level on, 1<<Level of them, or as many as there are.
type Part[T any] struct {
	Number uint64 // of the reduction
	First  uint64
	Level  uint8
	Value  T
}

// A Reduction is one rank's part in those of one kind over a collection.
type Reduction[T any] struct {
	rank     int
	parent   int    // the rank above; the ranks below one follow it, as elements do that lie in blocks
	elements uint64 // of the whole collection
	combine  func(a, b T) T
	parts    map[span]T // that were not sent
}

// A span names a part.
type span struct {
	number uint64
	first  uint64
	level  uint8
}

// NewReduction makes a rank's part in the reductions over so many elements, on all ranks together.
func NewReduction[T any](rank, ranks int, elements uint64, combine func(a, b T) T) *Reduction[T] {
	parent, _ := tree.Ordered(rank, ranks)
	return &Reduction[T]{rank: rank, parent: parent, elements: elements, combine: combine, parts: map[span]T{}}
}

// Give is what the element with an ordinal contributes to a reduction.
func (r *Reduction[T]) Give(number, ordinal uint64, value T) {
	if ordinal >= r.elements {
		panic(fmt.Sprintf("rounds: rank %d: ordinal %d of %d elements", r.rank, ordinal, r.elements))
	}
	r.Take(Part[T]{Number: number, First: ordinal, Value: value})
}

// Take takes a part, from a rank below, and combines it with its neighbours as far as they are there.
func (r *Reduction[T]) Take(p Part[T]) {
	s := span{p.Number, p.First, p.Level}
	if _, ok := r.parts[s]; ok {
		panic(fmt.Sprintf("rounds: rank %d: reduction %d is given the values from %d<<%d on twice", r.rank, s.number, s.first, s.level))
	}
	value := p.Value
	for !r.whole(s) {
		other := s
		other.first ^= 1
		if other.first<<other.level < r.elements {
			neighbour, ok := r.parts[other]
			if !ok {
				break
			}
			delete(r.parts, other)
			if s.first < other.first {
				value = r.combine(value, neighbour)
			} else {
				value = r.combine(neighbour, value)
			}
		}
		s.first, s.level = s.first/2, s.level+1
	}
	r.parts[s] = value
}

// whole tells whether a span is all elements.
func (r *Reduction[T]) whole(s span) bool { return s.first == 0 && r.elements <= 1<<s.level }

// Settle gives up what is to be sent to the rank above: on rank 0, the results of reductions, in order of their numbers. The caller calls
// it when it has nothing else to do, so that parts are few.
func (r *Reduction[T]) Settle() (parent int, parts []Part[T]) {
	for s, value := range r.parts {
		if r.parent >= 0 || r.whole(s) {
			parts = append(parts, Part[T]{s.number, s.first, s.level, value})
			delete(r.parts, s)
		}
	}
	slices.SortFunc(parts, func(a, b Part[T]) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.First<<a.Level, b.First<<b.Level))
	})
	return r.parent, parts
}

// Pending is how many values of reductions, combined or not, wait here for others.
func (r *Reduction[T]) Pending() int { return len(r.parts) }
