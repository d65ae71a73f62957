package amt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

// TestContext: what a task waits for by its context.Context ends when the epoch of the task, one around it, or the program fails, and not
// for another epoch's failure.
func TestContext(t *testing.T) {
	waits := func(c amt.Context) error {
		ctx := c.Context()
		<-ctx.Done()
		return fmt.Errorf("woken: %w", context.Cause(ctx))
	}
	task := func(c amt.Context) error { c.Go("waits", waits); return nil }
	fail := func(c amt.Context) { failing.Send(c, 1-c.Rank(), &number{3}) }
	for name, main := range map[string]func(c amt.Context) error{
		"its epoch": func(c amt.Context) error {
			return c.Collective("all", func(c amt.Context) error { fail(c); return task(c) }).Wait(c)
		},
		"the one around": func(c amt.Context) error {
			return c.Collective("all", func(c amt.Context) error { fail(c); c.Rooted("in", task); return nil }).Wait(c)
		},
		"afterwards": func(c amt.Context) error {
			return c.Collective("all", func(c amt.Context) error {
				asked := make(chan struct{})
				c.Go("waits", func(c amt.Context) error {
					ctx := c.Context()
					close(asked)
					<-ctx.Done()
					return context.Cause(ctx)
				})
				<-asked
				fail(c)
				return nil
			}).Wait(c)
		},
		"the program": func(c amt.Context) error {
			c.Collective("all", task)
			return errors.New("number 3 is bad")
		},
	} {
		if err := amt.RunLocal(2, main); err == nil || !strings.Contains(err.Error(), "number 3 is bad") {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := amt.RunLocal(2, func(c amt.Context) error {
		other := c.Collective("other", func(c amt.Context) error {
			over := make(chan struct{})
			c.Go("looks", func(c amt.Context) error {
				ctx := c.Context()
				<-over
				return ctx.Err()
			})
			defer close(over)
			if err := c.Collective("bad", func(c amt.Context) error { fail(c); return nil }).Wait(c); err == nil {
				return errors.New("a failure is not told")
			}
			return nil
		})
		return errors.Join(other.Wait(c), c.Context().Err())
	})
	if err != nil {
		t.Error(err)
	}
}
