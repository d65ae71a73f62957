package node

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

func ranksTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// TestAlikeOnce: what all ranks answer is one report, as soon as the last has answered; a rank that is gone is not waited for.
func TestAlikeOnce(t *testing.T) {
	const n = 64
	f := New(ranksTo(n), false)
	answer := func(from, to int, say func(rank int) Report) {
		for r := from; r < to; r++ {
			f.Say(0, say(r))
		}
	}
	hello := func(r int) Report { return Hello{[]int{r}} }
	met := func(r int) Report { return Met{[]int{r}, 1, 3} }
	answer(0, n-1, hello)
	if got := f.Take(0); got != nil {
		t.Errorf("before the last: %v", got)
	}
	answer(n-1, n, hello)
	if d := cmp.Diff([]Report{Hello{ranksTo(n)}}, f.Take(0)); d != "" {
		t.Error(d)
	}
	f.Say(0, Lost{Rank: n - 1})
	f.Take(0)
	answer(0, n-1, met)
	if d := cmp.Diff([]Report{Met{ranksTo(n - 1), 1, 3}}, f.Take(0)); d != "" {
		t.Error(d)
	}
	answer(0, 5, met)
	if at, _, ok := f.Next(); !ok || at != Hold {
		t.Errorf("next at %v, %v", at, ok)
	}
	if d := cmp.Diff([]Report{Met{ranksTo(5), 1, 3}}, f.Take(Hold)); d != "" {
		t.Error(d)
	}
}

// TestClocksOfANode: the highest of each communicator, and how many have it, also when a rank tells its clocks in parts.
func TestClocksOfANode(t *testing.T) {
	f := New([]int{4, 7}, false)
	f.Hear(Order{Type: abi.MsgRequest, Epoch: 2})
	f.SayClocks(0, 4, 2, []abi.Clock{{Comm: 1, Seq: 5, NMembers: 3}}, true)
	f.SayClocks(0, 7, 2, []abi.Clock{{Comm: 1, Seq: 9, NMembers: 3}}, false)
	f.SayClocks(0, 4, 2, []abi.Clock{{Comm: 2, Seq: 1, NMembers: 2}}, false)
	want := []Report{Clocks{[]int{7, 4}, 2, []Clock{{1, 9, 3, 2}, {2, 1, 2, 1}}}}
	if d := cmp.Diff(want, f.Take(0)); d != "" {
		t.Fatal(d)
	}
	f.Say(0, Raise{Rank: 7, Epoch: 2, Clock: Clock{Comm: 3, Seq: 1}})
	target := func(comm uint64, everyone bool) Target { return Target{abi.Clock{Comm: comm, Seq: 1}, everyone} }
	got := map[int][]uint64{}
	for _, m := range f.Hear(Order{Type: abi.MsgTargets, Targets: []Target{target(1, false), target(2, false), target(3, false), target(8, false), target(9, true)}}) {
		for _, x := range m.Targets {
			got[m.Ranks[0]] = append(got[m.Ranks[0]], x.Comm)
		}
	}
	if d := cmp.Diff(map[int][]uint64{4: {1, 2, 9}, 7: {1, 3, 9}}, got); d != "" {
		t.Error(d)
	}
}

// TestPages: a change of what a rank does is reported, and that bytes move; nothing is looked at without need.
func TestPages(t *testing.T) {
	f := New(ranksTo(2), false)
	f.Say(0, Hello{[]int{0}})
	f.Say(0, Hello{[]int{1}})
	f.Take(0)
	if at, _, ok := f.Next(); ok {
		t.Errorf("due at %v while the ranks compute", at)
	}
	f.Hear(Order{Type: abi.MsgRequest})
	if at, look, ok := f.Next(); !ok || !look || at != seeking {
		t.Errorf("due at %v, look %v, %v", at, look, ok)
	}
	f.Look(seeking, []Sample{{Where: abi.WhereParked}, {Where: abi.WhereParked, BytesDone: 3, BytesTotal: 9}})
	if d := cmp.Diff([]Report{Where{[]int{0, 1}, abi.WhereParked}, Progress{3, 9}}, f.Take(seeking)); d != "" {
		t.Error(d)
	}
	f.Hear(Order{Type: abi.MsgStop})
	if at, _, ok := f.Next(); ok {
		t.Errorf("due at %v while they stop", at)
	}
}

// words are what a report says, by rank.
func words(r Report) map[int]string {
	out := map[int]string{}
	v := reflect.ValueOf(r)
	one := func(rank int) string {
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		if f := c.FieldByName("Ranks"); f.IsValid() {
			f.Set(reflect.ValueOf([]int{rank}))
		}
		return fmt.Sprintf("%T%+v", r, c.Interface())
	}
	ranks := speaksOf(r)
	if j, ok := r.(joint); ok {
		ranks = j.who()
	}
	for _, id := range ranks {
		out[id] = one(id)
	}
	return out
}

// TestNothingOvertakes: whatever ranks say, each rank's words come in its order, all of them, and none later than Hold.
func TestNothingOvertakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "ranks")
		f := New(ranksTo(n), false)
		said, heard := make([][]string, n), make([][]string, n)
		var now, held time.Duration
		take := func() {
			for _, r := range f.Take(now) {
				for rank, w := range words(r) {
					heard[rank] = append(heard[rank], w)
				}
			}
			if at, _, ok := f.Next(); ok && len(f.waiting) > 0 && at > held+Hold {
				t.Fatalf("held until %v, since %v", at, held)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "words") {
			id := rapid.IntRange(0, n-1).Draw(t, "rank")
			self := []int{id}
			r := rapid.SampledFrom([]Report{Met{self, 1, 1}, Met{self, 1, 2}, Where{self, 1}, Where{self, 0}, Waiting{self, 1, 2, "MPI_Recv"},
				Waiting{self, 1, 0, ""}, Raise{Rank: id}, Hello{self}, Reason{Rank: id}, Objects{Rank: id}}).Draw(t, "word")
			said[id] = append(said[id], words(r)[id])
			if len(f.waiting) == 0 {
				held = now
			}
			f.Say(now, r)
			take()
			now += time.Duration(rapid.IntRange(0, 6).Draw(t, "ms")) * time.Millisecond
			take()
		}
		now += Hold
		take()
		for id := range n {
			if !slices.Equal(said[id], heard[id]) {
				t.Fatalf("rank %d said\n%v\nheard was\n%v", id, said[id], heard[id])
			}
		}
	})
}
