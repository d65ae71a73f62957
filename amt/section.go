package amt

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// A Section is some elements of a collection, a row of blocks, say, which broadcasts (Method.BroadcastTo) and reductions
// (ElementReduction.GiveTo, WaitFor) may be for. It is made of elements, not of ranks: its members migrate as all others do, and may be
// members of others too. It is plain data, the same on all ranks: messages may carry it, and elements keep it. It is good in the run in
// which it was made, until elements of the collection are inserted or deleted (Modify), or it is freed; whatever is asked of it then is an
// error. It is not saved: one that an element has kept is of no use after Restore.
//
// What it costs: 8 bytes for each member on every rank. A broadcast goes to all ranks, those too without members, and each looks at all
// elements of the collection that it has.
type Section[I Index[I], T any] struct {
	ID uint64 // there for package pup
}

// A section is what a rank knows of one; all know the same.
type section struct {
	label string
	keys  []uint64 // the numbers of its members, in order
}

// place is that of an element among the members; ok is false if it is none.
func (s *section) place(key uint64) (place uint64, ok bool) {
	at, ok := slices.BinarySearch(s.keys, key)
	return uint64(at), ok
}

// A roster is what some ranks, or all, know of the members of a section that is being made.
type roster struct {
	ID       uint64 // from rank 0
	Elements uint64 // that were asked
	Keys     []uint64
	Wrong    string // the first error
}

var rosters Reduction[roster]

func init() {
	rosters.Is(func(a, b roster) roster {
		return roster{a.ID, a.Elements + b.Elements, append(a.Keys, b.Keys...), cmp.Or(a.Wrong, b.Wrong)}
	})
}

// Section makes a section of those elements for whose indices a function returns true; all main functions call it, when what they have begun
// is over. The function is called on the rank where an element is, and need not be the same on all. A section may be empty.
func (k *Collection[I, T]) Section(c Context, label string, member func(i I) bool) (s Section[I, T], err error) {
	r := c.own().r
	if k.entry == nil {
		return s, fmt.Errorf("amt: rank %d: a collection: %w", r.self, errUndeclared)
	}
	m := k.members(r)
	all, err := rosters.All(c, rosterOf(m, r, member))
	switch {
	case err == nil && all.Wrong != "":
		err = errors.New(all.Wrong)
	case err == nil && all.Elements != m.all:
		err = fmt.Errorf("found %d elements, wanted %d: some are on their way, make it when what was begun is over", all.Elements, m.all)
	}
	if err != nil {
		return s, fmt.Errorf("amt: rank %d: the section %q of %v: %w", r.self, label, k.entry, err)
	}
	slices.Sort(all.Keys)
	return Section[I, T]{all.ID}, c.Collective(fmt.Sprintf("make the section %q of %v", label, k.entry.name), func(Context) error {
		if m.sections == nil { // no rank uses it before all have made it
			m.sections = map[uint64]*section{}
		}
		m.sections[all.ID] = &section{label, all.Keys}
		return nil
	}).Wait(c)
}

// rosterOf is what this rank knows of the members of a section; nil has none.
func rosterOf[I Index[I], T any](m *members[I, T], r *rank, member func(i I) bool) (own roster) {
	if m == nil {
		return roster{Wrong: fmt.Sprintf("rank %d has not created the collection", r.self)}
	}
	if r.self == 0 {
		own.ID = rand.Uint64() | 1 // what was kept of another run is not taken for it
	}
	for _, e := range m.elements.all {
		own.Elements++
		if member(e.index) {
			own.Keys = append(own.Keys, e.key)
		}
	}
	return own
}

// Free has the rank forget a section; each main function that has made it calls it, when what uses it is over.
func (k *Collection[I, T]) Free(c Context, s Section[I, T]) {
	r := c.own().r
	if m := k.members(r); m != nil && m.sections[s.ID] != nil {
		delete(m.sections, s.ID)
		r.forgetSums(m, m.sections)
	}
}

// Members is how many elements a section has.
func (k *Collection[I, T]) Members(c Context, s Section[I, T]) uint64 {
	if m := k.members(c.own().r); m != nil && m.sections[s.ID] != nil {
		return uint64(len(m.sections[s.ID].keys))
	}
	return 0
}

// noSection is the number of none: the zero value of Section is one that was not made.
const noSection = ^uint64(0)

// sectionOf is what this rank knows of one.
func sectionOf[I Index[I], T any](m *members[I, T], id uint64) (*section, error) {
	if s := m.sections[id]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("a section of %v was freed, or made before elements were inserted or deleted, or in another run: make it anew", m.of.entry)
}

// forgetSums is the end of the reductions over sections that are no more.
func (r *rank) forgetSums(m membership, left map[uint64]*section) {
	for key := range r.population.reductions {
		if of, ok := key.(overSection); ok && of.members == m && left[of.id] == nil {
			delete(r.population.reductions, key)
		}
	}
}

// overSection is a kind of reduction over a section.
type overSection struct {
	members membership
	id      uint64
	kind    any // *ElementReduction of some type
}
