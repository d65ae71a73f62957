package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/byssus-hpc/byssus/pup"
)

// Row is the entries of one row by column.
type Row map[int]float64

// Builder is a matrix that is being filled.
type Builder struct {
	Cols int
	Rows map[int]Row // rows without entries need not be there
	N    int         // rows
}

var _ = pup.Register[Builder]("sparse.Builder")

// PUP visits the rows in the order of their numbers, and the entries in the order of their columns.
func (b *Builder) PUP(p *pup.Stream) {
	pup.Number(p, &b.N)
	pup.Number(p, &b.Cols)
	pup.Map(p, &b.Rows, pup.Number, visitRow)
}

func visitRow(p *pup.Stream, r *Row) { pup.Map(p, r, pup.Number, pup.Number) }

// NewBuilder makes a square matrix without entries.
func NewBuilder(n int) *Builder { return &Builder{N: n, Cols: n, Rows: map[int]Row{}} }

// Add adds to an entry.
func (b *Builder) Add(row, col int, x float64) {
	if b.Rows[row] == nil {
		b.Rows[row] = Row{}
	}
	b.Rows[row][col] += x
}

// CSR packs the matrix.
func (b *Builder) CSR() *CSR {
	m := &CSR{Cols: b.Cols, Start: []int{0}}
	for i := range b.N {
		for _, col := range slices.Sorted(maps.Keys(b.Rows[i])) {
			m.Col = append(m.Col, int32(col))
			m.Val = append(m.Val, b.Rows[i][col])
		}
		m.Start = append(m.Start, len(m.Col))
	}
	return m
}

// CSR is a matrix in compressed rows: row i has the entries from Start[i] up to Start[i+1] of Col and Val.
type CSR struct {
	Cols  int
	Start []int
	Col   []int32
	Val   []float64
}

var _ = pup.Register[CSR]("sparse.CSR")

// PUP visits lengths of rows instead of Start, which is made of them.
func (m *CSR) PUP(p *pup.Stream) {
	pup.Number(p, &m.Cols)
	m.visitStart(p)
	pup.Skip(p, &m.Start, "made of the lengths of the rows")
	pup.PlainSlice(p, &m.Col)
	pup.PlainSlice(p, &m.Val)
	if p.Unpacking() {
		p.Fail(m.fault())
	}
}

// visitStart visits how many rows there are, and how many entries each has. The same lines serve all directions: only
// what is computed is computed in one of them.
func (m *CSR) visitStart(p *pup.Stream) {
	rows := m.Rows()
	pup.Length(p, &rows)
	if p.Unpacking() {
		m.Start = make([]int, rows+1)
	}
	for i := range rows {
		n := m.Start[i+1] - m.Start[i]
		pup.Length(p, &n)
		if p.Unpacking() {
			m.Start[i+1] = m.Start[i] + n
		}
	}
}

// fault says what is wrong with a matrix that was unpacked, or nil.
func (m *CSR) fault() error {
	if n := m.Start[m.Rows()]; n != len(m.Col) || n != len(m.Val) {
		return fmt.Errorf("rows with %d entries, %d columns and %d values", n, len(m.Col), len(m.Val))
	}
	for i, c := range m.Col {
		if c < 0 || int(c) >= m.Cols {
			return fmt.Errorf("entry %d is in column %d of %d", i, c, m.Cols)
		}
	}
	return nil
}

// Rows is how many rows there are.
func (m *CSR) Rows() int { return max(0, len(m.Start)-1) }

// Mul returns the product with a vector, in y if that is long enough.
func (m *CSR) Mul(y, x []float64) []float64 {
	if len(y) != m.Rows() {
		y = make([]float64, m.Rows())
	}
	for i := range y {
		sum := 0.0
		for k := m.Start[i]; k < m.Start[i+1]; k++ {
			sum += float64(m.Val[k] * x[m.Col[k]])
		}
		y[i] = sum
	}
	return y
}
