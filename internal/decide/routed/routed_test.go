package routed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPattern: what is a dataset's file, and of which.
func TestPattern(t *testing.T) {
	for _, c := range []struct{ pattern, path, key string }{
		{`rst\.(\d+)\..*`, "rst.200.base", "200"},
		{`rst\.(\d+)\..*`, "rst.200", ""},
		{`rst\.(\d+)\..*`, "sub/rst.200.0", ""},
		{`rst\.(\d+)\..*`, "xrst.200.0", ""},
		{`rst\.(\d+)(\.tmp)?`, "rst.7.tmp", "7"},
		{`processor\d+/([0-9.]+)/.*`, "processor12/0.05/uniform/time", "0.05"},
		{`processor\d+/([0-9.]+)/.*`, "processor12/constant/polyMesh/points", ""},
		{`(?:a/(x\d+)|b/(y\d+))`, "b/y3", "y3"},
		{`chk(\d*)`, "chk", ""},
	} {
		p, err := Parse(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if key := p.Key(c.path); key != c.key {
			t.Errorf("%s: %s: %q, wanted %q", c.pattern, c.path, key, c.key)
		}
	}
	for _, bad := range []string{`rst.\d+`, `rst.(`, ``} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

const quiet = 3 * time.Second

func keys(list []Complete) (names []string) {
	for _, c := range list {
		names = append(names, c.Key)
	}
	return names
}

// TestComplete: what makes a dataset complete, and what does not.
func TestComplete(t *testing.T) {
	type said struct {
		at   time.Duration
		node int
		State
	}
	one := func(key string, order, open int) State { return State{Key: key, Order: order, Files: 1, Open: open} }
	marked := one("1", 1, 0)
	marked.Done = true
	given := one("1", 1, 0)
	given.Given = "it is elsewhere"
	openGiven := one("1", 1, 1)
	openGiven.Given = "it is elsewhere"
	for _, c := range []struct {
		name   string
		said   []said
		now    time.Duration
		ended  bool
		want   []string
		never  int
		askAt  time.Duration
		before map[int]int
	}{
		{"open", []said{{0, 0, one("1", 1, 1)}}, time.Hour, true, nil, 0, 0, nil},
		{"closed a moment ago", []said{{time.Second, 0, one("1", 1, 0)}}, 2 * time.Second, false, nil, 0, 4 * time.Second, nil},
		{"closed for long", []said{{time.Second, 0, one("1", 1, 0)}}, 4 * time.Second, false, []string{"1"}, 0, 0, nil},
		{"the end", []said{{0, 0, one("1", 1, 0)}}, 0, true, []string{"1"}, 0, 0, nil},
		{"a newer one", []said{{0, 0, one("1", 1, 0)}, {0, 0, one("2", 2, 1)}}, 0, false, []string{"1"}, 0, 0, nil},
		{"a newer one elsewhere", []said{{0, 0, one("1", 1, 0)}, {0, 1, one("1", 1, 0)}, {0, 1, one("2", 2, 1)}}, 0, false, nil, 0, quiet, nil},
		{"a newer one on all", []said{{0, 0, one("1", 1, 0)}, {0, 1, one("1", 1, 0)}, {0, 1, one("2", 2, 1)}, {0, 0, one("2", 2, 1)}}, 0, false, []string{"1"}, 0, 0, nil},
		{"open elsewhere", []said{{0, 0, one("1", 1, 0)}, {0, 1, one("1", 1, 1)}, {0, 0, one("2", 2, 1)}, {0, 1, one("2", 2, 1)}}, time.Hour, false, nil, 0, 0, nil},
		{"a marker", []said{{0, 0, marked}}, 0, false, []string{"1"}, 0, 0, nil},
		{"fewer than before", []said{{0, 0, one("2", 2, 0)}, {0, 0, one("3", 3, 1)}}, quiet, false, nil, 0, 10 * quiet, map[int]int{0: 1, 1: 1}},
		{"fewer, for very long", []said{{0, 0, one("2", 2, 0)}}, 10 * quiet, false, []string{"2"}, 0, 0, map[int]int{0: 1, 1: 1}},
		{"given", []said{{0, 0, given}}, 0, false, nil, 1, 0, nil},
		{"given, but open", []said{{0, 0, openGiven}}, 0, false, nil, 0, 0, nil},
		{"removed", []said{{0, 0, one("1", 1, 0)}, {0, 0, State{Key: "1", Order: 1}}}, time.Hour, false, nil, 0, 0, nil},
		{"two", []said{{0, 0, one("1", 1, 0)}, {1, 0, one("2", 2, 0)}}, time.Hour, false, []string{"1", "2"}, 0, 0, nil},
	} {
		w := NewWatch(quiet)
		if c.before != nil {
			w.Counted(c.before)
		}
		for _, s := range c.said {
			w.Hear(s.node, s.State, s.at)
		}
		list, never, at := w.Next(c.now, c.ended)
		if !slices.Equal(keys(list), c.want) || len(never) != c.never || at != c.askAt {
			t.Errorf("%s: %v, %v, ask again at %v; wanted %v, %d, %v", c.name, keys(list), never, at, c.want, c.never, c.askAt)
		}
		if again, _, _ := w.Next(c.now, c.ended); len(again) != 0 {
			t.Errorf("%s: told twice: %v", c.name, keys(again))
		}
	}
}

// TestRandom: nodes write datasets one after the other, at random speeds, and one is never complete before all its files are closed everywhere.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		nodes, datasets := 1+r.IntN(5), 1+r.IntN(6)
		w := NewWatch(quiet)
		at := make([]int, nodes) // each node's steps: it opens, and closes, one after the other
		found := map[string]bool{}
		now := time.Duration(0)
		for step := 0; step < 2*nodes*datasets; now += time.Duration(r.IntN(1000)) * time.Millisecond {
			n := r.IntN(nodes)
			if at[n] == 2*datasets || at[n]/2 > slices.Min(at)/2 { // it waits for the others, as programs do
				continue
			}
			key := at[n]/2 + 1
			w.Hear(n, State{Key: fmt.Sprint(key), Order: key, Files: 1, Open: 1 - at[n]%2}, now)
			at[n]++
			step++
			list, _, _ := w.Next(now, step == 2*nodes*datasets)
			for _, c := range list {
				var number int
				fmt.Sscan(c.Key, &number)
				for node := range c.Files {
					if at[node] < 2*number {
						t.Fatalf("dataset %d is complete, node %d has not closed it: %v", number, node, at)
					}
				}
				if len(c.Files) == nodes {
					found[c.Key] = true
					w.Over(c.Key)
					w.Counted(c.Files)
				}
			}
		}
		if len(found) == 0 {
			t.Fatalf("nothing is complete of %d datasets on %d nodes", datasets, nodes)
		}
	}
}
