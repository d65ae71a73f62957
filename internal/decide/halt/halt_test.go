package halt

import (
	"strings"
	"testing"
	"time"
)

func TestDue(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	two, none := 2, 0
	for _, c := range []struct {
		what string
		Conditions
		end  time.Duration // from now on; 0: nothing is known
		want string        // what the reason has; empty: it is not due
	}{
		{"nothing", Conditions{}, 0, ""},
		{"seconds, without an end", Conditions{Seconds: 60}, 0, ""},
		{"seconds, far from the end", Conditions{Seconds: 60}, 61 * time.Second, ""},
		{"seconds, near the end", Conditions{Seconds: 60}, time.Minute, "allocation"},
		{"some checkpoints", Conditions{Checkpoints: &two}, 0, ""},
		{"no checkpoints", Conditions{Checkpoints: &none}, 0, "no checkpoints"},
		{"after, too early", Conditions{After: now.Add(time.Second)}, 0, ""},
		{"after", Conditions{After: now}, 0, "after"},
		{"before, early enough", Conditions{Before: now.Add(61 * time.Second), Seconds: 60}, 0, ""},
		{"before", Conditions{Before: now.Add(60 * time.Second), Seconds: 60}, 0, "before"},
		{"a reason goes first", Conditions{Reason: "because", Checkpoints: &none}, 0, "because"},
	} {
		end := time.Time{}
		if c.end != 0 {
			end = now.Add(c.end)
		}
		if got := c.Due(now, end); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, wanted something with %q", c.what, got, c.want)
		}
	}
}

func TestCounted(t *testing.T) {
	n := 2
	c := Conditions{Checkpoints: &n}
	for i, want := range []bool{true, true, false} {
		if got := c.Counted(); got != want || (c.Due(time.Now(), time.Time{}) != "") != (i > 0) {
			t.Errorf("checkpoint %d: changed %v, %+v", i+1, got, c)
		}
	}
	if (&Conditions{}).Counted() || !(&Conditions{}).None() || c.None() {
		t.Error("none is something, or something none")
	}
}
