package rounds

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/byssus-hpc/byssus/amt/internal/locate"
	"github.com/byssus-hpc/byssus/amt/internal/tree"
)

var (
	seed  = flag.Uint64("seed", 1, "of the first game")
	games = flag.Int("games", 3_000, "how many")
)

// An element of the simulation, with what travels with it.
type element struct {
	key   uint64
	place int    // -1: on its way
	done  uint64 // the last broadcast that it has run
	given uint64 // the last reduction that it has contributed to
	born  uint64 // the last broadcast that was over on its rank, or under way, when it was made
	order uint64 // its ordinal
}

type kind uint8

const (
	toRoot kind = iota // a broadcast that has no number
	passed
	state
	news
	part
	over
)

type flight struct {
	kind     kind
	from, to int
	number   uint64
	message  int
	e        *element
	move     uint32
	news     locate.News
	part     Part[uint64]
}

// An epoch of a broadcast: what keeps it from being over, whom it is for, and who has run it.
type epoch struct {
	holds int
	some  uint64 // one of so many elements, 1: all
	ran   map[uint64]int
}

func (e *epoch) isFor(key uint64) bool { return key%e.some == 0 }

type sim struct {
	*rand.Rand
	ranks      int
	at         []*locate.Machine[int]
	broadcasts []*Broadcasts[int]
	reductions []*Reduction[uint64]
	elements   []*element
	nextKey    uint64
	epochs     []*epoch // by message
	numbers    []uint64 // of each, 0: none yet
	flights    []flight
	slow       kind
	wanted     uint64            // reductions
	results    map[uint64]uint64 // by number
	first      uint64            // the first reduction over these elements
	runs       int
	skipped    int
	parts      int
	migrated   int
	changed    int
	failed     error
	posted     [over + 1]int // by kind
}

func (s *sim) fail(format string, args ...any) {
	if s.failed == nil {
		s.failed = fmt.Errorf(format, args...)
	}
}

func (s *sim) post(f flight) {
	s.posted[f.kind]++
	s.flights = append(s.flights, f)
}

// broadcast begins one, on any rank.
func (s *sim) broadcast() {
	s.epochs = append(s.epochs, &epoch{holds: 1, some: 1 + s.Uint64N(4), ran: map[uint64]int{}})
	s.numbers = append(s.numbers, 0)
	s.post(flight{kind: toRoot, to: 0, message: len(s.epochs) - 1})
}

// release is the end of something that held the epoch of a broadcast.
func (s *sim) release(message, n int) {
	e := s.epochs[message]
	if e.holds -= n; e.holds > 0 {
		return
	}
	for _, el := range s.elements {
		if due := map[bool]int{true: 1}[s.numbers[message] > el.born && e.isFor(el.key)]; e.ran[el.key] != due {
			s.fail("broadcast %d is over, and element %d has run it %d times, not %d", s.numbers[message], el.key, e.ran[el.key], due)
		}
	}
	for rank := range s.ranks {
		s.post(flight{kind: over, to: rank, number: s.numbers[message]})
	}
}

// do does what a rank's part in the broadcasts orders.
func (s *sim) do(rank int, orders []Order[int]) {
	for _, o := range orders {
		message := o.Message
		if o.Do == Hold || o.Do == Release {
			message = s.messageOf(o.Number)
		}
		switch o.Do {
		case Pass:
			s.epochs[message].holds++
			s.post(flight{kind: passed, to: o.To, number: o.Number, message: message})
		case Run: // elements run it when they are drawn; the message, which was early or not, is taken care of
			if s.IntN(2) == 0 {
				s.skip(rank, o.Number, message)
			}
			s.release(message, 1)
		case Hold:
			if s.epochs[message].holds == 0 {
				s.fail("rank %d holds the epoch of broadcast %d, which is over", rank, o.Number)
			}
			s.epochs[message].holds++
		case Release:
			s.release(message, 1)
		}
	}
}

func (s *sim) messageOf(number uint64) int {
	for message, n := range s.numbers {
		if n == number {
			return message
		}
	}
	panic("no such broadcast")
}

// skip lets all elements of a rank run a broadcast that it is not for, if it is what they are due.
func (s *sim) skip(rank int, number uint64, message int) {
	n := 0
	for _, e := range s.elements {
		if e.place == rank && e.done == number-1 && !s.epochs[message].isFor(e.key) {
			e.done = number
			n++
		}
	}
	if n > 0 {
		s.skipped += n
		s.do(rank, s.broadcasts[rank].Ran(number, n, nil))
	}
}

// run lets an element run what it is due.
func (s *sim) run(e *element) {
	if e.place < 0 {
		return
	}
	number, message, ok := s.broadcasts[e.place].Due(e.done)
	if !ok {
		return
	}
	if number != e.done+1 || s.numbers[message] != number {
		s.fail("element %d, which has run %d, is to run %d, message %d", e.key, e.done, number, message)
	}
	e.done++
	if s.epochs[message].isFor(e.key) {
		s.runs++
		s.epochs[message].ran[e.key]++
	}
	s.do(e.place, s.broadcasts[e.place].Ran(number, 1, nil))
}

// give lets an element contribute to its next reduction.
func (s *sim) give(e *element) {
	if e.place >= 0 && e.given < s.wanted {
		e.given++
		s.reductions[e.place].Give(e.given, e.order, valueOf(e.given, e.order))
	}
}

func (s *sim) migrate(e *element) {
	to := s.IntN(s.ranks)
	if e.place < 0 || to == e.place {
		return
	}
	s.migrated++
	from := e.place
	move, _ := s.at[from].Migrate(e.key, to)
	s.broadcasts[from].Leave(e.key, move, e.done)
	s.post(flight{kind: state, from: from, to: to, e: e, move: move})
	s.tell(from, s.at[from].Left(e.key, nil))
	e.place = -1
}

// tell sends the news of package locate.
func (s *sim) tell(from int, orders []locate.Order[int]) {
	for _, o := range orders {
		if o.Do == locate.Tell {
			s.post(flight{kind: news, from: from, to: int(o.To), news: o.News})
		}
	}
}

// settle is what a rank does when it has nothing else to do.
func (s *sim) settle(rank int) {
	parent, parts := s.reductions[rank].Settle()
	for _, p := range parts {
		if parent >= 0 {
			s.parts++
			s.post(flight{kind: part, to: parent, part: p})
			continue
		}
		if _, ok := s.results[p.Number]; ok {
			s.fail("reduction %d ends twice", p.Number)
		}
		s.results[p.Number] = p.Value
	}
}

func (s *sim) deliver() {
	if len(s.flights) == 0 {
		return
	}
	i := s.IntN(len(s.flights))
	if s.flights[i].kind == s.slow {
		i = s.IntN(len(s.flights))
	}
	f := s.flights[i]
	s.flights[i] = s.flights[len(s.flights)-1]
	s.flights = s.flights[:len(s.flights)-1]
	b := s.broadcasts[f.to]
	switch f.kind {
	case toRoot:
		f.number = b.Number()
		s.numbers[f.message] = f.number
		s.do(f.to, b.Take(f.number, f.message, nil))
	case passed:
		s.do(f.to, b.Take(f.number, f.message, nil))
	case state:
		f.e.place = f.to
		s.do(f.to, b.Arrive(f.e.done, nil))
		s.at[f.to].Arrive(f.e.key, f.move, f.from)
		s.tell(f.to, s.at[f.to].Installed(f.e.key, nil))
	case news:
		s.tell(f.to, s.at[f.to].Receive(f.from, f.news, nil))
		if f.news.Kind == locate.Acked || f.news.Kind == locate.Installed && int(f.news.Rank) == f.to {
			s.do(f.to, b.Confirmed(f.news.Element, f.news.Move, nil))
		}
	case part:
		s.reductions[f.to].Take(f.part)
	case over:
		b.Over(f.number)
	}
}

// destroy destroys one of the elements, if it is anywhere and has run what it is due.
func (s *sim) destroy(i int) {
	e := s.elements[i]
	if e.place < 0 || e.done < s.broadcasts[e.place].taken {
		return
	}
	s.broadcasts[e.place].Destroyed(e.done)
	orders, _ := s.at[e.place].Destroy(e.key, nil)
	s.tell(e.place, orders)
	s.elements[i] = s.elements[len(s.elements)-1]
	s.elements = s.elements[:len(s.elements)-1]
	s.changed++
}

// create makes an element.
func (s *sim) create() {
	rank := int(s.nextKey) % s.ranks
	s.at[rank].Create(s.nextKey, nil)
	done := s.broadcasts[rank].Made()
	s.elements = append(s.elements, &element{key: s.nextKey, place: rank, done: done, born: done, given: s.wanted})
	s.nextKey++
	s.changed++
}

// modify makes and destroys elements while nothing is under way.
func (s *sim) modify() {
	for i := len(s.elements) - 1; i >= 0; i-- {
		if s.IntN(4) == 0 {
			s.destroy(i)
		}
	}
	for range s.IntN(8) {
		s.create()
	}
	for i, e := range s.elements {
		e.order = uint64(i)
	}
	s.reductions = nil
	for rank := range s.ranks {
		s.reductions = append(s.reductions, NewReduction(rank, s.ranks, uint64(len(s.elements)), combine))
	}
	s.first = s.wanted + 1
}

// valueOf is what the element with an ordinal contributes, and combine is neither associative nor commutative.
func valueOf(number, order uint64) uint64 { return (number*1000003 + order + 1) * 0x9e3779b97f4a7c15 }

func combine(a, b uint64) uint64 { return a*31 ^ b*17 + 7 }

// want is the result of a reduction over some ordinals: that of the first so many, a power of two, and that of the others.
func want(number, first, n uint64) uint64 {
	if n == 1 {
		return valueOf(number, first)
	}
	left := uint64(1)
	for left*2 < n {
		left *= 2
	}
	return combine(want(number, first, left), want(number, first+left, n-left))
}

// any lets anything happen.
func (s *sim) any() {
	if len(s.elements) > 0 {
		e := s.elements[s.IntN(len(s.elements))]
		switch s.IntN(6) {
		case 0:
			s.run(e)
		case 1:
			s.give(e)
		}
	}
	s.settle(s.IntN(s.ranks))
	s.deliver()
}

// quiet waits until all is done, and checks what holds then.
func (s *sim) quiet() {
	for due := true; due && s.failed == nil; {
		s.any()
		due = len(s.flights) > 0
		for _, e := range s.elements {
			due = due || e.place < 0 || e.given < s.wanted
			if e.place >= 0 {
				_, _, ok := s.broadcasts[e.place].Due(e.done)
				due = due || ok
			}
		}
		for rank := range s.ranks {
			due = due || rank > 0 && s.reductions[rank].Pending() > 0
		}
	}
	if s.failed != nil {
		return
	}
	s.settle(0)
	for number := s.first; number <= s.wanted && len(s.elements) > 0; number++ {
		if got, ok := s.results[number]; !ok || got != want(number, 0, uint64(len(s.elements))) {
			s.fail("reduction %d over %d elements: %x, %v", number, len(s.elements), got, ok)
		}
	}
	for rank, b := range s.broadcasts {
		if len(b.kept)+len(b.early)+len(b.left)+len(b.ahead)+s.reductions[rank].Pending() > 0 {
			s.fail("rank %d still keeps %+v, %+v", rank, b, s.reductions[rank])
		}
	}
	for message, e := range s.epochs {
		if e.holds != 0 {
			s.fail("broadcast %d is held %d times", s.numbers[message], e.holds)
		}
	}
}

func game(n uint64) *sim {
	s := &sim{Rand: rand.New(rand.NewPCG(n, 0)), results: map[uint64]uint64{}}
	s.ranks, s.slow = 1+s.IntN(12), kind(s.IntN(8))
	for rank := range s.ranks {
		s.broadcasts = append(s.broadcasts, NewBroadcasts[int](rank, s.ranks))
		s.at = append(s.at, locate.New[int](rank, func(e uint64) int { return int(e) % s.ranks }, 4))
	}
	for range 1 + s.IntN(3) {
		s.modify()
		busy, changes := 2+s.IntN(10), s.IntN(2) == 0
		for range s.IntN(150) {
			switch s.IntN(busy) {
			case 0:
				s.broadcast()
			case 1:
				if len(s.elements) > 0 && !changes {
					s.wanted++
				}
			case 2:
				if changes {
					s.create()
				}
			case 3:
				if changes && len(s.elements) > 0 {
					s.destroy(s.IntN(len(s.elements)))
				}
			}
			if len(s.elements) > 0 && s.IntN(3) == 0 {
				s.migrate(s.elements[s.IntN(len(s.elements))])
			}
			s.any()
		}
		s.quiet()
		if s.failed != nil {
			break
		}
	}
	return s
}

func TestGames(t *testing.T) {
	t.Logf("seed %d, %d games", *seed, *games)
	var broadcasts, runs, skipped, migrated, changed, reductions, parts int
	for n := *seed; n < *seed+uint64(*games); n++ {
		s := game(n)
		if s.failed != nil {
			t.Fatalf("game %d: %v", n, s.failed)
		}
		broadcasts, runs, skipped, migrated, changed = broadcasts+len(s.epochs), runs+s.runs, skipped+s.skipped, migrated+s.migrated, changed+s.changed
		reductions, parts = reductions+len(s.results), parts+s.parts
	}
	t.Logf("%d broadcasts, run %d times, skipped %d times at once; %d migrations; %d elements made or destroyed; %d reductions of %d parts", broadcasts, runs, skipped, migrated, changed, reductions, parts)
}

// TestManyRanks prints what broadcasts take where there are many ranks, while elements migrate: messages, and what a rank keeps.
func TestManyRanks(t *testing.T) {
	const ranks, broadcasts, migrations = 16384, 3, 4000
	s := &sim{Rand: rand.New(rand.NewPCG(*seed, 0)), ranks: ranks}
	for rank := range ranks {
		s.broadcasts = append(s.broadcasts, NewBroadcasts[int](rank, ranks))
		s.at = append(s.at, locate.New[int](rank, func(e uint64) int { return int(e) % ranks }, 4))
	}
	for range ranks {
		s.create()
	}
	for range broadcasts {
		s.broadcast()
	}
	most := 0
	for due, step := true, 0; due && s.failed == nil; {
		for len(s.flights) > 0 {
			if s.deliver(); step%8 == 0 && s.migrated < migrations {
				s.migrate(s.elements[s.IntN(ranks)])
			}
			if step++; step%5000 == 0 {
				for _, b := range s.broadcasts {
					most = max(most, len(b.kept)+len(b.early)+len(b.left)+len(b.ahead))
				}
			}
		}
		due = false
		for _, e := range s.elements {
			_, _, more := s.broadcasts[e.place].Due(e.done)
			due = due || more
			s.run(e)
		}
	}
	if s.failed != nil {
		t.Fatal(s.failed)
	}
	for message, e := range s.epochs {
		if e.holds != 0 {
			t.Errorf("broadcast %d is held %d times", s.numbers[message], e.holds)
		}
	}
	t.Logf("%d ranks, an element each: %d broadcasts take %d messages, in at most %d hops, and one to rank 0 each; %d that they are over; they are run %d times, skipped %d; %d migrations with %d news; a rank keeps at most %d entries",
		ranks, broadcasts, s.posted[passed], tree.Depth(ranks), s.posted[over], s.runs, s.skipped, s.migrated, s.posted[news], most)
}

// TestGrowth prints what a reduction costs by the mapping, and checks that its result is the same: elements in blocks, dealt out, at
// random, and all on one rank.
func TestGrowth(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 0))
	for _, ranks := range []int{1, 4, 64, 1024, 16384} {
		elements := ranks*7 + 3
		for _, mapping := range []struct {
			name  string
			place func(i int) int
		}{
			{"in blocks", func(i int) int { return i * ranks / elements }},
			{"dealt out", func(i int) int { return i % ranks }},
			{"at random", func(int) int { return r.IntN(ranks) }},
			{"on one", func(int) int { return ranks - 1 }},
		} {
			at := make([]*Reduction[uint64], ranks)
			for rank := range at {
				at[rank] = NewReduction(rank, ranks, uint64(elements), combine)
			}
			for i := range elements {
				at[mapping.place(i)].Give(1, uint64(i), valueOf(1, uint64(i)))
			}
			sent, most := 0, 0
			var result []Part[uint64]
			for rank := ranks - 1; rank >= 0; rank-- { // parents come after their children
				parent, parts := at[rank].Settle()
				if parent < 0 {
					result = parts
					continue
				}
				sent, most = sent+len(parts), max(most, len(parts))
				for _, p := range parts {
					at[parent].Take(p)
				}
			}
			if len(result) != 1 || result[0].Value != want(1, 0, uint64(elements)) {
				t.Errorf("%d ranks, elements %s: %+v", ranks, mapping.name, result)
			}
			t.Logf("%4d ranks, %4d elements %s: %5d parts, at most %4d from one rank", ranks, elements, mapping.name, sent, most)
		}
	}
}
