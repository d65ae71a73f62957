// Command refine integrates a function with a sharp ridge over a square, by squares that are cut into four wherever the function is not nearly
// a plane: they are elements of a collection that are inserted and deleted as the tree grows, of few indices of very many.
//
//	refine [-tolerance 1e-7] [-levels 16]
//
// What it prints does not depend on the number of ranks, to the last digit.
package main

import (
	"flag"
	"fmt"
	"math"

	"github.com/byssus-hpc/byssus/amt"
)

// A Square is a leaf of the tree: its index is its level, and its row and column among the squares of that level.
type Square struct {
	Integral float64 // by the rule of Simpson
	Rough    bool    // it is to be cut
}

// A Cut has squares be cut that are rough.
type Cut struct{ Levels int }

var (
	leaves  amt.Collection[amt.Index3, Square]
	cut     amt.Method[amt.Index3, Square, Cut]
	measure amt.Method[amt.Index3, Square, Cut]
	sum     amt.ElementReduction[amt.Index3, Square, float64]

	tolerance = flag.Float64("tolerance", 1e-7, "of the integral of a square")
	levels    = flag.Int("levels", 16, "at most")
)

func init() {
	leaves.Is("leaves", amt.MappedBy(func(i, _ amt.Index3, ranks int) int { return (i.Y*7 + i.Z*3 + i.X) % ranks }))
	cut.Is(&leaves, func(c amt.At[amt.Index3], s *Square, m *Cut) {
		i := c.Index()
		if !s.Rough || i.X+1 == m.Levels {
			return
		}
		for k := range 4 {
			child := amt.Index3{X: i.X + 1, Y: i.Y*2 + k/2, Z: i.Z*2 + k%2}
			leaves.Insert(c.Context, child, square(child))
		}
		leaves.Delete(c.Context, i)
	})
	measure.Is(&leaves, func(c amt.At[amt.Index3], s *Square, _ *Cut) { sum.Give(c, 1, s.Integral) })
	sum.Is(&leaves, func(a, b float64) float64 { return a + b })
}

// ridge is what is integrated: steep where x*x + y*y is one half.
func ridge(x, y float64) float64 { return math.Atan(200*(x*x+y*y-0.5)) + x*y }

// square makes a leaf. Its integral is compared with that of its four parts.
func square(i amt.Index3) Square {
	side := math.Ldexp(1, -i.X)
	x, y := float64(i.Y)*side, float64(i.Z)*side
	fine := 0.0
	for k := range 4 {
		fine += simpson(x+float64(k/2)*side/2, y+float64(k%2)*side/2, side/2)
	}
	return Square{fine, math.Abs(fine-simpson(x, y, side)) > *tolerance}
}

func simpson(x, y, side float64) float64 {
	weights := [3]float64{1, 4, 1}
	all := 0.0
	for i, a := range weights {
		for j, b := range weights {
			all += a * b * ridge(x+float64(i)*side/2, y+float64(j)*side/2)
		}
	}
	return all * side * side / 36
}

func main() {
	flag.Parse()
	amt.Main(program)
}

func program(c amt.Context) error {
	if err := leaves.CreateEmpty(c, amt.Index3{X: *levels, Y: 1 << (*levels - 1), Z: 1 << (*levels - 1)}); err != nil {
		return err
	}
	root := amt.Index3{}
	err := c.Modify("root", func(c amt.Context) error {
		if c.Rank() == 0 {
			leaves.Insert(c, root, square(root))
		}
		return nil
	})
	for before := uint64(0); err == nil && leaves.Size(c) != before; {
		before = leaves.Size(c)
		err = c.Modify("cut", func(c amt.Context) error {
			if c.Rank() == 0 {
				cut.Broadcast(c, &Cut{*levels}) // a square that is inserted meanwhile may hear it, too: the tree is the same in the end
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	err = c.Collective("measure", func(c amt.Context) error {
		if c.Rank() == 0 {
			measure.Broadcast(c, &Cut{})
		}
		return nil
	}).Wait(c)
	if err != nil {
		return err
	}
	all, err := sum.Wait(c, 1)
	if err == nil && c.Rank() == 0 {
		fmt.Printf("%d squares, integral %.17g\n", leaves.Size(c), all)
	}
	return err
}
