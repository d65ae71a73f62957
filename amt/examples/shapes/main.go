// Command shapes has discs and polygons grow and wander over a board that is cut into tiles, the elements of a collection. A
// shape is known to the tiles by an interface alone: which type is behind it is found again by what package pup has saved, when the tile
// migrates, when the shape goes to another tile, and when all is saved.
//
//	shapes [-tiles 6] [-shapes 300] [-steps 30] [-every 5] [-dir DIRECTORY]
//
// Run again with the same directory, and more steps, it goes on from what it has saved, on any number of ranks.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"slices"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/pup"
)

// A Shape is any of the types below.
type Shape interface {
	ID() int
	Area() float64
	Grow()
}

// A Disc is a shape.
type Disc struct {
	Number int
	Radius float64
}

// A Polygon is a shape, which gets one more corner when it grows.
type Polygon struct {
	Number  int
	Corners [][2]float64
}

// What is saved of an interface has these names.
var (
	_ = pup.Register[*Disc]("shapes.Disc")
	_ = pup.Register[*Polygon]("shapes.Polygon")
)

// ID is Shape's.
func (s *Disc) ID() int { return s.Number }

// Area is Shape's.
func (s *Disc) Area() float64 { return math.Pi * s.Radius * s.Radius }

// Grow is Shape's.
func (s *Disc) Grow() { s.Radius *= 1.01 }

// ID is Shape's.
func (s *Polygon) ID() int { return s.Number }

// Area is Shape's.
func (s *Polygon) Area() (a float64) {
	for i, p := range s.Corners {
		q := s.Corners[(i+1)%len(s.Corners)]
		a += (p[0]*q[1] - q[0]*p[1]) / 2
	}
	return a
}

// Grow is Shape's.
func (s *Polygon) Grow() {
	n := float64(len(s.Corners))
	s.Corners = append(s.Corners, [2]float64{-n / 10, -n / 20})
}

// A Tile has the shapes that are on it.
type Tile struct {
	Here []Shape
	Come [2][]Shape // by steps: those of the next may come early
}

// A Visit is a shape that comes to a tile in a step.
type Visit struct {
	Step  int
	Shape Shape
}

// A Step is one of all tiles.
type Step struct{ Number int }

// A Sight is what is on some tiles.
type Sight struct {
	Discs, Polygons int
	Area            float64
}

var (
	board amt.Collection[amt.Index2, Tile]
	move  amt.Method[amt.Index2, Tile, Step]
	visit amt.Method[amt.Index2, Tile, Visit]
	look  amt.Method[amt.Index2, Tile, Step]
	sight amt.ElementReduction[amt.Index2, Tile, Sight]

	tiles = flag.Int("tiles", 6, "in each direction")
	count = flag.Int("shapes", 300, "how many")
	steps = flag.Int("steps", 30, "how many")
	every = flag.Int("every", 5, "steps of a phase, after which tiles go to other ranks, and are saved")
	dir   = flag.String("dir", "", "where they are saved; nowhere if it is empty")
)

func init() {
	board.Is("board")
	move.Is(&board, func(c amt.At[amt.Index2], t *Tile, m *Step) {
		t.settle(m.Number - 1)
		stay := t.Here[:0]
		for _, s := range t.Here {
			s.Grow()
			if to := goal(s.ID(), m.Number); to != c.Index() {
				visit.Send(c.Context, to, &Visit{m.Number, s})
			} else {
				stay = append(stay, s)
			}
		}
		t.Here = stay
	})
	visit.Is(&board, func(_ amt.At[amt.Index2], t *Tile, m *Visit) { t.Come[m.Step%2] = append(t.Come[m.Step%2], m.Shape) })
	look.Is(&board, func(c amt.At[amt.Index2], t *Tile, m *Step) {
		t.settle(m.Number)
		var seen Sight
		for _, s := range t.Here {
			switch s.(type) {
			case *Disc:
				seen.Discs++
			case *Polygon:
				seen.Polygons++
			}
			seen.Area += s.Area()
		}
		sight.Give(c, uint64(m.Number), seen)
	})
	sight.Is(&board, func(a, b Sight) Sight {
		return Sight{a.Discs + b.Discs, a.Polygons + b.Polygons, a.Area + b.Area}
	})
}

// settle has those be here that have come in a step, in an order that is not that of messages: what is added up depends on it.
func (t *Tile) settle(step int) {
	of := (step + 2) % 2
	t.Here = append(t.Here, t.Come[of]...)
	t.Come[of] = nil
	slices.SortFunc(t.Here, func(a, b Shape) int { return cmp.Compare(a.ID(), b.ID()) })
}

// goal is the tile of a shape after a step: it wanders along a row, or along a column.
func goal(id, step int) amt.Index2 {
	if id%2 == 0 {
		return amt.Index2{X: id % *tiles, Y: (id + step) % *tiles}
	}
	return amt.Index2{X: (id + step*id/2) % *tiles, Y: id % *tiles}
}

// newShape is a disc or a triangle.
func newShape(id int) Shape {
	if id%3 == 0 {
		return &Polygon{id, [][2]float64{{0, 0}, {1 + float64(id%7), 0}, {0, 1}}}
	}
	return &Disc{id, 1 / float64(1+id%5)}
}

func newTile(i amt.Index2) (Tile, error) {
	var t Tile
	for id := range *count {
		if goal(id, 0) == i {
			t.Here = append(t.Here, newShape(id))
		}
	}
	return t, nil
}

func main() {
	flag.Parse()
	amt.Main(program)
}

func program(c amt.Context) error {
	found, err := false, error(nil)
	if *dir != "" {
		found, err = amt.Restore(c, amt.Directory(*dir), &board)
	}
	if err == nil && !found {
		err = board.Create(c, amt.Index2{X: *tiles, Y: *tiles}, newTile)
	}
	for step := c.PhaseNumber()**every + 1; step <= *steps && err == nil; step++ {
		if err = all(c, &move, step); err == nil && step%*every == 0 {
			err = c.Phase(amt.Random(uint64(step)))
			if err == nil && *dir != "" {
				err = amt.Save(c, amt.Directory(*dir), &board)
			}
		}
	}
	if err == nil {
		err = all(c, &look, *steps)
	}
	if err != nil {
		return err
	}
	s, err := sight.Wait(c, uint64(*steps))
	if err == nil && c.Rank() == 0 {
		fmt.Printf("after %d steps: %d discs, %d polygons, area %v\n", *steps, s.Discs, s.Polygons, s.Area)
	}
	return err
}

// all has all tiles run a method, and waits until that, and what follows from it, is done.
func all(c amt.Context, m *amt.Method[amt.Index2, Tile, Step], number int) error {
	return c.Collective("tiles", func(c amt.Context) error {
		if c.Rank() == 0 {
			m.Broadcast(c, &Step{number})
		}
		return nil
	}).Wait(c)
}
