package pupgen

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// refused are types whose values mean nothing after they were saved, apart from the structures of package sync.
var refused = map[string]bool{"sync/atomic.Pointer": true, "sync/atomic.Value": true, "context.Context": true}

// isRefused says that a type cannot be saved, though its parts might. A type that is declared from a lock is a lock.
func isRefused(t *types.Named) bool {
	s, ok := t.Underlying().(*types.Struct)
	return refused[fullName(t)] || ok && s.NumFields() > 0 && s.Field(0).Pkg().Path() == "sync"
}

// specials are types with a function of their own in package pup.
var specials = map[string]string{
	"time.Time": "Time", "math/big.Int": "BigInt", "math/big.Float": "BigFloat", "math/big.Rat": "BigRat",
	"net/netip.Addr": "Addr", "net/netip.AddrPort": "AddrPort", "net/netip.Prefix": "Prefix",
}

// way is how a type is visited.
type way int

const (
	impossible way = iota
	byMethod       // its PUP
	byHelper       // a function of package pup that takes nothing but the variable
	byBinary       // pup.Binary, which takes an interface
	bySlice
	byArray
	byMap
	byPointer
)

// A visitor writes how one field, or one type that is no structure, is visited.
type visitor struct {
	*generator
	pos        token.Pos
	object     string            // for faults
	visited    types.Type        // what the statement visits
	wide       bool              // function literals take several lines
	notes      []string          // for the comment
	unspelled  bool              // a part of the type cannot be written in this package
	impossible bool              // a fault was found
	inside     []*types.TypeName // the types around what is being written
}

// place is a variable in generated code.
type place struct {
	addr string // a pointer to it
	sel  string // what its methods and parts are selected from
}

func (v *visitor) refuse(format string, args ...any) way {
	if !v.impossible {
		v.fault(v.pos, v.object, format, args...)
	}
	v.impossible = true
	return impossible
}

// statement visits a variable of type t.
func (v *visitor) statement(t types.Type, at place) string {
	imported, used := maps.Clone(v.names.imported), maps.Clone(v.names.used)
	v.visited = t
	s := v.call(t, at)
	if len(s)+len(strings.Join(v.notes, "; ")) > 110 {
		v.wide, v.notes = true, nil
		s = v.call(t, at)
	}
	if v.unspelled {
		v.names.imported, v.names.used = imported, used
		s = fmt.Sprintf("%sValue(%s, %s)", v.names.pup, v.names.p, at.addr)
		v.notes = []string{fmt.Sprintf("by reflection: a part of %s has no name here", v.plainName(t))}
	}
	if len(v.notes) > 0 {
		s += " // " + strings.Join(v.notes, "; ")
	}
	return s
}

// call writes the call that visits a variable of type t.
func (v *visitor) call(t types.Type, at place) string {
	n := v.names
	w, helper := v.way(t)
	args := ""
	if named, ok := types.Unalias(t).(*types.Named); ok {
		v.inside = append(v.inside, named.Obj())
		defer func() { v.inside = v.inside[:len(v.inside)-1] }()
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		args = v.elements(w == bySlice, u.Elem())
	case *types.Array:
		if args = v.elements(w == byArray, u.Elem()); args != "" {
			at.addr = at.sel + "[:]"
		}
	case *types.Map:
		args = v.elements(w == byMap, u.Key(), u.Elem())
	case *types.Pointer:
		args = v.elements(w == byPointer, u.Elem())
		if _, named := types.Unalias(t).(*types.Named); w == byPointer && named {
			at.addr = fmt.Sprintf("(*%s)(%s)", v.spell(u), at.addr)
		}
	}
	if w == byMethod {
		return fmt.Sprintf("%s.PUP(%s)", at.sel, n.p)
	}
	return fmt.Sprintf("%s%s(%s, %s%s)", n.pup, helper, n.p, at.addr, args)
}

// elements writes the arguments that visit the elements of types list, if the elements are visited one by one.
func (v *visitor) elements(apart bool, list ...types.Type) string {
	args := ""
	for _, t := range list {
		if apart {
			args += ", " + v.element(t)
		}
	}
	return args
}

// element writes the function that visits elements of type t. A method expression would not do: its first argument is
// the receiver.
func (v *visitor) element(t types.Type) string {
	n := v.names
	w, helper := v.way(t)
	if w == impossible {
		return ""
	}
	if w == byHelper {
		return n.pup + helper
	}
	body := v.call(t, place{n.e, n.e})
	if v.wide && w != byMethod {
		body = "\n" + body + "\n"
	} else {
		body = " " + body + " "
	}
	return fmt.Sprintf("func(%s *%sStream, %s *%s) {%s}", n.p, n.pup, n.e, v.spell(t), body)
}

func (v *visitor) spell(t types.Type) string {
	if !v.names.spellable(t) {
		v.unspelled = true
		return ""
	}
	return v.names.spell(t)
}

// way decides how a type is visited, and by which function of package pup.
func (v *visitor) way(t types.Type) (way, string) {
	t = types.Unalias(t)
	named, _ := t.(*types.Named)
	if named != nil {
		name := fullName(named)
		switch {
		case isRefused(named):
			return v.refuseType(t), ""
		case specials[name] != "":
			return byHelper, specials[name]
		case v.hasPUP(named) && !v.simple(named):
			return byMethod, ""
		}
	}
	if p, ok := t.(*types.TypeParam); ok {
		return v.parameter(p)
	}
	if b, ok := t.Underlying().(*types.Basic); ok {
		return v.basic(t, b)
	}
	switch {
	case v.layout(t).plain:
		return byHelper, "Plain"
	case named != nil && isBinary(named):
		return byBinary, "Binary"
	}
	return v.composite(t)
}

// simple says that the PUP of a type is one call of a helper, which may as well stand where the type is used.
func (v *visitor) simple(t *types.Named) bool {
	_, basic := t.Underlying().(*types.Basic)
	return v.generatedHere(t) && (basic || v.layout(t).plain)
}

// composite visits a type that is neither a number, a string nor plain.
func (v *visitor) composite(t types.Type) (way, string) {
	if !savable(t) {
		return v.refuseType(t), ""
	}
	if named, ok := t.(*types.Named); ok && !types.IsInterface(t) {
		if named.Obj().Pkg() != v.pkg.Types || slices.Contains(v.inside, named.Obj()) {
			return v.reflection(t) // an adapter may replace it; and a type that holds itself has no end
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		if v.layout(u.Elem()).plain {
			return byHelper, "PlainSlice"
		}
		return bySlice, "Slice"
	case *types.Array:
		return byArray, "Array"
	case *types.Map:
		return byMap, "Map"
	case *types.Pointer:
		return byPointer, "Ptr"
	case *types.Interface:
		return byHelper, "Interface"
	}
	return v.reflection(t)
}

// savable says that a type is of a kind that can be saved.
func savable(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Chan, *types.Signature:
		return false
	case *types.Basic:
		return u.Kind() != types.UnsafePointer
	}
	return true
}

func (v *visitor) basic(t types.Type, b *types.Basic) (way, string) {
	switch {
	case number(b):
		return byHelper, "Number"
	case boolean(b):
		return byHelper, "Bool"
	case textual(b):
		return byHelper, "String"
	case b.Kind() == types.Invalid:
		return v.refuse("found a type that is not declared%s, wanted one that is", v.whyInvalid()), ""
	}
	return v.refuseType(t), ""
}

// parameter visits a variable whose type is a type parameter by what its constraint allows.
func (v *visitor) parameter(p *types.TypeParam) (way, string) {
	switch {
	case allTerms(p, number):
		return byHelper, "Number"
	case allTerms(p, boolean):
		return byHelper, "Bool"
	case allTerms(p, textual):
		return byHelper, "String"
	}
	return byHelper, "Value"
}

// reflection takes a type without PUP, if it can do it.
func (v *visitor) reflection(t types.Type) (way, string) {
	name := v.plainName(t)
	if _, ok := t.(*types.Named); !ok {
		name = "a struct without name"
	}
	v.reflectable(t, name, map[types.Type]bool{})
	if note := fmt.Sprintf("by reflection: %s has no PUP", name); !slices.Contains(v.notes, note) {
		v.notes = append(v.notes, note)
	}
	return byHelper, "Value"
}

const wantedPUP = "wanted a PUP or //pup:generate for the type around it"

// reflectable looks for what reflection cannot save, or would not know: inside structures of this package. What other
// packages declare may have an adapter.
func (v *visitor) reflectable(t types.Type, path string, seen map[types.Type]bool) {
	t = types.Unalias(t)
	if seen[t] || v.impossible {
		return
	}
	seen[t] = true
	named, _ := t.(*types.Named)
	if !savable(t) || named != nil && isRefused(named) {
		v.refuse("found %s at %s, which cannot be saved, %s", v.plainName(t), path, wantedPUP)
		return
	}
	if named != nil {
		if _, ok := t.Underlying().(*types.Struct); ok && named.Obj().Pkg() != v.pkg.Types {
			return
		}
		if specials[fullName(named)] != "" || v.hasPUP(named) || isBinary(named) {
			return
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		v.reflectable(u.Elem(), path+"[]", seen)
	case *types.Array:
		v.reflectable(u.Elem(), path+"[]", seen)
	case *types.Map:
		v.reflectable(u.Key(), path+"[]", seen)
		v.reflectable(u.Elem(), path+"[]", seen)
	case *types.Pointer:
		v.reflectable(u.Elem(), path, seen)
	case *types.Struct:
		for i := range u.NumFields() {
			inner := path + "." + u.Field(i).Name()
			switch s := v.skipOf(u, i); {
			case s.wrong != "":
				v.refuse("%s at %s", s.wrong, inner)
			case s.comment:
				v.refuse("found the comment //pup:skip at %s, which reflection does not see, %s", inner, wantedPUP)
			case !s.is:
				v.reflectable(u.Field(i).Type(), inner, seen)
			}
		}
	}
}

func (v *visitor) refuseType(t types.Type) way {
	found := v.plainName(t)
	if !types.Identical(t, v.visited) {
		found += " in " + v.plainName(v.visited)
	}
	return v.refuse("found type %s, which cannot be saved, wanted another type or //pup:skip reason", found)
}

// whyInvalid is what the compiler says about the line.
func (v *visitor) whyInvalid() string {
	at := v.pkg.Fset.Position(v.pos)
	for _, e := range v.pkg.TypeErrors {
		if p := v.pkg.Fset.Position(e.Pos); p.Filename == at.Filename && p.Line == at.Line {
			return " (" + e.Msg + ")"
		}
	}
	return ""
}

// plainName is a type as a reader knows it: with the names of other packages.
func (g *generator) plainName(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == g.pkg.Types {
			return ""
		}
		return p.Name()
	})
}
