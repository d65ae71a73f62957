package amtcheck

import (
	"go/ast"
	"go/types"
)

// checkMethod reports a handler that is the method of a value.
func (c *checker) checkMethod(g given) {
	sel, ok := ast.Unparen(g.fn).(*ast.SelectorExpr)
	if !ok {
		return
	}
	if s := c.pass.TypesInfo.Selections[sel]; s != nil && s.Kind() == types.MethodVal {
		c.report(g.fn.Pos(), "captured", "%s is the method of a value, which other ranks do not have: give Is a function of the package, and keep %s in an amt.Local",
			types.ExprString(g.fn), types.ExprString(sel.X))
	}
}

// checkCaptures reports what a handler takes from around: other ranks do not have it, and a run refuses it.
func (c *checker) checkCaptures(fn ast.Node, g given) {
	if t := c.typeParam(g.fn); t != nil {
		c.report(g.fn.Pos(), "captured", "%s depends on the type parameter %s, which a run takes for a captured variable: hand on a function that is a parameter, and give that as a function of the package",
			text(g.fn), t.Obj().Name())
	}
	lit, ok := fn.(*ast.FuncLit)
	if !ok {
		return
	}
	said := map[*types.Var]bool{}
	ast.Inspect(lit, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		v, ok := c.pass.TypesInfo.Uses[id].(*types.Var)
		if !ok || v.IsField() || isGlobal(v) || within(v, lit) || said[v] {
			return true
		}
		said[v] = true
		c.report(id.Pos(), "captured", "%s is captured by %s, and other ranks do not have it: put it into %s", v.Name(), g.as, insteadOf(g.as))
		return true
	})
}

func insteadOf(r role) string {
	if r == operator {
		return "the values that are combined, or make it a constant"
	}
	return "the message, an amt.Local or a constant"
}

// typeParam is a type parameter of the function around that a literal, or the instance of a function, has in its type; or nil.
func (c *checker) typeParam(e ast.Expr) *types.TypeParam {
	_, isLit := ast.Unparen(e).(*ast.FuncLit)
	if _, isFunc := c.named(e).(*types.Func); !isLit && !isFunc {
		return nil
	}
	sig, ok := c.pass.TypesInfo.TypeOf(e).(*types.Signature)
	if !ok {
		return nil
	}
	for v := range sig.Params().Variables() {
		if t := paramIn(deref(v.Type())); t != nil {
			return t
		}
	}
	return nil
}

// paramIn is a type parameter that a type is, or is an instance with; or nil.
func paramIn(t types.Type) *types.TypeParam {
	switch t := types.Unalias(t).(type) {
	case *types.TypeParam:
		return t
	case *types.Named:
		for arg := range t.TypeArgs().Types() {
			if p := paramIn(arg); p != nil {
				return p
			}
		}
	}
	return nil
}

// text is an expression, without the arguments of calls and the bodies of functions.
func text(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return text(e.Fun) + "(...)"
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	case *ast.FuncLit:
		return "this function"
	default:
		return types.ExprString(e)
	}
}
