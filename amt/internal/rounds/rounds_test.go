package rounds

import (
	"fmt"
	"slices"
	"testing"
)

// say writes down orders.
func say(orders []Order[string]) (all []string) {
	for _, o := range orders {
		switch o.Do {
		case Pass:
			all = append(all, fmt.Sprintf("pass %d to %d", o.Number, o.To))
		case Run:
			all = append(all, fmt.Sprintf("run %d", o.Number))
		case Hold:
			all = append(all, fmt.Sprintf("hold %d", o.Number))
		case Release:
			all = append(all, fmt.Sprintf("release %d", o.Number))
		}
	}
	return all
}

func expect(t *testing.T, found []Order[string], want ...string) {
	t.Helper()
	if got := say(found); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestLeavesBehind: an element leaves a rank before that has a broadcast, and arrives where it is over for all others.
func TestLeavesBehind(t *testing.T) {
	one, two := NewBroadcasts[string](1, 3), NewBroadcasts[string](2, 3)
	done := one.Made()
	expect(t, two.Take(1, "m", nil), "run 1")
	one.Leave(7, 2, done)
	expect(t, one.Take(1, "m", nil), "hold 1", "run 1")
	expect(t, two.Arrive(done, nil), "hold 1")
	expect(t, one.Confirmed(7, 2, nil), "release 1")
	number, message, ok := two.Due(done)
	if number != 1 || message != "m" || !ok {
		t.Errorf("due: %d, %q, %v", number, message, ok)
	}
	expect(t, two.Ran(1, 1, nil), "release 1")
	one.Over(1)
	two.Over(1)
}

// TestArrivesAhead: an element arrives at a rank that does not have a broadcast yet which it has run. It does not run it again.
func TestArrivesAhead(t *testing.T) {
	one, two := NewBroadcasts[string](1, 3), NewBroadcasts[string](2, 3)
	done := one.Made()
	expect(t, one.Take(1, "m", nil), "hold 1", "run 1")
	expect(t, one.Ran(1, 1, nil), "release 1")
	done++
	one.Leave(7, 2, done)
	expect(t, two.Arrive(done, nil))
	expect(t, one.Confirmed(7, 2, nil))
	expect(t, two.Take(1, "m", nil), "run 1")
	if number, _, ok := two.Due(done); ok {
		t.Errorf("broadcast %d is due again", number)
	}
}

// TestOvertaken: broadcasts are taken in the order of their numbers, and passed on at once.
func TestOvertaken(t *testing.T) {
	b := NewBroadcasts[string](0, 3)
	expect(t, b.Take(2, "n", nil), "pass 2 to 1", "pass 2 to 2")
	expect(t, b.Take(1, "m", nil), "pass 1 to 1", "pass 1 to 2", "run 1", "run 2")
}

// TestReduction: the same pairs are combined on one rank and on three, whoever comes first.
func TestReduction(t *testing.T) {
	combine := func(a, b string) string { return "(" + a + b + ")" }
	for _, places := range [][]int{{0, 0, 0, 0, 0}, {0, 1, 2, 1, 2}, {2, 2, 1, 0, 1}} {
		at := make([]*Reduction[string], 3)
		for rank := range at {
			at[rank] = NewReduction(rank, 3, 5, combine)
		}
		for _, ordinal := range []uint64{3, 0, 4, 1, 2} {
			at[places[ordinal]].Give(1, ordinal, fmt.Sprint(ordinal))
		}
		for rank := 2; rank > 0; rank-- {
			parent, parts := at[rank].Settle()
			for _, p := range parts {
				at[parent].Take(p)
			}
		}
		_, parts := at[0].Settle()
		if len(parts) != 1 || parts[0].Value != "(((01)(23))4)" {
			t.Errorf("elements on %v: %+v", places, parts)
		}
	}
}
