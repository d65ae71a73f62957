package main

import (
	"fmt"
	"math"
	"time"

	"github.com/byssus-hpc/byssus/amt"
)

// The minimum effective task granularity of a stencil in one dimension, as Task-Bench has it: each of some columns has a task in every
// step, which needs what the tasks of its neighbours gave in the step before. The shorter tasks are, the less of the processors'
// time is theirs; the granularity at which it is a half is how fine a program may be cut. bench/c/tasks.c has the same in MPI.
const (
	columns = 16 // of all ranks
	steps   = 100

	finest, coarsest = 16, 16 << 10 // turns of a task's loop
	half             = 0.5          // of the time
)

// A column of the stencil. It has begun when its step is not 0. What a neighbour gives may come a step ahead.
type column struct {
	Step   int
	Value  uint64
	Inputs [2]uint64 // of this step and the next
	Missed [2]int    // neighbours that have not given theirs
}

// A need is what a task gives to that of a neighbour.
type need struct {
	Column, Step int
	Value        uint64
}

// A row is what a rank has of the columns that are no elements, and for how many turns its tasks run.
type row struct {
	columns [columns]column
	turns   int
}

var (
	grid      amt.Collection[amt.Index1, column]
	gridStart amt.Method[amt.Index1, column, word]
	gridNeed  amt.Method[amt.Index1, column, need]

	rows     amt.Local[row]
	rowStart amt.Handler[word]
	rowNeed  amt.Handler[need]
)

func init() {
	grid.Is("grid")
	gridStart.Is(&grid, func(c amt.At[amt.Index1], e *column, _ *word) {
		e.task(c.Context, c.Index().X, rows.Of(c.Context).turns, tellElement)
		e.advance(c.Context, c.Index().X, rows.Of(c.Context).turns, tellElement)
	})
	gridNeed.Is(&grid, func(c amt.At[amt.Index1], e *column, m *need) {
		e.take(m)
		e.advance(c.Context, c.Index().X, rows.Of(c.Context).turns, tellElement)
	})
	rowStart.Is(func(c amt.Context, _ *word) {
		r := rows.Of(c)
		for x := range r.columns {
			if owner(x, c.Ranks()) == c.Rank() {
				r.columns[x].task(c, x, r.turns, tellHandler)
				r.columns[x].advance(c, x, r.turns, tellHandler)
			}
		}
	})
	rowNeed.Is(func(c amt.Context, m *need) {
		r := rows.Of(c)
		r.columns[m.Column].take(m)
		r.columns[m.Column].advance(c, m.Column, r.turns, tellHandler)
	})
}

// owner is the rank of a column: each has a block.
func owner(x, ranks int) int { return x * ranks / columns }

func tellElement(c amt.Context, m *need) { gridNeed.Send(c, amt.Index1{X: m.Column}, m) }
func tellHandler(c amt.Context, m *need) { rowNeed.Send(c, owner(m.Column, c.Ranks()), m) }

// newColumn has not begun.
func newColumn(x int) column {
	neighbours := 2
	if x == 0 || x == columns-1 {
		neighbours = 1
	}
	return column{Missed: [2]int{neighbours, neighbours}}
}

func (e *column) take(m *need) {
	e.Inputs[m.Step%2] += m.Value
	e.Missed[m.Step%2]--
}

// advance runs tasks, as long as there is what they need.
func (e *column) advance(c amt.Context, x, turns int, tell func(c amt.Context, m *need)) {
	for of := e.Step % 2; e.Step > 0 && e.Missed[of] == 0; of = e.Step % 2 {
		e.Value += e.Inputs[of]
		e.Inputs[of], e.Missed[of] = 0, newColumn(x).Missed[0]
		e.task(c, x, turns, tell)
	}
}

// task is that of a step. After the last one, the column has not begun.
func (e *column) task(c amt.Context, x, turns int, tell func(c amt.Context, m *need)) {
	e.Value = compute(e.Value, turns)
	if e.Step++; e.Step == steps {
		e.Step = 0
		return
	}
	for _, to := range [2]int{x - 1, x + 1} {
		if to >= 0 && to < columns {
			tell(c, &need{to, e.Step, e.Value})
		}
	}
}

// compute is what tasks do: what a turn does needs what the one before has done.
func compute(v uint64, turns int) uint64 {
	for range turns {
		v = v*6364136223846793005 + 1442695040888963407
	}
	return v
}

// granularity is the METG of some kinds of tasks, which are timed by turns: each is the best of batches.
func granularity(c amt.Context, batches int) error {
	r := rows.Of(c)
	for x := range r.columns {
		r.columns[x] = newColumn(x)
	}
	err := grid.Create(c, amt.Index1{X: columns}, func(i amt.Index1) (column, error) { return newColumn(i.X), nil })
	if err != nil {
		return err
	}
	kinds := []func() error{
		func() error { return epoch(c, func(c amt.Context) { rowStart.Broadcast(c, &word{}) }) },
		func() error { return epoch(c, func(c amt.Context) { gridStart.Broadcast(c, &word{}) }) },
	}
	took := make([][]float64, len(kinds)) // nanoseconds of all ranks for a task, by kind and grain
	for turns := finest; turns <= coarsest; turns *= 2 {
		r.turns = turns
		for i, run := range kinds {
			took[i] = append(took[i], math.Inf(1))
			for range batches {
				if err := c.Collective("ready", func(amt.Context) error { return nil }).Wait(c); err != nil {
					return err
				}
				begin := time.Now()
				if err := run(); err != nil {
					return err
				}
				last := len(took[i]) - 1
				took[i][last] = min(took[i][last], float64(time.Since(begin).Nanoseconds())*float64(c.Ranks())/(columns*steps))
			}
		}
	}
	if c.Rank() == 0 {
		fmt.Printf("tasks METG/handlers %.1f\ntasks METG/elements %.1f\n", metg(took[0]), metg(took[1]))
	}
	return nil
}

// metg is the granularity at which half of the time is that of tasks, between two that were measured. A turn takes what it takes in the
// coarsest tasks.
func metg(took []float64) float64 {
	turn := took[len(took)-1] / coarsest
	part := func(i int) float64 { return turn * float64(int(finest)<<i) / took[i] } // of the time
	for i := range took {
		switch {
		case part(i) < half:
		case i == 0:
			return took[0]
		default:
			share := (half - part(i-1)) / (part(i) - part(i-1))
			return took[i-1] + (took[i]-took[i-1])*share
		}
	}
	return math.NaN()
}
