package pupcheck

import (
	"go/types"
	"strings"
)

// shortNames writes types with the names of their packages.
func shortNames(p *types.Package) string { return p.Name() }

func typeText(t types.Type) string { return types.TypeString(t, shortNames) }

func compareStrings(a, b string) int { return strings.Compare(a, b) }

// pointerIn names the first part of a type that holds a pointer, such as "field Name string", or "".
func pointerIn(t types.Type) string { return findIn(t, "", isReference, map[types.Type]bool{}) }

// addressIn names the first part of a type that is a uintptr, or "".
func addressIn(t types.Type) string {
	return findIn(t, "", func(t types.Type) bool {
		b, ok := t.(*types.Basic)
		return ok && b.Kind() == types.Uintptr
	}, map[types.Type]bool{})
}

// isReference reports whether values of an underlying type refer to memory elsewhere.
func isReference(t types.Type) bool {
	switch t := t.(type) {
	case *types.Basic:
		return t.Kind() == types.String || t.Kind() == types.UnsafePointer
	case *types.Slice, *types.Map, *types.Chan, *types.Signature, *types.Interface, *types.Pointer:
		return true
	}
	return false
}

func findIn(t types.Type, path string, is func(types.Type) bool, seen map[types.Type]bool) string {
	if _, isParam := types.Unalias(t).(*types.TypeParam); isParam || seen[t] {
		return ""
	}
	seen[t] = true
	u := t.Underlying()
	if is(u) {
		if path == "" {
			return typeText(t)
		}
		return path + " of type " + typeText(t)
	}
	switch u := u.(type) {
	case *types.Array:
		return findIn(u.Elem(), path, is, seen)
	case *types.Struct:
		for f := range u.Fields() {
			name := f.Name()
			if path != "" {
				name = path + "." + name
			}
			if found := findIn(f.Type(), name, is, seen); found != "" {
				return found
			}
		}
	}
	return ""
}

// generic reports whether a type has type parameters, so that its layout is not known.
func generic(t types.Type) bool { return genericIn(t, map[types.Type]bool{}) }

func genericIn(t types.Type, seen map[types.Type]bool) bool {
	if t == nil || seen[t] {
		return false
	}
	seen[t] = true
	switch t := types.Unalias(t).(type) {
	case *types.TypeParam:
		return true
	case *types.Named:
		for a := range t.TypeArgs().Types() {
			if genericIn(a, seen) {
				return true
			}
		}
		return genericIn(t.Underlying(), seen)
	case *types.Array:
		return genericIn(t.Elem(), seen)
	case *types.Struct:
		for f := range t.Fields() {
			if genericIn(f.Type(), seen) {
				return true
			}
		}
	}
	return false
}

// padding is the number of bytes of a type that belong to no field.
func padding(t types.Type, sizes types.Sizes) int64 {
	switch u := t.Underlying().(type) {
	case *types.Array:
		return u.Len() * padding(u.Elem(), sizes)
	case *types.Struct:
		n := sizes.Sizeof(t)
		for f := range u.Fields() {
			n -= sizes.Sizeof(f.Type())
			n += padding(f.Type(), sizes)
		}
		return n
	}
	return 0
}

// empty reports whether values of a type have no content.
func (c *checker) empty(t types.Type) bool {
	if t == nil || generic(t) {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Array:
		return u.Len() == 0 || c.empty(u.Elem())
	case *types.Struct:
		for f := range u.Fields() {
			if f.Name() != "_" && !c.empty(f.Type()) {
				return false
			}
		}
		return true
	case *types.Basic:
		return u.Kind() == types.Invalid
	}
	return false
}
