package amtcheck

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
)

// A use is one of a Context that not all code may make of its own.
type use struct {
	call      *ast.CallExpr
	name      string // of the method
	sometimes bool   // under a condition
}

// A passing is a Context that becomes another's.
type passing struct {
	call      *ast.CallExpr
	to        *types.Var
	inside    bool // in the body of an epoch, which is part of the code around; else in a function that is called
	sometimes bool
}

// indexContexts notes what is done with Contexts.
func (c *checker) indexContexts(n ast.Node, stack []ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return true
	}
	sometimes := isConditional(n, stack)
	switch name := c.amtFunc(call); name {
	case "Epoch.Wait":
		epoch, ok := ast.Unparen(receiver(call)).(*ast.CallExpr)
		if !ok || c.amtFunc(epoch) != "Context.Collective" { // else the epoch is told already
			c.note(call.Args[0], use{call, name, sometimes})
		}
	case "Reduction.All", "Call.Wait", "ElementReduction.Wait", "Collection.Create", "Collection.CreateEmpty", "Save", "Restore", "OnPhase":
		if len(call.Args) > 0 {
			c.note(call.Args[0], use{call, name, sometimes})
		}
	case "Context.Scope", "Context.Phase", "Context.Subphase":
		c.note(receiver(call), use{call, name, sometimes})
	case "Context.Collective", "Context.Rooted", "Context.Modify":
		if name != "Context.Rooted" {
			c.note(receiver(call), use{call, name, sometimes})
		}
		if len(call.Args) >= 2 {
			c.handOn(receiver(call), c.functions(call.Args[1]), 0, passing{call: call, inside: true, sometimes: sometimes})
		}
	case "":
		for i, a := range call.Args {
			c.handOn(a, c.functions(call.Fun), i, passing{call: call, sometimes: sometimes})
		}
	}
	return true
}

// note notes a use of a Context.
func (c *checker) note(context ast.Expr, u use) {
	if v := c.variable(context); v != nil {
		c.uses[v] = append(c.uses[v], u)
	}
}

// handOn notes a Context that becomes the n-th parameter of functions.
func (c *checker) handOn(context ast.Expr, fns []ast.Node, n int, p passing) {
	v := c.variable(context)
	if v == nil || !isContext(v.Type()) {
		return
	}
	for _, fn := range fns {
		if params := c.params(fn); n < len(params) && params[n] != nil {
			p.to = params[n]
			c.passed[v] = append(c.passed[v], p)
		}
	}
}

// isConditional tells whether a node runs under a condition, within the function that it is written in.
func isConditional(n ast.Node, stack []ast.Node) bool {
	inner := n
	for _, outer := range slices.Backward(stack) {
		switch outer := outer.(type) {
		case *ast.FuncLit, *ast.FuncDecl:
			return false
		case *ast.IfStmt:
			if inner == ast.Node(outer.Body) || inner == outer.Else {
				return true
			}
		case *ast.CaseClause, *ast.CommClause:
			return true
		}
		inner = outer
	}
	return false
}

// checkRole reports what a function does that others alone may do, by what it serves as.
func (c *checker) checkRole(fn ast.Node, as role) {
	if as != handler && as != task && as != follower {
		return
	}
	if params := c.params(fn); len(params) > 0 && params[0] != nil {
		c.checkUses(params[0], as, map[*types.Var]bool{})
	}
}

func (c *checker) checkUses(context *types.Var, as role, seen map[*types.Var]bool) {
	if seen[context] {
		return
	}
	seen[context] = true
	for _, u := range c.uses[context] {
		if as.mayNot(u.name) {
			c.report(u.call.Pos(), "role", "%s %s", as, u.wrong())
		}
	}
	for _, p := range c.passed[context] {
		if p.inside {
			c.checkUses(p.to, as, seen)
		} else if u, ok := c.firstUse(p.to, as, map[*types.Var]bool{}); ok {
			c.report(p.call.Pos(), "role", "%s, called by %s, %s", text(p.call.Fun), as, u.wrong())
		}
	}
}

// firstUse is a use that is made of a Context whenever a function gets it, and that code in a role may not make.
func (c *checker) firstUse(context *types.Var, as role, seen map[*types.Var]bool) (use, bool) {
	if seen[context] {
		return use{}, false
	}
	seen[context] = true
	for _, u := range c.uses[context] {
		if !u.sometimes && as.mayNot(u.name) {
			return u, true
		}
	}
	for _, p := range c.passed[context] {
		if p.sometimes {
			continue
		}
		if u, ok := c.firstUse(p.to, as, seen); ok {
			return u, true
		}
	}
	return use{}, false
}

// mayNot tells whether a method is for others.
func (r role) mayNot(name string) bool {
	return name != "Epoch.Wait" && name != "Call.Wait" || r != task
}

// wrong says what a use is, and what to do instead.
func (u use) wrong() string {
	on := text(receiver(u.call))
	switch u.name {
	case "Epoch.Wait":
		return fmt.Sprintf("waits for %s, and its rank can do nothing of it meanwhile: use OnDone", on)
	case "Call.Wait":
		return fmt.Sprintf("waits for the reply of %s, and its rank can do nothing of it meanwhile: use Ask, with a callback to a handler", on)
	case "Context.Collective":
		return fmt.Sprintf("begins a collective epoch with %s, which only main functions can: use Rooted, or have the main function begin it", on)
	case "Context.Scope":
		return fmt.Sprintf("makes a scope with %s, which only main functions can: make it there, and keep it in an amt.Local", on)
	}
	return fmt.Sprintf("calls %s, which only main functions can: call it there, when the epoch is over", text(u.call.Fun))
}
