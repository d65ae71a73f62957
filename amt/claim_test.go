package amt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

var errBad = errors.New("it is bad")

// over has an epoch fail, and returns when it is over, without waiting for it.
func over(c amt.Context) *amt.Epoch {
	bad := c.Rooted("bad", func(amt.Context) error { return errBad })
	for range 3 {
		_ = c.Rooted("other", func(c amt.Context) error { sink.Send(c, 1-c.Rank(), &number{}); return nil }).Wait(c)
	}
	return bad
}

func isBad(err error) error {
	if err == nil || !strings.Contains(err.Error(), errBad.Error()) {
		return fmt.Errorf("%w is not %q", err, errBad)
	}
	return nil
}

// inTask runs a body as a task, within an epoch of its own.
func inTask(c amt.Context, body func(amt.Context) error) error {
	return c.Rooted("with a task", func(c amt.Context) error { c.Go("task", body); return nil }).Wait(c)
}

// TestClaims: an error of an epoch is of the code that began it, if that asks for it in its own time, whenever the epoch was over.
func TestClaims(t *testing.T) {
	waits := func(c amt.Context) error { return isBad(over(c).Wait(c)) }
	follows := func(c amt.Context) error {
		return isBad(c.Rooted("after", nothing, amt.After(over(c))).Wait(c))
	}
	for name, main := range map[string]func(amt.Context) error{
		"a main function waits": waits,
		"a body waits":          func(c amt.Context) error { return c.Collective("around", waits).Wait(c) },
		"a task waits":          func(c amt.Context) error { return inTask(c, waits) },
		"a task's body waits": func(c amt.Context) error {
			return inTask(c, func(c amt.Context) error { return c.Rooted("in", waits).Wait(c) })
		},
		"a task waits for main's": func(c amt.Context) error {
			bad := over(c)
			return inTask(c, func(c amt.Context) error { return isBad(bad.Wait(c)) })
		},
		"what comes after it":       follows,
		"what comes after a task's": func(c amt.Context) error { return inTask(c, follows) },
		"many": func(c amt.Context) (err error) {
			var bad []*amt.Epoch
			for range 100 {
				bad = append(bad, over(c))
			}
			for _, ep := range bad {
				err = errors.Join(err, isBad(ep.Wait(c)))
			}
			return err
		},
	} {
		if err := amt.RunLocal(2, main); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnclaimed: an error that the code does not ask for is that of the epoch around when it ends; and so is told in a hang.
func TestUnclaimed(t *testing.T) {
	leaves := func(c amt.Context) error { over(c); return nil }
	for name, main := range map[string]func(amt.Context) error{
		"a main function": leaves,
		"a body":          func(c amt.Context) error { return c.Collective("around", leaves).Wait(c) },
		"a task":          func(c amt.Context) error { return inTask(c, leaves) },
		"a body of a task": func(c amt.Context) error {
			return inTask(c, func(c amt.Context) error { return c.Rooted("in", leaves).Wait(c) })
		},
		"what waits too late": func(c amt.Context) error {
			var bad *amt.Epoch
			err := c.Collective("around", func(c amt.Context) error { bad = over(c); return nil }).Wait(c)
			return errors.Join(isBad(bad.Wait(c)), err)
		},
		"a handler": func(c amt.Context) error {
			return c.Collective("around", func(c amt.Context) error { beginning.Send(c, 1-c.Rank(), &number{}); return nil }).Wait(c)
		},
		"a hang": func(c amt.Context) error {
			s, err := c.Scope("s")
			if err != nil {
				return err
			}
			asks := c.Rooted("asks", func(c amt.Context) error {
				if c.Rank() == 1 {
					return errBad // before it has asked
				}
				s.Do(c, nothingOf)
				return nil
			})
			if c.Rank() == 0 {
				err = asks.Wait(c)
			}
			return errors.Join(err, c.Collective("all", nothing).Wait(c))
		},
	} {
		err := amt.RunLocal(2, main)
		if isBad(err) != nil {
			t.Errorf("%s: %v", name, err)
		}
		var hang *amt.HangError
		if errors.As(err, &hang) != (name == "a hang") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// beginning begins an epoch that fails.
var beginning amt.Handler[number]

func init() {
	beginning.Is(func(c amt.Context, _ *number) { c.Rooted("bad", func(amt.Context) error { return errBad }) })
}
