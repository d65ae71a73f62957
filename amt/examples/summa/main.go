// Command summa multiplies two square matrices that are cut into blocks, the elements of a collection, by the algorithm SUMMA (van de Geijn
// and Watts, 1997): in step k the blocks of column k of the left matrix are sent along their rows, and those of row k of the right one along
// their columns, and each block adds a product to what it has. Rows and columns are sections: their members go to other ranks as soon as
// they have multiplied, and the sections stay what they are. It checks every entry.
//
//	summa [-blocks 6] [-entries 16]
package main

import (
	"flag"
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

// Line is a row or a column of blocks.
type Line = amt.Section[amt.Index2, Block]

// A Block is some of each matrix.
type Block struct {
	Left, Right, Product []float64 // by rows
	Row, Column          Line
	FromLeft, FromRight  []float64 // of this step, as far as they have come
}

// Lines are told to those that lie in them; 0: not of this message.
type Lines struct{ Row, Column Line }

// A Step has a number.
type Step struct{ Number int }

// A Panel is a block that is sent along a line.
type Panel struct{ Entries []float64 }

// A Finding is what a check has found.
type Finding struct {
	Wrong int
	Sum   float64
}

var (
	matrix amt.Collection[amt.Index2, Block]
	lies   amt.Method[amt.Index2, Block, Lines]
	step   amt.Method[amt.Index2, Block, Step]
	left   amt.Method[amt.Index2, Block, Panel]
	right  amt.Method[amt.Index2, Block, Panel]
	check  amt.Method[amt.Index2, Block, Step]
	found  amt.ElementReduction[amt.Index2, Block, Finding]

	blocks = flag.Int("blocks", 6, "in each direction")
	side   = flag.Int("entries", 16, "of a block, in each direction")
)

func init() {
	matrix.Is("matrix")
	lies.Is(&matrix, func(_ amt.At[amt.Index2], b *Block, m *Lines) {
		if m.Row.ID != 0 {
			b.Row = m.Row
		} else {
			b.Column = m.Column
		}
	})
	step.Is(&matrix, func(c amt.At[amt.Index2], b *Block, m *Step) {
		if c.Index().Y == m.Number {
			left.BroadcastTo(c.Context, b.Row, &Panel{b.Left})
		}
		if c.Index().X == m.Number {
			right.BroadcastTo(c.Context, b.Column, &Panel{b.Right})
		}
	})
	left.Is(&matrix, func(c amt.At[amt.Index2], b *Block, m *Panel) {
		b.FromLeft = m.Entries
		b.multiply(c)
	})
	right.Is(&matrix, func(c amt.At[amt.Index2], b *Block, m *Panel) {
		b.FromRight = m.Entries
		b.multiply(c)
	})
	check.Is(&matrix, func(c amt.At[amt.Index2], b *Block, _ *Step) { found.GiveTo(c, b.Row, 0, b.findings(c.Index())) })
	found.Is(&matrix, func(a, b Finding) Finding { return Finding{a.Wrong + b.Wrong, a.Sum + b.Sum} })
}

// multiply adds a product when both its factors are there, and goes elsewhere.
func (b *Block) multiply(c amt.At[amt.Index2]) {
	if b.FromLeft == nil || b.FromRight == nil {
		return
	}
	n := *side
	for i := range n {
		for k := range n {
			for j := range n {
				b.Product[i*n+j] += b.FromLeft[i*n+k] * b.FromRight[k*n+j]
			}
		}
	}
	b.FromLeft, b.FromRight = nil, nil
	c.MoveTo((c.Rank() + c.Index().X + 2*c.Index().Y) % c.Ranks())
}

// Entries of the matrices are whole numbers, so that sums are exact.
func ofLeft(row, column int) float64  { return float64((3*row + 5*column) % 7) }
func ofRight(row, column int) float64 { return float64((row + 2*column) % 11) }

func newBlock(at amt.Index2) (Block, error) {
	n := *side
	b := Block{Left: make([]float64, n*n), Right: make([]float64, n*n), Product: make([]float64, n*n)}
	for k := range n * n {
		row, column := at.X*n+k/n, at.Y*n+k%n
		b.Left[k], b.Right[k] = ofLeft(row, column), ofRight(row, column)
	}
	return b, nil
}

// findings compares a block of the product with the definition.
func (b *Block) findings(at amt.Index2) (f Finding) {
	n := *side
	for k, v := range b.Product {
		row, column, want := at.X*n+k/n, at.Y*n+k%n, 0.0
		for i := range *blocks * n {
			want += ofLeft(row, i) * ofRight(i, column)
		}
		if v != want {
			f.Wrong++
		}
		f.Sum += v
	}
	return f
}

// lines makes the sections, and has their members know of them.
func lines(c amt.Context) (rows []Line, err error) {
	var columns []Line
	for k := range *blocks {
		row, err := matrix.Section(c, fmt.Sprint("row ", k), func(i amt.Index2) bool { return i.X == k })
		if err != nil {
			return nil, err
		}
		column, err := matrix.Section(c, fmt.Sprint("column ", k), func(i amt.Index2) bool { return i.Y == k })
		if err != nil {
			return nil, err
		}
		rows, columns = append(rows, row), append(columns, column)
	}
	return rows, c.Collective("lines", func(c amt.Context) error {
		for k := range *blocks {
			if c.Rank() == 0 {
				lies.BroadcastTo(c, rows[k], &Lines{Row: rows[k]})
				lies.BroadcastTo(c, columns[k], &Lines{Column: columns[k]})
			}
		}
		return nil
	}).Wait(c)
}

// all has all blocks run a method, and waits until that, and what follows from it, is done.
func all(c amt.Context, m *amt.Method[amt.Index2, Block, Step], number int) error {
	return c.Collective("blocks", func(c amt.Context) error {
		if c.Rank() == 0 {
			m.Broadcast(c, &Step{number})
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
	rows, err := lines(c)
	if err != nil {
		return err
	}
	for k := range *blocks {
		if err := all(c, &step, k); err != nil {
			return err
		}
	}
	if err := all(c, &check, 0); err != nil {
		return err
	}
	for k, row := range rows {
		f, err := found.WaitFor(c, row, 0)
		if err != nil {
			return err
		}
		if f.Wrong > 0 {
			return fmt.Errorf("row %d of blocks: %d entries are wrong", k, f.Wrong)
		}
		if c.Rank() == 0 {
			fmt.Printf("row %d of blocks: right, sum %v\n", k, f.Sum)
		}
	}
	return nil
}
