// Command jacobi finds the temperatures of a square plate, one edge of which is hot, by Jacobi's method: the plate is cut into blocks, which are
// elements of a collection, many more than there are ranks. Blocks tell their neighbours their edges, wherever these are; they change places
// after each phase, and are saved.
//
//	jacobi [-blocks 6] [-cells 16] [-steps 60] [-every 10] [-dir DIRECTORY | -nodes]
//
// Run again with the same directory, and more steps, it goes on from what it has saved, on any number of ranks. What it prints does not
// depend on that number, nor on how often it was interrupted. With -nodes blocks are saved in the memory of the nodes, under byssus run
// --plain --cache: when a node is lost, it is started again, and goes on by itself.
package main

import (
	"flag"
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

// A Block is some of the plate, with a border of what its neighbours have.
type Block struct {
	Cells  []float64 // rows of side+2
	Step   int
	Until  int
	Edges  [2][4][]float64 // of neighbours, of this step and the next, by the side on which they are
	Missed [2]int          // how many of them have not come
}

// An Edge is what a neighbour has next to a block, after a step.
type Edge struct {
	Step   int
	Side   int
	Values []float64
}

// A Goal is up to which step blocks go on.
type Goal struct{ Until int }

var (
	plate amt.Collection[amt.Index2, Block]
	start amt.Method[amt.Index2, Block, Goal]
	edge  amt.Method[amt.Index2, Block, Edge]
	heat  amt.ElementReduction[amt.Index2, Block, float64]

	blocks = flag.Int("blocks", 6, "in each direction")
	side   = flag.Int("cells", 16, "of a block, in each direction")
	steps  = flag.Int("steps", 60, "how many")
	every  = flag.Int("every", 10, "steps of a phase, after which blocks change places, and are saved")
	dir    = flag.String("dir", "", "where they are saved; nowhere if it is empty")
	nodes  = flag.Bool("nodes", false, "they are saved in the memory of the nodes")
)

func init() {
	plate.Is("plate")
	start.Is(&plate, func(c amt.At[amt.Index2], b *Block, m *Goal) {
		b.Until = m.Until
		b.tell(c)
		b.advance(c)
	})
	edge.Is(&plate, func(c amt.At[amt.Index2], b *Block, m *Edge) {
		of := m.Step % 2
		b.Edges[of][m.Side] = m.Values
		b.Missed[of]--
		b.advance(c)
	})
	heat.Is(&plate, func(a, b float64) float64 { return a + b })
}

// sides are where neighbours are: the opposite of side s is 3-s.
var sides = [4]amt.Index2{{X: -1}, {Y: -1}, {Y: 1}, {X: 1}}

func neighbour(i amt.Index2, s int) (amt.Index2, bool) {
	n := amt.Index2{X: i.X + sides[s].X, Y: i.Y + sides[s].Y}
	return n, n.X >= 0 && n.Y >= 0 && n.X < *blocks && n.Y < *blocks
}

func neighbours(i amt.Index2) (n int) {
	for s := range sides {
		if _, ok := neighbour(i, s); ok {
			n++
		}
	}
	return n
}

func newBlock(i amt.Index2) (Block, error) {
	b := Block{Cells: make([]float64, (*side+2)*(*side+2)), Missed: [2]int{neighbours(i), neighbours(i)}}
	if i.X == 0 {
		for k := range *side + 2 {
			b.Cells[k] = 100
		}
	}
	return b, nil
}

// at is the k-th cell next to a side, out of the border or in it.
func (b *Block) at(s, k int, border bool) *float64 {
	line := map[bool][2]int{false: {1, *side}, true: {0, *side + 1}}[border][s/2]
	if s == 0 || s == 3 {
		return &b.Cells[line*(*side+2)+k+1]
	}
	return &b.Cells[(k+1)*(*side+2)+map[bool][2]int{false: {1, *side}, true: {0, *side + 1}}[border][s-1]]
}

// tell tells the neighbours the block's edges.
func (b *Block) tell(c amt.At[amt.Index2]) {
	for s := range sides {
		to, ok := neighbour(c.Index(), s)
		if !ok {
			continue
		}
		m := Edge{b.Step, 3 - s, make([]float64, *side)}
		for k := range m.Values {
			m.Values[k] = *b.at(s, k, false)
		}
		edge.Send(c.Context, to, &m)
	}
}

// advance computes steps, as long as it has what its neighbours had before them.
func (b *Block) advance(c amt.At[amt.Index2]) {
	for b.Step < b.Until && b.Missed[b.Step%2] == 0 {
		for s, values := range b.Edges[b.Step%2] {
			for k, v := range values {
				*b.at(s, k, true) = v
			}
		}
		b.relax()
		b.Edges[b.Step%2], b.Missed[b.Step%2] = [4][]float64{}, neighbours(c.Index())
		if b.Step++; b.Step < b.Until {
			b.tell(c)
		}
	}
}

func (b *Block) relax() {
	w := *side + 2
	next := append([]float64(nil), b.Cells...)
	for x := 1; x <= *side; x++ {
		for y := 1; y <= *side; y++ {
			next[x*w+y] = (b.Cells[(x-1)*w+y] + b.Cells[(x+1)*w+y] + b.Cells[x*w+y-1] + b.Cells[x*w+y+1]) / 4
		}
	}
	b.Cells = next
}

// measure gives what a block has.
var measure amt.Method[amt.Index2, Block, Goal]

func init() {
	measure.Is(&plate, func(c amt.At[amt.Index2], b *Block, m *Goal) {
		sum := 0.0
		for x := 1; x <= *side; x++ {
			for y := 1; y <= *side; y++ {
				sum += b.Cells[x*(*side+2)+y]
			}
		}
		heat.Give(c, uint64(m.Until), sum)
	})
}

func main() {
	flag.Parse()
	amt.Main(program)
}

func program(c amt.Context) error {
	var store amt.Store
	switch {
	case *nodes:
		store = amt.Nodes("plate")
	case *dir != "":
		store = amt.Directory(*dir)
	}
	found, err := false, error(nil)
	if store != nil {
		found, err = amt.Restore(c, store, &plate)
	}
	if err == nil && !found {
		err = plate.Create(c, amt.Index2{X: *blocks, Y: *blocks}, newBlock)
	}
	if err == nil && found && c.Rank() == 0 {
		fmt.Printf("goes on after %d steps\n", c.PhaseNumber()**every)
	}
	for err == nil && c.PhaseNumber()**every < *steps {
		err = phase(c, store, (c.PhaseNumber()+1)**every)
	}
	if err != nil {
		return err
	}
	if err := broadcast(c, &measure, *steps); err != nil {
		return err
	}
	sum, err := heat.Wait(c, uint64(*steps))
	if err == nil && c.Rank() == 0 {
		fmt.Printf("heat after %d steps: %v\n", c.PhaseNumber()**every, sum)
	}
	return err
}

// broadcast has all blocks run a method once.
func broadcast(c amt.Context, m *amt.Method[amt.Index2, Block, Goal], until int) error {
	return c.Collective("blocks", func(c amt.Context) error {
		if c.Rank() == 0 {
			m.Broadcast(c, &Goal{until})
		}
		return nil
	}).Wait(c)
}

func phase(c amt.Context, store amt.Store, until int) error {
	if err := broadcast(c, &start, until); err != nil {
		return err
	}
	if err := c.Phase(amt.Random(uint64(until))); err != nil || store == nil {
		return err
	}
	return amt.Save(c, store, &plate)
}
