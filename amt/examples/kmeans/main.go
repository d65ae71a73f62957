// Command kmeans finds clusters of points in the plane by Lloyd's algorithm. Points lie in elements of a collection, which are sent the
// centres of clusters by a broadcast, and give by a reduction what their points make of them, until no point changes its cluster.
// Elements go elsewhere after each step.
//
//	kmeans [-chunks 40] [-points 250] [-seed 1] [-steps 100]
//
// What it prints is the same to the last bit on any number of ranks: a reduction combines in the order of elements, not of messages.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"

	"github.com/byssus-hpc/byssus/amt"
)

const clusters = 6

// A Point is a place in the plane.
type Point struct{ X, Y float64 }

// A Chunk is some points, and to which clusters they belong.
type Chunk struct {
	Points []Point
	Of     []int8
}

// Centres are those of all clusters.
type Centres struct {
	Step int
	At   [clusters]Point
}

// A Tally is what the clusters come to.
type Tally struct {
	Sum     [clusters]Point
	Points  [clusters]int
	Changed int // their cluster
	Spread  float64
}

var (
	chunks amt.Collection[amt.Index1, Chunk]
	assign amt.Method[amt.Index1, Chunk, Centres]
	tally  amt.ElementReduction[amt.Index1, Chunk, Tally]

	count  = flag.Int("chunks", 40, "how many")
	points = flag.Int("points", 250, "of a chunk")
	seed   = flag.Uint64("seed", 1, "of the points")
	steps  = flag.Int("steps", 100, "at most")
)

func init() {
	chunks.Is("chunks")
	assign.Is(&chunks, func(c amt.At[amt.Index1], k *Chunk, m *Centres) {
		var t Tally
		for i, p := range k.Points {
			n, far := m.nearest(p)
			if k.Of[i] != n {
				k.Of[i] = n
				t.Changed++
			}
			t.Sum[n].X += p.X
			t.Sum[n].Y += p.Y
			t.Points[n]++
			t.Spread += far
		}
		tally.Give(c, uint64(m.Step), t)
	})
	tally.Is(&chunks, func(a, b Tally) Tally {
		for n := range clusters {
			a.Sum[n].X += b.Sum[n].X
			a.Sum[n].Y += b.Sum[n].Y
			a.Points[n] += b.Points[n]
		}
		a.Changed += b.Changed
		a.Spread += b.Spread
		return a
	})
}

// nearest is the cluster of a point, and the square of how far its centre is.
func (m *Centres) nearest(p Point) (nearest int8, least float64) {
	for n, q := range m.At {
		far := float64((p.X-q.X)*(p.X-q.X)) + float64((p.Y-q.Y)*(p.Y-q.Y))
		if n == 0 || far < least {
			nearest, least = int8(n), far
		}
	}
	return nearest, least
}

// scatter makes points of a chunk around those places that clusters are to be found at.
func scatter(chunk, n int) []Point {
	random := rand.New(rand.NewPCG(*seed, uint64(chunk)))
	list := make([]Point, n)
	for i := range list {
		around := Point{float64(i % clusters % 3 * 4), float64(i % clusters / 3 * 5)}
		list[i] = Point{around.X + random.NormFloat64(), around.Y + random.NormFloat64()}
	}
	return list
}

func newChunk(i amt.Index1) (Chunk, error) {
	k := Chunk{scatter(i.X, *points), make([]int8, *points)}
	for n := range k.Of {
		k.Of[n] = -1
	}
	return k, nil
}

func main() {
	flag.Parse()
	amt.Main(program)
}

func program(c amt.Context) error {
	if err := chunks.Create(c, amt.Index1{X: *count}, newChunk); err != nil {
		return err
	}
	m := Centres{At: [clusters]Point(scatter(-1, clusters))}
	for ; m.Step < *steps; m.Step++ {
		err := c.Collective("assign", func(c amt.Context) error {
			if c.Rank() == 0 {
				assign.Broadcast(c, &m)
			}
			return nil
		}).Wait(c)
		if err != nil {
			return err
		}
		t, err := tally.Wait(c, uint64(m.Step))
		if err != nil {
			return err
		}
		if t.Changed == 0 {
			return report(c, &m, &t)
		}
		for n := range clusters {
			if t.Points[n] > 0 {
				m.At[n] = Point{t.Sum[n].X / float64(t.Points[n]), t.Sum[n].Y / float64(t.Points[n])}
			}
		}
		if err := c.Phase(amt.Random(uint64(m.Step))); err != nil {
			return err
		}
	}
	return fmt.Errorf("points change their clusters after %d steps", *steps)
}

// report prints the clusters.
func report(c amt.Context, m *Centres, t *Tally) error {
	if c.Rank() != 0 {
		return nil
	}
	fmt.Printf("%d points, %d steps, spread %v\n", *count**points, m.Step, t.Spread)
	for n, p := range m.At {
		fmt.Printf("cluster of %d points around (%v, %v)\n", t.Points[n], p.X, p.Y)
	}
	return nil
}
