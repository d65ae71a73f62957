package amt

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

// A Reduction combines a value of every rank into one. It is a variable of a package, and said what it is in an init function
// of that package, as a Handler is.
type Reduction[T any] struct {
	op   func(a, b T) T
	up   Handler[part[T]]
	down Handler[part[T]]

	label string
}

// A part is the value of some ranks together.
type part[T any] struct{ Value T }

// reducing is what a rank has of one reduction.
type reducing[T any] struct {
	of     *Reduction[T]
	values []T // this rank's and those of the ranks below it
	has    []bool
	left   int
	result T
}

// Is says how two values are combined. It need not be commutative: values are combined in the order of the ranks, as MPI does, a
// with those that come after it; in groups that depend on the number of ranks alone, so that results repeat to the last bit.
func (d *Reduction[T]) Is(op func(a, b T) T) {
	fault := faultOf(reflect.ValueOf(op), *(*uintptr)(unsafe.Pointer(&op)))
	d.op = op
	d.up.is(func(c Context, m *part[T]) {
		place := slices.Index(c.f.r.below, c.f.from)
		if place >= 0 {
			place++
		}
		d.give(c, place, m.Value)
	}, fault)
	d.down.is(func(c Context, m *part[T]) { d.spread(c, m) }, fault)
	e := d.up.entry
	d.label = fmt.Sprintf("the reduction of %v declared in %s (%s)", reflect.TypeFor[T](), e.caller, e.at)
	if e.ordinal > 0 {
		d.label += fmt.Sprintf(", number %d there", e.ordinal+1)
	}
}

// All combines a value of every rank; all main functions call it, in the same order, and all get the result.
func (d *Reduction[T]) All(c Context, value T) (T, error) {
	var result T
	f := c.own()
	if d.up.entry == nil {
		return result, fmt.Errorf("amt: rank %d: a reduction: %w", f.r.self, errUndeclared)
	}
	var of *reducing[T]
	var id uint64
	err := c.Collective(d.label, func(c Context) error {
		id = c.f.ep.id
		of = d.state(c)
		d.give(c, 0, value)
		return nil
	}).Wait(c)
	if id != 0 { // it was begun
		delete(f.r.epochs.reductions, id)
	}
	if err == nil && of == nil {
		err = errors.New("amt: a reduction was not begun")
	}
	if err == nil {
		result = of.result
	}
	return result, err
}

// state is what this rank has of the reduction of the context's epoch; nil: that is another one, which the epoch fails for.
func (d *Reduction[T]) state(c Context) *reducing[T] {
	r, id := c.f.r, c.f.ep.id
	if known := r.epochs.reductions[id]; known != nil {
		if s, ok := known.(*reducing[T]); ok && s.of == d {
			return s
		}
		c.Fail(fmt.Errorf("amt: rank %d: ranks reduce in different orders: what others give to that of %v is for another one here", r.self, d.up.entry))
		return nil
	}
	n := 1 + len(r.below)
	s := &reducing[T]{of: d, values: make([]T, n), has: make([]bool, n), left: n}
	r.epochs.reductions[id] = s
	return s
}

// give adds the value of a place; when all are there they go up together, or on the root down again.
func (d *Reduction[T]) give(c Context, place int, value T) {
	s := d.state(c)
	if s == nil {
		return
	}
	if place < 0 || place >= len(s.has) || s.has[place] {
		c.Fail(fmt.Errorf("amt: rank %d: a reduction is given a value twice, or by a rank that is not below it", c.f.r.self))
		return
	}
	s.values[place], s.has[place] = value, true
	if s.left--; s.left > 0 {
		return
	}
	all := s.values[0]
	for _, v := range s.values[1:] {
		all = d.op(all, v)
	}
	if above := c.f.r.above; above >= 0 {
		d.up.Send(c, above, &part[T]{all})
		return
	}
	d.spread(c, &part[T]{all})
}

// spread takes the result, and tells the ranks below.
func (d *Reduction[T]) spread(c Context, m *part[T]) {
	s := d.state(c)
	if s == nil {
		return
	}
	s.result = m.Value
	for _, child := range c.f.r.below {
		d.down.Send(c, child, m)
	}
}
