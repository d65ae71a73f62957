package pup

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// A frame is a variable below which the traversal cannot be followed from above, because it works on copies: the entries
// of a map, what an interface holds. The first frame is the root.
type frame struct {
	at       place // of the map or interface variable
	of       unsafe.Pointer
	t        reflect.Type   // of the root, of the map, of what the interface holds
	key, val unsafe.Pointer // the copies at work
}

func (p *Stream) push(f frame) { p.frames = append(p.frames, f) }

func (p *Stream) pop() {
	if p.mode != failed {
		p.frames = p.frames[:len(p.frames)-1]
	}
}

// entry says on which copies the traversal works now.
func (p *Stream) entry(key, val unsafe.Pointer) {
	f := &p.frames[len(p.frames)-1]
	f.key, f.val = key, val
}

// path names the variable at a place, from the root on. Nothing is kept for it while all goes well: the variable is
// looked for by its address.
func (p *Stream) path(at place) string {
	if len(p.frames) == 0 {
		return "value"
	}
	root := p.frames[0]
	parts := []string{typeWord(root.t)}
	in := finder{seen: map[visited]bool{}}
	from := reflect.NewAt(root.t, root.val).Elem()
	for _, f := range p.frames[1:] {
		parts = append(parts, in.find(from, f.at)...)
		if f.t.Kind() != reflect.Map || f.at.shape != mapShape {
			parts = append(parts, fmt.Sprintf(".(%v)", f.t))
			if f.val == nil {
				return joined(parts)
			}
			from = reflect.NewAt(f.t, f.val).Elem()
			continue
		}
		if f.key == nil {
			return joined(parts)
		}
		k := reflect.NewAt(f.t.Key(), f.key).Elem()
		if inKey := in.find(k, at); len(inKey) > 0 || at.addr == uintptr(f.key) {
			return joined(append(append(parts, fmt.Sprintf("[key %s]", keyWord(k))), inKey...))
		}
		parts = append(parts, fmt.Sprintf("[%s]", keyWord(k)))
		from = reflect.NewAt(f.t.Elem(), f.val).Elem()
	}
	if p.within.addr != 0 {
		at = p.within
	}
	return joined(append(parts, in.find(from, at)...))
}

// joined is the path of parts; of a long one the beginning and the end.
func joined(parts []string) string {
	const most = 40
	if n := len(parts); n > most {
		parts = slices.Concat(parts[:most/2], []string{fmt.Sprintf("...(%d more)...", n-most)}, parts[n-most/2:])
	}
	return strings.Join(parts, "")
}

// typeWord is a type's name without its package.
func typeWord(t reflect.Type) string {
	if t.Name() != "" {
		return t.Name()
	}
	return t.String()
}

func keyWord(k reflect.Value) string {
	const most = 64
	switch k.Kind() {
	case reflect.String:
		if k.Len() > most {
			return fmt.Sprintf("%.*q...", most, k.String())
		}
		return fmt.Sprintf("%q", k.String())
	case reflect.Struct, reflect.Array, reflect.Pointer, reflect.Interface:
		return "a " + k.Type().String()
	}
	return fmt.Sprintf("%v", k)
}

type visited struct {
	addr uintptr
	t    reflect.Type
}

// finder looks for a variable by its address.
type finder struct {
	seen  map[visited]bool
	steps int
}

// find returns the parts of the path from v to the variable at a place, none if v is the one or it is not there (a
// temporary of the author's code).
func (f *finder) find(v reflect.Value, at place) []string {
	if at.addr == 0 {
		return nil
	}
	clear(f.seen)
	f.steps = 1 << 20
	parts, _ := f.search(v, at)
	slices.Reverse(parts)
	return parts
}

// search returns the parts of the path, last one first.
func (f *finder) search(v reflect.Value, at place) ([]string, bool) {
	if f.steps--; f.steps < 0 || !v.IsValid() {
		return nil, false
	}
	if v.CanAddr() {
		begin := v.UnsafeAddr()
		if begin == at.addr && fitsShape(v.Kind(), at.shape) && (at.shape != anyShape || !inner(v) || standardForm(v.Type())) {
			return nil, true
		}
	}
	if standardForm(v.Type()) {
		return nil, false
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if path, ok := f.search(fieldOf(v, i), at); ok {
				return append(path, "."+v.Type().Field(i).Name), true
			}
		}
	case reflect.Array, reflect.Slice:
		return f.searchElements(v, at)
	case reflect.Pointer:
		if key := (visited{v.Pointer(), v.Type()}); !v.IsNil() && !f.seen[key] {
			f.seen[key] = true
			return f.search(v.Elem(), at)
		}
	case reflect.Interface:
		if e := v.Elem(); e.Kind() == reflect.Pointer {
			return f.search(e, at)
		}
	}
	return nil, false
}

// searchElements looks into the elements; without pointers, only into the one that the address lies in.
func (f *finder) searchElements(v reflect.Value, at place) ([]string, bool) {
	if v.Len() == 0 {
		return nil, false
	}
	size := v.Type().Elem().Size()
	base := uintptr(0)
	if v.Kind() == reflect.Slice {
		base = v.Pointer()
		key := visited{base, v.Type()}
		if f.seen[key] {
			return nil, false
		}
		f.seen[key] = true
	} else if v.CanAddr() {
		base = v.UnsafeAddr()
	}
	if size > 0 && at.addr >= base && at.addr < base+uintptr(v.Len())*size {
		i := int((at.addr - base) / size)
		path, ok := f.search(v.Index(i), at)
		return append(path, fmt.Sprintf("[%d]", i)), ok
	}
	if layoutOf(v.Type().Elem()) != nil {
		return nil, false
	}
	for i := range v.Len() {
		if path, ok := f.search(v.Index(i), at); ok {
			return append(path, fmt.Sprintf("[%d]", i)), true
		}
	}
	return nil, false
}

// inner tells whether a variable begins with another one, which is meant when only the address is known.
func inner(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && v.NumField() > 0 && v.Type().Field(0).Type.Size() > 0 || v.Kind() == reflect.Array && v.Len() > 0
}

func fitsShape(k reflect.Kind, s shape) bool {
	switch s {
	case leafShape:
		return k >= reflect.Bool && k <= reflect.Complex128
	case textShape:
		return k == reflect.String
	case sliceShape:
		return k == reflect.Slice
	case arrayShape:
		return k == reflect.Array
	case mapShape:
		return k == reflect.Map
	case pointerShape:
		return k == reflect.Pointer || k == reflect.Interface
	case interfaceShape:
		return k == reflect.Interface
	case objectShape:
		return k == reflect.Struct
	}
	return true
}

// fieldOf is field i of a structure, exported or not, if the structure has an address.
func fieldOf(v reflect.Value, i int) reflect.Value {
	f := v.Field(i)
	if !f.CanAddr() {
		return f
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// shapeOf is the shape of variables of a kind.
func shapeOf(k reflect.Kind) shape {
	switch k {
	case reflect.String:
		return textShape
	case reflect.Slice:
		return sliceShape
	case reflect.Map:
		return mapShape
	case reflect.Pointer:
		return pointerShape
	case reflect.Interface:
		return interfaceShape
	case reflect.Struct:
		return objectShape
	case reflect.Array:
		return arrayShape
	}
	return anyShape
}
