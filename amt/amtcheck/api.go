package amtcheck

import (
	"go/ast"
	"go/types"
	"strings"
)

// isAmtPath reports whether an import path is that of package amt, vendored or not.
func isAmtPath(path string) bool {
	const home = "github.com/byssus-hpc/byssus/amt"
	return path == home || strings.HasSuffix(path, "/"+home)
}

// importsAmt reports whether a package can name the types of package amt.
func importsAmt(pkg *types.Package) bool {
	for _, imp := range pkg.Imports() {
		if isAmtPath(imp.Path()) {
			return true
		}
	}
	return false
}

// amtNamed returns the name of a type of package amt, without its type arguments, or "".
func amtNamed(t types.Type) string {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil || !isAmtPath(n.Obj().Pkg().Path()) {
		return ""
	}
	return n.Obj().Name()
}

// isContext reports whether a type is that of a Context, or of an At, which is one, or of a pointer to one.
func isContext(t types.Type) bool {
	if t == nil {
		return false
	}
	name := amtNamed(deref(t))
	return name == "Context" || name == "At"
}

// holdsContext reports whether a value of a type is a Context, or holds some as its elements. Those in fields are told where the
// fields are declared.
func holdsContext(t types.Type) bool {
	switch u := types.Unalias(t).(type) {
	case *types.Pointer:
		return holdsContext(u.Elem())
	case *types.Slice:
		return holdsContext(u.Elem())
	case *types.Array:
		return holdsContext(u.Elem())
	case *types.Chan:
		return holdsContext(u.Elem())
	case *types.Map:
		return holdsContext(u.Elem()) || holdsContext(u.Key())
	}
	return isContext(t)
}

// deref is the type that a pointer type points to, or the type itself.
func deref(t types.Type) types.Type {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		return ptr.Elem()
	}
	return t
}

// amtFunc returns the name of a function or method ("Context.Go") of package amt that is called, or "".
func (c *checker) amtFunc(call *ast.CallExpr) string {
	f := c.callee(call)
	if f == nil || f.Pkg() == nil || !isAmtPath(f.Pkg().Path()) {
		return ""
	}
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Name()
	}
	return amtNamed(deref(recv.Type())) + "." + f.Name()
}

// callee is the function or method that is called by its name, or nil.
func (c *checker) callee(call *ast.CallExpr) *types.Func {
	f, _ := c.named(call.Fun).(*types.Func)
	return f
}

// named is what an expression names: a variable, function or method; or nil.
func (c *checker) named(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return c.pass.TypesInfo.ObjectOf(e)
	case *ast.SelectorExpr:
		return c.pass.TypesInfo.ObjectOf(e.Sel)
	case *ast.IndexExpr:
		if c.pass.TypesInfo.Types[e.Index].IsType() {
			return c.named(e.X)
		}
	case *ast.IndexListExpr:
		return c.named(e.X)
	}
	return nil
}

// variable is the variable that an expression names, no field, but that of an At for its Context; or nil.
func (c *checker) variable(e ast.Expr) *types.Var {
	if sel, ok := ast.Unparen(e).(*ast.SelectorExpr); ok && sel.Sel.Name == "Context" && amtNamed(c.pass.TypesInfo.TypeOf(sel.X)) == "At" {
		return c.variable(sel.X)
	}
	v, ok := c.named(e).(*types.Var)
	if !ok || v.IsField() {
		return nil
	}
	return v
}

// receiver is what a method is called on, or nil.
func receiver(call *ast.CallExpr) ast.Expr {
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		return sel.X
	}
	return nil
}

// isGlobal reports whether a variable is one of a package.
func isGlobal(v *types.Var) bool { return v.Pkg() != nil && v.Parent() == v.Pkg().Scope() }

// within reports whether an object is declared in a part of the source.
func within(o types.Object, n ast.Node) bool { return n.Pos() <= o.Pos() && o.Pos() < n.End() }
