// Package versions has correct types whose schema has changed.
package versions

import (
	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/gen"
)

var (
	_ = pup.Register[Registered]("v.Registered", pup.SchemaVersion(3), pup.Added("B", 2))
	_ = pup.Register[Widened]("v.Widened", pup.SchemaVersion(2))
	_ = pup.Register[Made]("v.Made", pup.Construct(func() Made { return Made{in: new(Registered)} }))
)

// Fields that came later.
type Registered struct{ A, B, C int }

func (x *Registered) PUP(p *pup.Stream) {
	v := pup.Version[Registered](p)
	pup.Number(p, &x.A)
	if v >= 2 {
		pup.Number(p, &x.B)
	}
	if v < 3 {
		if p.Unpacking() {
			x.C = x.A + x.B
		}
		return
	}
	pup.Number(p, &x.C)
}

// A field that was narrower.
type Widened struct{ W float64 }

func (x *Widened) PUP(p *pup.Stream) {
	if p.Unpacking() && pup.Version[Widened](p) < 2 {
		var w float32
		pup.Number(p, &w)
		x.W = float64(w)
	} else {
		pup.Number(p, &x.W)
	}
}

// The order has changed between versions.
type Reordered struct{ a, b int }

func (x *Reordered) PUP(p *pup.Stream) {
	switch v := pup.Version[Reordered](p); {
	case v == 1:
		pup.Number(p, &x.b)
		pup.Number(p, &x.a)
	default:
		pup.Number(p, &x.a)
		pup.Number(p, &x.b)
	}
}

// A removed field is read and dropped.
type Removed struct{ a int }

func (x *Removed) PUP(p *pup.Stream) {
	v := pup.Version[Removed](p)
	pup.Number(p, &x.a)
	if v <= 2 {
		var gone string
		pup.String(p, &gone)
	}
}

// Separate tests exclude each other.
type Tests struct{ n int }

func (x *Tests) PUP(p *pup.Stream) {
	v := pup.Version[Tests](p)
	if v < 2 {
		pup.Number(p, &x.n)
	}
	if v >= 2 {
		pup.Number(p, &x.n)
	}
}

// A list of versions.
type Listed struct{ a, b, c int }

func (x *Listed) PUP(p *pup.Stream) {
	switch pup.Version[Listed](p) {
	case 1:
		pup.Number(p, &x.a)
	case 2:
		pup.Number(p, &x.a)
		pup.Number(p, &x.b)
	case 3:
		pup.Number(p, &x.a)
		pup.Number(p, &x.b)
		pup.Number(p, &x.c)
	}
}

// Generated code.
type Generated struct{ a, b int }

func (x *Generated) PUP(p *pup.Stream) {
	if gen.Old(p, x) {
		return
	}
	pup.Number(p, &x.a)
	pup.Number(p, &x.b)
}

// A constructor makes what is visited.
type Made struct{ in *Registered }

func (x *Made) PUP(p *pup.Stream) { x.in.PUP(p) }

// The version is passed on.
type Passed struct{ a, b int }

func (x *Passed) PUP(p *pup.Stream) { x.pup(p, pup.Version[Passed](p)) }

func (x *Passed) pup(p *pup.Stream, version int) {
	pup.Number(p, &x.a)
	if version > 1 {
		pup.Number(p, &x.b)
	}
}
