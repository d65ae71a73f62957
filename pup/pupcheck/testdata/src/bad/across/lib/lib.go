// Package lib has helpers that another package uses wrongly.
package lib

import "github.com/byssus-hpc/byssus/pup"

type Vec struct{ X, Y, Z float64 }

// XY visits two of three fields.
func XY(p *pup.Stream, v *Vec) { // want XY:"visits"
	pup.Number(p, &v.X)
	pup.Number(p, &v.Y)
}

// Save and Load do not agree.
func Save(p *pup.Stream, v *Vec) { // want Save:"visits"
	pup.Plain(p, v)
}

func Load(p *pup.Stream, v *Vec) { // want Load:"visits"
	pup.Number(p, &v.X)
	pup.Number(p, &v.Y)
	pup.Number(p, &v.Z)
}

// Maybe visits Y only if X is set, which it does not visit.
func Maybe(p *pup.Stream, v *Vec) { // want Maybe:"visits"
	if v.X != 0 {
		pup.Number(p, &v.Y)
	}
}

// Elems visits elements, without their number.
func Elems(p *pup.Stream, list []int) { // want Elems:"visits"
	for i := range list {
		pup.Number(p, &list[i])
	}
}

// Plain is for types without pointers.
func Plain[T any](p *pup.Stream, v *T) { // want Plain:"visits"
	pup.Plain(p, v)
}

// Copy visits a copy.
func Copy(p *pup.Stream, v int) { // want Copy:"visits"
	pup.Number(p, &v)
}

// Base is embedded elsewhere.
type Base struct{ N, M int }

func (b *Base) PUP(p *pup.Stream) {
	b.Numbers(p)
	pup.Number(p, &b.M)
}

// Numbers visits a part.
func (b *Base) Numbers(p *pup.Stream) { // want Numbers:"visits"
	pup.Number(p, &b.N)
}

// Pair has a block for a part of it.
type Pair struct {
	A, B float64
	C    float64
}

var Block = pup.BlockOf[Pair]("A", "B") // want Block:"block 2"
