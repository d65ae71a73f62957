package amt_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

type hop struct{ Left int64 }

var ring amt.Handler[hop]

var hops = new(atomic.Int64)

func init() {
	ring.Is(func(c amt.Context, m *hop) {
		hops.Add(1)
		if m.Left > 0 {
			ring.Send(c, (c.Rank()+1)%c.Ranks(), &hop{m.Left - 1})
		}
	})
}

func TestRing(t *testing.T) {
	for _, n := range []int{1, 2, 4, 7} {
		for _, collective := range []bool{true, false} {
			hops.Store(0)
			err := amt.RunLocal(n, func(c amt.Context) error {
				if collective {
					return c.Collective("ring", func(c amt.Context) error {
						if c.Rank() == 0 {
							ring.Send(c, c.Ranks()-1, &hop{1000})
						}
						return nil
					}).Wait(c)
				}
				err := c.Rooted("ring", func(c amt.Context) error {
					ring.Send(c, c.Ranks()-1, &hop{100})
					return nil
				}).Wait(c)
				if err != nil {
					return fmt.Errorf("rank %d: %w", c.Rank(), err)
				}
				return nil
			})
			want := int64(1001)
			if !collective {
				want = int64(101 * n)
			}
			if err != nil || hops.Load() != want {
				t.Errorf("%d ranks: %v; %d hops, want %d", n, err, hops.Load(), want)
			}
		}
	}
}

// TestTable prints the numbers of the handlers of these tests, for a comparison of builds.
func TestTable(t *testing.T) {
	lines, err := amt.Table()
	if err != nil || len(lines) == 0 {
		t.Fatal(err)
	}
	for _, line := range lines {
		t.Log(line)
	}
}
