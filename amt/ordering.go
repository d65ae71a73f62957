package amt

import (
	"cmp"
	"errors"
	"slices"
)

// changing is what the runtime needs of a rank's part of any collection for which elements are inserted and deleted.
type changing interface {
	changed() changes
	counted(all changes) error
	elementsOfAll() uint64 // ranks
	summed() bool          // there are reductions over its elements
	span() uint64          // of numbers of indices
	keys() []uint64
	place(key, ordinal uint64) bool
	placed()
}

// keys lists the numbers of the elements here, in order.
func (m *members[I, T]) keys() []uint64 {
	var all []uint64
	for _, e := range m.elements.inOrder() {
		all = append(all, e.key)
	}
	return all
}

func (m *members[I, T]) span() uint64 { return m.indices }

func (m *members[I, T]) summed() bool { return m.of.sums > 0 }

// place gives an element its place in the order of indices; false: it is not here.
func (m *members[I, T]) place(key, ordinal uint64) bool {
	e := m.elements.find(key)
	if e == nil {
		return false
	}
	if m.elements.kinds > 0 {
		m.elements.order(e, ordinal)
	}
	return true
}

// placed says that all elements have their places.
func (m *members[I, T]) placed() { m.unplaced = false }

// keyed are elements of a collection on a rank, and the places that they have in the order of indices.
type keyed struct {
	Collection int
	Keys       []uint64
	Ordinals   []uint64
}

// An ordering is what a rank knows of the elements whose places it gives: those of a range of indices, of each collection.
type ordering struct {
	from []int // ranks
	keys []keyed
}

var (
	toBeOrdered Handler[keyed]
	inOrder     Handler[keyed]
	counts      Reduction[[]uint64]
)

func init() {
	toBeOrdered.Is(func(c Context, m *keyed) {
		o := &c.f.r.population.ordering
		o.from, o.keys = append(o.from, c.From()), append(o.keys, *m)
	})
	inOrder.Is(func(c Context, m *keyed) {
		part := c.f.r.collections[m.Collection]
		for i, key := range m.Keys {
			if part == nil || !part.place(key, m.Ordinals[i]) {
				c.Fail(errOnTheirWay)
				return
			}
		}
	})
	counts.Is(func(a, b []uint64) []uint64 { return append(a, b...) })
}

var errOnTheirWay = errors.New("amt: elements are on their way while they are given their places in the order of indices: modify when what was begun is over")

// order gives the elements of some collections, over which there are reductions, their places in the order of indices. Each rank does so for
// those of a range of indices, wherever they are; ranks tell each other how many these are.
func (c Context) order(list []int) error {
	r := c.f.r
	list = slices.DeleteFunc(list, func(i int) bool { return !r.collections[i].summed() })
	if len(list) == 0 {
		return nil
	}
	err := c.Collective("tell who orders elements", func(c Context) error {
		for _, i := range list {
			part := r.collections[i]
			owner, keys := blocks(part.span(), r.ranks), part.keys()
			for n := 0; n < len(keys); {
				to, first := owner(keys[n]), n
				for ; n < len(keys) && owner(keys[n]) == to; n++ {
				}
				toBeOrdered.Send(c, to, &keyed{Collection: i, Keys: keys[first:n]})
			}
		}
		return nil
	}).Wait(c)
	o := r.population.ordering
	r.population.ordering = ordering{}
	own := make([]uint64, len(list))
	for k, i := range list {
		own[k] = o.count(i)
	}
	all, err2 := counts.All(c, own)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	err = c.Collective("order elements", func(c Context) error {
		for k, i := range list {
			before, total := uint64(0), uint64(0)
			for rank := range r.ranks {
				n := all[rank*len(list)+k]
				if total += n; rank < r.self {
					before += n
				}
			}
			if total != r.collections[i].elementsOfAll() || !o.number(i, before) {
				return errOnTheirWay
			}
		}
		for k := range o.keys {
			inOrder.Send(c, o.from[k], &o.keys[k])
		}
		return nil
	}).Wait(c)
	if err == nil {
		for _, i := range list {
			r.collections[i].placed()
		}
	}
	return err
}

// count is how many elements of a collection it is that the rank orders.
func (o *ordering) count(collection int) (n uint64) {
	for _, k := range o.keys {
		if k.Collection == collection {
			n += uint64(len(k.Keys))
		}
	}
	return n
}

// number gives the elements of a collection their places, the first one that after so many; false: one is there twice.
func (o *ordering) number(collection int, before uint64) bool {
	type at struct {
		key  uint64
		k, i int
	}
	var all []at
	for k := range o.keys {
		if o.keys[k].Collection != collection {
			continue
		}
		o.keys[k].Ordinals = make([]uint64, len(o.keys[k].Keys))
		for i, key := range o.keys[k].Keys {
			all = append(all, at{key, k, i})
		}
	}
	slices.SortFunc(all, func(a, b at) int { return cmp.Compare(a.key, b.key) })
	for n, a := range all {
		if n > 0 && all[n-1].key == a.key {
			return false
		}
		o.keys[a.k].Ordinals[a.i] = before + uint64(n)
	}
	return true
}
