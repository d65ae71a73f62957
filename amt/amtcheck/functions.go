package amtcheck

import (
	"go/ast"
	"go/types"
)

// A role is what a function serves as.
type role int

const (
	goroutine role = iota // another goroutine than the one around
	program               // the main function of a run
	task
	handler
	operator  // of a reduction
	mapping   // of a collection
	operation // of a scope
	follower  // of an epoch, or of a scope's operation
)

func (r role) String() string {
	return [...]string{"a goroutine", "the function of a run", "a task", "a handler", "a reduction's function", "a collection's mapping", "an operation of a scope",
		"what follows an epoch or an operation"}[r]
}

// A given is a function that is given to what runs it later or elsewhere.
type given struct {
	fn ast.Expr
	as role
}

// given lists the functions among the arguments of a call that run later or elsewhere.
func (c *checker) given(call *ast.CallExpr) []given {
	args := call.Args
	switch name := c.amtFunc(call); {
	case name == "Context.Go" && len(args) == 2:
		return []given{{args[1], task}}
	case name == "Epoch.OnDone" && len(args) == 2:
		return []given{{args[1], follower}}
	case name == "Scope.Do" && len(args) >= 2:
		list := []given{{args[1], operation}}
		for _, then := range args[2:] {
			list = append(list, given{then, follower})
		}
		return list
	case (name == "Handler.Is" || name == "Call.Is") && len(args) >= 1:
		return []given{{args[0], handler}}
	case name == "Method.Is" && len(args) >= 2:
		return []given{{args[1], handler}}
	case name == "ElementReduction.Is" && len(args) == 2:
		return []given{{args[1], operator}}
	case name == "MappedBy" && len(args) == 1:
		return []given{{args[0], mapping}}
	case name == "Reduction.Is" && len(args) == 1:
		return []given{{args[0], operator}}
	case (name == "Run" || name == "Main" || name == "Attached.Run" || name == "Attached.Enter") && len(args) == 1:
		return []given{{args[0], program}}
	case name == "RunLocal" && len(args) == 2:
		return []given{{args[1], program}}
	case name == "" && c.startsGoroutine(call):
		var list []given
		for _, a := range args {
			list = append(list, given{a, goroutine})
		}
		return list
	}
	return nil
}

// startsGoroutine tells whether a call has others run the functions that it is given: errgroup.Group.Go, sync.WaitGroup.Go,
// time.AfterFunc and their like.
func (c *checker) startsGoroutine(call *ast.CallExpr) bool {
	f := c.callee(call)
	if f == nil {
		return false
	}
	switch f.Name() {
	case "Go", "TryGo":
		return f.Signature().Recv() != nil
	case "AfterFunc":
		return f.Pkg() != c.pass.Pkg
	}
	return false
}

// indexFunctions notes functions, and the literals that variables are assigned.
func (c *checker) indexFunctions(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if f, ok := c.pass.TypesInfo.Defs[n.Name].(*types.Func); ok && n.Body != nil {
			c.decls[f] = n
		}
	case *ast.AssignStmt, *ast.ValueSpec:
		for left, right := range assigned(n) {
			if lit, ok := ast.Unparen(right).(*ast.FuncLit); ok {
				if v := c.variable(left); v != nil {
					c.literals[v] = append(c.literals[v], lit)
				}
			}
		}
	}
}

// assigned yields what a statement or declaration assigns to what, where each value stands by itself.
func assigned(n ast.Node) func(func(left, right ast.Expr) bool) {
	return func(yield func(left, right ast.Expr) bool) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i := range n.Lhs {
				if len(n.Rhs) == len(n.Lhs) && !yield(n.Lhs[i], n.Rhs[i]) {
					return
				}
			}
		case *ast.ValueSpec:
			for i := range n.Names {
				if len(n.Values) == len(n.Names) && !yield(n.Names[i], n.Values[i]) {
					return
				}
			}
		}
	}
}

// functions lists the literals and declarations of this package that an expression may stand for.
func (c *checker) functions(e ast.Expr) []ast.Node {
	var list []ast.Node
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return []ast.Node{e}
	case *ast.CallExpr:
		if f := c.callee(e); f != nil {
			return c.returned(c.decls[f.Origin()])
		}
	default:
		switch o := c.named(e).(type) {
		case *types.Func:
			if decl := c.decls[o.Origin()]; decl != nil {
				list = append(list, decl)
			}
		case *types.Var:
			for _, lit := range c.literals[o] {
				list = append(list, lit)
			}
		}
	}
	return list
}

// returned lists the literals that a function returns.
func (c *checker) returned(decl *ast.FuncDecl) []ast.Node {
	var list []ast.Node
	if decl == nil {
		return nil
	}
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		if ret, ok := n.(*ast.ReturnStmt); ok {
			for _, e := range ret.Results {
				if lit, ok := ast.Unparen(e).(*ast.FuncLit); ok {
					list = append(list, lit)
				}
			}
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	return list
}

// params lists the parameters of a literal or a declaration; those without a name are nil.
func (c *checker) params(fn ast.Node) []*types.Var {
	var list []*types.Var
	for _, field := range funcType(fn).Params.List {
		for _, name := range field.Names {
			v, _ := c.pass.TypesInfo.Defs[name].(*types.Var)
			list = append(list, v)
		}
		if len(field.Names) == 0 {
			list = append(list, nil)
		}
	}
	return list
}

// receiverOf is the receiver of a method, if it has a name; or nil.
func (c *checker) receiverOf(fn ast.Node) *types.Var {
	decl, ok := fn.(*ast.FuncDecl)
	if !ok || decl.Recv == nil || len(decl.Recv.List[0].Names) == 0 {
		return nil
	}
	v, _ := c.pass.TypesInfo.Defs[decl.Recv.List[0].Names[0]].(*types.Var)
	return v
}

func funcType(fn ast.Node) *ast.FuncType {
	if lit, ok := fn.(*ast.FuncLit); ok {
		return lit.Type
	}
	return fn.(*ast.FuncDecl).Type
}
