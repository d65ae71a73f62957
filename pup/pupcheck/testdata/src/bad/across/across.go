// Package across has faults that show only with knowledge of another package.
package across

import (
	"bad/across/lib"

	"github.com/byssus-hpc/byssus/pup"
)

// The helper visits a part only.
type Part struct{ v lib.Vec }

func (x *Part) PUP(p *pup.Stream) { // want `x.v.Z is not visited`
	lib.XY(p, &x.v)
}

// The helper as element function visits a part only.
type Elem struct{ vs []lib.Vec }

func (x *Elem) PUP(p *pup.Stream) { // want `x.vs\[...\].Z is not visited`
	pup.Slice(p, &x.vs, lib.XY)
}

// The helper and the field.
type Twice struct{ v lib.Vec }

func (x *Twice) PUP(p *pup.Stream) {
	lib.XY(p, &x.v)
	pup.Number(p, &x.v.Z)
	pup.Number(p, &x.v.X) // want `x.v.X is visited twice`
}

// Two helpers that do not agree.
type Disagree struct{ v lib.Vec }

func (x *Disagree) PUP(p *pup.Stream) {
	if p.Unpacking() {
		lib.Load(p, &x.v) // want `packing and unpacking differ`
	} else {
		lib.Save(p, &x.v)
	}
}

// The helper's condition is not known yet.
type Unset struct{ v lib.Vec }

func (x *Unset) PUP(p *pup.Stream) {
	lib.Maybe(p, &x.v) // want `the condition depends on x.v.X`
	pup.Number(p, &x.v.X)
	pup.Number(p, &x.v.Z)
}

// The helper's loop has no length.
type NoLength struct{ list []int }

func (x *NoLength) PUP(p *pup.Stream) {
	lib.Elems(p, x.list) // want `x.list`
}

// The helper copies pointers.
type Pointers struct{ s string }

func (x *Pointers) PUP(p *pup.Stream) {
	lib.Plain(p, &x.s) // want `pup.Plain copies the memory of string`
}

// The helper visits a copy.
type Copied struct{ n int }

func (x *Copied) PUP(p *pup.Stream) { // want `x.n is packed, but not assigned`
	lib.Copy(p, x.n)
}

// The embedded type's helper visits a part.
type Embedded struct {
	lib.Base
	k int
}

func (x *Embedded) PUP(p *pup.Stream) { // want `x.Base.M is not visited`
	x.Numbers(p)
	pup.Number(p, &x.k)
}

// PUP is inherited from another package.
type Inherited struct { // want `Inherited has its PUP from the embedded Base, which does not visit k`
	lib.Base
	k int
}

// A block of another package.
type Blocked struct{ pair lib.Pair }

func (x *Blocked) PUP(p *pup.Stream) { // want `x.pair.C is not visited`
	lib.Block.PUP(p, &x.pair)
}

// A type of another package, field by field.
type Fields struct{ v lib.Vec }

func (x *Fields) PUP(p *pup.Stream) { // want `x.v.Y is not visited`
	pup.Number(p, &x.v.X)
	pup.Number(p, &x.v.Z)
}
