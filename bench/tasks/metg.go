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
//
// It is measured with a column for each rank, as Task-Bench does, and with many.
const (
	columns = 16 // at most, of all ranks
	steps   = 100

	coarsest = 16 << 10 // turns of a task's loop; the finest have one
	half     = 0.5      // of the time
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

// A row is what a rank has of the columns that are no elements, and which of them have tasks of how many turns.
type row struct {
	columns [columns]column
	stride  int // every so many columns
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
		rows.Of(c.Context).start(c.Context, e, c.Index().X, tellElement)
	})
	gridNeed.Is(&grid, func(c amt.At[amt.Index1], e *column, m *need) {
		e.take(m)
		rows.Of(c.Context).advance(c.Context, e, m.Column, tellElement)
	})
	rowStart.Is(func(c amt.Context, _ *word) {
		r := rows.Of(c)
		for x := range r.columns {
			if owner(x, c.Ranks()) == c.Rank() {
				r.start(c, &r.columns[x], x, tellHandler)
			}
		}
	})
	rowNeed.Is(func(c amt.Context, m *need) {
		r := rows.Of(c)
		e := &r.columns[m.Column]
		e.take(m)
		r.advance(c, e, m.Column, tellHandler)
	})
}

// owner is the rank of a column: each has a block.
func owner(x, ranks int) int { return x * ranks / columns }

func tellElement(c amt.Context, m *need) { gridNeed.Send(c, amt.Index1{X: m.Column}, m) }
func tellHandler(c amt.Context, m *need) { rowNeed.Send(c, owner(m.Column, c.Ranks()), m) }

// clear makes a column that has not begun.
func (r *row) clear(x int) column {
	neighbours := 2
	if x == 0 || x+r.stride >= columns {
		neighbours = 1
	}
	return column{Missed: [2]int{neighbours, neighbours}}
}

func (e *column) take(m *need) {
	e.Inputs[m.Step%2] += m.Value
	e.Missed[m.Step%2]--
}

func (r *row) start(c amt.Context, e *column, x int, tell func(c amt.Context, m *need)) {
	if x%r.stride == 0 {
		r.task(c, e, x, tell)
		r.advance(c, e, x, tell)
	}
}

// advance runs tasks, as long as there is what they need.
func (r *row) advance(c amt.Context, e *column, x int, tell func(c amt.Context, m *need)) {
	for of := e.Step % 2; e.Step > 0 && e.Missed[of] == 0; of = e.Step % 2 {
		e.Value += e.Inputs[of]
		e.Inputs[of], e.Missed[of] = 0, r.clear(x).Missed[of]
		r.task(c, e, x, tell)
	}
}

// task is that of a step. After the last one, the column has not begun.
func (r *row) task(c amt.Context, e *column, x int, tell func(c amt.Context, m *need)) {
	e.Value = compute(e.Value, r.turns)
	if e.Step++; e.Step == steps {
		e.Step = 0
		return
	}
	for _, to := range [2]int{x - r.stride, x + r.stride} {
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

// granularity is the METG of handlers and elements, of a column for each rank and of many.
func granularity(c amt.Context, batches int) error {
	for _, stride := range []int{columns / c.Ranks(), 1} {
		r := rows.Of(c)
		r.stride = stride
		for x := range r.columns {
			r.columns[x] = r.clear(x)
		}
		if stride > 1 {
			err := grid.Create(c, amt.Index1{X: columns}, func(i amt.Index1) (column, error) { return r.clear(i.X), nil })
			if err != nil {
				return err
			}
		}
		grid.Each(c, func(i amt.Index1, e *column) { *e = r.clear(i.X) })
		handlers, elements, err := stencil(c, r, batches)
		if err != nil {
			return err
		}
		if each := columns / stride / c.Ranks(); c.Rank() == 0 {
			fmt.Printf("tasks METG%d/handlers %.1f\ntasks METG%d/elements %.1f\n", each, metg(handlers), each, metg(elements))
		}
	}
	return nil
}

// stencil times it for all grains, by turns: the best of batches, in nanoseconds of all ranks for a task.
func stencil(c amt.Context, r *row, batches int) (handlers, elements []float64, err error) {
	tasks := float64(columns / r.stride * steps)
	for r.turns = 1; r.turns <= coarsest; r.turns *= 2 {
		best := [2]float64{math.Inf(1), math.Inf(1)}
		for batch := range 2 * batches {
			if err := c.Collective("ready", func(amt.Context) error { return nil }).Wait(c); err != nil {
				return nil, nil, err
			}
			begin := time.Now()
			err := epoch(c, func(c amt.Context) {
				if batch%2 == 0 {
					rowStart.Broadcast(c, &word{})
				} else {
					gridStart.Broadcast(c, &word{})
				}
			})
			if err != nil {
				return nil, nil, err
			}
			best[batch%2] = min(best[batch%2], float64(time.Since(begin).Nanoseconds())*float64(c.Ranks())/tasks)
		}
		handlers, elements = append(handlers, best[0]), append(elements, best[1])
	}
	return handlers, elements, nil
}

// metg is the granularity at which half of the time is that of tasks, between two that were measured. A turn takes what it takes in the
// coarsest tasks.
func metg(took []float64) float64 {
	turn := took[len(took)-1] / coarsest
	last := 0.0
	for i, ns := range took {
		part := turn * float64(int(1)<<i) / ns // of the time
		switch {
		case part >= half && i == 0:
			return ns
		case part >= half:
			return took[i-1] + (ns-took[i-1])*(half-last)/(part-last)
		}
		last = part
	}
	return math.NaN()
}
