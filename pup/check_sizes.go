package pup

import (
	"fmt"
	"reflect"
)

// sized compares what sizing adds up with what packing took: files and writers rely on both being the same. It blames the
// innermost values with code of their own.
func (c *checker) sized(word string, packed int) {
	n, err := Size(c.of.root.v.Interface(), c.of.opts...)
	if err == nil && n == uint64(packed) {
		return
	}
	s := scales{c, map[visited]bool{}}
	if !s.weigh(word, c.of.root.v.Elem()) {
		c.missized(word, c.of.root.info.t, n, packed, err)
	}
}

func (c *checker) missized(path string, t reflect.Type, sized uint64, packed int, err error) {
	if err != nil {
		c.found.fault(path, Unsound, "a %v cannot be sized, and is packed to %d bytes: %v", t, packed, err)
		return
	}
	c.found.fault(path, Unsound, "a %v is sized as %d bytes and packed to %d", t, sized, packed)
}

// scales look for the values whose sizing and packing differ.
type scales struct {
	c    *checker
	seen map[visited]bool
}

// weigh tells whether v, a variable, or something that it leads to was blamed.
func (s *scales) weigh(path string, v reflect.Value) (blamed bool) {
	key := visited{v.UnsafeAddr(), v.Type()}
	if s.seen[key] || s.c.seen.skips[key.addr] != "" || layoutOf(v.Type()) != nil && !known.info(v.Type()).hand {
		return false
	}
	s.seen[key] = true
	if s.parts(path, v) {
		return true
	}
	if !known.info(v.Type()).hand {
		return false
	}
	n, err := Size(v.Addr().Interface(), s.c.of.opts...)
	data, failed := Marshal(v.Addr().Interface(), s.c.of.opts...)
	if failed != nil || err == nil && n == uint64(len(data)) {
		return false
	}
	s.c.missized(path, v.Type(), n, len(data), err)
	return true
}

// parts weighs what a variable holds and leads to.
func (s *scales) parts(path string, v reflect.Value) (blamed bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); !known.info(v.Type()).skipped(f) {
				blamed = s.weigh(path+"."+f.Name, fieldOf(v, i)) || blamed
			}
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			blamed = s.weigh(fmt.Sprintf("%s[%d]", path, i), v.Index(i)) || blamed
		}
	case reflect.Pointer:
		return !v.IsNil() && s.weigh(path, v.Elem())
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			at := fmt.Sprintf("%s[%s]", path, keyWord(it.Key()))
			blamed = s.weigh(at, variableOf(it.Key())) || blamed
			blamed = s.weigh(at, variableOf(it.Value())) || blamed
		}
	case reflect.Interface:
		if !v.IsNil() {
			return s.weigh(fmt.Sprintf("%s.(%v)", path, v.Elem().Type()), variableOf(v.Elem()))
		}
	}
	return blamed
}

// variableOf is a new variable that holds v.
func variableOf(v reflect.Value) reflect.Value {
	x := reflect.New(v.Type()).Elem()
	x.Set(v)
	return x
}
