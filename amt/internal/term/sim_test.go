package term

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/byssus-hpc/byssus/amt/internal/tree"
)

var (
	seed   = flag.Uint64("seed", 1, "of the first graph")
	graphs = flag.Int("graphs", 100_000, "how many")
)

// A detector is either kind.
type detector interface {
	Hold()
	Release(n int) bool
	Sent(to int)
	Got(from, n int)
	Over() bool
	Settle([]Order) []Order
	Receive(int, Message, []Order) []Order
}

// An epoch of the simulation, with what only the simulation knows.
type epoch struct {
	id         int
	collective bool
	root       int
	outer      *epoch // holds it: on all ranks if both are collective, else on the root
	after      *epoch // its messages wait for that one
	at         []detector
	waiting    [][]task // by rank: messages that wait for after
	work       int      // messages and holds that are not done, everywhere
	wave       uint32   // the one under way when the last work was done
	over       []bool
	ends       int // ranks that know
}

// A task is a message: what is left of the graph below it hangs on size.
type task struct {
	e    *epoch
	size int
	from int // the sender; that of a local one is its rank
}

type event struct {
	at, order uint64
	rank      int
	do        func()
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

type sim struct {
	*rand.Rand
	t       *testing.T
	now     uint64
	pushed  uint64
	heap    events
	ranks   int
	epochs  []*epoch
	queues  [][]task
	dirty   []map[*epoch]bool
	slow    int // how much slower the slowest message is
	waves   uint32
	control int
	tasks   int
	failed  error
}

func (s *sim) in(delay uint64, rank int, do func()) {
	s.pushed++
	heap.Push(&s.heap, event{s.now + delay, s.pushed, rank, do})
}

func (s *sim) delay() uint64 {
	if s.IntN(8) == 0 {
		return uint64(s.IntN(s.slow * 20))
	}
	return uint64(s.IntN(20))
}

func (s *sim) fail(format string, args ...any) {
	if s.failed == nil {
		s.failed = fmt.Errorf(format, args...)
	}
}

// send sends a task, to its own rank by the queue.
func (s *sim) send(from, to int, t task) {
	s.tasks++
	t.from = from
	t.e.work++
	if a := t.e.after; a != nil && !a.over[from] && (a.collective || from == a.root) { // elsewhere it is over if this runs
		s.at(t.e, from).Hold()
		t.from = to // where it goes when it may
		t.e.waiting[from] = append(t.e.waiting[from], t)
		return
	}
	s.dispatch(from, to, t)
}

func (s *sim) dispatch(from, to int, t task) {
	d := s.at(t.e, from)
	if from == to {
		d.Hold()
		s.queue(to, t)
		return
	}
	d.Sent(to)
	s.in(s.delay(), to, func() {
		s.at(t.e, to).Hold()
		s.at(t.e, to).Got(from, 1)
		s.queue(to, t)
	})
}

func (s *sim) at(e *epoch, rank int) detector {
	if e.at[rank] == nil {
		if e.collective {
			c := NewCollective(rank, s.ranks)
			e.at[rank] = &c
		} else {
			r := NewRooted(rank == e.root)
			e.at[rank] = &r
		}
	}
	return e.at[rank]
}

func (s *sim) queue(rank int, t task) {
	s.queues[rank] = append(s.queues[rank], t)
	s.in(uint64(s.IntN(10)), rank, func() { s.handle(rank) })
}

// handle runs one task of a rank, and settles when there is no other.
func (s *sim) handle(rank int) {
	q := s.queues[rank]
	i := s.IntN(len(q))
	t := q[i]
	s.queues[rank] = append(q[:i], q[i+1:]...)
	s.run(rank, t)
	s.done(rank, t.e)
	if len(s.queues[rank]) == 0 || s.IntN(5) == 0 {
		s.settle(rank)
	}
}

// run is what a task does: send, hand to workers, begin an epoch within its own.
func (s *sim) run(rank int, t task) {
	left := t.size
	for left > 0 {
		part := 1 + s.IntN(left)
		left -= part
		switch s.IntN(10) {
		case 0: // a worker, which sends when it ends
			t.e.work++
			s.at(t.e, rank).Hold()
			s.in(s.delay()*3, rank, func() {
				s.send(rank, s.IntN(s.ranks), task{e: t.e, size: part - 1})
				s.done(rank, t.e)
				s.settle(rank)
			})
		case 1: // a rooted epoch within
			in := s.begin(false, rank, t.e, nil)
			s.send(rank, s.IntN(s.ranks), task{e: in, size: part - 1})
			s.done(rank, in)
			s.dirty[rank][in] = true
		default:
			s.send(rank, s.IntN(s.ranks), task{e: t.e, size: part - 1})
		}
	}
}

// begin makes an epoch; a collective one is held on each rank until that has entered and left it.
func (s *sim) begin(collective bool, root int, outer, after *epoch) *epoch {
	e := &epoch{id: len(s.epochs), collective: collective, root: root, outer: outer, after: after, at: make([]detector, s.ranks),
		waiting: make([][]task, s.ranks), over: make([]bool, s.ranks)}
	s.epochs = append(s.epochs, e)
	e.work = 1
	if collective {
		e.work = s.ranks
	}
	if outer != nil {
		for rank := range s.ranks {
			if rank == root || collective {
				outer.work++
				s.at(outer, rank).Hold()
			}
		}
	}
	s.at(e, root)
	return e
}

// done is the end of what held an epoch on a rank.
func (s *sim) done(rank int, e *epoch) {
	e.work--
	if e.work == 0 {
		if c, ok := e.at[0].(*Collective); ok {
			e.wave = c.Waves()
		}
	}
	if s.at(e, rank).Release(1) {
		s.dirty[rank][e] = true
	}
}

// settle is what a rank does when it has nothing else to do.
func (s *sim) settle(rank int) {
	for _, e := range s.epochs { // in order: a map has none
		if s.dirty[rank][e] {
			delete(s.dirty[rank], e)
			s.post(rank, e, s.at(e, rank).Settle(nil))
		}
	}
}

// post sends what a detector orders, and sees whether its epoch is over.
func (s *sim) post(rank int, e *epoch, orders []Order) {
	for _, o := range orders {
		s.control++
		s.in(s.delay(), o.To, func() {
			s.post(o.To, e, s.at(e, o.To).Receive(rank, o.Message, nil))
			s.dirty[o.To][e] = true
			if len(s.queues[o.To]) == 0 || s.IntN(5) == 0 {
				s.settle(o.To)
			}
		})
	}
	if !e.at[rank].Over() || e.over[rank] {
		return
	}
	if e.work != 0 {
		s.fail("epoch %d is told over on rank %d with %d things not done", e.id, rank, e.work)
	}
	e.over[rank] = true
	e.ends++
	if c, ok := e.at[rank].(*Collective); ok && rank == 0 {
		s.waves = max(s.waves, c.Waves()-min(e.wave, c.Waves()))
	}
	if e.outer != nil && (e.collective || rank == e.root) {
		s.done(rank, e.outer)
	}
	for _, next := range s.epochs {
		if next.after == e {
			for _, t := range next.waiting[rank] {
				s.dispatch(rank, t.from, task{next, t.size, rank})
				s.at(next, rank).Release(1)
			}
			next.waiting[rank] = nil
			s.dirty[rank][next] = true
		}
	}
	s.settle(rank)
}

// graph plays one random graph of tasks.
func graph(t *testing.T, n uint64) *sim {
	s := &sim{Rand: rand.New(rand.NewPCG(n, 0)), t: t}
	s.ranks, s.slow = 1+s.IntN(9), 1+s.IntN(30)
	if s.IntN(50) == 0 {
		s.ranks = 10 + s.IntN(60)
	}
	s.queues, s.dirty = make([][]task, s.ranks), make([]map[*epoch]bool, s.ranks)
	for rank := range s.ranks {
		s.dirty[rank] = map[*epoch]bool{}
	}
	var before, outer *epoch
	for range 1 + s.IntN(3) {
		collective, root := s.IntN(2) == 0, s.IntN(s.ranks)
		var after *epoch
		if before != nil && s.IntN(2) == 0 && (before.collective || !collective && before.root == root) {
			after = before
		}
		in := outer
		if in != nil && (!in.collective && (collective || in.root != root) || s.IntN(2) == 0 || in == after) {
			in = nil
		}
		if after != nil && in == after.outer {
			in = nil
		}
		e := s.begin(collective, root, in, after)
		for rank := range s.ranks {
			if !collective && rank != root {
				continue
			}
			s.at(e, rank)
			s.in(s.delay()*2, rank, func() {
				if s.IntN(3) > 0 {
					s.send(rank, s.IntN(s.ranks), task{e: e, size: s.IntN(12)})
				}
				s.done(rank, e)
				s.settle(rank)
			})
		}
		before, outer = e, e
	}
	for len(s.heap) > 0 && s.failed == nil {
		ev := heap.Pop(&s.heap).(event)
		s.now = ev.at
		ev.do()
	}
	return s
}

func TestGraphs(t *testing.T) {
	t.Logf("seed %d, %d graphs", *seed, *graphs)
	var epochs, tasks, control int
	var waves uint32
	for n := *seed; n < *seed+uint64(*graphs); n++ {
		s := graph(t, n)
		if s.failed != nil {
			t.Fatalf("graph %d: %v", n, s.failed)
		}
		for _, e := range s.epochs {
			want := 1
			if e.collective {
				want = s.ranks
			}
			if e.ends != want {
				t.Fatalf("graph %d: epoch %d is over on %d ranks of %d; %d things are not done", n, e.id, e.ends, want, e.work)
			}
			for rank, d := range e.at {
				if r, ok := d.(*Rooted); ok && rank != e.root && !r.Asleep() {
					t.Fatalf("graph %d: rank %d still has to do with epoch %d: %+v", n, rank, e.id, r)
				}
			}
		}
		if s.waves > 2 {
			t.Fatalf("graph %d: %d waves beyond the one in flight", n, s.waves)
		}
		epochs, tasks, control, waves = epochs+len(s.epochs), tasks+s.tasks, control+s.control, max(waves, s.waves)
	}
	t.Logf("%d epochs, %d messages, %d of detectors; at most %d waves beyond the one in flight", epochs, tasks, control, waves)
}

// TestGrowth prints how cost grows with the number of ranks: messages at one rank, and rounds.
func TestGrowth(t *testing.T) {
	for ranks := 2; ranks <= 16384; ranks *= 2 {
		at := make([]Collective, ranks)
		for rank := range at {
			at[rank] = NewCollective(rank, ranks)
			at[rank].Release(1)
		}
		type delivery struct {
			from int
			Order
		}
		var round []delivery
		for rank := range at {
			for _, o := range at[rank].Settle(nil) {
				round = append(round, delivery{rank, o})
			}
		}
		got, rounds := make([]int, ranks), 0
		for ; len(round) > 0; rounds++ {
			var next []delivery
			for _, d := range round {
				got[d.To]++
				for _, o := range at[d.To].Settle(at[d.To].Receive(d.from, d.Message, nil)) {
					next = append(next, delivery{d.To, o})
				}
			}
			round = next
		}
		most := 0
		for rank := range at {
			if !at[rank].Over() {
				t.Fatalf("%d ranks: not over on rank %d", ranks, rank)
			}
			most = max(most, got[rank])
		}
		depth := tree.Depth(ranks)
		t.Logf("%5d ranks: an empty collective epoch takes %2d rounds, at most %d messages to a rank", ranks, rounds, most)
		if rounds != 2*depth || most > tree.Fanout+1 {
			t.Errorf("%d ranks: %d rounds, %d messages to a rank; the tree's depth is %d", ranks, rounds, most, depth)
		}
	}
}
