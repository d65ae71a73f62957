package amt_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

// A numbered message says its priority and its number among those of its sender.
type numbered struct{ Priority, Number int64 }

var (
	noting amt.Handler[numbered]
	flood  amt.Handler[numbered]
	noted  amt.Local[[]numbered]

	slow       amt.Handler[numbered] // the first has another rank send an urgent one, a later one waits until that has left at the latest
	urge       amt.Handler[numbered]
	urgentLeft = new(atomic.Pointer[chan struct{}])
)

const urgency, slowness = 9, -1

const priorityVariable = "AMT_TEST_PRIORITY" // a handler of the process has one

func priorities() []amt.Priority {
	if os.Getenv(priorityVariable) != "" {
		return []amt.Priority{slowness}
	}
	return nil
}

func init() {
	slow.Is(func(c amt.Context, m *numbered) {
		l := noted.Of(c)
		*l = append(*l, *m)
		switch m.Number {
		case 0:
			urge.Send(c, 0, &numbered{})
		case m.Priority - 1:
			<-*urgentLeft.Load()
		}
	}, priorities()...)
	urge.Is(func(c amt.Context, m *numbered) {
		switch m.Number {
		case 0:
			noting.SendAt(c, 1, &numbered{Priority: urgency}, urgency)
		case 200: // what was sent has left: after 64 messages at most
			close(*urgentLeft.Load())
			return
		}
		urge.Send(c, 0, &numbered{Number: m.Number + 1})
	})
	noting.Is(func(c amt.Context, m *numbered) { l := noted.Of(c); *l = append(*l, *m) })
	// One message has many others sent, which are handled when it has returned.
	flood.Is(func(c amt.Context, m *numbered) {
		r := rand.New(rand.NewPCG(uint64(m.Number), 1))
		for n := range int64(m.Number) {
			p := r.Int64N(7) - 3
			noting.SendAt(c, c.Rank(), &numbered{p, n}, amt.Priority(p))
		}
	})
}

// TestPriorities: what has come is handled by priority, and in the order of its coming where that is the same.
func TestPriorities(t *testing.T) {
	for _, many := range []int64{1, 10, 5000} {
		err := amt.RunLocal(1, func(c amt.Context) error {
			err := c.Collective("all", func(c amt.Context) error {
				flood.Send(c, 0, &numbered{Number: many})
				return nil
			}).Wait(c)
			got := *noted.Of(c)
			if err == nil && int64(len(got)) != many {
				err = fmt.Errorf("%d messages, want %d", len(got), many)
			}
			if !slices.IsSortedFunc(got, func(a, b numbered) int {
				if a.Priority != b.Priority {
					return int(b.Priority - a.Priority)
				}
				return int(a.Number - b.Number)
			}) {
				err = fmt.Errorf("not in the order of priorities: %v", got[:min(len(got), 20)])
			}
			return err
		})
		if err != nil {
			t.Errorf("%d messages: %v", many, err)
		}
	}
}

// TestPrioritiesFromElsewhere: a message of high priority overtakes those that wait when it comes.
func TestPrioritiesFromElsewhere(t *testing.T) {
	const many, asks, soon = 1000, 100, 64 + 1
	left := make(chan struct{})
	urgentLeft.Store(&left)
	err := amt.RunLocal(2, func(c amt.Context) error {
		err := c.Collective("all", func(c amt.Context) error {
			if c.Rank() == 1 {
				for n := range int64(many) {
					if len(priorities()) > 0 {
						slow.Send(c, 1, &numbered{asks, n})
					} else {
						slow.SendAt(c, 1, &numbered{asks, n}, slowness)
					}
				}
			}
			return nil
		}).Wait(c)
		got := *noted.Of(c)
		if c.Rank() == 0 || err != nil {
			return err
		}
		at := slices.IndexFunc(got, func(m numbered) bool { return m.Priority == urgency })
		if len(got) != many+1 || at < 0 || at > asks+soon {
			return fmt.Errorf("of %d messages, the urgent one was handled as number %d, want %d of them, and at most %d", len(got), at, many+1, asks+soon)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSorted plays random programs, and the tests above, in a process in which everything is sorted from the beginning.
func TestSorted(t *testing.T) {
	if os.Getenv(priorityVariable) != "" {
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^(TestRandomPrograms|TestNoHang|TestHang|TestErrors.*|TestPriorit.*)$", "-programs=300", fmt.Sprint("-seed=", *seed))
	cmd.Env = append(os.Environ(), priorityVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd, err, out)
	}
}
