package pup

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// seal ends discovery: it finds the regions that lie in others, and refuses what overlaps in another way.
func (g *graph) seal() error {
	g.sealed = true
	order := g.byBase()
	if order == nil {
		return nil
	}
	top := -1
	for _, n := range order {
		if top >= 0 && g.at(n).begin() < g.at(top).end() {
			t, err := g.nest(top, n)
			if err != nil {
				return err
			}
			g.inner, top = true, t
			continue
		}
		top = n
	}
	return nil
}

// byBase is the order of the regions by base, larger ones first; nil when none can lie in another, which is seen at
// once when they were discovered in order of address.
func (g *graph) byBase() []int {
	end, ordered := uintptr(0), true
	for n := range g.regions.len {
		r := g.at(n)
		if r.begin() < end {
			ordered = false
			break
		}
		end = r.end()
	}
	if ordered {
		return nil
	}
	order := g.radixByBase()
	// Equal bases: the larger first. They stand together, and are few.
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && g.at(order[j]).base == g.at(order[i]).base {
			j++
		}
		if j-i > 1 {
			slices.SortStableFunc(order[i:j], func(a, b int) int { return g.largerFirst(a, b) })
		}
		i = j
	}
	return order
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

// radixByBase sorts the numbers of regions by their base, 11 bits at a time.
func (g *graph) radixByBase() []int {
	low, high := g.at(0).begin(), g.at(0).begin()
	for n := range g.regions.len {
		low, high = min(low, g.at(n).begin()), max(high, g.at(n).begin())
	}
	type item struct {
		key uintptr
		n   int
	}
	from, to := make([]item, g.regions.len), make([]item, g.regions.len)
	for n := range g.regions.len {
		from[n] = item{g.at(n).begin() - low, n}
	}
	const digit = 11
	for shift := 0; shift < 64 && (high-low)>>shift > 0; shift += digit {
		var start [1 << digit]int
		for i := range from {
			start[from[i].key>>shift&(1<<digit-1)]++
		}
		sum := 0
		for d, c := range start {
			start[d], sum = sum, sum+c
		}
		for i := range from {
			d := from[i].key >> shift & (1<<digit - 1)
			to[start[d]] = from[i]
			start[d]++
		}
		from, to = to, from
	}
	order := make([]int, len(from))
	for i := range from {
		order[i] = from[i].n
	}
	return order
}

// nest puts region n, which begins in region top, into it, and returns which region further ones may begin in.
func (g *graph) nest(top, n int) (int, error) {
	t, r := g.at(top), g.at(n)
	if g.owners == nil {
		g.owners = map[int]int{}
	}
	offset := r.begin() - t.begin()
	if size := t.info.t.Size(); t.info == r.info && offset%size == 0 {
		t.count = max(t.count, int(offset/size)+r.count)
		g.owners[n] = top
		return top, nil
	}
	if _, ok := subobject(t.info.t, offset%t.info.t.Size(), r.info.t); r.end() > t.end() || !ok || r.count > 1 {
		return 0, fmt.Errorf("pup: pack: %w: %v and %v share memory, and neither is a part of the other that can be named",
			ErrType, t, r)
	}
	g.owners[n] = top
	return top, nil
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
