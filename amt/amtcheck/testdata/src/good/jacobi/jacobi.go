// Command jacobi solves a problem in one dimension with the methods of a solver, one on each rank.
package main

import (
	"fmt"
	"math"

	"github.com/byssus-hpc/byssus/amt"
)

const width = 50

type edge struct {
	Left  bool
	Value float64
}

type row struct {
	From  int64
	Cells [width]float64
}

type solver struct {
	cells, next []float64
	left, right float64
	rows        []row
	last        *row
}

var (
	edges   amt.Handler[edge]
	gather  amt.Handler[row]
	solvers amt.Local[solver]
	worst   amt.Reduction[float64]
)

func init() {
	edges.Is(onEdge)
	gather.Is(onRow)
	worst.Is(math.Max)
}

func onEdge(c amt.Context, m *edge) {
	s := solvers.Of(c)
	if m.Left {
		s.left = m.Value
	} else {
		s.right = m.Value
	}
}

func onRow(c amt.Context, m *row) {
	kept := *m
	s := solvers.Of(c)
	s.add(&kept)
	s.add2(m)
	view := m.Cells[:]
	copy(s.next, view)
}

func (s *solver) add(r *row) { s.last = r }

func (s *solver) add2(r *row) { s.rows = append(s.rows, *r) }

func (s *solver) exchange(c amt.Context) error {
	return c.Collective("edges", func(c amt.Context) error {
		if c.Rank() > 0 {
			edges.Send(c, c.Rank()-1, &edge{false, s.cells[0]})
		}
		if c.Rank() < c.Ranks()-1 {
			edges.Send(c, c.Rank()+1, &edge{true, s.cells[width-1]})
		}
		return nil
	}).Wait(c)
}

func (s *solver) sweep() float64 {
	change := 0.0
	for i := range s.cells {
		a, b := s.left, s.right
		if i > 0 {
			a = s.cells[i-1]
		}
		if i < width-1 {
			b = s.cells[i+1]
		}
		s.next[i] = (a + b) / 2
		change = max(change, math.Abs(s.next[i]-s.cells[i]))
	}
	s.cells, s.next = s.next, s.cells
	return change
}

func (s *solver) solve(c amt.Context) error {
	s.cells, s.next = make([]float64, width), make([]float64, width)
	if c.Rank() == 0 {
		s.left = 1
	}
	for range 200 {
		if err := s.exchange(c); err != nil {
			return err
		}
		change, err := worst.All(c, s.sweep())
		if err != nil || change < 1e-4 {
			return err
		}
	}
	return nil
}

func (s *solver) tell(c amt.Context) error {
	err := c.Collective("rows", func(c amt.Context) error {
		r := row{From: int64(c.Rank())}
		copy(r.Cells[:], s.cells)
		gather.Send(c, 0, &r)
		return nil
	}).Wait(c)
	if err == nil && c.Rank() == 0 {
		fmt.Printf("%d rows, the last from a rank: %v\n", len(s.rows), s.last.From >= 0)
	}
	return err
}

func program(c amt.Context) error {
	s := solvers.Of(c)
	if err := s.solve(c); err != nil {
		return err
	}
	return s.tell(c)
}

func main() { amt.Main(program) }
