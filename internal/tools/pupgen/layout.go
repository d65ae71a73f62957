package pupgen

import (
	"go/types"
)

// sizes are those of all 64-bit platforms: blocks are for these, and package pup does without them on others.
func sizes() types.Sizes { return types.SizesFor("gc", "amd64") }

// A layout is what a type's memory is like.
type layout struct {
	plain bool // without pointers of any kind, and without a PUP that does more than to visit the fields
	dense bool // plain, of known size, and without padding inside
	bools bool // has parts of type bool
}

// layout looks into a type. A type that is generated in this package is as plain as its fields.
func (g *generator) layout(t types.Type) layout {
	t = types.Unalias(t)
	if l, ok := g.plains[t]; ok {
		return l
	}
	g.plains[t] = layout{} // what holds itself is not plain
	l := g.look(t)
	g.plains[t] = l
	return l
}

func (g *generator) look(t types.Type) layout {
	switch t := t.(type) {
	case *types.Named:
		own := g.hasPUP(t) && (!g.generatedHere(t) || g.hidden(t.Underlying()))
		if isRefused(t) || specials[fullName(t)] != "" || own {
			return layout{}
		}
		return g.layout(t.Underlying())
	case *types.Basic:
		ok := number(t) || boolean(t)
		return layout{ok, ok, boolean(t)}
	case *types.TypeParam:
		return layout{plain: allTerms(t, number)}
	case *types.Array:
		return g.layout(t.Elem())
	case *types.Struct:
		return g.lookStruct(t)
	}
	return layout{}
}

func (g *generator) lookStruct(t *types.Struct) layout {
	l := layout{plain: true, dense: true}
	for i := range t.NumFields() {
		f := g.layout(t.Field(i).Type())
		if !f.plain || g.skipOf(t, i).is {
			return layout{}
		}
		l.bools = l.bools || f.bools
		l.dense = l.dense && f.dense && t.Field(i).Name() != "_"
	}
	if l.dense && t.NumFields() > 0 {
		end := int64(0)
		for i, off := range sizes().Offsetsof(fieldsOf(t)) {
			l.dense = l.dense && off == end
			end = off + sizes().Sizeof(t.Field(i).Type())
		}
		l.dense = l.dense && end == sizes().Sizeof(t)
	}
	return l
}

func fieldsOf(t *types.Struct) []*types.Var {
	var list []*types.Var
	for f := range t.Fields() {
		list = append(list, f)
	}
	return list
}

// hasPUP says that a type has the method, or will have it when everything is generated.
func (g *generator) hasPUP(t *types.Named) bool {
	obj := t.Origin().Obj()
	return g.targets[obj] != nil || isPUP(ownMethod(t, "PUP")) || g.directed(obj)
}

// generatedHere says that the PUP of a type is of pupgen's making, in this package.
func (g *generator) generatedHere(t *types.Named) bool {
	obj := t.Origin().Obj()
	if obj.Pkg() != g.pkg.Types {
		return false
	}
	m := ownMethod(t, "PUP")
	return m == nil || g.byPupgen(m)
}

// directed says that the declaration of a type carries the directive, wherever it is.
func (g *generator) directed(obj *types.TypeName) bool {
	if obj.Pkg() == nil || g.all[obj.Pkg().Path()] == nil {
		return false
	}
	if f := fileAt(g.all[obj.Pkg().Path()], obj.Pos()); f != nil {
		for _, d := range declared(f) {
			if d.spec.Name.Pos() == obj.Pos() {
				return d.generate()
			}
		}
	}
	return false
}

// ownMethod is a method that is declared for the type itself, not one of an embedded field.
func ownMethod(t *types.Named, name string) *types.Func {
	for m := range t.Methods() {
		if m.Name() == name {
			return m
		}
	}
	return nil
}

// isPUP says that a method is func(*pup.Stream).
func isPUP(m *types.Func) bool {
	if m == nil || m.Signature().Params().Len() != 1 || m.Signature().Results().Len() != 0 {
		return false
	}
	ptr, ok := types.Unalias(m.Signature().Params().At(0).Type()).(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := types.Unalias(ptr.Elem()).(*types.Named)
	return ok && fullName(named) == pupPath+".Stream"
}

// isBinary says that a type has both methods of package encoding itself.
func isBinary(t *types.Named) bool {
	marshal, unmarshal := ownMethod(t, "MarshalBinary"), ownMethod(t, "UnmarshalBinary")
	if marshal == nil || unmarshal == nil {
		return false
	}
	signature := func(m *types.Func) string {
		params, results := unnamed(m.Signature().Params()), unnamed(m.Signature().Results())
		return types.TypeString(types.NewSignatureType(nil, nil, nil, params, results, false), nil)
	}
	return signature(marshal) == "func() ([]byte, error)" && signature(unmarshal) == "func([]byte) error"
}

func unnamed(t *types.Tuple) *types.Tuple {
	var list []*types.Var
	for v := range t.Variables() {
		list = append(list, types.NewParam(0, nil, "", v.Type()))
	}
	return types.NewTuple(list...)
}

// allTerms says that every type that a type parameter can stand for is as asked.
func allTerms(t *types.TypeParam, is func(*types.Basic) bool) bool {
	iface, ok := t.Constraint().Underlying().(*types.Interface)
	return ok && allTermsOf(iface, is)
}

// allTermsOf needs one embedded element to be right, because the elements restrict each other.
func allTermsOf(iface *types.Interface, is func(*types.Basic) bool) bool {
	for e := range iface.EmbeddedTypes() {
		terms := []types.Type{e}
		if u, ok := types.Unalias(e).(*types.Union); ok {
			terms = nil
			for term := range u.Terms() {
				terms = append(terms, term.Type())
			}
		}
		good := true
		for _, term := range terms {
			switch u := term.Underlying().(type) {
			case *types.Basic:
				good = good && is(u)
			case *types.Interface:
				good = good && allTermsOf(u, is)
			default:
				good = false
			}
		}
		if good {
			return true
		}
	}
	return false
}

// number is what pup.Number takes.
func number(b *types.Basic) bool  { return b.Info()&types.IsNumeric != 0 }
func boolean(b *types.Basic) bool { return b.Info()&types.IsBoolean != 0 }
func textual(b *types.Basic) bool { return b.Info()&types.IsString != 0 }

// fullName is import path and name of a type's declaration.
func fullName(t *types.Named) string {
	if t.Obj().Pkg() == nil {
		return t.Obj().Name()
	}
	return t.Obj().Pkg().Path() + "." + t.Obj().Name()
}
