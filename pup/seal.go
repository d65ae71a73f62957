package pup

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// seal ends discovery: it finds the regions that lie in others, and refuses what overlaps in another way.
func (g *graph) seal() error {
	g.sealed = true
	if !g.regions.ordered() {
		s := sorter{of: &g.regions, nesting: &g.nesting}
		if err := s.sortOut(); err != nil {
			return err
		}
	}
	if g.rooted && (g.nesting.top(0) != 0 || g.regions.at(0).count > 1) { // what it is unpacked into will be a part of nothing
		return &Error{Op: "pack", Err: fmt.Errorf("%w: the value itself lies in %v, to which it leads: pack that, or what holds it", ErrType, g.regions.at(g.nesting.top(0)))}
	}
	return nil
}

// sorter finds out which regions lie in others.
type sorter struct {
	of      *regions
	nesting *nesting
	page    []item // regions of the page at work
}

// sortOut goes through the regions in the order of their addresses.
func (s *sorter) sortOut() (err error) {
	var open []item // regions that overlap so far; mostly one
	end := uintptr(0)
	s.of.index.sorted(func(page uintptr, slots *pageSlots, crowd []int) {
		for _, x := range s.items(page, slots, crowd) {
			if x.base >= end {
				if len(open) > 1 && err == nil {
					err = s.cluster(open)
				}
				open = open[:0]
			}
			open = append(open, x)
			end = max(end, x.base+x.size)
		}
	})
	if len(open) > 1 && err == nil {
		err = s.cluster(open)
	}
	return err
}

// items are the regions of one page, sorted by base. What the slots tell need not be asked of the regions, which lie in
// the order of discovery, far from each other.
func (s *sorter) items(page uintptr, slots *pageSlots, crowd []int) []item {
	s.page = s.page[:0]
	for k, at := range slots {
		if at.n == 0 {
			continue
		}
		x := item{page + uintptr(k)<<grainBits + uintptr(at.tag&(slotMany-1)), s.of.sizes[at.tag>>tagBits], int(at.n - 1)}
		if at.tag&slotMany != 0 {
			x = s.of.item(x.n)
		}
		s.page = append(s.page, x)
	}
	for _, n := range crowd {
		s.page = append(s.page, s.of.item(n))
	}
	if len(crowd) > 0 {
		slices.SortStableFunc(s.page, func(a, b item) int { return cmp.Compare(a.base, b.base) })
	}
	return s.page
}

func (r *regions) item(n int) item {
	x := r.at(n)
	return item{x.begin(), x.end() - x.begin(), n}
}

// ordered tells whether the regions were discovered in order of address, without overlaps: then none lies in another.
func (r *regions) ordered() bool {
	end := uintptr(0)
	for n := range r.list.len {
		x := r.at(n)
		if x.begin() < end {
			return false
		}
		end = x.end()
	}
	return true
}

// cluster sorts out regions that overlap, sorted by base.
func (s *sorter) cluster(items []item) error {
	slices.SortStableFunc(items, func(a, b item) int {
		if a.base != b.base {
			return cmp.Compare(a.base, b.base)
		}
		return s.largerFirst(a.n, b.n)
	})
	top := items[0].n
	for _, x := range items[1:] {
		if x.base >= s.of.at(top).end() {
			top = x.n
			continue
		}
		if s.absorb(x.n, top) {
			top = x.n
		} else if err := s.nest(top, x.n); err != nil {
			return err
		}
		s.nesting.inner = true
	}
	return nil
}

// item is a region, for sorting.
type item struct {
	base, size uintptr
	n          int
}

func (s *sorter) largerFirst(a, b int) int {
	x, y := s.of.at(a), s.of.at(b)
	if x.end() != y.end() {
		if x.end() > y.end() {
			return -1
		}
		return 1
	}
	if _, _, ok := subobject(x.info.t, 0, y.info.t); ok {
		return -1
	}
	return 1
}

// nest puts region n, which begins in region top, into it.
func (s *sorter) nest(top, n int) error {
	t, r := s.of.at(top), s.of.at(n)
	if offset, size := r.begin()-t.begin(), t.info.t.Size(); offset%size == 0 && r.countAs(t.info.t) > 0 {
		s.of.grow(top, max(t.count, int(offset/size)+r.countAs(t.info.t)))
	} else if uint64(r.count) > t.locate(r.begin(), r.info.t).room {
		return &Error{Op: "pack", Err: fmt.Errorf("%w: %v and %v share memory, and neither is a part of the other that can be named",
			ErrType, t, r)}
	}
	s.nesting.own(top, n)
	return nil
}

// own notes that region n lies in region top.
func (t *nesting) own(top, n int) {
	if t.owners == nil {
		t.owners = map[int]int{}
	}
	t.owners[n] = top
}

// absorb puts an array into region n, a slice that begins in it and ends behind it, and tells whether it did.
func (s *sorter) absorb(n, array int) bool {
	r, a := s.of.at(n), s.of.at(array)
	offset, size := r.begin()-a.begin(), r.info.t.Size()
	if r.end() <= a.end() || r.info == a.info || a.countAs(r.info.t) == 0 || offset%size != 0 {
		return false
	}
	r.base, r.count = a.base, r.count+int(offset/size)
	s.nesting.own(n, array)
	return true
}

// countAs is how many values of a type a region is, when an array counts as its elements; 0: they are others.
func (r *region) countAs(t reflect.Type) int {
	switch own := r.info.t; {
	case own == t:
		return r.count
	case own.Kind() == reflect.Array && own.Elem() == t:
		return r.count * own.Len()
	}
	return 0
}

// inARow is how many values of type want lie in a row where n of type t do: arrays are made of their elements.
func inARow(n uint64, t, want reflect.Type) uint64 {
	switch {
	case t == want:
		return n
	case want.Kind() == reflect.Array && want.Elem() == t && want.Len() > 0:
		return n / uint64(want.Len())
	}
	return 0
}

// section is a part of a variable.
type section struct {
	t      reflect.Type // nil: there is none
	offset uintptr
	room   uint64 // how many of its type lie in a row from there on; 0 for the variable itself
}

// located is a part of a region.
type located struct {
	section
	index uint64 // of the element that it is a part of
	path  string
}

// locate finds values of type want, or what they are made of, at an address in a region; room counts values of type want.
func (r *region) locate(at uintptr, want reflect.Type) located {
	size := r.info.t.Size()
	offset := at - r.begin()
	for t := want; ; t = t.Elem() {
		x := located{section{t: t, offset: offset % size}, uint64(offset / size), ""}
		var ok bool
		if x.path, x.room, ok = subobject(r.info.t, x.offset, t); ok {
			if x.path == "" {
				x.room = uint64(r.count) - x.index
			}
			x.room = inARow(x.room, t, want)
			return x
		}
		if t != want || t.Kind() != reflect.Array {
			return located{}
		}
	}
}

// subobject returns the path in a variable of type t that leads to a part of type want at an offset: "" for the whole,
// ".Pos", ".Rows[2].Name". room is as in section.
func subobject(t reflect.Type, offset uintptr, want reflect.Type) (path string, room uint64, ok bool) {
	if offset == 0 && t == want {
		return "", 0, true
	}
	switch t.Kind() {
	case reflect.Array:
		if size := t.Elem().Size(); size > 0 {
			n := offset / size
			path, room, ok := subobject(t.Elem(), offset%size, want)
			if path == "" {
				room = uint64(t.Len()) - uint64(n)
			}
			return fmt.Sprintf("[%d]%s", n, path), room, ok
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if offset >= f.Offset && offset < f.Offset+f.Type.Size() {
				path, room, ok := subobject(f.Type, offset-f.Offset, want)
				return "." + f.Name + path, max(room, 1), ok
			}
		}
	}
	return "", 0, false
}

// skippedOn names the field that is skipped on the way from a variable of type t to its part of type want at an offset, if
// there is one.
func skippedOn(t reflect.Type, offset uintptr, want reflect.Type) string {
	switch {
	case offset == 0 && t == want:
	case t.Kind() == reflect.Array:
		return skippedOn(t.Elem(), offset%t.Elem().Size(), want)
	case t.Kind() == reflect.Struct:
		i := known.info(t)
		for n := range t.NumField() {
			f := t.Field(n)
			if offset < f.Offset || offset >= f.Offset+f.Type.Size() {
				continue
			}
			if i.skips[f.Offset] == f.Type || !i.hand && i.skipped(f) {
				return f.Name
			}
			return skippedOn(f.Type, offset-f.Offset, want)
		}
	}
	return ""
}

// follow finds the part that a path leads to.
func follow(t reflect.Type, path string) section {
	x := section{t: t}
	for path != "" {
		switch end := strings.IndexByte(path, ']'); {
		case path[0] == '[' && x.t.Kind() == reflect.Array && end > 0:
			n, err := strconv.ParseUint(path[1:end], 10, 63)
			if err != nil || n >= uint64(x.t.Len()) {
				return section{}
			}
			x.room = uint64(x.t.Len()) - n
			x.t, path = x.t.Elem(), path[end+1:]
			x.offset += uintptr(n) * x.t.Size()
		case path[0] == '.' && x.t.Kind() == reflect.Struct:
			name := path[1:]
			if end := strings.IndexAny(name, ".["); end >= 0 {
				name = name[:end]
			}
			f, ok := x.t.FieldByName(name)
			if !ok || len(f.Index) != 1 {
				return section{}
			}
			x.t, path = f.Type, path[1+len(name):]
			x.offset += f.Offset
			x.room = 1
		default:
			return section{}
		}
	}
	return x
}
