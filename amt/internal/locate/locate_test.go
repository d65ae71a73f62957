package locate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// A stage is some ranks whose messages are delivered when a test says so. It writes down what happens.
type stage struct {
	at  []*Machine[string]
	way []transit
	log []string
}

type transit struct {
	from, to int
	element  uint64
	stamp    Stamp
	message  string // "": news
	news     News
}

// newStage has ranks that are home of every element whose number has that remainder.
func newStage(ranks int) *stage {
	s := &stage{}
	for rank := range ranks {
		s.at = append(s.at, New[string](rank, func(e uint64) int { return int(e) % ranks }, 4))
	}
	return s
}

func (s *stage) step(rank int, e uint64, message string, stamp Stamp, step Step) {
	switch step.Do {
	case Run:
		s.log = append(s.log, fmt.Sprintf("%d runs %s", rank, message))
	case Fail:
		s.log = append(s.log, fmt.Sprintf("%d fails %s", rank, message))
	case Forward:
		if int(step.To) == rank {
			s.log = append(s.log, fmt.Sprintf("%d sends %s to itself", rank, message))
		}
		stamp.Move, stamp.ByHome = step.Move, step.ByHome
		s.way = append(s.way, transit{from: rank, to: int(step.To), element: e, stamp: stamp, message: message})
	}
}

func (s *stage) do(rank int, orders []Order[string]) {
	for _, o := range orders {
		switch o.Do {
		case Tell:
			s.way = append(s.way, transit{from: rank, to: int(o.To), news: o.News})
		case Install:
			s.log = append(s.log, fmt.Sprintf("%d installs %d", rank, o.Element))
		case Refuse:
			s.log = append(s.log, fmt.Sprintf("%d may not make %d", rank, o.Element))
		default:
			s.step(rank, o.Element, o.Message, o.Stamp, Step{o.Do, o.Stamp.ByHome, o.Stamp.Move, o.To})
		}
	}
}

func (s *stage) create(rank int, e uint64) { s.do(rank, s.at[rank].Create(e, nil)) }

func (s *stage) send(rank int, e uint64, message string) {
	s.step(rank, e, message, Stamp{Origin: int32(rank)}, s.at[rank].Send(e, message))
}

func (s *stage) leave(from int, e uint64, to int) (move uint32) {
	move, _ = s.at[from].Migrate(e, to)
	s.do(from, s.at[from].Left(e, nil))
	return move
}

func (s *stage) install(rank int, e uint64, move uint32, from int) {
	s.at[rank].Arrive(e, move, from)
	s.do(rank, s.at[rank].Installed(e, nil))
}

// deliver delivers what is under way to a rank, if it is the message, or news.
func (s *stage) deliver(to int, message string) {
	way := s.way
	s.way = nil
	for _, w := range way {
		switch {
		case w.to != to || w.message != message:
			s.way = append(s.way, w)
		case message != "":
			step, orders := s.at[to].Deliver(w.element, w.stamp, w.from, message, nil)
			s.do(to, orders)
			s.step(to, w.element, message, w.stamp, step)
		default:
			s.do(to, s.at[to].Receive(w.from, w.news, nil))
		}
	}
}

// settle delivers until nothing is under way.
func (s *stage) settle() {
	for len(s.way) > 0 {
		s.deliver(s.way[0].to, s.way[0].message)
	}
}

func (s *stage) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(s.log, want) {
		t.Errorf("found:\n\t%s\nwant:\n\t%s", strings.Join(s.log, "\n\t"), strings.Join(want, "\n\t"))
	}
	s.log = nil
}

// TestMigrateWhileMessageComes: the message follows the element, its sender is told, and the next takes one hop.
func TestMigrateWhileMessageComes(t *testing.T) {
	s := newStage(4)
	s.create(0, 0)
	s.send(3, 0, "first")
	s.install(1, 0, s.leave(0, 0, 1), 0)
	s.settle()
	s.send(3, 0, "second")
	s.settle()
	s.send(3, 0, "third")
	if w := s.way[0]; w.to != 1 {
		t.Errorf("the message goes to rank %d, and the element is on 1", w.to)
	}
	s.settle()
	s.want(t, "0 installs 0", "1 runs first", "1 runs second", "1 runs third")
}

// TestMessageOvertakesState: it waits where the element will be.
func TestMessageOvertakesState(t *testing.T) {
	s := newStage(4)
	s.create(0, 0)
	move := s.leave(0, 0, 1)
	s.send(3, 0, "m")
	s.settle()
	s.want(t, "0 installs 0")
	s.install(1, 0, move, 0)
	s.want(t, "1 runs m")
}

// TestHeldWhileLeaving: what comes for an element whose state is not sent yet follows it.
func TestHeldWhileLeaving(t *testing.T) {
	s := newStage(4)
	s.create(0, 0)
	move, _ := s.at[0].Migrate(0, 1)
	s.send(0, 0, "m")
	if len(s.way) > 0 {
		t.Errorf("under way: %+v", s.way)
	}
	s.do(0, s.at[0].Left(0, nil))
	s.install(1, 0, move, 0)
	s.settle()
	s.want(t, "0 installs 0", "1 runs m")
}

// TestOldNews: a rank where the element was in an earlier phase has forgotten it, holds what comes by old news, and asks home.
func TestOldNews(t *testing.T) {
	s := newStage(4)
	s.create(0, 0)
	s.install(1, 0, s.leave(0, 0, 1), 0)
	s.settle()
	s.send(3, 0, "m") // rank 3 hears of rank 1
	s.settle()
	s.install(2, 0, s.leave(1, 0, 2), 1)
	s.settle()
	s.at[1].PhaseOver()
	s.at[1].Forget()
	s.send(3, 0, "n")
	s.deliver(1, "n")
	if n := s.way[0].news; n.Kind != Ask || s.way[0].to != 0 {
		t.Errorf("rank 1 sends %+v", s.way)
	}
	s.settle()
	s.want(t, "0 installs 0", "1 runs m", "2 runs n")
}

// TestComesBack: a rank asks home for an element that it has forgotten, and that is on its way to it again.
func TestComesBack(t *testing.T) {
	s := newStage(4)
	s.create(0, 0)
	s.install(1, 0, s.leave(0, 0, 1), 0)
	s.settle()
	s.send(3, 0, "m") // rank 3 hears of rank 1
	s.settle()
	s.install(0, 0, s.leave(1, 0, 0), 1)
	s.settle()
	s.at[1].PhaseOver()
	s.at[1].Forget()
	move := s.leave(0, 0, 1)
	s.send(3, 0, "n")
	s.settle()
	s.want(t, "0 installs 0", "1 runs m")
	s.install(1, 0, move, 0)
	s.want(t, "1 runs n")
}

// TestLongWay: a message that goes after an element which has moved often takes four hops, not one for each move.
func TestLongWay(t *testing.T) {
	s := newStage(12)
	s.create(0, 0)
	s.install(1, 0, s.leave(0, 0, 1), 0)
	s.settle()
	s.send(11, 0, "m") // rank 11 hears of rank 1
	s.settle()
	for to := 2; to <= 10; to++ {
		s.install(to, 0, s.leave(to-1, 0, to), to-1)
		s.settle()
	}
	s.send(11, 0, "n")
	for _, rank := range []int{1, 2, 0, 10} {
		s.deliver(rank, "n")
	}
	s.want(t, "0 installs 0", "1 runs m", "10 runs n")
}

// TestToldLate: news of an earlier move do not replace those of a later one.
func TestToldLate(t *testing.T) {
	m := New[string](3, func(uint64) int { return 0 }, 4)
	m.Receive(0, News{Kind: Told, Element: 0, Move: 3, Rank: 2}, nil)
	m.Receive(1, News{Kind: Told, Element: 0, Move: 2, Rank: 1}, nil)
	if step := m.Send(0, "m"); step != (Step{Do: Forward, To: 2, Move: 3}) {
		t.Errorf("%+v", step)
	}
}

// TestKeptUntilHomeKnows: a rank does not forget where the element went before home knows, though the phase is over.
func TestKeptUntilHomeKnows(t *testing.T) {
	s := newStage(4)
	s.create(0, 0)
	s.install(1, 0, s.leave(0, 0, 1), 0)
	s.settle()
	s.install(2, 0, s.leave(1, 0, 2), 1) // the news to home are under way
	s.at[1].PhaseOver()
	s.send(3, 0, "m") // by home, to rank 1
	s.deliver(0, "m")
	s.deliver(1, "m")
	s.deliver(2, "m")
	s.want(t, "0 installs 0", "2 runs m")
	s.settle()
	s.at[1].PhaseOver()
	if e := s.at[1].known(0); e != nil {
		t.Errorf("rank 1 still knows %+v", *e)
	}
}

// TestCreateElsewhere: a rank that isn't the element's home asks; of two that ask, one may.
func TestCreateElsewhere(t *testing.T) {
	s := newStage(4)
	s.create(1, 0)
	s.create(2, 0)
	s.send(1, 0, "m")
	s.settle()
	s.want(t, "1 installs 0", "1 runs m", "2 may not make 0")
}

// TestDestroyed: messages are errors, until the element is made again. Old news about the first one do no harm.
func TestDestroyed(t *testing.T) {
	s := newStage(4)
	s.create(1, 0)
	s.settle()
	s.send(3, 0, "first")
	s.settle() // rank 3 hears of rank 1
	orders, _ := s.at[1].Destroy(0, nil)
	s.do(1, orders)
	s.send(3, 0, "second")
	s.settle()
	s.want(t, "1 installs 0", "1 runs first", "0 fails second")
	for _, m := range s.at {
		m.PhaseOver()
	}
	s.create(2, 0)
	s.settle()
	s.send(3, 0, "third")
	s.settle()
	s.send(3, 7, "nowhere")
	s.want(t, "2 installs 0", "2 runs third", "3 fails nowhere")
}

// TestSequence: messages run in order; what is held goes with the element, and a later era begins anew.
func TestSequence(t *testing.T) {
	var numbers Numbers
	var at Sequence[string]
	source, target := Element{Key: 1}, Element{Key: 2}
	a, b, c := numbers.Next(target, 5), numbers.Next(target, 5), numbers.Next(target, 5)
	if at.Take(source, c) || !at.Take(source, a) {
		t.Error("c does not wait, or a does")
	}
	at.Hold(source, c, "c")
	if m, ok := at.Next(source); ok {
		t.Errorf("%q is next, but b has not come", m)
	}
	held := at.Leave()
	if !slices.Equal(held, []string{"c"}) {
		t.Errorf("held: %q", held)
	}
	at = SequenceOf[string](at.Era(), at.Pairs(), at.Skipped())
	if !at.Take(source, b) || !at.Take(source, c) {
		t.Error("b and c do not run")
	}
	d, e, f := numbers.Next(target, 5), numbers.Next(target, 5), numbers.Next(target, 5)
	at.Skip(source, e)
	at.Hold(source, f, "f")
	at = SequenceOf[string](at.Era(), at.Pairs(), at.Skipped()) // f is handed on
	at.Hold(source, f, "f")
	if m, ok := at.Next(source); ok {
		t.Errorf("%q is next, but d has not come", m)
	}
	at.Skip(source, d)
	if m, ok := at.Next(source); !ok || m != "f" || !at.Take(source, f) {
		t.Errorf("%q, %v is next, and d and e are skipped", m, ok)
	}
	late := numbers.Next(target, 5)
	at.Hold(source, late+1, "late")
	if !at.Take(source, numbers.Next(target, 6)) {
		t.Error("the first message of an era waits")
	}
	if m, ok := at.Next(source); !ok || m != "late" || !at.Take(source, late+1) || !at.Take(source, late) {
		t.Errorf("%q, %v, of the era before, is not run", m, ok)
	}
	at = Sequence[string]{} // another element in its place
	if !at.Take(source, 6<<eraShift) {
		t.Error("the first message of an era waits")
	}
	at.Take(Element{Key: 3}, 7<<eraShift)
	if pairs := at.Pairs(); len(pairs) != 1 {
		t.Errorf("of the eras before, what is kept: %v", pairs)
	}
}

// TestSettled: an element that has never left costs a bit, and is what it would be.
func TestSettled(t *testing.T) {
	const first, most = 1 << 40, 1000
	m := New[int](1, func(uint64) int { return 1 }, 4)
	m.Expect(first, most)
	for e := uint64(first); e < first+most; e++ {
		if out := m.Create(e, nil); len(out) != 1 || out[0].Do != Install {
			t.Fatalf("element %d: %+v", e, out)
		}
		if out := m.Create(e, nil); len(out) != 1 || out[0].Do != Refuse {
			t.Fatalf("element %d once more: %+v", e, out)
		}
	}
	if move, ok := m.Here(first); !ok || move != 1 || len(m.table.slots) != 0 || m.Send(first+most-1, 0).Do != Run {
		t.Errorf("%v in move %d; %d slots", ok, move, len(m.table.slots))
	}
	if _, ok := m.Here(first - 1); ok || m.Send(first+most+63, 0).Do != Fail {
		t.Error("there are others")
	}
	if move, ok := m.Migrate(first+7, 2); !ok || move != 2 {
		t.Errorf("it leaves: %v, move %d", ok, move)
	}
	m.Left(first+7, nil)
	m.Destroy(first+8, nil)
	if step := m.Send(first+7, 0); step.Do != Forward || step.To != 2 || m.Send(first+8, 0).Do != Fail || m.table.used != 2 {
		t.Errorf("then: %+v; %d entries", step, m.table.used)
	}
	m.PhaseOver()
	if out := m.Create(first+8, nil); len(out) != 1 || out[0].Do != Install {
		t.Errorf("made again: %+v", out)
	} else if move, _ := m.Here(first + 8); move < 3 { // it is another than before
		t.Errorf("made again with move %d", move)
	}
}

// TestMemory: an element costs 64 bytes at most, whatever the number, and 96 where others have gone.
func TestMemory(t *testing.T) {
	const most = 10000
	m := New[int](0, func(uint64) int { return 1 }, 4)
	size := func() int { return len(m.table.slots) * int(unsafe.Sizeof(entry{})) }
	for e := range uint64(most) {
		m.Arrive(e, 2, 1)
		m.Installed(e, nil)
		if e >= 3 && size() > 64*int(e+1) {
			t.Fatalf("%d elements have %d bytes", e+1, size())
		}
	}
	for e := range uint64(most) {
		m.Migrate(e, 2)
		m.Left(e, nil)
		m.Receive(1, News{Kind: Acked, Element: e, Move: 3}, nil)
		m.PhaseOver()
		if left := most - int(e) - 1; left >= 3 && size() > 96*left {
			t.Fatalf("%d elements have %d bytes", left, size())
		}
	}
}

// TestAllocations: the ways of most messages allocate nothing.
func TestAllocations(t *testing.T) {
	m := New[int](0, func(e uint64) int { return int(e & 1) }, 4)
	for e := range uint64(8) {
		m.Create(e&^1, nil)
	}
	m.Migrate(0, 1)
	m.Left(0, nil)
	out := make([]Order[int], 0, 64)
	allocated := testing.AllocsPerRun(1000, func() {
		m.Send(2, 0)                                                      // here
		m.Send(1, 0)                                                      // to home
		m.Deliver(4, Stamp{Origin: 5}, 5, 0, out)                         // here
		m.Deliver(0, Stamp{Origin: 5}, 5, 0, out)                         // home sends on
		m.Receive(1, News{Kind: Told, Element: 3, Move: 2, Rank: 4}, out) // into the cache
	})
	if allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}

const inBenchmark = 4096 // elements

func BenchmarkSendHere(b *testing.B) {
	m := New[int](0, func(uint64) int { return 0 }, 1024)
	for e := range uint64(inBenchmark) {
		m.Create(e, nil)
	}
	found := 0
	for n := uint64(0); b.Loop(); n++ {
		if m.Send(n*2654435761%inBenchmark, 0).Do == Run {
			found++
		}
	}
}

func BenchmarkSendByCache(b *testing.B) {
	m := New[int](0, func(uint64) int { return 1 }, inBenchmark)
	for e := range uint64(inBenchmark) {
		m.Receive(1, News{Kind: Told, Element: e, Move: 2, Rank: 3}, nil)
	}
	found := 0
	for n := uint64(0); b.Loop(); n++ {
		if m.Send(n*2654435761%inBenchmark, 0).Move > 0 {
			found++
		}
	}
}

// BenchmarkForward is what home does with a message whose element is elsewhere.
func BenchmarkForward(b *testing.B) {
	m := New[int](0, func(uint64) int { return 0 }, 1024)
	for e := range uint64(inBenchmark) {
		m.Create(e, nil)
		m.Migrate(e, 1)
		m.Left(e, nil)
		m.Receive(1, News{Kind: Installed, Element: e, Move: 2}, nil)
	}
	out := make([]Order[int], 0, 16)
	for n := uint64(0); b.Loop(); n++ {
		m.Deliver(n*2654435761%inBenchmark, Stamp{Origin: 2}, 2, 0, out)
	}
}

// BenchmarkMap is what a map takes, in which an entry is a place.
func BenchmarkMap(b *testing.B) {
	m := map[uint64]*Step{}
	for e := range uint64(inBenchmark) {
		m[e] = &Step{Do: Run}
	}
	found := 0
	for n := uint64(0); b.Loop(); n++ {
		if m[n*2654435761%inBenchmark].Do == Run {
			found++
		}
	}
}
