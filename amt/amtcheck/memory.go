package amtcheck

import (
	"go/ast"
	"go/token"
	"go/types"
)

// makes tells whether an expression is new memory, as far as can be seen: what a function returns that is given nothing else is.
func (k *keeper) makes(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CompositeLit, *ast.FuncLit, *ast.BasicLit:
		return true
	case *ast.UnaryExpr:
		return e.Op == token.AND && k.makes(e.X)
	case *ast.Ident:
		v := k.variable(e)
		return v == nil || !isGlobal(v) && within(v, k.fn) && !k.foreign[v]
	case *ast.SelectorExpr, *ast.IndexExpr, *ast.StarExpr:
		root := k.rootOf(e)
		return root != e && k.makes(root)
	case *ast.SliceExpr:
		return k.makes(e.X)
	case *ast.CallExpr:
		return k.returnsNew(e)
	}
	return false
}

// returnsNew tells whether a call is given nothing that leads to other memory than this function's own, so that what it returns does not.
func (k *keeper) returnsNew(call *ast.CallExpr) bool {
	of := call.Args
	if f := k.callee(call); f != nil && f.Signature().Recv() != nil && receiver(call) != nil {
		of = append([]ast.Expr{receiver(call)}, of...)
	}
	for _, e := range of {
		tv := k.pass.TypesInfo.Types[e]
		if !tv.IsType() && !isPlain(tv.Type, k.pass.Pkg) && !k.makes(e) {
			return false
		}
	}
	return true
}

// leads tells whether a value leads to the message's memory.
func (k *keeper) leads(e ast.Expr) bool {
	if t := k.pass.TypesInfo.TypeOf(e); t == nil || isPlain(t, k.pass.Pkg) {
		return false
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return k.leading[k.variable(e)]
	case *ast.UnaryExpr:
		return e.Op == token.AND && (k.leads(e.X) || k.inside(e.X))
	case *ast.SliceExpr:
		return k.leads(e.X) || k.inside(e.X)
	case *ast.StarExpr:
		return k.leads(e.X)
	case *ast.IndexExpr:
		return k.leads(e.X)
	case *ast.TypeAssertExpr:
		return k.leads(e.X)
	case *ast.SelectorExpr:
		return k.selects(e)
	case *ast.CompositeLit:
		for _, elt := range e.Elts {
			if kv, ok := elt.(*ast.KeyValueExpr); ok {
				elt = kv.Value
			}
			if k.leads(elt) {
				return true
			}
		}
	case *ast.CallExpr:
		return k.yields(e)
	case *ast.FuncLit:
		return k.usedIn(e) != nil
	}
	return false
}

// selects tells whether a field, or a method that has its receiver with it, leads to the message's memory.
func (k *keeper) selects(e *ast.SelectorExpr) bool {
	s := k.pass.TypesInfo.Selections[e]
	if s == nil || s.Kind() == types.FieldVal {
		return s != nil && k.leads(e.X)
	}
	recv := s.Obj().(*types.Func).Signature().Recv()
	_, isPointer := types.Unalias(recv.Type()).(*types.Pointer)
	return s.Kind() == types.MethodVal && isPointer && (k.leads(e.X) || k.inside(e.X))
}

// yields tells whether a conversion or append leads to the message's memory.
func (k *keeper) yields(call *ast.CallExpr) bool {
	if k.pass.TypesInfo.Types[call.Fun].IsType() {
		return k.leads(call.Args[0])
	}
	if !k.isBuiltin(call, "append") {
		return false
	}
	for i, a := range call.Args {
		copied := i > 0 && call.Ellipsis.IsValid() && k.elementsArePlain(a)
		if !copied && k.leads(a) {
			return true
		}
	}
	return false
}

func (k *keeper) elementsArePlain(e ast.Expr) bool {
	s, ok := k.pass.TypesInfo.TypeOf(e).Underlying().(*types.Slice)
	return ok && isPlain(s.Elem(), k.pass.Pkg)
}

// inside tells whether a place is one in the message's memory.
func (k *keeper) inside(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.StarExpr:
		return k.leads(e.X)
	case *ast.SelectorExpr:
		return k.leads(e.X) || k.inside(e.X)
	case *ast.IndexExpr:
		return k.leads(e.X) || k.inside(e.X)
	}
	return false
}

// outlives tells whether a place is there when the function has ended.
func (k *keeper) outlives(left ast.Expr) bool {
	root := k.rootOf(left)
	v := k.variable(root)
	switch {
	case v == nil:
		return ast.Unparen(left) != root // the blank identifier keeps nothing
	case isGlobal(v) || !within(v, k.fn):
		return true
	}
	return k.foreign[v] && k.indirect(left)
}

// indirect tells whether a place is reached through a pointer, slice or map.
func (k *keeper) indirect(e ast.Expr) bool {
	var x ast.Expr
	switch e := ast.Unparen(e).(type) {
	case *ast.StarExpr:
		return true
	case *ast.IndexExpr:
		x = e.X
	case *ast.SelectorExpr:
		x = e.X
	default:
		return false
	}
	switch k.pass.TypesInfo.TypeOf(x).Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map:
		return true
	}
	return k.indirect(x)
}

// usedIn is the first use in some code of a variable that leads to the message's memory, or nil.
func (k *keeper) usedIn(code ast.Node) *ast.Ident {
	var found *ast.Ident
	ast.Inspect(code, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && found == nil {
			if v, ok := k.pass.TypesInfo.Uses[id].(*types.Var); ok && k.leading[v] && !within(v, code) {
				found = id
			}
		}
		return found == nil
	})
	return found
}

// isPlain reports whether messages of a type travel as they lie in memory: without pointers, and without a PUP of their own.
func isPlain(t types.Type, from *types.Package) bool {
	if o, _, _ := types.LookupFieldOrMethod(t, true, from, "PUP"); o != nil {
		return false
	}
	if _, ok := types.Unalias(t).(*types.TypeParam); ok {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Kind() != types.String && u.Kind() != types.UnsafePointer
	case *types.Array:
		return isPlain(u.Elem(), from)
	case *types.Struct:
		for f := range u.Fields() {
			if !isPlain(f.Type(), from) {
				return false
			}
		}
		return u.NumFields() > 0
	}
	return false
}
