package rounds

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/tree"
)

// A Do says what is to be done.
type Do uint8

// What is to be done.
const (
	Pass    Do = iota // send the broadcast to rank To
	Run               // the elements here are due (Due)
	Hold              // hold the epoch of the broadcast
	Release           // release it
)

// An Order is what is to be done about a broadcast.
type Order[M any] struct {
	Do      Do
	To      int
	Number  uint64
	Message M
}

// Broadcasts is one rank's part in those to a collection. M is a message, as the caller knows it.
type Broadcasts[M any] struct {
	rank, ranks int
	numbered    uint64         // on rank 0
	taken       uint64         // the last that was taken here
	kept        []broadcast[M] // those up to taken that may be due
	early       map[uint64]M   // that have overtaken others

	elements int            // that are here, or have left and did not arrive as far as this rank knows
	ahead    map[uint64]int // those of them that have run more than was taken here, by the last that they have run
	left     map[departure]uint64
}

type broadcast[M any] struct {
	message M
	owed    int // elements that have not run it
}

// A departure is one of an element, by the number of its move.
type departure struct {
	element uint64
	move    uint32
}

// NewBroadcasts makes a rank's part.
func NewBroadcasts[M any](rank, ranks int) *Broadcasts[M] {
	return &Broadcasts[M]{rank: rank, ranks: ranks, early: map[uint64]M{}, ahead: map[uint64]int{}, left: map[departure]uint64{}}
}

// Number numbers a broadcast, on rank 0, where Take is due then.
func (b *Broadcasts[M]) Number() uint64 {
	b.numbered++
	return b.numbered
}

// Take takes a broadcast from rank 0 or the rank above. A message of its epoch is being taken care of, or held, until Take has returned an
// Order to Run it.
func (b *Broadcasts[M]) Take(number uint64, message M, out []Order[M]) []Order[M] {
	if number <= b.taken {
		panic(fmt.Sprintf("rounds: rank %d is sent broadcast %d, and has taken %d", b.rank, number, b.taken))
	}
	first, last := tree.Children(b.rank, b.ranks)
	for child := first; child < last; child++ {
		out = append(out, Order[M]{Pass, child, number, message})
	}
	b.early[number] = message
	for {
		next, ok := b.early[b.taken+1]
		if !ok {
			return out
		}
		b.taken++
		delete(b.early, b.taken)
		owed := b.elements
		for _, n := range b.ahead {
			owed -= n
		}
		delete(b.ahead, b.taken)
		b.kept = append(b.kept, broadcast[M]{next, owed})
		if owed > 0 {
			out = append(out, Order[M]{Do: Hold, Number: b.taken})
		}
		out = append(out, Order[M]{Do: Run, Number: b.taken, Message: next})
	}
}

// Due gives the broadcast that is next for an element that is here and has run those up to a number. When it has run it, Ran is due.
func (b *Broadcasts[M]) Due(done uint64) (number uint64, message M, ok bool) {
	if done >= b.taken {
		return 0, message, false
	}
	return done + 1, b.at(done + 1).message, true
}

// Ran says that elements that are here, one at least, have run a broadcast, the one after the last that they had run. Those that it is not
// for run it by doing nothing.
func (b *Broadcasts[M]) Ran(number uint64, elements int, out []Order[M]) []Order[M] {
	return b.owe(number-1, number, -elements, out)
}

// at is what is kept of a broadcast.
func (b *Broadcasts[M]) at(number uint64) *broadcast[M] {
	first := b.taken - uint64(len(b.kept)) + 1
	if number < first {
		panic(fmt.Sprintf("rounds: rank %d: an element has not run broadcast %d, whose epoch is over", b.rank, number))
	}
	return &b.kept[number-first]
}

// owe counts one element more or less that has not run the broadcasts after one and up to another.
func (b *Broadcasts[M]) owe(after, upto uint64, n int, out []Order[M]) []Order[M] {
	for number := after + 1; number <= upto; number++ {
		k := b.at(number)
		k.owed += n
		switch {
		case k.owed < 0:
			panic(fmt.Sprintf("rounds: rank %d: more elements have run broadcast %d than were here", b.rank, number))
		case k.owed == 0:
			out = append(out, Order[M]{Do: Release, Number: number})
		case k.owed == n:
			out = append(out, Order[M]{Do: Hold, Number: number})
		}
	}
	return out
}

// Made says that an element is made here, and returns the last broadcast before it.
func (b *Broadcasts[M]) Made() (done uint64) {
	b.elements++
	return b.taken
}

// Destroyed says that an element is destroyed here, which has run the broadcasts up to a number: all that were taken here, or more.
func (b *Broadcasts[M]) Destroyed(done uint64) {
	if done < b.taken {
		panic(fmt.Sprintf("rounds: rank %d: an element is destroyed that has run the broadcasts up to %d, of %d", b.rank, done, b.taken))
	}
	b.count(done, -1, nil)
}

// Leave says that an element leaves with a move, which has run the broadcasts up to a number.
func (b *Broadcasts[M]) Leave(element uint64, move uint32, done uint64) {
	b.left[departure{element, move}] = done
}

// Confirmed says that an element has arrived elsewhere with a move. (Of one that was destroyed instead, nothing was to be confirmed.)
func (b *Broadcasts[M]) Confirmed(element uint64, move uint32, out []Order[M]) []Order[M] {
	d := departure{element, move}
	done, ok := b.left[d]
	if !ok {
		return out
	}
	delete(b.left, d)
	return b.count(done, -1, out)
}

// Arrive says that an element has arrived, which has run the broadcasts up to a number. It may be due.
func (b *Broadcasts[M]) Arrive(done uint64, out []Order[M]) []Order[M] { return b.count(done, 1, out) }

// count counts an element more or less.
func (b *Broadcasts[M]) count(done uint64, n int, out []Order[M]) []Order[M] {
	b.elements += n
	if done <= b.taken {
		return b.owe(done, b.taken, n, out)
	}
	if b.ahead[done] += n; b.ahead[done] == 0 {
		delete(b.ahead, done)
	}
	return out
}

// Over says that the epoch of a broadcast is over. Nobody needs it then, nor those before: who has run it has run them.
func (b *Broadcasts[M]) Over(number uint64) {
	for first := b.taken - uint64(len(b.kept)) + 1; first <= number && len(b.kept) > 0; first++ {
		if b.kept[0].owed != 0 {
			panic(fmt.Sprintf("rounds: rank %d: the epoch of broadcast %d is over, but %d elements have not run it", b.rank, first, b.kept[0].owed))
		}
		b.kept[0] = broadcast[M]{}
		b.kept = b.kept[1:]
	}
}
