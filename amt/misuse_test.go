package amt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
	"github.com/byssus-hpc/byssus/mpi"
)

// These programs misuse Contexts, epochs and scopes as Go programmers do who capture, store and share what they have been given. Each is
// told what it does wrong, and does not hang.

const misuseVariable = "AMT_TEST_MISUSE" // which misuse the process commits

// A borrowed is what handlers of misuses find.
type borrowed struct {
	c [2]amt.Context // of the main functions
}

var (
	lent    = &borrowed{}
	ignores amt.Handler[number]
	borrows amt.Handler[number] // uses the main function's Context
	panics  amt.Handler[number]
	faults  amt.Handler[number]
)

func init() {
	ignores.Is(func(amt.Context, *number) {})
	borrows.Is(func(c amt.Context, m *number) {
		outer := lent.c[c.Rank()]
		switch m.X {
		case 0:
			ignores.Send(outer, 0, m)
		case 1:
			outer.Rooted("inner", func(amt.Context) error { return nil }).Wait(outer)
		case 2:
			stopped.Of(outer)
		}
	})
	panics.Is(func(_ amt.Context, m *number) { panic(fmt.Sprintf("number %d", m.X)) })
	faults.Is(func(_ amt.Context, m *number) {
		var none *number
		none.X = m.X
	})
}

// lend runs a program whose handlers find the Contexts of its main functions.
func lend(x uint64) error {
	return amt.RunLocal(2, func(c amt.Context) error {
		lent.c[c.Rank()] = c
		return c.Collective("all", func(c amt.Context) error {
			borrows.Send(c, 1-c.Rank(), &number{x})
			return nil
		}).Wait(c)
	})
}

// goroutine runs a function on another goroutine, on rank 0, and waits for it.
func goroutine(do func(c amt.Context)) error {
	return onFirst(func(c amt.Context) {
		var over sync.WaitGroup
		over.Go(func() { do(c) })
		over.Wait()
	})
}

const (
	byGoroutine = `amt: rank 0: the Context of the main function is used by another goroutine: one that sends, waits or begins epochs is started by Context\.Go`
	byHandler   = `the Context of the main function is used in the handler of amt_test\.number declared in .*misuse_test\.go:\d+\): use the one that this was given`
)

// misuses are programs that end by a panic, with what it says.
var misuses = map[string]struct {
	program func() error
	says    string
}{
	"send on a goroutine": {func() error {
		return goroutine(func(c amt.Context) { ignores.Send(c, 1, &number{}) })
	}, byGoroutine},
	"broadcast on a goroutine": {func() error {
		return goroutine(func(c amt.Context) { ignores.Broadcast(c, &number{}) })
	}, byGoroutine},
	"epoch on a goroutine": {func() error {
		return goroutine(func(c amt.Context) { c.Rooted("x", func(amt.Context) error { return nil }) })
	}, byGoroutine},
	"collective epoch on a goroutine": {func() error {
		return goroutine(func(c amt.Context) { c.Collective("x", func(amt.Context) error { return nil }) })
	}, byGoroutine},
	"reduction on a goroutine": {func() error {
		return goroutine(func(c amt.Context) { total.All(c, 1) })
	}, byGoroutine},
	"local on a goroutine": {func() error {
		return goroutine(func(c amt.Context) { stopped.Of(c) })
	}, byGoroutine},
	"failure on a goroutine": {func() error {
		return goroutine(func(c amt.Context) { c.Fail(errors.New("x")) })
	}, byGoroutine},
	"outer context in a task": {func() error {
		return onFirst(func(c amt.Context) {
			over := make(chan struct{})
			c.Go("work", func(amt.Context) error { ignores.Send(c, 1, &number{}); close(over); return nil })
			<-over
		})
	}, `the task "work" panics: ` + byGoroutine},
	"a task's context on a goroutine": {func() error {
		return onFirst(func(c amt.Context) {
			c.Go("work", func(c amt.Context) error {
				var over sync.WaitGroup
				over.Go(func() { ignores.Send(c, 1, &number{}) })
				over.Wait()
				return nil
			})
		})
	}, `the Context of the task "work" is used by another goroutine`},
	"outer context in a handler, to send":  {func() error { return lend(0) }, byHandler},
	"outer context in a handler, to wait":  {func() error { return lend(1) }, byHandler},
	"outer context in a handler, of Local": {func() error { return lend(2) }, byHandler},
	"outer context in what follows": {func() error {
		return amt.RunLocal(2, func(c amt.Context) error {
			ep := c.Collective("first", func(amt.Context) error { return nil })
			ep.OnDone(c, func(amt.Context) { ignores.Send(c, 0, &number{}) })
			return ep.Wait(c)
		})
	}, `the Context of the main function is used in what follows the epoch "first"`},
	"outer context in an operation": {func() error {
		return amt.RunLocal(2, func(c amt.Context) error {
			s, err := c.Scope("s")
			if err != nil {
				return err
			}
			return c.Collective("all", func(in amt.Context) error {
				s.Do(in, func(*mpi.Comm) error { ignores.Send(c, 0, &number{}); return nil })
				return nil
			}).Wait(c)
		})
	}, `the Context of the main function is used in an operation of the scope "s"`},
	"a handler that panics": {func() error {
		return onFirst(func(c amt.Context) { panics.Send(c, 1, &number{7}) })
	}, `amt: rank 1: the handler of amt_test\.number declared in .* panics: number 7`},
	"a handler with a nil pointer": {func() error {
		return onFirst(func(c amt.Context) { faults.Send(c, 1, &number{7}) })
	}, `amt: rank 1: the handler of amt_test\.number declared in .* panics: runtime error: invalid memory address`},
	"a body that panics": {func() error {
		return onFirst(func(amt.Context) { panic("body") })
	}, `amt: rank 0: the main function panics: body`},
	"a stale context": {func() error {
		return amt.RunLocal(1, func(c amt.Context) error {
			var inner amt.Context
			if err := c.Rooted("x", func(c amt.Context) error { inner = c; return nil }).Wait(c); err != nil {
				return err
			}
			ignores.Send(inner, 0, &number{})
			return nil
		})
	}, `a Context is used after the handler, task or body that it was given to has ended`},
}

// TestMisuse has a process commit each misuse that ends it.
func TestMisuse(t *testing.T) {
	if which := os.Getenv(misuseVariable); which != "" {
		fmt.Println(misuses[which].program())
		return
	}
	var all sync.WaitGroup
	room := make(chan struct{}, 2)
	for name, m := range misuses {
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestMisuse$")
			cmd.Env = append(os.Environ(), misuseVariable+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !regexp.MustCompile(`panic: .*`+m.says).Match(out) {
				t.Errorf("%s: %v, %s\nwant %s", name, err, out, m.says)
			}
		})
	}
	all.Wait()
}

// TestForeign: what belongs to another rank, as ranks that are goroutines can get at it, is refused by name.
func TestForeign(t *testing.T) {
	empty := func(amt.Context) error { return nil }
	for name, row := range map[string]struct {
		use  func(c amt.Context, ep *amt.Epoch, s *amt.Scope) error
		says string
	}{
		"Wait":           {func(c amt.Context, ep *amt.Epoch, _ *amt.Scope) error { return ep.Wait(c) }, `waits for the epoch "lent" of rank 1`},
		"Wait in a task": {func(c amt.Context, ep *amt.Epoch, _ *amt.Scope) error { c.Go("t", ep.Wait); return nil }, `the task "t" waits for the epoch "lent" of rank 1`},
		"After": {func(c amt.Context, ep *amt.Epoch, _ *amt.Scope) error {
			return c.Rooted("own", empty, amt.After(ep)).Wait(c)
		}, `the epoch "own" would wait for "lent" of rank 1`},
		"OnDone": {func(c amt.Context, ep *amt.Epoch, _ *amt.Scope) error {
			ep.OnDone(c, func(amt.Context) {})
			return nil
		}, `has something follow on the epoch "lent" of rank 1`},
		"Do": {func(c amt.Context, _ *amt.Epoch, s *amt.Scope) error {
			s.Do(c, func(*mpi.Comm) error { return nil })
			return nil
		}, `an operation of the scope "s" of rank 1`},
	} {
		lent, here := make(chan struct{}), struct {
			ep *amt.Epoch
			s  *amt.Scope
		}{}
		err := amt.RunLocal(2, func(c amt.Context) error {
			s, err := c.Scope("s")
			if err != nil {
				return err
			}
			if c.Rank() == 1 {
				here.ep, here.s = c.Rooted("lent", empty), s
				close(lent)
				return here.ep.Wait(c)
			}
			<-lent
			return c.Rooted("around", func(c amt.Context) error { return row.use(c, here.ep, here.s) }).Wait(c)
		})
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %s", name, err, row.says)
		}
	}
}

// TestOrders: ranks that begin collective epochs in different orders, or leave some out, are told what differs.
func TestOrders(t *testing.T) {
	epoch := func(label string) func(amt.Context) error {
		return func(c amt.Context) error { return c.Collective(label, func(amt.Context) error { return nil }).Wait(c) }
	}
	scope := func(label string) func(amt.Context) error {
		return func(c amt.Context) error { _, err := c.Scope(label); return err }
	}
	sum := func(c amt.Context) error { _, err := total.All(c, 1); return err }
	most := func(c amt.Context) error { _, err := maximum.All(c, 1); return err }
	nested := func(c amt.Context) error {
		return c.Collective("around", func(c amt.Context) error { return epoch("inner")(c) }).Wait(c)
	}
	type steps []func(amt.Context) error
	for name, row := range map[string]struct{ first, others steps }{
		"two orders":        {steps{epoch("a"), epoch("b")}, steps{epoch("b"), epoch("a")}},
		"left out":          {steps{epoch("a"), epoch("b")}, steps{epoch("b")}},
		"one too many":      {steps{epoch("b")}, steps{epoch("a"), epoch("b")}},
		"scopes":            {steps{scope("a"), scope("b")}, steps{scope("b"), scope("a")}},
		"a scope left out":  {steps{scope("a"), scope("b")}, steps{scope("b")}},
		"reductions":        {steps{sum, most}, steps{most, sum}},
		"a reduction more":  {steps{sum, epoch("a")}, steps{epoch("a")}},
		"the last left out": {steps{epoch("a"), epoch("b")}, steps{epoch("a")}},
		"nothing at all":    {steps{epoch("a")}, steps{}},
		"nested":            {steps{nested, epoch("b")}, steps{epoch("b"), nested}},
	} {
		for _, n := range []int{2, 3, 7} {
			for odd := range n { // the rank that differs
				err := amt.RunLocal(n, func(c amt.Context) error {
					do := row.others
					if c.Rank() == odd {
						do = row.first
					}
					for _, step := range do {
						if err := step(c); err != nil {
							return err
						}
					}
					return nil
				})
				var hang *amt.HangError
				if err == nil || !strings.Contains(err.Error(), "in different orders") && !errors.As(err, &hang) {
					t.Errorf("%s, rank %d of %d differs: %v", name, odd, n, err)
				} else {
					t.Logf("%s, rank %d of %d differs: %v", name, odd, n, err)
				}
			}
		}
	}
}

// TestPhaseMisused: marks and functions are for main functions, and a weight is one.
func TestPhaseMisused(t *testing.T) {
	for want, body := range map[string]func(c amt.Context) error{
		"calls Subphase, which is for main functions": func(c amt.Context) error {
			c.Go("marks", func(c amt.Context) error { c.Subphase(); return nil })
			return nil
		},
		"calls OnPhase, which is for main functions": func(c amt.Context) error {
			c.Rooted("empty", func(amt.Context) error { return nil }).OnDone(c, func(c amt.Context) {
				amt.OnPhase(c, func(amt.Context, int) error { return nil })
			})
			return nil
		},
		"has element {3} weigh -1": func(c amt.Context) error { heavy.Send(c, amt.Index1{X: 3}, &drum{}); return nil },
	} {
		err := amttest.Try(t, 2, func(c amt.Context) error {
			if err := newScales(c, 4); err != nil {
				return err
			}
			return c.Collective("wrong", body).Wait(c)
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, wanted %s", err, want)
		}
	}
}
