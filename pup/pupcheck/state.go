package pupcheck

import (
	"maps"
	"slices"
)

// An entry is what was last stored at a place.
type entry struct {
	place Place
	v     *value
}

// A fact that unpacking has established: the place has its final value.
type knownPlace struct {
	place   Place
	visited bool // else assigned
	data    bool // what was visited is there
}

// A lit is a condition that holds on the path to a point, or does not.
type lit struct {
	text  string
	not   bool
	cmp   *comparison
	loops uint64
	index bool // it depends on the variables of loops only
}

// A state is what holds at one point of the traversal.
type state struct {
	store  map[string]entry
	alias  map[int]Place // variables made for pointers that were then stored at a place
	known  []knownPlace
	path   []lit
	ctl    deps // of the conditions that led here
	dead   bool // the end of a path: nothing follows
	failed bool // the traversal has ended with an error
}

func newState() *state { return &state{store: map[string]entry{}, alias: map[int]Place{}} }

func (s *state) clone() *state {
	c := *s
	c.store, c.alias = maps.Clone(s.store), maps.Clone(s.alias)
	c.known, c.path = slices.Clone(s.known), slices.Clone(s.path)
	return &c
}

// resolve replaces a variable by the place that it has become part of.
func (s *state) resolve(p Place) Place {
	if at, ok := s.alias[p.Root]; ok {
		to := at.with(p.Steps...)
		to.loops |= p.loops
		return to
	}
	return p
}

// isKnown reports whether a place, or a part of it, has its final value.
func (s *state) isKnown(p Place) bool {
	return slices.ContainsFunc(s.known, func(k knownPlace) bool {
		if k.place.shapeOnly() {
			o := p.object()
			return len(k.place.Steps) == len(o.Steps)+1 && k.place.object().covers(o)
		}
		return k.place.meets(p)
	})
}

// established reports whether the length of a slice, or the target of a pointer, is set.
func (s *state) established(p Place) bool {
	return slices.ContainsFunc(s.known, func(k knownPlace) bool {
		return everyIndex(k.place.object()).covers(p) && (!k.place.shapeOnly() || len(k.place.Steps) == len(p.Steps)+1)
	})
}

func (s *state) setKnown(p Place, visited bool) {
	s.known = append(s.known, knownPlace{place: p, visited: visited, data: visited})
}

// set stores a value and forgets what was stored at parts of the place.
func (s *state) set(p Place, v *value) {
	for k, e := range s.store {
		if p.Root == e.place.Root && p.covers(e.place) {
			delete(s.store, k)
		}
	}
	s.store[p.key()] = entry{p, v}
}

// join is what holds after one of two paths; strict says that a visit must have happened on both to count.
func join(a, b *state, strict bool) *state {
	aOut, bOut := a.dead || a.failed, b.dead || b.failed
	switch {
	case aOut && bOut:
		j := *b
		j.dead, j.failed = a.dead && b.dead, a.failed && b.failed
		return &j
	case aOut:
		return b
	case bOut:
		return a
	}
	j := &state{store: maps.Clone(a.store), alias: maps.Clone(a.alias)}
	for k, e := range b.store {
		if f, ok := j.store[k]; ok {
			e.v = joinValues(f.v, e.v)
		}
		j.store[k] = e
	}
	maps.Copy(j.alias, b.alias)
	j.known = joinKnown(a.known, b.known, strict)
	return j
}

func joinKnown(a, b []knownPlace, strict bool) []knownPlace {
	var out []knownPlace
	keep := func(from, other []knownPlace) {
		for _, k := range from {
			both := slices.ContainsFunc(other, func(o knownPlace) bool { return o.place.covers(k.place) })
			if both || !k.visited || !strict {
				out = append(out, k)
			}
		}
	}
	n := 0
	for n < len(a) && n < len(b) && a[n].place.key() == b[n].place.key() {
		n++
	}
	out = append(out, a[:n]...)
	keep(a[n:], b)
	keep(b[n:], a)
	return out
}

// contradict reports whether two paths cannot both be taken.
func contradict(a, b []lit) bool {
	for _, x := range a {
		for _, y := range b {
			if x.text != "" && x.text == y.text && x.not != y.not {
				return true
			}
			if disjoint(x, y) {
				return true
			}
		}
	}
	return false
}

// disjoint compares two conditions on the same value.
func disjoint(x, y lit) bool {
	if x.cmp == nil || y.cmp == nil || x.cmp.subject != y.cmp.subject {
		return false
	}
	xOut, yOut := x.cmp.not != x.not, y.cmp.not != y.not
	within := func(a, b *comparison) bool { return b.lo <= a.lo && a.hi <= b.hi }
	switch {
	case !xOut && !yOut:
		return x.cmp.hi < y.cmp.lo || y.cmp.hi < x.cmp.lo
	case !xOut:
		return within(x.cmp, y.cmp)
	case !yOut:
		return within(y.cmp, x.cmp)
	}
	return false
}
