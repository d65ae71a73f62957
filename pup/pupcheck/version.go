package pupcheck

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
)

// A comparedVersion is a number that a version is compared with.
type comparedVersion struct {
	op token.Token
	n  int64
}

// registered finds the versions that the types of this package are registered with.
func (c *checker) registered() map[string]int64 {
	out := map[string]int64{}
	for _, file := range c.pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, inst := c.pupCallee(call)
			switch {
			case name == "Construct":
				c.constructs = true
			case name == "Register" && inst != nil && inst.Len() == 1:
				for _, rule := range call.Args {
					if n, ok := c.schemaVersion(rule); ok {
						out[types.TypeString(inst.At(0), nil)] = n
					}
				}
			}
			return true
		})
	}
	return out
}

// schemaVersion is the number in pup.SchemaVersion(number).
func (c *checker) schemaVersion(e ast.Expr) (int64, bool) {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return 0, false
	}
	if name, _ := c.pupCallee(call); name != "SchemaVersion" {
		return 0, false
	}
	v := c.pass.TypesInfo.Types[call.Args[0]].Value
	if v == nil {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(v))
}

// pupCallee returns the name and type arguments of a called function of package pup.
func (c *checker) pupCallee(call *ast.CallExpr) (string, *types.TypeList) {
	id := calleeIdent(call.Fun)
	if id == nil {
		return "", nil
	}
	f, ok := c.pass.TypesInfo.Uses[id].(*types.Func)
	if !ok {
		return "", nil
	}
	return pupFunc(f), c.pass.TypesInfo.Instances[id].TypeArgs
}

// calleeIdent is the identifier that names a called function.
func calleeIdent(fun ast.Expr) *ast.Ident {
	switch fun := ast.Unparen(fun).(type) {
	case *ast.Ident:
		return fun
	case *ast.SelectorExpr:
		return fun.Sel
	case *ast.IndexExpr:
		return calleeIdent(fun.X)
	case *ast.IndexListExpr:
		return calleeIdent(fun.X)
	}
	return nil
}

// currentVersions guesses the versions of types that are not registered here: the newest that their PUP knows of. If
// that is only told apart from others by equality, there may be a newer one: a second guess.
func (c *checker) currentVersions(registered map[string]int64) []map[string]int64 {
	first, second, differ := maps.Clone(registered), maps.Clone(registered), false
	for name, list := range c.compared {
		if _, ok := registered[name]; ok {
			continue
		}
		newest, equal := int64(1), false
		for _, v := range list {
			n := v.n
			if v.op == token.GTR || v.op == token.LEQ {
				n++
			}
			newest = max(newest, n)
		}
		for _, v := range list {
			equal = equal || v.n == newest && (v.op == token.EQL || v.op == token.NEQ)
		}
		first[name], second[name] = newest, newest
		if equal {
			second[name], differ = newest+1, true
		}
	}
	if differ {
		return []map[string]int64{first, second}
	}
	return []map[string]int64{first}
}
