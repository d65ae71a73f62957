// Package usegeom uses the helpers of another package.
package usegeom

import (
	"good/geom"

	"github.com/byssus-hpc/byssus/pup"
)

// Helpers of another package, on fields.
type Thing struct {
	at   geom.Point
	ids  []int
	u, v float64
	n    int
}

func (x *Thing) PUP(p *pup.Stream) {
	geom.Visit(p, &x.at)
	geom.Ints(p, &x.ids)
	geom.All(p, &x.u, &x.v)
	x.n = geom.Num(p, x.n)
}

// A helper method of an embedded type of another package.
type Room struct {
	geom.Box
	h float64
}

func (x *Room) PUP(p *pup.Stream) {
	x.Corners(p)
	pup.String(p, &x.Note)
	pup.Number(p, &x.h)
}

// A helper of another package as element function.
type Path struct {
	points []geom.Point
	boxes  []geom.Box
	more   []geom.Point
}

func (x *Path) PUP(p *pup.Stream) {
	pup.Slice(p, &x.points, geom.Visit)
	pup.Slice(p, &x.boxes, pup.Object)
	geom.Slice(p, &x.more, geom.Visit)
}

// A part by a helper, the rest by hand.
type Half struct{ q geom.Point }

func (x *Half) PUP(p *pup.Stream) {
	geom.VisitX(p, &x.q)
	pup.Number(p, &x.q.Y)
}

// A length through a helper.
type Lens struct{ list []string }

func (x *Lens) PUP(p *pup.Stream) {
	n := geom.Len(p, len(x.list))
	if p.Unpacking() {
		x.list = make([]string, n)
	}
	for i := range x.list {
		pup.String(p, &x.list[i])
	}
}

// A block of another package.
type Blocked struct{ h geom.Half }

func (x *Blocked) PUP(p *pup.Stream) {
	geom.HalfBlock.PUP(p, &x.h)
	pup.String(p, &x.h.S)
}
