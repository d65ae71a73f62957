// Package agree finds an order for operations that all ranks take part in, each of which a rank may ask for when it likes:
// collectives of MPI, which all ranks must enter in the same order.
//
// Operations belong to scopes; within a scope a rank asks for them one after the other. It guarantees: an operation is
// decided when every rank has asked for it, and not before; all ranks are given the same operations in the same order; what
// all have asked for is given to all after at most twice the depth of the tree, however many operations that are. So who
// carries them out as they are given never waits in one for a rank that waits in another.
//
// Every rank tells its parent how far all ranks below it have come in each scope; the root decides and tells. It is pure:
// what is to be sent is appended to a list that the caller hands in, when the rank has nothing else to do (Settle), so that
// one message tells of many operations. Messages may overtake each other.
package agree

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/tree"
)

// A Kind says what ranks tell each other.
type Kind uint8

// What they tell.
const (
	Asked   Kind = iota // upwards: all ranks of a subtree have asked for the operations of a scope before Upto
	Decided             // downwards: those are next
)

// A Message goes from one rank to another.
type Message struct {
	Kind   Kind
	Scope  uint32
	Upto   uint64 // operations of the scope, from its first
	Number uint64 // of a decision, from 0
}

// An Order is a message that has to be sent.
type Order struct {
	To int // rank
	Message
}

// An Agreement is one rank's part.
type Agreement struct {
	rank, ranks int
	first, last int // the ranks below
	scopes      []scope
	changed     []uint32 // scopes to be looked at in Settle

	decided uint64             // the number of the next decision to be taken
	early   map[uint64]Message // those that have overtaken others
	due     []span             // decided and not given
}

// A scope is what a rank knows of one.
type scope struct {
	asked   uint64   // by this rank
	below   []uint64 // by all ranks of the subtree of each child
	told    uint64   // to the parent; on the root: decided
	decided uint64   // for this rank
	changed bool
}

// A span is the operations of a scope from one on, before another.
type span struct {
	scope    uint32
	from, to uint64
}

// New makes a rank's part.
func New(rank, ranks int) *Agreement {
	a := &Agreement{rank: rank, ranks: ranks, early: map[uint64]Message{}}
	a.first, a.last = tree.Children(rank, ranks)
	return a
}

// scope returns what is known of a scope: others may know more of it than this rank, which has not made it yet.
func (a *Agreement) scope(n uint32) *scope {
	for int(n) >= len(a.scopes) {
		a.scopes = append(a.scopes, scope{below: make([]uint64, a.last-a.first)})
	}
	return &a.scopes[n]
}

// Ask asks for the next operation of a scope, and returns its number there, from 0.
func (a *Agreement) Ask(n uint32) uint64 {
	s := a.scope(n)
	s.asked++
	a.change(n)
	return s.asked - 1
}

func (a *Agreement) change(n uint32) {
	if s := a.scope(n); !s.changed {
		s.changed = true
		a.changed = append(a.changed, n)
	}
}

// all is how many operations every rank of this one's subtree has asked for.
func (s *scope) all() uint64 {
	least := s.asked
	for _, n := range s.below {
		least = min(least, n)
	}
	return least
}

// Settle tells what is new; on the root, it decides.
func (a *Agreement) Settle(out []Order) []Order {
	for _, n := range a.changed {
		s := &a.scopes[n]
		s.changed = false
		all := s.all()
		if all == s.told {
			continue
		}
		s.told = all
		if a.rank != 0 {
			out = append(out, Order{tree.Parent(a.rank), Message{Kind: Asked, Scope: n, Upto: all}})
			continue
		}
		out = a.take(Message{Kind: Decided, Scope: n, Upto: all, Number: a.decided}, out)
	}
	a.changed = a.changed[:0]
	return out
}

// take takes the decision that is next, and tells it to the ranks below.
func (a *Agreement) take(m Message, out []Order) []Order {
	a.decided++
	s := a.scope(m.Scope)
	a.due = append(a.due, span{m.Scope, s.decided, m.Upto})
	s.decided = m.Upto
	for child := a.first; child < a.last; child++ {
		out = append(out, Order{child, m})
	}
	return out
}

// Receive takes what another rank sent. Settle is due afterwards.
func (a *Agreement) Receive(from int, m Message, out []Order) []Order {
	if m.Kind == Asked {
		below := &a.scope(m.Scope).below[from-a.first]
		*below = max(*below, m.Upto)
		a.change(m.Scope)
		return out
	}
	if m.Kind != Decided || m.Number < a.decided {
		panic(fmt.Sprintf("agree: rank %d: message %+v from rank %d; decision %d is next", a.rank, m, from, a.decided))
	}
	a.early[m.Number] = m
	for {
		next, ok := a.early[a.decided]
		if !ok {
			return out
		}
		delete(a.early, a.decided)
		out = a.take(next, out)
	}
}

// Due tells whether there is a next operation.
func (a *Agreement) Due() bool { return len(a.due) > 0 }

// Next gives the operation that is next, once.
func (a *Agreement) Next() (scope uint32, number uint64, ok bool) {
	if len(a.due) == 0 {
		return 0, 0, false
	}
	d := &a.due[0]
	scope, number = d.scope, d.from
	if d.from++; d.from == d.to {
		a.due = a.due[1:]
	}
	return scope, number, true
}

// Behind tells, for every scope in which this rank or a child has asked for more than is decided, who has not: this rank, or
// the children in whose subtrees somebody has not. To follow it down the tree names the ranks.
func (a *Agreement) Behind() map[uint32][]int {
	behind := map[uint32][]int{}
	for n, s := range a.scopes {
		most := s.asked
		for _, b := range s.below {
			most = max(most, b)
		}
		if most == s.decided {
			continue
		}
		if s.asked <= s.decided {
			behind[uint32(n)] = append(behind[uint32(n)], a.rank)
		}
		for child, b := range s.below {
			if b <= s.decided {
				behind[uint32(n)] = append(behind[uint32(n)], a.first+child)
			}
		}
	}
	return behind
}
