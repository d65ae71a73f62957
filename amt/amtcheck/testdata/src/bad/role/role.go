// Package role has handlers, tasks and what follows epochs, which do what only others may.
package role

import (
	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

type hop struct{ Left int64 }

var (
	ping, pong, ring, calls amt.Handler[hop]
	sum                     amt.Reduction[int64]
	scope                   amt.Local[*amt.Scope]
)

func nothing(amt.Context) error { return nil }

func init() {
	ping.Is(func(c amt.Context, m *hop) {
		ep := c.Rooted("in", nothing)
		if err := ep.Wait(c); err != nil { // want `^a handler waits for ep, and its rank can do nothing of it meanwhile: use OnDone$`
			c.Fail(err)
		}
		c.Fail(c.Rooted("in", nothing).Wait(c)) // want `^a handler waits for c.Rooted\(...\)`
		c.Collective("all", nothing).Wait(c)    // want `^a handler begins a collective epoch with c, which only main functions can: use Rooted, or have the main function begin it$`
		n, err := sum.All(c, m.Left)            // want `^a handler calls sum.All, which only main functions can: call it there, when the epoch is over$`
		s, err := c.Scope("s")                  // want `^a handler makes a scope with c, which only main functions can: make it there, and keep it in an amt.Local$`
		_, _, _ = n, err, s
	})
	pong.Is(onPong)
	// The body of an epoch is still the handler.
	ring.Is(func(c amt.Context, m *hop) {
		c.Rooted("out", func(c amt.Context) error {
			return c.Rooted("in", nothing).Wait(c) // want `^a handler waits for c.Rooted\(...\)`
		}).OnDone(c, func(c amt.Context) {
			c.Fail(c.Rooted("in", nothing).Wait(c)) // want `^what follows an epoch or an operation waits for c.Rooted\(...\)`
		})
		c.Go("may wait", func(c amt.Context) error {
			c.Collective("all", nothing)             // want `^a task begins a collective epoch with c`
			if _, err := sum.All(c, 1); err != nil { // want `^a task calls sum.All, which only main functions can`
				return err
			}
			_, err := c.Scope("s") // want `^a task makes a scope with c`
			if err == nil {
				err = c.Rooted("in", nothing).Wait(c)
			}
			return err
		})
		(*scope.Of(c)).Do(c, func(*mpi.Comm) error { return nil }, func(c amt.Context) {
			_ = c.Rooted("in", nothing).Wait(c) // want `^what follows an epoch or an operation waits`
		})
	})
	calls.Is(func(c amt.Context, m *hop) {
		finish(c)    // want `^finish, called by a handler, waits for c.Rooted\(...\), and its rank can do nothing of it meanwhile: use OnDone$`
		deeper(1, c) // want `^deeper, called by a handler, calls sum.All, which only main functions can`
		m.wait(c)    // want `^m.wait, called by a handler, waits for c.Rooted\(...\)`
		maybe(c, false)
	})
}

func onPong(c amt.Context, _ *hop) {
	_ = c.Rooted("in", nothing).Wait(c) // want `^a handler waits for c.Rooted\(...\)`
}

// finish is for main functions and tasks.
func finish(c amt.Context) error {
	for range 3 {
		if err := c.Rooted("in", nothing).Wait(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *hop) wait(c amt.Context) error { return finish(c) }

func deeper(_ int, c amt.Context) {
	c.Rooted("in", func(c amt.Context) error {
		_, err := sum.All(c, 1)
		return err
	})
}

// maybe is for all: who calls it says whether it may wait.
func maybe(c amt.Context, wait bool) {
	ep := c.Rooted("in", nothing)
	if wait {
		_ = ep.Wait(c)
		return
	}
	ep.OnDone(c, func(amt.Context) {})
}

// program may do all of it.
func program(c amt.Context) error {
	s, err := c.Scope("s")
	if err != nil {
		return err
	}
	*scope.Of(c) = s
	c.Go("waits", func(c amt.Context) error { return finish(c) })
	if err := c.Collective("all", func(c amt.Context) error { return c.Collective("in", nothing).Wait(c) }).Wait(c); err != nil {
		return err
	}
	_, err = sum.All(c, 1)
	return err
}

func main() { amt.Main(program) }

var (
	lookup amt.Call[hop, hop]
	gets   amt.Handler[amt.Reply[hop]]
)

func init() {
	lookup.Is(func(c amt.Context, q *hop, reply amt.Callback[hop]) {
		lookup.Wait(c, 0, q) // want `^a handler waits for the reply of lookup, and its rank can do nothing of it meanwhile: use Ask, with a callback to a handler$`
		lookup.Ask(c, 0, q, amt.CallbackTo(c, &gets, 1))
		c.Go("asks", func(c amt.Context) error {
			_, err := lookup.Wait(c, 0, &hop{})
			return err
		})
		reply.Send(c, q)
	})
	gets.Is(func(c amt.Context, m *amt.Reply[hop]) { lookup.Wait(c, 0, &m.Value) }) // want `^a handler waits for the reply of lookup`
}
