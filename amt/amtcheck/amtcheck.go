// Package amtcheck finds misuse of package amt that compiles, and fails only when it runs, or only on some ranks.
//
// It guarantees that a finding is about a function that is given to package amt or to another goroutine, about a Context that is
// stored, or about a variable of a rank that others are given; that every finding names what it is about, and says what to do
// instead; and that packages which do not import amt cost nothing but the look at their imports. It looks at one package at a time,
// and knows the functions that are given to amt as far as they are written in that package: literals, functions by their names,
// variables that literals are assigned to, and literals that a function returns. Where it cannot follow, it assumes that all is well.
//
// # What is not seen
//
//   - Functions that reach package amt by a parameter, a field, an interface or another package: they are no handlers, tasks or what
//     follows here, whatever they do.
//   - A Context in an interface that a function of another package keeps, one in a field of a structure that is declared elsewhere,
//     and one that a function is given and keeps by itself.
//   - Messages that functions of other packages keep, other than those of sync, sync/atomic and container; those that come out of
//     calls (m.Next()), and those of types that have a method PUP, which have memory of their own if it is not generated. A type without
//     pointers that is registered with a function (pup.Visit) has that too, and is taken here for one that has not.
//   - Messages in goroutines that a handler seems to wait for, and those that a variable which is assigned anew may still be.
//   - Waiting that a function called by a handler does under a condition; waiting with a Context that was copied.
//   - Whether what ranks or tasks share has a lock, and whether all ranks begin the same epochs.
package amtcheck

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports misuse of package amt.
var Analyzer = &analysis.Analyzer{
	Name: "amtcheck",
	Doc:  doc,
	Run:  check,
}

// A checker holds what is known of one package.
type checker struct {
	pass     *analysis.Pass
	decls    map[*types.Func]*ast.FuncDecl
	literals map[*types.Var][]*ast.FuncLit // that a variable is assigned
	uses     map[*types.Var][]use          // of Contexts, where not everybody may
	passed   map[*types.Var][]passing      // Contexts that are handed on
	followed map[body]bool                 // functions that have been looked through for kept messages
	said     map[string]bool
}

// check is the analyzer's entry.
func check(pass *analysis.Pass) (any, error) {
	if !importsAmt(pass.Pkg) {
		return nil, nil
	}
	c := &checker{
		pass: pass, decls: map[*types.Func]*ast.FuncDecl{}, literals: map[*types.Var][]*ast.FuncLit{},
		uses: map[*types.Var][]use{}, passed: map[*types.Var][]passing{}, followed: map[body]bool{}, said: map[string]bool{},
	}
	c.inspect(c.indexFunctions)
	for _, file := range pass.Files {
		ast.PreorderStack(file, nil, c.indexContexts)
	}
	c.inspect(c.look)
	return nil, nil
}

// inspect shows a function all nodes of the package.
func (c *checker) inspect(look func(ast.Node)) {
	for _, file := range c.pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			look(n)
			return true
		})
	}
}

// look looks at one node.
func (c *checker) look(n ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.checkGoroutine(n)
	case *ast.CallExpr:
		for _, g := range c.given(n) {
			c.checkGiven(g)
		}
		c.checkAppended(n)
	case *ast.StructType:
		c.checkFields(n)
	case *ast.AssignStmt:
		c.checkAssigned(n)
	case *ast.SendStmt:
		c.checkSent(n)
	case *ast.CompositeLit:
		c.checkElements(n)
	case *ast.Ident:
		c.checkInstance(n)
	}
}

// checkGiven looks at a function that is given to what runs it later or elsewhere.
func (c *checker) checkGiven(g given) {
	if g.as == handler || g.as == operator || g.as == mapping {
		c.checkMethod(g)
	}
	for _, fn := range c.functions(g.fn) {
		lit, isLit := fn.(*ast.FuncLit)
		if g.as == handler || g.as == operator || g.as == mapping {
			c.checkCaptures(fn, g)
		} else if isLit {
			c.checkContexts(lit, g.as)
		}
		c.checkRole(fn, g.as)
		if g.as == handler {
			c.checkMessage(fn)
		}
	}
}

// report reports a finding, unless the same kind was reported at this place.
func (c *checker) report(pos token.Pos, category, format string, args ...any) {
	key := fmt.Sprint(pos, category)
	if c.said[key] {
		return
	}
	c.said[key] = true
	c.pass.Report(analysis.Diagnostic{Pos: pos, Category: category, Message: fmt.Sprintf(format, args...)})
}
