// Package comments has directives and tags that are wrong.
package comments

import "github.com/byssus-hpc/byssus/pup"

// No reason.
type noReason struct {
	a int
	// want +1 `//pup:skip without a reason`
	b int //pup:skip
}

func (x *noReason) PUP(p *pup.Stream) { pup.Number(p, &x.a) }

// No reason, above the field.
type above struct {
	a int
	// want +1 `//pup:skip without a reason`
	//pup:skip
	b int
}

func (x *above) PUP(p *pup.Stream) { pup.Number(p, &x.a) }

// No reason in the tag.
type tagged struct {
	a int
	b int `pup:"-"`            // want `tag pup:"-" without a reason`
	c int `json:"c" pup:"-, "` // want `tag pup:"-" without a reason`
}

func (x *tagged) PUP(p *pup.Stream) { pup.Number(p, &x.a) }

// No reason in the call.
type called struct {
	a int
	b int
	c int
}

const none = ""

func (x *called) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.Skip(p, &x.b, "")   // want `pup.Skip without a reason`
	pup.Skip(p, &x.c, none) // want `pup.Skip without a reason`
}

// Skipped and visited.
type visited struct {
	a int
	// want +1 `x.b is declared as skipped, but PUP visits it`
	b int //pup:skip made again
	c int `pup:"-,made again"` // want `x.c is declared as skipped, but PUP visits it`
	d int // want `x.d is given to pup.Skip, but PUP visits it`
}

func (x *visited) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.Number(p, &x.b)
	pup.Number(p, &x.c)
	pup.Number(p, &x.d)
	pup.Skip(p, &x.d, "made again")
}

// Skipped, and visited through a copy.
type copied struct {
	// want +1 `x.b is declared as skipped, but PUP visits it`
	b int //pup:skip made again
}

func (x *copied) PUP(p *pup.Stream) {
	v := x.b
	pup.Number(p, &v)
	x.b = v
}

// At a type.
//
// want +2 `//pup:skip stands at no field of a struct`
//
//pup:skip not needed
type typed struct{ a int }

func (x *typed) PUP(p *pup.Stream) {
	// want +1 `//pup:skip stands at no field of a struct`
	//pup:skip here neither
	pup.Number(p, &x.a)
}

// At a method of an interface.
type iface interface {
	// want +1 `//pup:skip stands at no field of a struct`
	M() //pup:skip no field
}

// Unknown words.
type unknown struct {
	a int
	// want +1 `unknown directive //pup:ignore`
	b int //pup:ignore scratch
	// want +1 `unknown directive //pup:Skip`
	c int //pup:Skip scratch
	// want +1 `unknown directive //pup:skipped`
	d int //pup:skipped scratch
}

func (x *unknown) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.Number(p, &x.b)
	pup.Number(p, &x.c)
	pup.Number(p, &x.d)
}

// A blank makes it an ordinary comment.
type blank struct {
	a int
	// want +1 `a directive has no blank after //: //pup:skip`
	b int // pup:skip scratch
}

func (x *blank) PUP(p *pup.Stream) { // want `x.b is not visited`
	pup.Number(p, &x.a)
}

// Known ones.
//
//pup:generate
type generated struct{ a int }

//pup:version 2
type versioned struct{ a int }

// In an anonymous struct.
type nested struct {
	in struct {
		a int
		// want +1 `//pup:skip without a reason`
		b int //pup:skip
	}
}

func (x *nested) PUP(p *pup.Stream) { pup.Number(p, &x.in.a) }
