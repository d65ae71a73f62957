package amtcheck

import (
	"go/ast"
	"go/types"
)

const remedy = "a Context is of use only to the code that it was given to: hand it on as a parameter"

// checkFields reports fields of structures that hold a Context.
func (c *checker) checkFields(s *ast.StructType) {
	for _, field := range s.Fields.List {
		if !holdsContext(c.pass.TypesInfo.TypeOf(field.Type)) {
			continue
		}
		name := "Context" // where it is embedded
		if len(field.Names) > 0 {
			name = field.Names[0].Name
		}
		c.report(field.Pos(), "stored", "the field %s holds a Context: %s", name, remedy)
	}
}

// checkAssigned reports a Context, or the variable of a rank, that is assigned to what outlives the code.
func (c *checker) checkAssigned(s *ast.AssignStmt) {
	for left, right := range assigned(s) {
		t := c.pass.TypesInfo.TypeOf(right)
		root := c.variable(c.rootOf(left))
		global := root != nil && isGlobal(root)
		switch {
		case isContext(t) && (global || c.keeps(left)):
			c.report(left.Pos(), "stored", "%s is stored in %s: %s", types.ExprString(right), types.ExprString(left), remedy)
		case global && c.isLocal(right):
			c.report(left.Pos(), "shared", "%s keeps what %s is on one rank, and all ranks of a process share %s: call Of where it is needed",
				types.ExprString(left), types.ExprString(ast.Unparen(right).(*ast.CallExpr).Fun), root.Name())
		}
	}
}

// keeps tells whether what is assigned to is an element, what a pointer leads to, or an interface in a field. A field that is of type
// Context is told where it is declared.
func (c *checker) keeps(left ast.Expr) bool {
	switch left := ast.Unparen(left).(type) {
	case *ast.IndexExpr, *ast.StarExpr:
		return true
	case *ast.SelectorExpr:
		return types.IsInterface(c.pass.TypesInfo.TypeOf(left))
	}
	return false
}

// isLocal reports whether an expression is the variable of a rank.
func (c *checker) isLocal(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && c.amtFunc(call) == "Local.Of"
}

// checkSent reports a Context that is sent on a channel.
func (c *checker) checkSent(s *ast.SendStmt) {
	if isContext(c.pass.TypesInfo.TypeOf(s.Value)) {
		c.report(s.Pos(), "stored", "%s is sent on the channel %s: %s", types.ExprString(s.Value), types.ExprString(s.Chan), remedy)
	}
}

// checkElements reports Contexts among the elements of a slice, array or map, or in an interface of a structure.
func (c *checker) checkElements(lit *ast.CompositeLit) {
	s, isStruct := deref(c.pass.TypesInfo.TypeOf(lit)).Underlying().(*types.Struct)
	for i, e := range lit.Elts {
		list := []ast.Expr{e}
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			list = []ast.Expr{kv.Key, kv.Value}
		}
		for _, e := range list {
			if isContext(c.pass.TypesInfo.TypeOf(e)) && !(isStruct && c.fieldIsContext(s, lit.Elts[i], i)) {
				c.report(e.Pos(), "stored", "%s is stored in a value of type %s: %s", types.ExprString(e), c.typeText(lit), remedy)
			}
		}
	}
}

// fieldIsContext reports whether an element of a structure's literal, the i-th, is for a field that is itself a Context.
func (c *checker) fieldIsContext(s *types.Struct, elt ast.Expr, i int) bool {
	if kv, ok := elt.(*ast.KeyValueExpr); ok {
		return isContext(c.pass.TypesInfo.TypeOf(kv.Key))
	}
	return isContext(s.Field(i).Type())
}

// checkAppended reports a Context that is appended to a slice.
func (c *checker) checkAppended(call *ast.CallExpr) {
	if !c.isBuiltin(call, "append") {
		return
	}
	for _, e := range call.Args[1:] {
		if isContext(c.pass.TypesInfo.TypeOf(e)) {
			c.report(e.Pos(), "stored", "%s is appended to %s: %s", types.ExprString(e), types.ExprString(call.Args[0]), remedy)
		}
	}
}

// typeText is the type of an expression, as this package writes it.
func (c *checker) typeText(e ast.Expr) string {
	return types.TypeString(c.pass.TypesInfo.TypeOf(e), func(p *types.Package) string {
		if p == c.pass.Pkg {
			return ""
		}
		return p.Name()
	})
}

// isBuiltin reports whether a call is one of a builtin function.
func (c *checker) isBuiltin(call *ast.CallExpr, name string) bool {
	id, ok := ast.Unparen(call.Fun).(*ast.Ident)
	return ok && id.Name == name && c.pass.TypesInfo.Types[id].IsBuiltin()
}

// checkInstance reports messages and variables of ranks that are Contexts.
func (c *checker) checkInstance(id *ast.Ident) {
	inst, ok := c.pass.TypesInfo.Instances[id]
	if !ok || amtNamed(inst.Type) == "" {
		return
	}
	for t := range inst.TypeArgs.Types() {
		if holdsContext(t) {
			c.report(id.Pos(), "stored", "%s is of Contexts: %s", id.Name, remedy)
		}
	}
}

// rootOf is the variable, call or literal that a place is reached from.
func (c *checker) rootOf(e ast.Expr) ast.Expr {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			if v := c.variable(x); v != nil { // of another package
				return x
			}
			e = x.X
		default:
			return x
		}
	}
}
