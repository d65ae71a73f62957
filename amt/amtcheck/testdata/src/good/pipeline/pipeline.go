// Command pipeline has items go through stages, each of which begins when the one before is over.
package main

import (
	"fmt"
	"time"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

const stages = 4

type item struct{ Number, Stage, Value int64 }

type text struct{ Words []string }

var (
	work  amt.Handler[item]
	start amt.Handler[item]
	log   amt.Handler[text]
	logs  amt.Local[[]*text]
	sums  amt.Local[int64]
	scope amt.Local[*amt.Scope]
)

func init() {
	work.Is(func(c amt.Context, m *item) { *sums.Of(c) += m.Value })
	log.Is(func(c amt.Context, m *text) { *logs.Of(c) = append(*logs.Of(c), m) }) // has pointers: it is the handler's own
	start.Is(func(c amt.Context, m *item) {
		me, now := c.Rank(), *m
		stage := c.Rooted("stage", func(c amt.Context) error {
			for to := range c.Ranks() {
				work.Send(c, to, m)
			}
			return nil
		})
		stage.OnDone(c, func(c amt.Context) {
			now.Stage++
			if now.Stage < stages {
				start.Send(c, (me+1)%c.Ranks(), &now)
				return
			}
			finish(c, now)
		})
	})
}

// finish begins what comes last, in what follows the last stage.
func finish(c amt.Context, last item) {
	c.Go("slowly", func(c amt.Context) error {
		time.Sleep(time.Millisecond)
		ep := c.Rooted("tell", func(c amt.Context) error {
			log.Send(c, 0, &text{[]string{fmt.Sprint(last.Number)}})
			return nil
		})
		return ep.Wait(c)
	})
}

// chain begins epochs one after the other.
func chain(c amt.Context, left int64) {
	var step func(c amt.Context, left int64)
	step = func(c amt.Context, left int64) {
		if left == 0 {
			return
		}
		c.Rooted("step", func(c amt.Context) error {
			work.Send(c, int(left)%c.Ranks(), &item{Value: 1})
			return nil
		}).OnDone(c, func(c amt.Context) { step(c, left-1) })
	}
	step(c, left)
}

func program(c amt.Context) error {
	s, err := c.Scope("sums")
	if err != nil {
		return err
	}
	*scope.Of(c) = s
	err = c.Collective("all", func(c amt.Context) error {
		chain(c, 5)
		if c.Rank() == 0 {
			for n := range int64(10) {
				start.Send(c, int(n)%c.Ranks(), &item{n, 0, n})
			}
		}
		rank := c.Rank()
		s.Do(c, func(comm *mpi.Comm) error {
			if comm.Rank() != rank {
				return fmt.Errorf("rank %d of the scope is %d", rank, comm.Rank())
			}
			return comm.Barrier()
		}, func(c amt.Context) { work.Send(c, rank, &item{Value: 1}) })
		return nil
	}).Wait(c)
	if c.Rank() == 0 {
		fmt.Println(len(*logs.Of(c)), "items")
	}
	return err
}

func main() { amt.Main(program) }
