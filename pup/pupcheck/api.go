package pupcheck

import (
	"go/types"
	"strings"
)

// isPupPath reports whether an import path is that of package pup, vendored or not.
func isPupPath(path string) bool {
	const home = "github.com/byssus-hpc/byssus/pup"
	return path == home || strings.HasSuffix(path, "/"+home)
}

// importsPup reports whether a package can name the types of package pup.
func importsPup(pkg *types.Package) bool {
	for _, imp := range pkg.Imports() {
		if isPupPath(imp.Path()) {
			return true
		}
	}
	return false
}

// pupNamed returns the name of a type of package pup, without its type arguments, or "".
func pupNamed(t types.Type) string {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil || !isPupPath(n.Obj().Pkg().Path()) {
		return ""
	}
	return n.Obj().Name()
}

func isStream(t types.Type) bool { return pupNamed(t) == "Stream" }

func isStreamPtr(t types.Type) bool {
	ptr, ok := types.Unalias(t).(*types.Pointer)
	return ok && isStream(ptr.Elem())
}

// takesStream reports whether a function has a *pup.Stream parameter.
func takesStream(sig *types.Signature) bool {
	for v := range sig.Params().Variables() {
		if isStreamPtr(v.Type()) {
			return true
		}
	}
	return false
}

// isPUP reports whether f is a method PUP(*pup.Stream).
func isPUP(f *types.Func) bool {
	sig := f.Signature()
	return f.Name() == "PUP" && sig.Recv() != nil && sig.Params().Len() == 1 && sig.Results().Len() == 0 &&
		isStreamPtr(sig.Params().At(0).Type())
}

// pupFunc returns the name of a function or method ("Stream.Err") of package pup, or of gen below it, or "".
func pupFunc(f *types.Func) string {
	if f == nil || f.Pkg() == nil || !isPupPath(strings.TrimSuffix(f.Pkg().Path(), "/gen")) {
		return ""
	}
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Name()
	}
	return pupNamed(deref(recv.Type())) + "." + f.Name()
}

// deref is the type that a pointer type points to, or the type itself.
func deref(t types.Type) types.Type {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		return ptr.Elem()
	}
	return t
}

// pointee is the type below a type whose underlying type is a pointer, or the type itself.
func pointee(t types.Type) types.Type {
	if ptr, ok := under(t).(*types.Pointer); ok {
		return ptr.Elem()
	}
	return t
}

// under is the underlying type, or for a type parameter the one that all its types have in common.
func under(t types.Type) types.Type {
	if t == nil {
		return types.Typ[types.Invalid]
	}
	p, ok := types.Unalias(t).(*types.TypeParam)
	if !ok {
		return t.Underlying()
	}
	if core := coreType(p); core != nil {
		return core
	}
	return t
}

// coreType is the single underlying type of a type parameter's type set, or nil.
func coreType(p *types.TypeParam) types.Type {
	var core types.Type
	for term := range typeTerms(p.Constraint()) {
		if core != nil && !types.Identical(core, term.Underlying()) {
			return nil
		}
		core = term.Underlying()
	}
	return core
}

// typeTerms yields the types that a constraint lists.
func typeTerms(constraint types.Type) func(func(types.Type) bool) {
	return func(yield func(types.Type) bool) {
		iface, ok := constraint.Underlying().(*types.Interface)
		if !ok {
			return
		}
		for emb := range iface.EmbeddedTypes() {
			u, ok := types.Unalias(emb).(*types.Union)
			if !ok {
				if !types.IsInterface(emb) && !yield(emb) {
					return
				}
				continue
			}
			for term := range u.Terms() {
				if !types.IsInterface(term.Type()) && !yield(term.Type()) {
					return
				}
			}
		}
	}
}

// A typeArgs maps the type parameters of a generic function that is being followed to the types of this call.
type typeArgs struct {
	m     map[*types.TypeParam]types.Type
	outer *typeArgs
}

// subst replaces type parameters in a type.
func (a *typeArgs) subst(t types.Type) types.Type {
	if a == nil || t == nil {
		return t
	}
	switch t := types.Unalias(t).(type) {
	case *types.TypeParam:
		for ; a != nil; a = a.outer {
			if s, ok := a.m[t]; ok {
				return s
			}
		}
		return t
	case *types.Pointer:
		return types.NewPointer(a.subst(t.Elem()))
	case *types.Slice:
		return types.NewSlice(a.subst(t.Elem()))
	case *types.Array:
		return types.NewArray(a.subst(t.Elem()), t.Len())
	case *types.Map:
		return types.NewMap(a.subst(t.Key()), a.subst(t.Elem()))
	case *types.Named:
		return a.substNamed(t)
	}
	return t
}

func (a *typeArgs) substNamed(t *types.Named) types.Type {
	if t.TypeArgs().Len() == 0 {
		return t
	}
	args := make([]types.Type, t.TypeArgs().Len())
	for i := range args {
		args[i] = a.subst(t.TypeArgs().At(i))
	}
	if inst, err := types.Instantiate(nil, t.Origin(), args, false); err == nil {
		return inst
	}
	return t
}

// bindTypeArgs maps type parameters to arguments.
func bindTypeArgs(params *types.TypeParamList, args *types.TypeList, caller *typeArgs) *typeArgs {
	if params.Len() == 0 || args.Len() != params.Len() {
		return nil
	}
	m := map[*types.TypeParam]types.Type{}
	for i := range params.Len() {
		m[params.At(i)] = caller.subst(args.At(i))
	}
	return &typeArgs{m: m}
}

// stepType is the type after one step from a value of type t.
func stepType(t types.Type, s Step) types.Type {
	switch u := under(t).(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if s.Op == opField && f.Name() == s.Name {
				return f.Type()
			}
		}
	case *types.Pointer:
		if s.Op == opDeref {
			return u.Elem()
		}
	case *types.Array:
		return u.Elem()
	case *types.Slice:
		return u.Elem()
	case *types.Map:
		if s == mapKey() {
			return u.Key()
		}
		return u.Elem()
	}
	return types.Typ[types.Invalid]
}

// typeAt is the type of the place that steps lead to from a value of type t.
func typeAt(t types.Type, steps []Step) types.Type {
	for _, s := range steps {
		if s.Op != opShape {
			t = stepType(t, s)
		}
	}
	return t
}
