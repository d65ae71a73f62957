package agree

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/byssus-hpc/byssus/amt/internal/tree"
)

var (
	seed = flag.Uint64("seed", 1, "of the first interleaving")
	runs = flag.Int("runs", 500, "how many")
)

type event struct {
	at, order uint64
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

// An op is what was given.
type op struct {
	scope  uint32
	number uint64
}

type sim struct {
	*rand.Rand
	now, pushed uint64
	heap        events
	at          []*Agreement
	asked       [][]uint64 // by rank and scope
	given       [][]op
	got         []int // messages at each rank
	failed      error
}

func (s *sim) in(delay uint64, do func()) {
	s.pushed++
	heap.Push(&s.heap, event{s.now + delay, s.pushed, do})
}

func (s *sim) post(from int, orders []Order) {
	for _, o := range orders {
		s.in(uint64(s.IntN(40)), func() {
			s.got[o.To]++
			s.post(o.To, s.at[o.To].Receive(from, o.Message, nil))
			s.in(uint64(s.IntN(5)), func() { s.settle(o.To) })
		})
	}
	for {
		scope, number, ok := s.at[from].Next()
		if !ok {
			return
		}
		for rank := range s.at {
			if s.asked[rank][scope] <= number && s.failed == nil {
				s.failed = fmt.Errorf("rank %d is given operation %d of scope %d, for which rank %d has not asked", from, number, scope, rank)
			}
		}
		s.given[from] = append(s.given[from], op{scope, number})
	}
}

func (s *sim) settle(rank int) { s.post(rank, s.at[rank].Settle(nil)) }

// interleaving has every rank ask for the operations of all scopes in an order of its own; one may be very late, or stop.
func interleaving(n uint64, ranks, scopes, operations int, stuck bool) *sim {
	s := &sim{Rand: rand.New(rand.NewPCG(n, 0)), at: make([]*Agreement, ranks), asked: make([][]uint64, ranks),
		given: make([][]op, ranks), got: make([]int, ranks)}
	slow := s.IntN(ranks)
	for rank := range ranks {
		s.at[rank], s.asked[rank] = New(rank, ranks), make([]uint64, scopes)
		var list []uint32
		for scope := range scopes {
			list = append(list, slices.Repeat([]uint32{uint32(scope)}, operations)...)
		}
		s.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if stuck && rank == slow {
			list = list[:len(list)-1]
		}
		when := uint64(0)
		for _, scope := range list {
			when += uint64(s.IntN(20))
			if rank == slow {
				when += uint64(s.IntN(200))
			}
			s.in(when, func() {
				s.at[rank].Ask(scope)
				s.asked[rank][scope]++
				if s.IntN(3) > 0 {
					s.settle(rank)
				}
			})
		}
		s.in(when+1, func() { s.settle(rank) })
	}
	for len(s.heap) > 0 && s.failed == nil {
		e := heap.Pop(&s.heap).(event)
		s.now = e.at
		e.do()
	}
	return s
}

func TestInterleavings(t *testing.T) {
	t.Logf("seed %d, %d interleavings", *seed, *runs)
	for n := *seed; n < *seed+uint64(*runs); n++ {
		r := rand.New(rand.NewPCG(n, 1))
		ranks, scopes, operations := 1+r.IntN(20), 1+r.IntN(4), 1+r.IntN(50)
		stuck := r.IntN(4) == 0 && ranks > 1
		s := interleaving(n, ranks, scopes, operations, stuck)
		if s.failed != nil {
			t.Fatalf("interleaving %d: %v", n, s.failed)
		}
		want := scopes * operations
		if stuck {
			want--
		}
		for rank, given := range s.given {
			if len(given) != want || !slices.Equal(given, s.given[0]) {
				t.Fatalf("interleaving %d: rank %d was given %d operations of %d: %v\nrank 0: %v", n, rank, len(given), want, given, s.given[0])
			}
		}
		if stuck != s.named(t, n) {
			t.Fatalf("interleaving %d: stuck: %v, but %v", n, stuck, s.at[0].Behind())
		}
	}
}

// named follows who is behind down the tree, and tells whether there is such a rank; it must be one that asked for less.
func (s *sim) named(t *testing.T, n uint64) bool {
	for scope, ranks := range s.at[0].Behind() {
		for rank := ranks[0]; ; {
			if s.asked[rank][scope] < slices.Max(s.most(int(scope))) {
				return true
			}
			next := s.at[rank].Behind()[scope]
			if len(next) == 0 || next[0] == rank {
				t.Fatalf("interleaving %d: scope %d: rank %d is named, wrongly", n, scope, rank)
			}
			rank = next[0]
		}
	}
	return false
}

func (s *sim) most(scope int) (asked []uint64) {
	for rank := range s.asked {
		asked = append(asked, s.asked[rank][scope])
	}
	return asked
}

// TestGrowth prints how cost grows with the number of ranks: 1000 operations that all have asked for.
func TestGrowth(t *testing.T) {
	for ranks := 2; ranks <= 16384; ranks *= 2 {
		at := make([]*Agreement, ranks)
		type delivery struct {
			from int
			Order
		}
		var round []delivery
		for rank := range at {
			at[rank] = New(rank, ranks)
			for range 1000 {
				at[rank].Ask(0)
			}
			for _, o := range at[rank].Settle(nil) {
				round = append(round, delivery{rank, o})
			}
		}
		got, rounds := make([]int, ranks), 0
		for ; len(round) > 0; rounds++ {
			var next []delivery
			for _, d := range round {
				got[d.To]++
				out := at[d.To].Receive(d.from, d.Message, nil)
				for _, o := range at[d.To].Settle(out) {
					next = append(next, delivery{d.To, o})
				}
			}
			round = next
		}
		for rank, a := range at {
			if _, number, ok := a.Next(); !ok || number != 0 || a.due[0].to != 1000 {
				t.Fatalf("%d ranks: rank %d is given %v", ranks, rank, a.due)
			}
		}
		t.Logf("%5d ranks: 1000 operations are agreed on in %2d rounds, at most %d messages to a rank", ranks, rounds, slices.Max(got))
		if rounds != 2*tree.Depth(ranks) || slices.Max(got) > tree.Fanout+1 {
			t.Errorf("%d ranks: %d rounds, %d messages", ranks, rounds, slices.Max(got))
		}
	}
}
