// Package lib has helpers for several packages.
package lib

import "github.com/byssus-hpc/byssus/pup"

func Obj(p *pup.Stream, v pup.PUPer) { v.PUP(p) }        // want Obj:"visits"
func Any[T any](p *pup.Stream, v *T) { pup.Value(p, v) } // want Any:"visits"
func List[T any, PT interface { // want List:"visits"
	*T
	pup.PUPer
}](p *pup.Stream, l *[]T) {
	pup.Slice(p, l, func(p *pup.Stream, e *T) { PT(e).PUP(p) })
}

type Enc struct{ P *pup.Stream }

func New(p *pup.Stream) *Enc { return &Enc{p} } // want New:"visits"
func (e *Enc) Int(v *int)    { pup.Number(e.P, v) }
func (e *Enc) Two(a, b *int) { e.Int(a); e.Int(b) }

type Opt[T any] struct {
	Set bool
	V   T
}

func (o *Opt[T]) PUP(p *pup.Stream) {
	pup.Bool(p, &o.Set)
	if o.Set {
		pup.Value(p, &o.V)
	}
}
func (o *Opt[T]) Head(p *pup.Stream) { pup.Bool(p, &o.Set) } // want Head:"visits"
func When(p *pup.Stream, on bool, v *int) { // want When:"visits"
	if on {
		pup.Number(p, v)
	}
}
