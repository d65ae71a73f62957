package amtcheck

import (
	"go/ast"
	"go/types"
)

// checkGoroutine reports the Contexts that a go statement takes to another goroutine. Calls among its arguments are made before.
func (c *checker) checkGoroutine(s *ast.GoStmt) {
	for _, e := range append([]ast.Expr{s.Call.Fun}, s.Call.Args...) {
		e = ast.Unparen(e)
		t := c.pass.TypesInfo.TypeOf(e)
		_, isFunc := t.Underlying().(*types.Signature)
		if _, isCall := e.(*ast.CallExpr); isCall {
			c.checkGiven(given{e, goroutine})
		} else if isFunc || isContext(t) {
			c.checkContexts(e, goroutine)
		}
	}
}

// checkContexts reports the Contexts from around that code uses which runs later or elsewhere.
func (c *checker) checkContexts(code ast.Node, as role) {
	ast.Inspect(code, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		v, ok := c.pass.TypesInfo.Uses[id].(*types.Var)
		if !ok || v.IsField() || isGlobal(v) || within(v, code) {
			return true
		}
		if isContext(v.Type()) {
			c.report(id.Pos(), "context", "%s is the Context of the code around, %s", v.Name(), as.instead())
		} else if used := c.contextOf(v, code, map[*types.Var]bool{}); used != nil {
			c.report(id.Pos(), "context", "%s uses %s, the Context of the code around, %s", v.Name(), used.Name(), as.instead())
		}
		return true
	})
}

// contextOf is a Context that the function which a variable holds takes from around itself, by itself or by another such function. One
// that the code is a part of is the code's own to call.
func (c *checker) contextOf(fn *types.Var, code ast.Node, seen map[*types.Var]bool) *types.Var {
	if seen[fn] {
		return nil
	}
	seen[fn] = true
	var found *types.Var
	for _, lit := range c.literals[fn] {
		if lit.Pos() <= code.Pos() && code.End() <= lit.End() {
			continue
		}
		ast.Inspect(lit.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || found != nil {
				return found == nil
			}
			v, ok := c.pass.TypesInfo.Uses[id].(*types.Var)
			if !ok || v.IsField() || isGlobal(v) || within(v, lit) {
				return true
			}
			if isContext(v.Type()) {
				found = v
			} else {
				found = c.contextOf(v, code, seen)
			}
			return found == nil
		})
	}
	return found
}

// instead says why code in a role cannot use a Context from around, and what to do.
func (r role) instead() string {
	switch r {
	case goroutine:
		return "and of its goroutine alone: take what is needed of it before, as its Rank, or have Context.Go run this"
	case program:
		return "and of another run: use the Context that this function is given"
	case task:
		return "which may have ended when the task runs, on another goroutine: use the Context that the task is given"
	case operation:
		return "which may have ended when the operation runs: take what is needed of it before, and send in the function that follows it, Do's next argument"
	}
	return "which may have ended when this runs: use the Context that this function is given"
}
