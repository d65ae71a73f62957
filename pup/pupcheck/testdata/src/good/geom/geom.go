// Package geom has types and helpers that other packages use.
package geom

import "github.com/byssus-hpc/byssus/pup"

// Point has exported fields and no PUP.
type Point struct{ X, Y float64 }

// Visit visits a point.
func Visit(p *pup.Stream, q *Point) { // want Visit:"visits"
	pup.Number(p, &q.X)
	pup.Number(p, &q.Y)
}

// VisitX visits a part of a point.
func VisitX(p *pup.Stream, q *Point) { // want VisitX:"visits"
	pup.Number(p, &q.X)
}

// Ints visits a list with its length.
func Ints(p *pup.Stream, list *[]int) { // want Ints:"visits"
	n := len(*list)
	pup.Number(p, &n)
	if p.Unpacking() {
		*list = make([]int, n)
	}
	for i := range *list {
		pup.Number(p, &(*list)[i])
	}
}

// All visits numbers.
func All(p *pup.Stream, vs ...*float64) { // want All:"visits"
	for _, v := range vs {
		pup.Number(p, v)
	}
}

// Num visits a value.
func Num(p *pup.Stream, n int) int { // want Num:"visits"
	pup.Number(p, &n)
	return n
}

// Len visits a length.
func Len(p *pup.Stream, n int) int { // want Len:"visits"
	v := uint64(n)
	pup.Number(p, &v)
	return int(v)
}

// Box has a PUP and a helper method.
type Box struct {
	Min, Max Point
	Note     string
	hidden   int //pup:skip counts calls // want hidden:"skipped"
}

func (b *Box) PUP(p *pup.Stream) {
	b.Corners(p)
	pup.String(p, &b.Note)
}

// Corners visits the corners.
func (b *Box) Corners(p *pup.Stream) { // want Corners:"visits"
	Visit(p, &b.Min)
	Visit(p, &b.Max)
}

// Slice is a generic helper.
func Slice[E any](p *pup.Stream, list *[]E, f func(*pup.Stream, *E)) { // want Slice:"visits"
	n := len(*list)
	pup.Number(p, &n)
	if p.Unpacking() {
		*list = make([]E, n)
	}
	for i := range *list {
		f(p, &(*list)[i])
	}
}

// Half is a block.
type Half struct {
	A, B float64
	S    string
}

// HalfBlock visits the numbers of a Half.
var HalfBlock = pup.BlockOf[Half]("A", "B") // want HalfBlock:"block 2"
