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
func (g *graph) seal() (err error) {
	g.sealed = true
	if g.ordered() {
		return nil
	}
	var open []item // regions that overlap so far; mostly one
	end := uintptr(0)
	g.index.sorted(func(page uintptr, slots *pageSlots, crowd []int) {
		for _, x := range g.items(page, slots, crowd) {
			if x.base >= end {
				if len(open) > 1 && err == nil {
					err = g.cluster(open)
				}
				open = open[:0]
			}
			open = append(open, x)
			end = max(end, x.base+x.size)
		}
	})
	if len(open) > 1 && err == nil {
		err = g.cluster(open)
	}
	return err
}

// items are the regions of one page, sorted by base. What the slots tell need not be asked of the regions, which lie in
// the order of discovery, far from each other.
func (g *graph) items(page uintptr, slots *pageSlots, crowd []int) []item {
	g.page = g.page[:0]
	for k, s := range slots {
		if s.n == 0 {
			continue
		}
		x := item{page + uintptr(k)<<grainBits + uintptr(s.tag&(slotMany-1)), g.sizes[s.tag>>tagBits], int(s.n - 1)}
		if s.tag&slotMany != 0 {
			x = g.item(x.n)
		}
		g.page = append(g.page, x)
	}
	for _, n := range crowd {
		g.page = append(g.page, g.item(n))
	}
	if len(crowd) > 0 {
		slices.SortStableFunc(g.page, func(a, b item) int { return cmp.Compare(a.base, b.base) })
	}
	return g.page
}

func (g *graph) item(n int) item {
	r := g.at(n)
	return item{r.begin(), r.end() - r.begin(), n}
}

// ordered tells whether the regions were discovered in order of address, without overlaps: then none lies in another.
func (g *graph) ordered() bool {
	end := uintptr(0)
	for n := range g.regions.len {
		r := g.at(n)
		if r.begin() < end {
			return false
		}
		end = r.end()
	}
	return true
}

// cluster sorts out regions that overlap, sorted by base.
func (g *graph) cluster(items []item) error {
	slices.SortStableFunc(items, func(a, b item) int {
		if a.base != b.base {
			return cmp.Compare(a.base, b.base)
		}
		return g.largerFirst(a.n, b.n)
	})
	top := items[0].n
	for _, x := range items[1:] {
		if x.base >= g.at(top).end() {
			top = x.n
			continue
		}
		if err := g.nest(top, x.n); err != nil {
			return err
		}
		g.inner = true
	}
	return nil
}

// item is a region, for sorting.
type item struct {
	base, size uintptr
	n          int
}

func (g *graph) largerFirst(a, b int) int {
	x, y := g.at(a), g.at(b)
	if x.end() != y.end() {
		if x.end() > y.end() {
			return -1
		}
		return 1
	}
	if _, ok := subobject(x.info.t, 0, y.info.t); ok {
		return -1
	}
	return 1
}

// nest puts region n, which begins in region top, into it.
func (g *graph) nest(top, n int) error {
	t, r := g.at(top), g.at(n)
	if g.owners == nil {
		g.owners = map[int]int{}
	}
	offset := r.begin() - t.begin()
	if size := t.info.t.Size(); t.info == r.info && offset%size == 0 {
		g.grow(top, max(t.count, int(offset/size)+r.count))
		g.owners[n] = top
		return nil
	}
	if _, ok := subobject(t.info.t, offset%t.info.t.Size(), r.info.t); r.end() > t.end() || !ok || r.count > 1 {
		return &Error{Op: "pack", Err: fmt.Errorf("%w: %v and %v share memory, and neither is a part of the other that can be named",
			ErrType, t, r)}
	}
	g.owners[n] = top
	return nil
}

// subobject returns the path in a variable of type t that leads to a part of type want at an offset: "" for the whole,
// ".Pos", ".Rows[2].Name".
func subobject(t reflect.Type, offset uintptr, want reflect.Type) (string, bool) {
	if offset == 0 && t == want {
		return "", true
	}
	switch t.Kind() {
	case reflect.Array:
		if size := t.Elem().Size(); size > 0 {
			path, ok := subobject(t.Elem(), offset%size, want)
			return fmt.Sprintf("[%d]%s", offset/size, path), ok
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if offset >= f.Offset && offset < f.Offset+f.Type.Size() {
				path, ok := subobject(f.Type, offset-f.Offset, want)
				return "." + f.Name + path, ok
			}
		}
	}
	return "", false
}

// follow returns the offset of the part that a path leads to, if it is there and has the type wanted.
func follow(t reflect.Type, path string, want reflect.Type) (uintptr, bool) {
	offset := uintptr(0)
	for path != "" {
		switch end := strings.IndexByte(path, ']'); {
		case path[0] == '[' && t.Kind() == reflect.Array && end > 0:
			n, err := strconv.ParseUint(path[1:end], 10, 63)
			if err != nil || n >= uint64(t.Len()) {
				return 0, false
			}
			t, path = t.Elem(), path[end+1:]
			offset += uintptr(n) * t.Size()
		case path[0] == '.' && t.Kind() == reflect.Struct:
			name := path[1:]
			if end := strings.IndexAny(name, ".["); end >= 0 {
				name = name[:end]
			}
			f, ok := t.FieldByName(name)
			if !ok || len(f.Index) != 1 {
				return 0, false
			}
			t, path = f.Type, path[1+len(name):]
			offset += f.Offset
		default:
			return 0, false
		}
	}
	return offset, t == want
}
