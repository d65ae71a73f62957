// Command chain spreads heat around a ring of blocks, in phases that are epochs. Each phase comes after the one before, but main
// functions do not wait between: they have begun all of them when the first still runs. The result is compared with that of a
// computation without messages, and is the same on any number of ranks. It runs on goroutines, or under the mpirun of MPICH or of
// Open MPI:
//
//	go run ./amt/examples/chain
//	go build -o chain ./amt/examples/chain && mpirun -n 2 ./chain
package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/byssus-hpc/byssus/amt"
)

const (
	blocks = 8 // block n is on rank n modulo the number of ranks
	width  = 16
	phases = 60
)

type field [blocks * width]float64

// A block is a part of the ring.
type block struct {
	cells [width]float64
	sides [2]float64 // the cells beside it
	have  int        // of the three things that a phase takes: the block's turn, and both sides
}

type (
	turn struct{ Block int } // in a phase
	side struct {            // for a block, from the one beside it
		Block, Side int
		Value       float64
	}
	piece struct { // a block's cells, when all is done
		Block int
		Cells [width]float64
	}
)

var (
	begin amt.Handler[turn]
	meet  amt.Handler[side]
	home  amt.Handler[piece]
	own   amt.Local[[blocks]block]
	whole amt.Local[field] // on rank 0, in the end
)

func init() {
	begin.Is(func(c amt.Context, m *turn) {
		b, left, right := &own.Of(c)[m.Block], (m.Block+blocks-1)%blocks, (m.Block+1)%blocks
		meet.Send(c, left%c.Ranks(), &side{left, 1, b.cells[0]})
		meet.Send(c, right%c.Ranks(), &side{right, 0, b.cells[width-1]})
		b.got()
	})
	meet.Is(func(c amt.Context, m *side) {
		b := &own.Of(c)[m.Block]
		b.sides[m.Side] = m.Value
		b.got()
	})
	home.Is(func(c amt.Context, m *piece) { copy(whole.Of(c)[m.Block*width:], m.Cells[:]) })
}

// got is called three times in a phase, in any order: sides may come before the block's turn.
func (b *block) got() {
	if b.have++; b.have == 3 {
		b.have = 0
		spread(b.cells[:], b.sides[0], b.sides[1])
	}
}

// spread is a phase for some cells between two others.
func spread(cells []float64, left, right float64) {
	for i, v := range cells {
		next := right
		if i+1 < len(cells) {
			next = cells[i+1]
		}
		cells[i], left = (left+2*v+next)/4, v
	}
}

func program(c amt.Context) error {
	var want field
	for i := range want {
		want[i] = float64(i * i % 97)
		own.Of(c)[i/width].cells[i%width] = want[i]
	}
	err := c.Collective("all phases", func(c amt.Context) error {
		var after []amt.EpochOption
		var last *amt.Epoch
		for n := range phases {
			last = c.Collective(fmt.Sprint("phase ", n), func(c amt.Context) error {
				for n := c.Rank(); n < blocks; n += c.Ranks() {
					begin.Send(c, c.Rank(), &turn{n})
				}
				return nil
			}, after...)
			after = []amt.EpochOption{amt.After(last)}
		}
		last.OnDone(c, func(c amt.Context) {
			for n := c.Rank(); n < blocks; n += c.Ranks() {
				home.Send(c, 0, &piece{n, own.Of(c)[n].cells})
			}
		})
		return nil
	}).Wait(c)
	if err != nil || c.Rank() != 0 {
		return err
	}
	sum := uint64(0)
	for range phases {
		spread(want[:], want[len(want)-1], want[0])
	}
	for _, v := range whole.Of(c) {
		sum = 31*sum + math.Float64bits(v)
	}
	fmt.Printf("%d phases of %d cells, checksum %016x\n", phases, len(want), sum)
	if *whole.Of(c) != want {
		return errors.New("the computation without messages has another result")
	}
	return nil
}

func main() { amt.Main(program) }
