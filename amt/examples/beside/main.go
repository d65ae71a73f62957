// Command beside solves two problems at a time, step by step, with a library that uses MPI and knows nothing of tasks: its calls
// block until all ranks have made them. Each problem has a scope, so that it does not matter which one a rank comes to first, and
// messages go on between. It runs on goroutines, or under the mpirun of MPICH or of Open MPI:
//
//	go run ./amt/examples/beside
//	go build -o beside ./amt/examples/beside && mpirun -n 2 ./beside
package main

import (
	"fmt"
	"math"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/examples/beside/solver"
	"github.com/byssus-hpc/byssus/mpi"
)

const (
	unknowns  = 240 // of each problem, spread over the ranks
	steps     = 3
	tolerance = 1e-6
)

var (
	names     = [...]string{"heat", "pressure"}
	diagonals = [...]float64{4, 3} // of the problems' matrices
)

type (
	job    struct{ Problem, Step int }
	token  struct{ Hops int } // that are left
	tally  struct{ Solved, Hops int }
	scopes [len(names)]*amt.Scope
)

var (
	solve amt.Handler[job]
	pass  amt.Handler[token]
	done  amt.Local[tally] // what a rank has done
	all   amt.Reduction[tally]
	safe  amt.Local[scopes] // by problem
)

func init() {
	solve.Is(func(c amt.Context, m *job) {
		now := *m // is needed when the handler has ended, and the message with it
		first, end := unknowns*c.Rank()/c.Ranks(), unknowns*(c.Rank()+1)/c.Ranks()
		var b []float64
		for i := first; i < end; i++ {
			b = append(b, diagonals[now.Problem]*now.want(i)-now.want(i-1)-now.want(i+1))
		}
		safe.Of(c)[now.Problem].Do(c, func(comm *mpi.Comm) error {
			x, err := solver.Solve(comm, diagonals[now.Problem], b, tolerance)
			for i, v := range x {
				if math.Abs(v-now.want(first+i)) > tolerance {
					return fmt.Errorf("step %d: x[%d] is %g, want %g", now.Step, first+i, v, now.want(first+i))
				}
			}
			return err
		}, func(c amt.Context) { // when it is solved
			done.Of(c).Solved++
			if now.Step++; now.Step < steps {
				solve.Send(c, c.Rank(), &now)
			}
		})
	})
	pass.Is(func(c amt.Context, m *token) {
		done.Of(c).Hops++
		if m.Hops > 1 {
			pass.Send(c, (c.Rank()+1)%c.Ranks(), &token{m.Hops - 1})
		}
	})
	all.Is(func(a, b tally) tally { return tally{a.Solved + b.Solved, a.Hops + b.Hops} })
}

// want is an element of a solution, which is known beforehand.
func (j job) want(i int) float64 {
	if i < 0 || i >= unknowns {
		return 0
	}
	return float64(1 + (j.Problem+3)*(j.Step+2)*i%11)
}

func program(c amt.Context) error {
	for n, name := range names {
		var err error
		if safe.Of(c)[n], err = c.Scope(name); err != nil {
			return err
		}
	}
	err := c.Collective("steps", func(c amt.Context) error {
		for n := range names { // every other rank begins with the last problem
			solve.Send(c, c.Rank(), &job{Problem: (n + c.Rank()) % len(names)})
		}
		if c.Rank() == 0 {
			pass.Send(c, 0, &token{500})
		}
		return nil
	}).Wait(c)
	if err != nil {
		return err
	}
	t, err := all.All(c, *done.Of(c))
	if err == nil && c.Rank() == 0 {
		fmt.Printf("%d problems of %d unknowns, %d steps solved; meanwhile a token made %d hops\n", len(names), unknowns, t.Solved/c.Ranks(), t.Hops)
	}
	return err
}

func main() { amt.Main(program) }
