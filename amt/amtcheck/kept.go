package amtcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// A body is a function, with one of its parameters that leads to a message.
type body struct {
	fn      ast.Node
	message *types.Var
}

// A keeper looks for parts of a message that outlive its handler.
type keeper struct {
	*checker
	body
	leading map[*types.Var]bool // variables that lead to the message's memory
	foreign map[*types.Var]bool // variables that lead to what this function has not made
}

// checkMessage reports what a handler keeps of its message, if that lies in memory which is used again.
func (c *checker) checkMessage(fn ast.Node) {
	params := c.params(fn)
	if len(params) == 2 && params[1] != nil && isPlain(deref(params[1].Type()), c.pass.Pkg) {
		c.checkKept(body{fn, params[1]})
	}
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

// checkKept looks through a function, and those of this package that it hands the message on to.
func (c *checker) checkKept(b body) {
	if c.followed[b] {
		return
	}
	c.followed[b] = true
	k := &keeper{checker: c, body: b, leading: map[*types.Var]bool{b.message: true}, foreign: map[*types.Var]bool{}}
	for _, v := range append(c.params(b.fn), c.receiverOf(b.fn)) {
		k.foreign[v] = true
	}
	for known := -1; known < len(k.leading)+len(k.foreign); {
		known = len(k.leading) + len(k.foreign)
		ast.Inspect(b.fn, func(n ast.Node) bool {
			k.trace(n)
			return true
		})
	}
	ast.Inspect(b.fn, func(n ast.Node) bool {
		k.look(n)
		return true
	})
}

// trace notes what local variables lead to.
func (k *keeper) trace(n ast.Node) {
	var unknown []ast.Expr // what is assigned to values that do not stand by themselves
	switch n := n.(type) {
	case *ast.AssignStmt:
		if len(n.Lhs) != len(n.Rhs) {
			unknown = n.Lhs
		}
	case *ast.RangeStmt:
		unknown = []ast.Expr{n.Key, n.Value}
	}
	for _, e := range unknown {
		if id, ok := e.(*ast.Ident); ok {
			k.foreign[k.variable(id)] = true
		}
	}
	for left, right := range assigned(n) {
		k.follow(left, right)
	}
}

// follow notes what a local variable leads to once it, or a part of what it has, is assigned.
func (k *keeper) follow(left, right ast.Expr) {
	v := k.variable(k.rootOf(left))
	if v == nil || isGlobal(v) || !within(v, k.fn) {
		return
	}
	if k.leads(right) && !k.outlives(left) {
		k.leading[v] = true
	} else if ast.Unparen(left) == k.rootOf(left) && !k.makes(right) {
		k.foreign[v] = true
	}
}

// makes tells whether an expression is new memory.
func (k *keeper) makes(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CompositeLit, *ast.FuncLit, *ast.BasicLit:
		return true
	case *ast.UnaryExpr:
		return e.Op == token.AND && k.makes(e.X)
	case *ast.Ident:
		v := k.variable(e)
		return v == nil || !isGlobal(v) && within(v, k.fn) && !k.foreign[v]
	case *ast.CallExpr:
		return k.isBuiltin(e, "make") || k.isBuiltin(e, "new") || k.isBuiltin(e, "append") && k.makes(e.Args[0])
	}
	return false
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

// look reports what keeps a part of the message.
func (k *keeper) look(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for left, right := range assigned(n) {
			if k.leads(right) && k.outlives(left) {
				k.keeps(left.Pos(), text(left)+" keeps")
			}
		}
	case *ast.SendStmt:
		if k.leads(n.Value) {
			k.keeps(n.Pos(), "what is sent on "+text(n.Chan)+" leads to")
		}
	case *ast.GoStmt:
		for _, e := range append([]ast.Expr{n.Call.Fun}, n.Call.Args...) {
			if k.leads(e) {
				k.keeps(e.Pos(), text(e)+", taken to another goroutine, leads to")
			}
		}
	case *ast.CallExpr:
		k.lookAtCall(n)
	}
}

// lookAtCall reports the functions and values that lead to the message, and that a call keeps, and follows other calls.
func (k *keeper) lookAtCall(call *ast.CallExpr) {
	for _, g := range k.given(call) {
		if !k.leads(g.fn) {
			continue
		}
		if id := k.usedIn(g.fn); id != nil {
			k.keeps(id.Pos(), id.Name+", used by "+g.as.String()+", leads to")
		}
	}
	f := k.callee(call)
	if f == nil {
		return
	}
	for i, a := range call.Args {
		if !k.leads(a) {
			continue
		}
		if storesArguments(f) {
			k.keeps(a.Pos(), text(call.Fun)+" keeps")
		} else if fn, param := k.parameter(f, i); param != nil {
			k.checkKept(body{fn, param})
		}
	}
	if recv := f.Signature().Recv(); recv != nil && receiver(call) != nil && k.selects(ast.Unparen(call.Fun).(*ast.SelectorExpr)) {
		if decl := k.decls[f.Origin()]; decl != nil && k.receiverOf(decl) != nil {
			k.checkKept(body{decl, k.receiverOf(decl)})
		}
	}
}

// parameter is a function of this package, and its n-th parameter.
func (k *keeper) parameter(f *types.Func, n int) (ast.Node, *types.Var) {
	decl := k.decls[f.Origin()]
	if decl == nil {
		return nil, nil
	}
	if params := k.params(decl); n < len(params) {
		return decl, params[n]
	}
	return nil, nil
}

// storesArguments reports whether a function of the standard library keeps what it is given.
func storesArguments(f *types.Func) bool {
	if f.Pkg() == nil {
		return false
	}
	path := f.Pkg().Path()
	return strings.HasPrefix(path, "container/") || (path == "sync" || path == "sync/atomic") && f.Signature().Recv() != nil
}

func (k *keeper) keeps(pos token.Pos, what string) {
	m := k.message.Name()
	how := "v := *" + m
	if _, ok := k.message.Type().Underlying().(*types.Slice); ok {
		how = "slices.Clone(" + m + ")"
	}
	k.report(pos, "kept", "%s memory of the message %s, which is used again when the handler has ended: keep a copy, made before by %s", what, m, how)
}
