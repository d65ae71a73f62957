package hang

import (
	"slices"
	"testing"
)

// TestCircle finds the shortest circle, and none where there is none.
func TestCircle(t *testing.T) {
	g := New([]Report{
		{Rank: 0, Main: "c1", Tasks: []Task{{"t", "r1"}}, Epochs: []Epoch{
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
