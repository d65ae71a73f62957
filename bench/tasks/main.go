// Command tasks times the task runtime, on 2 ranks of an MPI job or on goroutines.
//
// Rank 0 prints a line per measurement: its name and the best time of many short batches, in nanoseconds for each operation.
package main

import (
	"flag"
	"fmt"
	"math"
	"time"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

// A word is a message of 8 bytes.
type word struct{ Left uint64 }

// A line is a short message that is packed.
type line struct {
	Text    string
	Numbers []int32
}

var (
	hop  amt.Handler[word] // goes back and forth
	sink amt.Handler[word]
	text amt.Handler[line]
	work amt.Handler[word] // some microseconds of it
	done amt.Local[uint64] // what work has come to
)

func init() {
	hop.Is(func(c amt.Context, m *word) {
		if m.Left > 0 {
			hop.Send(c, (c.Rank()+1)%c.Ranks(), &word{m.Left - 1})
		}
	})
	sink.Is(func(amt.Context, *word) {})
	text.Is(func(amt.Context, *line) {})
	work.Is(func(c amt.Context, m *word) {
		x := m.Left
		for range 4000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
		*done.Of(c) += x >> 63
	})
}

// A measurement is n operations of the body, which is called on all ranks.
type measurement struct {
	name string
	n    int
	body func(c amt.Context, n int) error
}

// epoch has rank 0 do something in a collective epoch.
func epoch(c amt.Context, do func(c amt.Context)) error {
	return c.Collective("bench", func(c amt.Context) error {
		if c.Rank() == 0 {
			do(c)
		}
		return nil
	}).Wait(c)
}

func messages(to func(c amt.Context) int) func(c amt.Context, n int) error {
	return func(c amt.Context, n int) error {
		return epoch(c, func(c amt.Context) {
			rank := to(c)
			for i := range n {
				sink.Send(c, rank, &word{uint64(i)})
			}
		})
	}
}

// packed has messages that are packed.
func packed(c amt.Context, n int) error {
	return epoch(c, func(c amt.Context) {
		m := line{"some words", []int32{1, 2, 3}}
		for range n {
			text.Send(c, other(c), &m)
		}
	})
}

// singly sends each message as soon as it is there.
func singly(c amt.Context, n int) error {
	return epoch(c, func(c amt.Context) {
		for i := range n {
			sink.Send(c, other(c), &word{uint64(i)})
			c.Poll()
		}
	})
}

// share has all ranks together send n pieces of work, over all ranks, in some epochs.
func share(c amt.Context, n int) error {
	const epochs = 10
	for range epochs {
		err := c.Collective("work", func(c amt.Context) error {
			for i := c.Rank(); i < n/epochs; i += c.Ranks() {
				work.Send(c, i*7%c.Ranks(), &word{uint64(i)})
			}
			return nil
		}).Wait(c)
		if err != nil {
			return err
		}
	}
	return nil
}

func other(c amt.Context) int { return 1 % c.Ranks() }
func self(c amt.Context) int  { return c.Rank() }

func measurements(scope *amt.Scope) []measurement {
	return []measurement{
		{"RoundTrip8B", 500, func(c amt.Context, n int) error {
			return epoch(c, func(c amt.Context) { hop.Send(c, other(c), &word{uint64(2*n - 1)}) })
		}},
		{"OneWay8B", 5000, messages(other)},
		{"OneWaySingle8B", 2000, singly},
		{"OneWayPacked", 5000, packed},
		{"Local8B", 5000, messages(self)},
		{"EmptyCollective", 200, func(c amt.Context, n int) error {
			for range n {
				if err := c.Collective("empty", func(amt.Context) error { return nil }).Wait(c); err != nil {
					return err
				}
			}
			return nil
		}},
		{"EmptyRooted", 200, func(c amt.Context, n int) error {
			for range n {
				if err := c.Rooted("empty", func(amt.Context) error { return nil }).Wait(c); err != nil {
					return err
				}
			}
			return nil
		}},
		{"Allreduces1000", 1000, func(c amt.Context, n int) error { return reductions(c, scope, n) }},
		{"AllreduceSingle", 50, func(c amt.Context, n int) error {
			for range n {
				if err := reductions(c, scope, 1); err != nil {
					return err
				}
			}
			return nil
		}},
		{"Work", 4000, share},
	}
}

// reductions asks for operations together.
func reductions(c amt.Context, scope *amt.Scope, n int) error {
	one, sum := []int64{1}, make([]int64, 1)
	return c.Collective("operations", func(c amt.Context) error {
		for range n {
			scope.Do(c, func(comm *mpi.Comm) error { return mpi.Allreduce(comm, one, sum, mpi.Sum) })
		}
		return nil
	}).Wait(c)
}

func main() {
	only := flag.String("only", "", "measure nothing but this")
	batches := flag.Int("batches", 60, "of each measurement; a third of bursts and all that follows")
	flag.Parse()
	amt.Main(func(c amt.Context) error {
		scope, err := c.Scope("reductions")
		if err != nil {
			return err
		}
		for _, m := range measurements(scope) {
			if *only != "" && m.name != *only {
				continue
			}
			best := math.Inf(1)
			for batch := range *batches + 1 {
				begin := time.Now()
				if err := m.body(c, m.n); err != nil {
					return err
				}
				if batch > 0 {
					best = min(best, float64(time.Since(begin).Nanoseconds())/float64(m.n))
				}
			}
			if c.Rank() == 0 {
				fmt.Printf("tasks %s %.2f\n", m.name, best)
			}
		}
		for _, part := range []struct {
			name string
			of   func(c amt.Context, batches int) error
		}{{"Burst", bursts}, {"Forward", forwards}, {"Migrate", migrations}, {"METG", granularity}} {
			if *only != "" && *only != part.name {
				continue
			}
			if err := part.of(c, *batches/3); err != nil {
				return err
			}
		}
		return nil
	})
}
