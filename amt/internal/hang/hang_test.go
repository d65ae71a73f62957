package hang

import (
	"fmt"
	"slices"
	"testing"
)

// TestCircle finds the shortest circle, and none where there is none.
func TestCircle(t *testing.T) {
	g := New([]Report{
		{Rank: 0, Main: "c1", Tasks: []Task{{Name: "t", Epoch: "r1"}}, Epochs: []Epoch{
			{ID: "c1", Label: "main", All: true},
			{ID: "c2", Label: "x", All: true, Outer: "c1"},
			{ID: "r1", Label: "y", After: []string{"c2"}, Waiting: []Held{{1, "h", 3}}},
		}},
		{Rank: 1, Main: "c1", Ended: true, Epochs: []Epoch{{ID: "c1", Label: "main", All: true}, {ID: "c2", All: true}}},
	})
	want := []string{`epoch "main" (c1)`, `epoch "x" (c2)`, "main function of rank 1"}
	if c := g.Circle(); !slices.Equal(c, want) {
		t.Errorf("%q, want %q", c, want)
	}
	g = New([]Report{{Rank: 0, Main: "r1", Epochs: []Epoch{{ID: "r1", Label: "a", Awaited: 2}}}})
	if c := g.Circle(); c != nil {
		t.Errorf("%q, want none", c)
	}
	const text = `no circle of waits, but:
  main function of rank 0 -> epoch "a" (r1): waits for it
  epoch "a" (r1) -> messages: rank 0 awaits the end of 2`
	if got := g.Text(); got != text {
		t.Errorf("%s\nwant %s", got, text)
	}
}

// TestTasks: two tasks that wait for each other's epochs are a circle.
func TestTasks(t *testing.T) {
	g := New([]Report{{Rank: 0, Main: "c1", Tasks: []Task{{"t1", "e2", "e1"}, {"t2", "e1", "e2"}}, Epochs: []Epoch{
		{ID: "c1", Label: "main", All: true}, {ID: "e1", Label: "one", Outer: "c1"}, {ID: "e2", Label: "two", Outer: "c1"},
	}}})
	want := []string{`task "t1" of rank 0`, `epoch "two" (e2)`, `task "t2" of rank 0`, `epoch "one" (e1)`}
	if c := g.Circle(); !slices.Equal(c, want) {
		t.Errorf("%q, want %q", c, want)
	}
}

// TestMany: long chains of epochs take no time, with a circle at their end, of them all, or without.
func TestMany(t *testing.T) {
	const many = 30_000
	for _, closes := range []int{-1, 0, many - 2} {
		var epochs []Epoch
		for n := range many {
			e := Epoch{ID: fmt.Sprint(n), Label: "x"}
			if n > 0 {
				e.After = []string{fmt.Sprint(n - 1)}
			}
			if n == closes {
				e.After = append(e.After, fmt.Sprint(many-1))
			}
			epochs = append(epochs, e)
		}
		want := 0
		if closes >= 0 {
			want = many - closes
		}
		g := New([]Report{{Rank: 0, Main: fmt.Sprint(many - 1), Epochs: epochs}})
		if c := g.Circle(); len(c) != want {
			t.Errorf("a circle of %d, want %d", len(c), want)
		}
	}
}
