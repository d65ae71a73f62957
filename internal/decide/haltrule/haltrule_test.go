package haltrule

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

func TestChange(t *testing.T) {
	two := 2
	at := time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)
	all := Conditions{Reason: "r", Checkpoints: &two, Before: at, After: at, Seconds: 5}
	c := all
	for _, ch := range []Change{{Unset: Unset{Reason: true}}, {Unset: Unset{Checkpoints: true}}, {Unset: Unset{Before: true}}, {Unset: Unset{After: true}}} {
		ch.Apply(&c)
	}
	if c != (Conditions{Seconds: 5}) {
		t.Errorf("found %+v", c)
	}
	(&Change{Unset: Unset{Seconds: true}}).Apply(&c)
	if !c.None() {
		t.Errorf("found %+v", c)
	}
	(&Change{Set: all}).Apply(&c)
	(&Change{Set: Conditions{Seconds: 7}}).Apply(&c)
	want := all
	want.Seconds = 7
	if c != want {
		t.Errorf("found %+v, wanted %+v", c, want)
	}
	(&Change{Remove: true}).Apply(&c)
	if !c.None() || !(&Change{}).Nothing() || (&Change{Remove: true}).Nothing() {
		t.Errorf("found %+v", c)
	}
	less := -1
	for _, ch := range []Change{{Set: Conditions{Checkpoints: &less}}, {Set: Conditions{Seconds: -1}}, {Set: all, Remove: true}} {
		if ch.Check() == nil {
			t.Errorf("%+v is taken", ch)
		}
	}
}

func TestParseTime(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	want := time.Date(2026, 7, 4, 20, 0, 0, 0, time.UTC)
	for _, text := range []string{"2026-07-04T21:00:00", "2026-07-04T20:00:00Z", "2026-07-04T22:00:00+02:00"} {
		if got, err := ParseTime(text, zone); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, wanted %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "21:00:00", "tomorrow", "2026-07-04"} {
		if got, err := ParseTime(text, zone); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
