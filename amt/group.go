package amt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/byssus-hpc/byssus/amt/internal/checkpoint"
	"github.com/byssus-hpc/byssus/pup"
)

// A Group is an object on each rank, as a Local is, that is saved and restored together with collections (Save, Restore). It is a variable of
// a package, and said what it is in an init function of that package:
//
//	var state amt.Group[State]
//
//	func init() {
//		state.Is("state", func(into, other *State) { into.Count += other.Count }, func(of *State, n int) []State { ... })
//	}
//
// On as many ranks as have saved it each rank gets its own back. On fewer, neighbours are merged, in the order of ranks; on more, each is split.
type Group[T any] struct {
	local Local[T]
	name  string
	fault error
	merge func(into, other *T)
	split func(of *T, n int) []T
	moved Handler[share[T]]
}

// share is what a rank gets of one that was split.
type share[T any] struct{ Value T }

// Is names the group, and says how two objects are merged into the first, and how one is split into n: without them, nil, it cannot be restored
// on fewer ranks, or more, than have saved it. It is called once, from an init function.
func (g *Group[T]) Is(name string, merge func(into, other *T), split func(of *T, n int) []T) {
	if name == "" {
		g.fault = errors.New("it has no name")
	}
	if g.name != "" {
		g.fault = errors.New("it is said twice what it is")
	}
	if merge != nil {
		g.fault = errors.Join(g.fault, faultOf(reflect.ValueOf(merge), *(*uintptr)(unsafe.Pointer(&merge))))
	}
	if split != nil {
		g.fault = errors.Join(g.fault, faultOf(reflect.ValueOf(split), *(*uintptr)(unsafe.Pointer(&split))))
	}
	g.name, g.merge, g.split = name, merge, split
	if _, err := codecOf[T](); err != nil {
		g.fault = errors.Join(g.fault, fmt.Errorf("it cannot be saved: %w", err))
		return
	}
	g.moved.is(func(c Context, m *share[T]) { *g.local.Of(c) = m.Value }, nil)
}

// Of is the object of this rank, at first the zero value.
func (g *Group[T]) Of(c Context) *T { return g.local.Of(c) }

func (g *Group[T]) named() string { return g.name }

func (g *Group[T]) forget(*rank) {} // it is changed when all is there

// checked is why the group cannot be used.
func (g *Group[T]) checked() error {
	switch {
	case g.name == "":
		return fmt.Errorf("a group: %w", errUndeclared)
	case g.fault != nil:
		return fmt.Errorf("the group %q: %w", g.name, g.fault)
	}
	return nil
}

// schemaOf is that of a type, which a checkpoint must have.
func schemaOf[T any]() (string, *pup.Codec[T], error) {
	codec, err := pup.CodecOf[T]()
	if err != nil {
		return "", nil, err
	}
	return hex.EncodeToString(codec.Schema()), codec, nil
}

// groupPart is a rank's part of a group that is saved, or restored.
type groupPart[T any] struct {
	*Group[T]
	r      *rank
	codec  *pup.Codec[T]
	schema string
	n      int          // ranks that have saved it
	parts  map[uint64]T // of these, those that belong here
}

func (g *Group[T]) part(r *rank) (*groupPart[T], error) {
	if err := g.checked(); err != nil {
		return nil, err
	}
	schema, codec, err := schemaOf[T]()
	return &groupPart[T]{g, r, codec, schema, r.ranks, map[uint64]T{}}, err
}

func (g *Group[T]) saver(r *rank) (saver, error) { return g.part(r) }

func (p *groupPart[T]) elementsOfAll() uint64 { return uint64(p.r.ranks) }

func (p *groupPart[T]) describe() (checkpoint.Collection, error) {
	extent, err := pup.Marshal(&Index1{p.r.ranks})
	return checkpoint.Collection{Name: p.name, Schema: p.schema, Extent: extent}, err
}

func (p *groupPart[T]) save(add func(number uint64, b []byte) error) error {
	v, _ := p.r.locals.LoadOrStore(&p.local, new(T))
	b, err := p.codec.Append(nil, v.(*T))
	if err != nil {
		return fmt.Errorf("the group %q: %w", p.name, err)
	}
	return add(uint64(p.r.self), b)
}

func (g *Group[T]) restorer(r *rank, in *checkpoint.Collection) (restorer, error) {
	p, err := g.part(r)
	if err != nil {
		return nil, err
	}
	var extent Index1
	if p.schema != in.Schema {
		return nil, fmt.Errorf("the group %q has another schema: found %s, wanted %s: the type has changed, or it is another program's", in.Name, in.Schema, p.schema)
	}
	if err := pup.Unmarshal(bytes.Clone(in.Extent), &extent); err != nil {
		return nil, fmt.Errorf("the group %q: its extent: %w", in.Name, err)
	}
	switch p.n = extent.X; {
	case p.n < 1:
		return nil, fmt.Errorf("the group %q: %w: it was saved on %d ranks", in.Name, checkpoint.ErrDamaged, p.n)
	case p.n > r.ranks && p.merge == nil:
		return nil, fmt.Errorf("the group %q was saved on %d ranks, here are %d: it is not said how it is merged", in.Name, p.n, r.ranks)
	case p.n < r.ranks && p.split == nil:
		return nil, fmt.Errorf("the group %q was saved on %d ranks, here are %d: it is not said how it is split", in.Name, p.n, r.ranks)
	}
	return p, nil
}

// homeOf is the rank that merges a part, or splits it: the first of those that get something of it.
func (p *groupPart[T]) homeOf(number uint64) (int, bool) {
	if number >= uint64(p.n) {
		return 0, false
	}
	at := int(number) * p.r.ranks
	if p.n < p.r.ranks {
		at += p.n - 1
	}
	return at / p.n, true
}

func (p *groupPart[T]) restore(number uint64, b []byte) error {
	var value T
	if err := p.codec.Unmarshal(b, &value); err != nil {
		return fmt.Errorf("the group %q: that of rank %d: %w", p.name, number, err)
	}
	p.parts[number] = value
	return nil
}

func (p *groupPart[T]) missing() string {
	for n := range uint64(p.n) {
		if home, _ := p.homeOf(n); home == p.r.self {
			if _, ok := p.parts[n]; !ok {
				return fmt.Sprintf("the group %q: that of rank %d is not there", p.name, n)
			}
		}
	}
	return ""
}

func (p *groupPart[T]) count() uint64 { return uint64(len(p.parts)) }

// finish merges and splits, when all parts are there.
func (p *groupPart[T]) finish(c Context) error {
	return c.Collective("restore the group "+p.name, func(c Context) error {
		first := true
		for n := range uint64(p.n) { // in the order of ranks
			value, ok := p.parts[n]
			switch {
			case !ok:
			case p.n < p.r.ranks:
				if err := p.spread(c, n, value); err != nil {
					return err
				}
			case first:
				*p.local.Of(c), first = value, false
			default:
				p.merge(p.local.Of(c), &value)
			}
		}
		return nil
	}).Wait(c)
}

// spread splits a part over the ranks that get something of it.
func (p *groupPart[T]) spread(c Context, number uint64, value T) error {
	next := p.r.ranks
	if number+1 < uint64(p.n) {
		next, _ = p.homeOf(number + 1)
	}
	n := next - p.r.self
	all := []T{value}
	if n > 1 {
		all = p.split(&value, n)
	}
	if len(all) != n {
		return fmt.Errorf("the group %q: that of rank %d is to be split into %d, and was into %d", p.name, number, n, len(all))
	}
	for i := range all {
		p.moved.Send(c, p.r.self+i, &share[T]{all[i]})
	}
	return nil
}
