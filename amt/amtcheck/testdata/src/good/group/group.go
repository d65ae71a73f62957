// Command group uses goroutines of its own, which know nothing of the runtime: they give their results to who waits for them.
package main

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/byssus-hpc/byssus/amt"
)

type result struct {
	Part  int64
	Value float64
}

var (
	collect amt.Handler[result]
	total   amt.Local[float64]
	sum     amt.Reduction[float64]
	mu      sync.Mutex
	slow    []int
)

func init() {
	collect.Is(func(c amt.Context, m *result) { *total.Of(c) += m.Value })
	sum.Is(func(a, b float64) float64 { return a + b })
}

func compute(rank, part int) (float64, error) {
	if rank < 0 {
		return 0, fmt.Errorf("no rank %d", rank)
	}
	return float64(rank*10 + part), nil
}

// parts computes beside the handlers, in a task that waits for its goroutines.
func parts(c amt.Context, n int) error {
	var g errgroup.Group
	rank, values := c.Rank(), make([]float64, n)
	for i := range n {
		g.Go(func() (err error) {
			values[i], err = compute(rank, i)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, v := range values {
		collect.Send(c, 0, &result{int64(i), v})
	}
	return nil
}

func program(c amt.Context) error {
	var all sync.WaitGroup
	me := c.Rank()
	all.Go(func() {
		mu.Lock()
		defer mu.Unlock()
		slow = append(slow, me)
	})
	go time.Sleep(time.Millisecond)
	results := make(chan float64, 1)
	go func(rank int) {
		v, _ := compute(rank, 100)
		results <- v
	}(c.Rank())
	err := c.Collective("parts", func(c amt.Context) error {
		c.Go("parts", func(c amt.Context) error { return parts(c, 4) })
		collect.Send(c, 0, &result{100, <-results})
		return nil
	}).Wait(c)
	all.Wait()
	if err != nil {
		return err
	}
	v, err := sum.All(c, *total.Of(c))
	if err == nil && c.Rank() == 0 {
		fmt.Println("total", v)
	}
	return err
}

func main() { amt.Main(program) }
