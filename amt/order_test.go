package amt_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

// These programs have epochs that come after others without having anything to wait with, that fail before they are begun, and ranks
// that are never out of messages.

var (
	blocking = new(atomic.Pointer[blockade])
	blocks   amt.Handler[number] // returns when the blockade is lifted
	passes   amt.Handler[number] // notes whether it was
	spins    amt.Handler[number] // until stops has come
	stops    amt.Handler[number]
	stopped  amt.Local[bool]

	maximum amt.Reduction[int64]
	total   amt.Reduction[int64]
	mean    amt.Reduction[float64]
)

// A blockade holds a handler up.
type blockade struct {
	lifted chan struct{}
	early  atomic.Bool // passes came before
}

func init() {
	blocks.Is(func(c amt.Context, m *number) {
		<-blocking.Load().lifted
		if m.X > 0 {
			c.Fail(fmt.Errorf("number %d is bad", m.X))
		}
	})
	passes.Is(func(amt.Context, *number) {
		b := blocking.Load()
		select {
		case <-b.lifted:
		default:
			b.early.Store(true)
		}
	})
	spins.Is(func(c amt.Context, m *number) {
		if !*stopped.Of(c) {
			spins.SendAt(c, c.Rank(), m, amt.Priority(m.X))
		}
	})
	stops.Is(func(c amt.Context, _ *number) { *stopped.Of(c) = true })
	maximum.Is(func(a, b int64) int64 { return max(a, b) })
	total.Is(func(a, b int64) int64 { return a + b })
	mean.Is(func(a, b float64) float64 { return a + b })
}

func nothingOf(*mpi.Comm) error { return nil }

// after plays an epoch that rank 1 is held up in, then others, and lifts the blockade when rank 0 has polled for a while.
func after(t *testing.T, bad uint64, begin func(c amt.Context, first *amt.Epoch) *amt.Epoch) (early bool, err error) {
	t.Helper()
	b := &blockade{lifted: make(chan struct{})}
	blocking.Store(b)
	err = amt.RunLocal(2, func(c amt.Context) error {
		first := c.Collective("first", func(c amt.Context) error {
			if c.Rank() == 0 {
				blocks.Send(c, 1, &number{bad})
			}
			return nil
		})
		last := begin(c, first)
		if c.Rank() == 0 {
			for range 10_000 {
				c.Poll()
			}
			close(b.lifted)
		}
		return last.Wait(c)
	})
	return b.early.Load(), err
}

// TestAfterNothing: an epoch that has nothing to wait with comes after another all the same, and what comes after it.
func TestAfterNothing(t *testing.T) {
	pass := func(c amt.Context) error { passes.Send(c, c.Rank(), &number{}); return nil }
	for name, begin := range map[string]func(c amt.Context, first *amt.Epoch) *amt.Epoch{
		"an empty one between": func(c amt.Context, first *amt.Epoch) *amt.Epoch {
			return c.Collective("third", pass, amt.After(c.Collective("second", nothing, amt.After(first))))
		},
		"rooted": func(c amt.Context, first *amt.Epoch) *amt.Epoch {
			return c.Rooted("third", pass, amt.After(c.Rooted("second", nothing, amt.After(first))))
		},
		"what follows it": func(c amt.Context, first *amt.Epoch) *amt.Epoch {
			second := c.Collective("second", nothing, amt.After(first))
			second.OnDone(c, func(c amt.Context) { passes.Send(c, c.Rank(), &number{}) })
			return second
		},
		"within one that comes after": func(c amt.Context, first *amt.Epoch) *amt.Epoch {
			return c.Collective("second", func(c amt.Context) error {
				inner := c.Rooted("inner", pass)
				c.Rooted("and another", pass, amt.After(inner))
				return nil
			}, amt.After(first))
		},
		"after two": func(c amt.Context, first *amt.Epoch) *amt.Epoch {
			return c.Collective("third", pass, amt.After(c.Collective("second", nothing)), amt.After(first))
		},
	} {
		if early, err := after(t, 0, begin); err != nil || early {
			t.Errorf("%s: %v; before what it comes after: %v", name, err, early)
		}
		if early, err := after(t, 7, begin); err == nil || early || !strings.Contains(err.Error(), "number 7 is bad") {
			t.Errorf("%s, after a failure: %v; before what it comes after: %v", name, err, early)
		}
	}
}

// TestAfterFailure: what comes after an epoch that has failed, and is over, fails with it.
func TestAfterFailure(t *testing.T) {
	want := errors.New("the first has failed")
	for _, n := range []int{1, 3} {
		err := amt.RunLocal(n, func(c amt.Context) error {
			first := c.Collective("first", func(amt.Context) error { return want })
			if err := first.Wait(c); err == nil {
				return errors.New("it has not")
			}
			ran := false
			second := c.Collective("second", func(c amt.Context) error { ran = true; never.Send(c, 0, &number{}); return nil }, amt.After(first))
			if err := second.Wait(c); err == nil || !strings.Contains(err.Error(), want.Error()) || !ran {
				return fmt.Errorf("%w; the body has run: %v", err, ran)
			}
			return c.Collective("later", func(c amt.Context) error { sink.Send(c, 0, &number{}); return nil }).Wait(c)
		})
		if err != nil {
			t.Errorf("%d ranks: %v", n, err)
		}
	}
}

// TestFailedBeforeBegun: ranks that learn of an epoch's failure before they begin it run its body as the others do.
func TestFailedBeforeBegun(t *testing.T) {
	err := amt.RunLocal(2, func(c amt.Context) error {
		if c.Rank() == 1 {
			for !*stopped.Of(c) { // sent after the failure, on the same way
				c.Poll()
			}
		}
		outer := c.Collective("outer", func(c amt.Context) error {
			if c.Rank() == 0 {
				c.Fail(errors.New("the outer one has failed"))
				c.Rooted("tell", func(c amt.Context) error { stops.Send(c, 1, &number{}); return nil })
			}
			return c.Collective("inner", nothing).Wait(c)
		})
		if err := outer.Wait(c); err == nil || !strings.Contains(err.Error(), "the outer one has failed") {
			return fmt.Errorf("outer: %w", err)
		}
		return c.Collective("next", nothing).Wait(c)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestReductionsInOrders: ranks that reduce in different orders are told, whatever the types are.
func TestReductionsInOrders(t *testing.T) {
	for name, other := range map[string]func(c amt.Context) error{
		"one type":  func(c amt.Context) error { _, err := maximum.All(c, 7); return err },
		"two types": func(c amt.Context) error { _, err := mean.All(c, 7); return err },
	} {
		err := amt.RunLocal(2, func(c amt.Context) error {
			sum := func(c amt.Context) error { _, err := total.All(c, 1); return err }
			first, second := sum, other
			if c.Rank() == 1 {
				first, second = other, sum
			}
			return errors.Join(first(c), second(c))
		})
		if err == nil || !strings.Contains(err.Error(), "in different orders") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNeverOut: a rank that always has messages for itself looks at those of others, and does operations, all the same.
func TestNeverOut(t *testing.T) {
	for _, priority := range []uint64{0, 1} {
		err := amt.RunLocal(2, func(c amt.Context) error {
			s, err := c.Scope("s")
			if err != nil {
				return err
			}
			return c.Collective("all", func(c amt.Context) error {
				if c.Rank() == 0 {
					spins.Send(c, 0, &number{priority})
				}
				s.Do(c, nothingOf, func(c amt.Context) {
					if c.Rank() == 1 {
						stops.SendAt(c, 0, &number{}, amt.Priority(priority)) // one with less would wait for ever
					}
				})
				return nil
			}).Wait(c)
		})
		if err != nil {
			t.Errorf("priority %d: %v", priority, err)
		}
	}
}

// TestLongChain: epochs that are over, of a chain that goes on, take no memory.
func TestLongChain(t *testing.T) {
	const many = 30_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	err := amt.RunLocal(2, func(c amt.Context) error {
		last := c.Collective("0", nothing)
		for range many {
			next := c.Collective("next", func(c amt.Context) error { sink.Send(c, 1-c.Rank(), &number{}); return nil }, amt.After(last))
			if err := last.Wait(c); err != nil {
				return err
			}
			last = next
		}
		if grown := int64(heap()) - int64(before); c.Rank() == 0 && grown > 8<<20 {
			return fmt.Errorf("%d epochs hold %d bytes", many, grown)
		}
		return last.Wait(c)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFailureWithin: ranks agree on whether an epoch within one that comes after a failed one has failed, whenever they learn of it.
func TestFailureWithin(t *testing.T) {
	err := amt.RunLocal(3, func(c amt.Context) error {
		var wrong error
		for n := range 300 {
			round := c.Collective("round", func(c amt.Context) error {
				if err := afterBad(c, n); wrong == nil && (err == nil || !strings.Contains(err.Error(), "it is bad")) {
					wrong = fmt.Errorf("round %d: %w", n, err)
				}
				return nil
			})
			if err := round.Wait(c); err != nil {
				return err
			}
		}
		return wrong
	})
	if err != nil {
		t.Error(err)
	}
}

// afterBad has epochs within one that comes after another, which fails, and is over on rank 0 before others know.
func afterBad(c amt.Context, n int) error {
	bad := c.Collective("bad", func(c amt.Context) error {
		if c.Rank() == n%3 {
			c.Fail(errors.New("it is bad"))
		}
		return nil
	})
	if c.Rank() == 0 {
		_ = bad.Wait(c)
	} else {
		for range n % 13 {
			c.Poll()
		}
	}
	return c.Collective("after", func(c amt.Context) error {
		for range 3 {
			err := c.Collective("within", func(c amt.Context) error { sink.Send(c, (c.Rank()+1)%3, &number{}); return nil }).Wait(c)
			if err != nil {
				return err
			}
		}
		return nil
	}, amt.After(bad)).Wait(c)
}
