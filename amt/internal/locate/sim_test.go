package locate

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

var (
	seed  = flag.Uint64("seed", 1, "of the first game")
	games = flag.Int("games", 10_000, "how many")
)

// A message of the simulation, with what only the simulation knows.
type message struct {
	element         uint64
	hops            int
	base            uint32 // the move of which its sender, or home, knew
	mustRun, mayRun bool
	done            bool
	detained        bool // where the element was to be made a second time
	ordered         bool
	failed          bool   // its epoch has failed: it is not run
	source          uint64 // the element that sent it
	number          uint64
	stamp           Stamp // with which it came, while it waits for its order
}

// What travels between ranks.
type kind uint8

const (
	aMessage kind = iota
	aNews
	aState
)

type flight struct {
	kind     kind
	from, to int
	element  uint64
	message  int
	stamp    Stamp
	move     uint32
	news     News
	era      uint64
	skipped  []Pair
	numbers  []Pair // of the messages that the element has sent
	sequence []Pair // and of those that it expects
}

type sim struct {
	*rand.Rand
	at       []*Machine[int]
	elements int
	homes    []int
	places   []int    // of each element's state: -1 on its way or nowhere
	moves    []uint32 // the move that it last made
	known    []uint32 // the same, when nothing was under way
	exists   []bool
	creating []int // ranks that have asked
	numbers  []Numbers
	sequence []Sequence[int]
	ran      []map[uint64]uint64 // of each element, by source: the ordered message that ran last, from 1
	era      uint32
	failing  map[order]bool // ordered messages that do not run
	skipped  int
	inOrder  int
	messages []message
	flights  []flight
	slow     [2]int // what travels slowly: a kind, and a kind of news
	arriving []flight
	leaving  []flight
	open     int // messages that are not done
	hops     [8]int
	news     [Refused + 1]int
	migrated int
	steps    int
	deepest  int
	failed   error
}

func (s *sim) fail(format string, args ...any) {
	if s.failed == nil {
		s.failed = fmt.Errorf(format, args...)
	}
}

// An order names an ordered message.
type order struct{ source, element, number uint64 }

func newSim(n uint64, ranks, elements, remembered int) *sim {
	s := &sim{Rand: rand.New(rand.NewPCG(n, 0)), elements: elements, homes: make([]int, elements), places: make([]int, elements),
		moves: make([]uint32, elements), known: make([]uint32, elements), exists: make([]bool, elements), creating: make([]int, elements),
		numbers: make([]Numbers, elements), sequence: make([]Sequence[int], elements), ran: make([]map[uint64]uint64, elements), failing: map[order]bool{}}
	for e := range elements {
		s.homes[e], s.places[e] = s.IntN(ranks), -1
	}
	for rank := range ranks {
		s.at = append(s.at, New[int](rank, func(e uint64) int { return s.homes[e] }, remembered))
		if n%2 == 0 { // some elements, or all
			s.at[rank].Expect(n/2%uint64(elements), uint64(elements))
		}
	}
	s.slow = [2]int{s.IntN(8), s.IntN(2 * int(Refused))}
	return s
}

func (s *sim) post(f flight) { s.flights = append(s.flights, f) }

// send sends a message from a rank.
func (s *sim) send(rank int, e uint64, mustRun, mayRun bool) {
	s.sendOut(rank, message{element: e, mustRun: mustRun, mayRun: mayRun})
}

// sendOrdered sends one from an element.
func (s *sim) sendOrdered(source, e uint64) {
	if rank := s.places[source]; rank >= 0 && s.exists[e] {
		number := s.numbers[source].Next(Element{Key: e}, s.era)
		failed := s.IntN(8) == 0
		if failed {
			s.failing[order{source, e, number}] = true
		}
		s.sendOut(rank, message{element: e, mustRun: true, mayRun: true, ordered: true, source: source, number: number, failed: failed})
	}
}

func (s *sim) sendOut(rank int, msg message) {
	m, e := s.at[rank], msg.element
	base := s.moveAt(s.homes[e], e)
	if c := m.cache.find(e); c != nil {
		base = c.move
	}
	if own := m.known(e); own != nil {
		base = own.move
	}
	id := len(s.messages)
	msg.base = base
	s.messages = append(s.messages, msg)
	s.open++
	s.step(rank, id, Stamp{Origin: int32(rank)}, m.Send(e, id))
}

func (s *sim) moveAt(rank int, e uint64) uint32 {
	if own := s.at[rank].known(e); own != nil {
		return own.move
	}
	return 0
}

// step does what is to be done with a message.
func (s *sim) step(rank, id int, stamp Stamp, step Step) {
	switch step.Do {
	case Hold:
		s.messages[id].detained = s.messages[id].detained || s.at[rank].known(s.messages[id].element).state == creating
	case Run, Fail:
		s.messages[id].stamp = stamp
		s.arrived(rank, id, step.Do)
	case Forward:
		s.messages[id].hops++
		if int(step.To) == rank {
			s.fail("rank %d sends message %+v to itself", rank, s.messages[id])
		}
		stamp.Move, stamp.ByHome = step.Move, step.ByHome
		s.post(flight{kind: aMessage, from: rank, to: int(step.To), element: s.messages[id].element, message: id, stamp: stamp})
	default:
		s.fail("message %d: %+v", id, step)
	}
}

// arrived is a message whose way has ended: an ordered one may have to wait for others.
func (s *sim) arrived(rank, id int, do Do) {
	m := s.messages[id]
	if !m.ordered || do == Fail {
		s.done(rank, id, do)
		return
	}
	q, from, ran := &s.sequence[m.element], Element{Key: m.source}, s.ran[m.element]
	for ok := true; ok; id, ok = q.Next(from) {
		number := s.messages[id].number
		switch {
		case s.messages[id].failed:
			s.skipped++
			q.Skip(from, number)
		case q.Take(from, number):
			if number < max(ran[m.source], uint64(s.era)<<eraShift) {
				s.fail("element %d runs message %#x from element %d after %#x", m.element, number, m.source, ran[m.source])
			}
			for n := max(ran[m.source], uint64(s.era)<<eraShift); n < number; n++ {
				if !s.failing[order{m.source, m.element, n}] {
					s.fail("element %d runs message %#x from element %d before %#x", m.element, number, m.source, n)
				}
			}
			ran[m.source] = number + 1
			s.inOrder++
		default:
			if q.Hold(from, number, id); s.IntN(8) == 0 { // its epoch fails meanwhile
				s.messages[id].failed, s.failing[order{m.source, m.element, number}] = true, true
			}
			continue
		}
		s.done(rank, id, do)
	}
}

// done ends a message.
func (s *sim) done(rank, id int, do Do) {
	m := &s.messages[id]
	e := m.element
	if m.done {
		s.fail("message %d to element %d is done twice", id, e)
	}
	m.done = true
	s.open--
	if do == Fail {
		if m.mustRun {
			s.fail("message %d to element %d is told to be an error", id, e)
		}
		return
	}
	if s.places[e] != rank || !m.mayRun {
		s.fail("rank %d runs message %d of element %d, which is on %d; %+v", rank, id, e, s.places[e], m)
	}
	unheard := int(s.moves[e] - min(m.base, s.moves[e]))
	if m.hops > unheard+2 {
		s.fail("message %d to element %d made %d hops, and the element %d moves", id, e, m.hops, unheard)
	}
	if late := int(s.moves[e] - min(s.known[e], s.moves[e])); m.hops > late+4 && !m.detained {
		s.fail("message %d to element %d made %d hops, and the element %d moves since all was known", id, e, m.hops, late)
	}
	s.hops[min(m.hops, len(s.hops)-1)]++
	s.deepest = max(s.deepest, m.hops)
}

// do does what a machine orders.
func (s *sim) do(rank int, orders []Order[int]) {
	for _, o := range orders {
		switch o.Do {
		case Tell:
			s.news[o.News.Kind]++
			if int(o.To) == rank {
				s.fail("rank %d tells itself %+v", rank, o.News)
			}
			s.post(flight{kind: aNews, from: rank, to: int(o.To), news: o.News})
		case Install, Refuse:
			s.made(rank, o.Element, o.Do)
		default:
			if s.messages[o.Message].element != o.Element {
				s.fail("order %+v for message %+v", o, s.messages[o.Message])
			}
			s.step(rank, o.Message, o.Stamp, Step{o.Do, o.Stamp.ByHome, o.Stamp.Move, o.To})
		}
	}
}

// made ends a creation.
func (s *sim) made(rank int, e uint64, do Do) {
	s.creating[e]--
	if do == Refuse {
		if !s.exists[e] && s.creating[e] == 0 { // the other's answer may be on its way
			s.fail("rank %d may not make element %d, but there is none", rank, e)
		}
		return
	}
	if s.exists[e] {
		s.fail("rank %d is to install element %d, which exists", rank, e)
	}
	move, _ := s.at[rank].Here(e)
	if move <= s.moves[e] {
		s.fail("element %d is made with move %d, and had made %d", e, move, s.moves[e])
	}
	s.exists[e], s.places[e], s.moves[e] = true, rank, move
	s.numbers[e], s.sequence[e], s.ran[e] = Numbers{}, Sequence[int]{}, map[uint64]uint64{}
	s.linear(e)
}

// linear checks that an element is where it is, and nowhere else. (With many ranks, that would take most of the time.)
func (s *sim) linear(e uint64) {
	if len(s.at) > 64 {
		return
	}
	for rank, m := range s.at {
		if move, ok := m.Here(e); ok && (rank != s.places[e] || move != s.moves[e]) {
			s.fail("element %d is on rank %d with move %d, and on %d with %d", e, rank, move, s.places[e], s.moves[e])
		}
	}
}

// migrate begins a migration; the state leaves at once, or later.
func (s *sim) migrate(e uint64, to int) {
	from := s.places[e]
	if from < 0 {
		return
	}
	move, ok := s.at[from].Migrate(e, to)
	if ok != (to != from) {
		s.fail("element %d migrates from rank %d to %d: %v", e, from, to, ok)
	}
	if !ok {
		return
	}
	s.migrated++
	s.places[e], s.moves[e] = -1, move
	f := flight{kind: aState, from: from, to: to, element: e, move: move}
	if s.IntN(2) == 0 {
		s.leaving = append(s.leaving, f)
		return
	}
	s.leave(f)
}

func (s *sim) leave(f flight) {
	q := &s.sequence[f.element]
	f.numbers, f.era, f.sequence, f.skipped = s.numbers[f.element].Pairs(), q.Era(), q.Pairs(), q.Skipped()
	s.post(f)
	s.do(f.from, s.at[f.from].Left(f.element, nil))
	for _, id := range q.Leave() {
		stamp := s.messages[id].stamp
		step, orders := s.at[f.from].Deliver(f.element, stamp, int(stamp.Origin), id, nil)
		s.do(f.from, orders)
		s.step(f.from, id, stamp, step)
	}
}

// deliver takes what has arrived.
func (s *sim) deliver(f flight) {
	m := s.at[f.to]
	switch f.kind {
	case aMessage:
		step, orders := m.Deliver(f.element, f.stamp, f.from, f.message, nil)
		s.do(f.to, orders)
		s.step(f.to, f.message, f.stamp, step)
	case aNews:
		s.do(f.to, m.Receive(f.from, f.news, nil))
	case aState:
		m.Arrive(f.element, f.move, f.from)
		if s.IntN(2) == 0 {
			s.arriving = append(s.arriving, f)
			return
		}
		s.install(f)
	}
}

func (s *sim) install(f flight) {
	orders := s.at[f.to].Installed(f.element, nil)
	s.places[f.element] = f.to
	s.numbers[f.element], s.sequence[f.element] = NumbersOf(f.numbers), SequenceOf[int](f.era, f.sequence, f.skipped)
	s.linear(f.element)
	s.do(f.to, orders)
}

func takeAny[T any](r *rand.Rand, from *[]T) T {
	i := r.IntN(len(*from))
	f := (*from)[i]
	(*from)[i] = (*from)[len(*from)-1]
	*from = (*from)[:len(*from)-1]
	return f
}

// progress lets something of what is under way happen: any of it, but the slow rarely.
func (s *sim) progress() {
	s.steps++
	if n := len(s.leaving); n > 0 && s.IntN(4) == 0 {
		s.leave(takeAny(s.Rand, &s.leaving))
		return
	}
	if n := len(s.arriving); n > 0 && s.IntN(4) == 0 {
		s.install(takeAny(s.Rand, &s.arriving))
		return
	}
	if len(s.flights) == 0 {
		return
	}
	i := s.IntN(len(s.flights))
	if f := &s.flights[i]; int(f.kind) == s.slow[0] || f.kind == aNews && int(f.news.Kind) == s.slow[1] {
		if s.IntN(30) > 0 {
			i = s.IntN(len(s.flights))
		}
	}
	s.flights[i], s.flights[len(s.flights)-1] = s.flights[len(s.flights)-1], s.flights[i]
	f := s.flights[len(s.flights)-1]
	s.flights = s.flights[:len(s.flights)-1]
	s.deliver(f)
}

// quiet waits until nothing is under way, and checks what holds then.
func (s *sim) quiet() {
	for s.failed == nil && len(s.flights)+len(s.leaving)+len(s.arriving) > 0 {
		s.progress()
	}
	if s.failed != nil {
		return
	}
	for rank, m := range s.at {
		m.Held(func(e uint64, id int) {
			s.fail("rank %d holds message %d of element %d: %+v", rank, id, e, *m.known(e))
		})
	}
	if s.open != 0 {
		s.fail("%d messages are lost", s.open)
	}
	for e := range s.elements {
		home := s.at[s.homes[e]].known(uint64(e))
		switch {
		case len(s.sequence[e].Leave())+len(s.sequence[e].Skipped()) > 0:
			s.fail("element %d holds messages for their order: %+v", e, s.sequence[e])
		case s.creating[e] != 0:
			s.fail("element %d: %d creations have no answer", e, s.creating[e])
		case !s.exists[e]:
			if home != nil && (home.state != gone || home.move != s.moves[e]) {
				s.fail("home knows of element %d, which is nowhere since move %d: %+v", e, s.moves[e], *home)
			}
		case s.places[e] == s.homes[e] && (home == nil || home.state != here) ||
			s.places[e] != s.homes[e] && (home == nil || home.state != away || int(home.rank) != s.places[e] || home.move != s.moves[e]):
			s.fail("home of element %d, which is on rank %d since move %d: %+v", e, s.places[e], s.moves[e], home)
		}
	}
	copy(s.known, s.moves)
	s.messages = s.messages[:0]
}

// phaseOver ends a phase, on ranks that are quiet, and checks that they have forgotten what they may.
func (s *sim) phaseOver(rank int) {
	m := s.at[rank]
	m.PhaseOver()
	if s.IntN(4) == 0 {
		m.Forget()
	}
	if len(m.cache.slots) > m.cache.size {
		s.fail("rank %d remembers %d places", rank, len(m.cache.slots))
	}
}

func (s *sim) tidy() {
	for rank, m := range s.at {
		used := 0
		for _, e := range m.table.slots {
			if e.state == absent {
				continue
			}
			used++
			if e.state != here && s.homes[e.key] != rank || e.state == gone || e.held {
				s.fail("rank %d still knows %+v", rank, e)
			}
		}
		if used != m.table.used {
			s.fail("rank %d has %d entries, and counts %d", rank, used, m.table.used)
		}
	}
}

// work is a phase: messages and migrations, and phases that end at any moment, on any rank.
func (s *sim) work(steps int) {
	busy := 2 + s.IntN(6)
	for range steps {
		if s.failed != nil {
			return
		}
		e := uint64(s.IntN(s.elements))
		switch n := s.IntN(busy * 10); {
		case n < 10:
			s.send(s.IntN(len(s.at)), e, s.exists[e], s.exists[e])
		case n < 14 && n%2 == 0:
			s.sendOrdered(uint64(s.IntN(s.elements)), e)
		case n < 14:
			s.migrate(e, s.IntN(len(s.at)))
		case n == 14 && s.IntN(10) == 0:
			s.phaseOver(s.IntN(len(s.at)))
		case n == 15 && s.places[e] >= 0 && s.IntN(10) == 0: // whoever is there makes it a second time
			s.create(s.IntN(len(s.at)), e)
		default:
			s.progress()
		}
	}
}

func (s *sim) create(rank int, e uint64) {
	s.creating[e]++
	s.do(rank, s.at[rank].Create(e, nil))
}

// modify destroys elements and makes others, while messages to them come that may be errors.
func (s *sim) modify() {
	for e := range uint64(s.elements) {
		switch {
		case s.places[e] >= 0 && s.IntN(3) == 0:
			orders, ok := s.at[s.places[e]].Destroy(e, nil)
			if !ok {
				s.fail("element %d, which is on %d, is not destroyed", e, s.places[e])
			}
			s.do(s.places[e], orders)
			s.moves[e]++
			s.exists[e], s.places[e] = false, -1
		case !s.exists[e] && s.IntN(2) == 0:
			for range 1 + s.IntN(2) {
				s.create(s.IntN(len(s.at)), e)
			}
		}
		for range s.IntN(4) {
			s.send(s.IntN(len(s.at)), e, false, true)
			s.progress()
		}
	}
	s.quiet()
	s.era++
}

// game plays one.
func game(n uint64) *sim {
	r := rand.New(rand.NewPCG(n, 1))
	s := newSim(n, 2+r.IntN(15), 1+r.IntN(12), 1<<r.IntN(3))
	for range 1 + s.IntN(6) {
		s.modify()
		if s.IntN(2) == 0 {
			for rank := range s.at {
				s.phaseOver(rank)
			}
			s.tidy()
		}
		s.work(20 + s.IntN(400))
		s.quiet()
	}
	return s
}

func TestGames(t *testing.T) {
	t.Logf("seed %d, %d games", *seed, *games)
	var all sim
	messages := 0
	for n := *seed; n < *seed+uint64(*games); n++ {
		s := game(n)
		if s.failed != nil {
			t.Fatalf("game %d: %v", n, s.failed)
		}
		for i, h := range s.hops {
			all.hops[i] += h
			messages += h
		}
		for i, h := range s.news {
			all.news[i] += h
		}
		all.steps, all.migrated, all.deepest = all.steps+s.steps, all.migrated+s.migrated, max(all.deepest, s.deepest)
		all.inOrder += s.inOrder
		all.skipped += s.skipped
	}
	t.Logf("%d deliveries; %d messages run, %d of them in order, %d skipped; by hops %v, at most %d; %d migrations; news by kind %v",
		all.steps, messages, all.inOrder, all.skipped, all.hops, all.deepest, all.migrated, all.news)
}

// TestManyRanks prints what messages and migrations cost where there are many ranks and few messages.
func TestManyRanks(t *testing.T) {
	const ranks, elements = 16384, 65536
	s := newSim(*seed, ranks, elements, 4)
	for e := range uint64(elements) { // at home, in blocks, as they are by default
		s.homes[e] = int(e) * ranks / elements
		s.create(s.homes[e], e)
	}
	partner := func(rank int) uint64 { return uint64((rank*4 + 1 + s.IntN(16)*37) % elements) }
	play := func(what string, messages, migrations int) {
		s.hops, s.news, s.deepest = [8]int{}, [Refused + 1]int{}, 0
		for i := range messages {
			rank := s.IntN(ranks)
			s.send(rank, partner(rank), true, true)
			if migrations > 0 && i%(messages/migrations) == 0 {
				s.migrate(uint64(s.IntN(elements)), s.IntN(ranks))
			}
			for len(s.flights) > 2000 {
				s.progress()
			}
		}
		s.quiet()
		most, table := 0, 0
		for _, m := range s.at {
			size := (len(m.table.slots) + len(m.cache.slots)) * int(unsafe.Sizeof(entry{}))
			most, table = max(most, size), table+size
		}
		told := 0
		for _, n := range s.news {
			told += n
		}
		t.Logf("%s: %d messages, hops %v; %d migrations, %d news %v; a rank has %d B, at most %d",
			what, messages, s.hops, migrations, told, s.news, table/ranks, most)
	}
	play("nothing has moved", 100_000, 0)
	play("elements move    ", 200_000, 20_000)
	for rank := range s.at {
		s.at[rank].PhaseOver()
	}
	s.tidy()
	play("all have moved   ", 200_000, 0)
	play("the same again   ", 200_000, 0)
	if s.failed != nil {
		t.Fatalf("seed %d: %v", *seed, s.failed)
	}
}
