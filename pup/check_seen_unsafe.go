package pup

import (
	"maps"
	"reflect"
	"slices"
	"unsafe"
)

// sightings are what PUP visits in the value that is checked. They are the observer of that traversal, and asked afterwards.
type sightings struct {
	skips   map[uintptr]string  // addresses of variables that are skipped on purpose
	visits  map[uintptr][]visit // by address
	entries map[uintptr][]checkedEntry
	acts    []int // activations that are open: what a pointer, slice, map or interface leads to
	nextAct int
	entered map[visited]bool
	sorted  []uintptr // addresses of all visits
}

// visit is a variable that was visited.
type visit struct {
	t     reflect.Type
	act   int // what led to it
	times int
}

// checkedEntry is a map's entry, in the copies that were visited, or the copy of what an interface holds.
type checkedEntry struct{ key, val reflect.Value }

func newSightings() sightings {
	return sightings{skips: map[uintptr]string{}, visits: map[uintptr][]visit{}, entries: map[uintptr][]checkedEntry{}, acts: []int{0}, entered: map[visited]bool{}}
}

// visit notes a variable, and goes on where it leads unless that was visited before.
func (s *sightings) visit(_ *Stream, t reflect.Type, v unsafe.Pointer) descent {
	if act := s.acts[len(s.acts)-1]; t.Size() > 0 {
		list := s.visits[uintptr(v)]
		at := slices.IndexFunc(list, func(o visit) bool { return o.t == t && o.act == act })
		if at < 0 {
			s.visits[uintptr(v)] = append(list, visit{t, act, 1})
		} else {
			list[at].times++
		}
	}
	x := reflect.NewAt(t, v).Elem()
	switch t.Kind() {
	case reflect.Pointer:
		if x.IsNil() || s.known(x.Pointer(), t.Elem()) {
			return stop
		}
	case reflect.Slice:
		if x.Len() == 0 || s.known(x.Pointer(), reflect.SliceOf(t.Elem())) {
			return stop
		}
	case reflect.Map:
		if x.IsNil() || s.known(x.Pointer(), t) {
			return stop
		}
	case reflect.Interface:
		if x.IsNil() {
			return stop
		}
	default:
		return stop
	}
	s.nextAct++
	s.acts = append(s.acts, s.nextAct)
	return content
}

// known tells whether memory was entered before, and notes that it is now.
func (s *sightings) known(addr uintptr, t reflect.Type) bool {
	key := visited{addr, t}
	again := s.entered[key]
	s.entered[key] = true
	return again
}

func (s *sightings) leave() { s.acts = s.acts[:len(s.acts)-1] }

func (s *sightings) entry(v unsafe.Pointer, key, val reflect.Value) {
	s.entries[uintptr(v)] = append(s.entries[uintptr(v)], checkedEntry{key, val})
}

func (s *sightings) skip(_ *Stream, _ reflect.Type, v unsafe.Pointer, reason string) {
	s.skips[uintptr(v)] = reason
}

// was tells whether the variable was visited, itself or as a part of something that was visited whole.
func (s *sightings) was(v reflect.Value) bool {
	return !v.CanAddr() || v.Type().Size() == 0 || s.visitedAs(v) != nil
}

// visitedAs is the type that the variable had for who visited it, or nil. Code may convert its pointer.
func (s *sightings) visitedAs(v reflect.Value) reflect.Type {
	if !v.CanAddr() {
		return nil
	}
	for _, o := range s.visits[v.UnsafeAddr()] {
		if o.t == v.Type() || o.t.Size() == v.Type().Size() && o.t.Kind() == v.Kind() {
			return o.t
		}
	}
	return nil
}

// times is how often a variable was visited from one and the same place.
func (s *sightings) times(v reflect.Value) (most int) {
	if v.CanAddr() {
		for _, o := range s.visits[v.UnsafeAddr()] {
			if o.t == v.Type() {
				most = max(most, o.times)
			}
		}
	}
	return most
}

// inside tells whether anything was visited in a slice's array.
func (s *sightings) inside(v reflect.Value) bool {
	return s.within(v.Pointer(), uintptr(v.Len())*v.Type().Elem().Size())
}

// within tells whether anything was visited in a piece of memory.
func (s *sightings) within(begin, size uintptr) bool {
	if s.sorted == nil {
		s.sorted = slices.Sorted(maps.Keys(s.visits))
	}
	at, _ := slices.BinarySearch(s.sorted, begin)
	return at < len(s.sorted) && s.sorted[at] < begin+size
}
