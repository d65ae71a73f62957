// Package context has functions that use the Context of the code around where it may have ended.
package context

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

type hop struct{ Left int64 }

var ping amt.Handler[hop]

// A task's own Context has another name, or none.
func task(c amt.Context) {
	c.Go("work", func(in amt.Context) error {
		ping.Send(c, 0, &hop{}) // want `^c is the Context of the code around, which may have ended when the task runs, on another goroutine: use the Context that the task is given$`
		ping.Send(in, 0, &hop{})
		return nil
	})
	work := func(amt.Context) error { return fmt.Errorf("rank %d", c.Rank()) } // want `^c is the Context of the code around`
	c.Go("work", work)
}

func follows(c amt.Context, ep *amt.Epoch) {
	ep.OnDone(c, func(amt.Context) { ping.Send(c, 1, &hop{}) }) // want `^c is the Context of the code around, which may have ended when this runs: use the Context that this function is given$`
	ep.OnDone(c, func(in amt.Context) {
		in.Rooted("inner", func(amt.Context) error {
			ping.Send(c, 1, &hop{}) // want `^c is the Context`
			return nil
		}).OnDone(in, func(amt.Context) {
			ping.Send(in, 1, &hop{}) // want `^in is the Context`
		})
	})
}

func operation(c amt.Context, s *amt.Scope) {
	s.Do(c, func(comm *mpi.Comm) error {
		ping.Send(c, 0, &hop{}) // want `^c is the Context of the code around, which may have ended when the operation runs: take what is needed of it before, and send in the function that follows it`
		return comm.Barrier()
	}, func(amt.Context) {
		ping.Send(c, 0, &hop{}) // want `^c is the Context of the code around, which may have ended when this runs`
	})
}

// A handler that is declared by a function with a Context, which is late too.
func declares(c amt.Context, h *amt.Handler[hop]) {
	h.Is(func(_ amt.Context, m *hop) { ping.Send(c, 0, m) }) // want `^c is captured by a handler`
}

func use(c amt.Context) int { return c.Rank() }

func goroutines(c amt.Context, ep *amt.Epoch) {
	go func() {
		fmt.Println(c.Rank()) // want `^c is the Context of the code around, and of its goroutine alone: take what is needed of it before, as its Rank, or have Context.Go run this$`
	}()
	go use(c)                              // want `^c is the Context of the code around, and of its goroutine alone`
	go c.Poll()                            // want `^c is the Context`
	go func(c amt.Context) { c.Poll() }(c) // want `^c is the Context`
	poll := func() { c.Poll() }
	go poll()     // want `^poll uses c, the Context of the code around, and of its goroutine alone`
	go maker(c)() // its literal is told below
	var g errgroup.Group
	g.Go(func() error { return ep.Wait(c) })    // want `^c is the Context of the code around, and of its goroutine alone`
	g.TryGo(func() error { return ep.Wait(c) }) // want `^c is the Context`
	var all sync.WaitGroup
	all.Go(func() { c.Poll() })                                  // want `^c is the Context`
	time.AfterFunc(time.Second, func() { c.Poll() })             // want `^c is the Context`
	context.AfterFunc(context.Background(), func() { c.Poll() }) // want `^c is the Context`
}

func maker(c amt.Context) func() {
	return func() { c.Poll() } // want `^c is the Context of the code around, and of its goroutine alone`
}

// A function in a variable uses the Context, and the task calls that.
func through(c amt.Context) {
	tell := func(n int64) { ping.Send(c, 0, &hop{n}) }
	again := func(n int64) { tell(n + 1) }
	tell(1)
	c.Go("tells", func(amt.Context) error {
		again(2) // want `^again uses c, the Context of the code around, which may have ended when the task runs, on another goroutine: use the Context that the task is given$`
		return nil
	})
}

func runs(c amt.Context, a *amt.Attached) error {
	return amt.RunLocal(2, func(amt.Context) error {
		ping.Send(c, 0, &hop{}) // want `^c is the Context of the code around, and of another run: use the Context that this function is given$`
		return nil
	})
}

func enters(c amt.Context, a *amt.Attached) error {
	p := &c
	return a.Enter(func(amt.Context) error {
		ping.Send(*p, 0, &hop{}) // want `^p is the Context of the code around, and of another run`
		return nil
	})
}

// The function that a function returns.
func later(c amt.Context) func(amt.Context) {
	return func(amt.Context) { c.Poll() } // want `^c is the Context of the code around`
}

func returned(c amt.Context, ep *amt.Epoch) { ep.OnDone(c, later(c)) }
