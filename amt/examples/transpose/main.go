// Command transpose transposes a square matrix that is cut into blocks, the elements of a collection: each block sends what it has to the
// one on the other side of the diagonal. Many go to another rank as soon as they have sent, while what is for them is on its way. It checks
// every entry after each transposition.
//
//	transpose [-blocks 8] [-entries 32] [-times 5]
package main

import (
	"flag"
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

// A Block is some of the matrix.
type Block struct {
	Entries []float64 // by rows
	Sent    bool      // in this transposition
	Come    []float64 // what is to be its entries
}

// A Part is what a block is to have.
type Part struct{ Entries []float64 }

// A Round is a transposition.
type Round struct{ Number int }

// A Finding is what a check has found.
type Finding struct {
	Wrong int
	Sum   float64
}

var (
	matrix amt.Collection[amt.Index2, Block]
	begin  amt.Method[amt.Index2, Block, Round]
	part   amt.Method[amt.Index2, Block, Part]
	check  amt.Method[amt.Index2, Block, Round]
	found  amt.ElementReduction[amt.Index2, Block, Finding]

	blocks = flag.Int("blocks", 8, "in each direction")
	side   = flag.Int("entries", 32, "of a block, in each direction")
	times  = flag.Int("times", 5, "how often it is transposed")
)

func init() {
	matrix.Is("matrix")
	begin.Is(&matrix, func(c amt.At[amt.Index2], b *Block, m *Round) {
		i := c.Index()
		part.Send(c.Context, amt.Index2{X: i.Y, Y: i.X}, &Part{b.transposed()})
		b.Sent = true
		b.exchange()
		if (i.X+2*i.Y+m.Number)%3 > 0 {
			c.MoveTo((i.X*7 + i.Y*3 + m.Number) % c.Ranks())
		}
	})
	part.Is(&matrix, func(_ amt.At[amt.Index2], b *Block, m *Part) {
		b.Come = m.Entries
		b.exchange()
	})
	check.Is(&matrix, func(c amt.At[amt.Index2], b *Block, m *Round) {
		var f Finding
		for k, v := range b.Entries {
			row, column := c.Index().X**side + k / *side, c.Index().Y**side+k%*side
			if m.Number%2 > 0 {
				row, column = column, row
			}
			if v != entry(row, column) {
				f.Wrong++
			}
			f.Sum += v * float64(k+1)
		}
		found.Give(c, uint64(m.Number), f)
	})
	found.Is(&matrix, func(a, b Finding) Finding { return Finding{a.Wrong + b.Wrong, a.Sum + b.Sum} })
}

// entry is what the matrix has at first.
func entry(row, column int) float64 { return float64(row) + 1/float64(column+1) }

func newBlock(i amt.Index2) (Block, error) {
	b := Block{Entries: make([]float64, *side**side)}
	for k := range b.Entries {
		b.Entries[k] = entry(i.X**side + k / *side, i.Y**side+k%*side)
	}
	return b, nil
}

func (b *Block) transposed() []float64 {
	t := make([]float64, len(b.Entries))
	for k, v := range b.Entries {
		t[k%*side**side + k / *side] = v
	}
	return t
}

// exchange has a block be what has come, once it has sent what it was: either may be first.
func (b *Block) exchange() {
	if b.Sent && b.Come != nil {
		b.Entries, b.Sent, b.Come = b.Come, false, nil
	}
}

// all has all blocks run a method, and waits until that, and what follows from it, is done.
func all(c amt.Context, m *amt.Method[amt.Index2, Block, Round], number int) error {
	return c.Collective("blocks", func(c amt.Context) error {
		if c.Rank() == 0 {
			m.Broadcast(c, &Round{number})
		}
		return nil
	}).Wait(c)
}

func main() {
	flag.Parse()
	amt.Main(program)
}

func program(c amt.Context) error {
	if err := matrix.Create(c, amt.Index2{X: *blocks, Y: *blocks}, newBlock); err != nil {
		return err
	}
	for number := 1; number <= *times; number++ {
		if err := all(c, &begin, number); err != nil {
			return err
		}
		if err := all(c, &check, number); err != nil {
			return err
		}
		f, err := found.Wait(c, uint64(number))
		if err != nil {
			return err
		}
		if f.Wrong > 0 {
			return fmt.Errorf("transposition %d: %d entries are wrong", number, f.Wrong)
		}
		if c.Rank() == 0 {
			fmt.Printf("transposition %d of %d x %d: right, checksum %v\n", number, *blocks**side, *blocks**side, f.Sum)
		}
		if err := c.Phase(amt.Random(uint64(number))); err != nil {
			return err
		}
	}
	return nil
}
