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
	at := 1
	if len(params) == 3 && params[0] != nil && amtNamed(params[0].Type()) == "At" { // a method, with its element
		at = 2
	}
	if len(params) > at && params[at] != nil && isPlain(deref(params[at].Type()), c.pass.Pkg) {
		c.checkKept(body{fn, params[at]})
	}
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
	if k.assigns(b.message) {
		return // it may be a copy
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

// assigns tells whether the function assigns something to a variable.
func (k *keeper) assigns(v *types.Var) bool {
	found := false
	ast.Inspect(k.fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.AssignStmt); ok {
			for _, left := range s.Lhs {
				id, ok := ast.Unparen(left).(*ast.Ident)
				found = found || ok && k.variable(id) == v
			}
		}
		return !found
	})
	return found
}

// joins tells whether the function waits for goroutines, as it seems: by a WaitGroup, a group of errgroup, or a channel. Then these may
// have what it has.
func (k *keeper) joins() bool {
	found := false
	ast.Inspect(k.fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f := k.callee(n)
			found = found || f != nil && f.Name() == "Wait" && k.amtFunc(n) == ""
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		}
		return !found
	})
	return found
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
	case *ast.FuncLit:
		for _, v := range k.params(n) {
			k.foreign[v] = true
		}
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
		if k.joins() {
			return
		}
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
		if !k.leads(g.fn) || g.as == goroutine && k.joins() {
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
		if len(k.given(call)) == 0 && storesArguments(f) {
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
