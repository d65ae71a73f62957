// Package pupcheck finds mistakes in the PUP methods of package pup, which would otherwise cost a checkpoint.
//
// It guarantees that a finding is about a method PUP(*pup.Stream), a function that such a method may use, or a comment
// or tag that belongs to them, and that packages which do not import pup cost nothing but the look at their imports.
// The analysis executes every function with a *pup.Stream parameter symbolically, once for each thing that a stream
// does (sizing, packing, unpacking, unpacking old data), and compares what was visited: with each other, with the
// fields of the type, and with what can be known while unpacking. It follows calls within the package; what functions
// of other packages do with their parameters is known from facts, and functions that they are given are executed where
// they are called. Where it cannot follow, it assumes that all is well.
//
// # What is not seen
//
//   - Elements that are left out by conditions on data, on the variables of two loops at once (i < j, or a break out of
//     the outer loop), by a start or a step that is not constant, by an index that is computed (i*2, i%n), by a for
//     loop without a condition, through a slice variable that moves on (s = s[1:]), or by an iterator of another
//     package. One element visited by itself beside a loop that leaves out several counts as the rest. The elements of
//     maps are not counted at all.
//   - Opposite orders of loops whose direction is not known from their form, such as a list that is pushed and not
//     reversed.
//   - Numbers that lose bits by arithmetic or masks; lengths in 32 bits are taken to fit, and so are enumerations whose
//     constants do. A number that is shifted, divided or compared before a failure counts as taken care of.
//   - Changes by functions of other packages without the stream, except those of sort, slices, maps and
//     container/heap, and changes behind an interface or a function variable. A field that is computed from other
//     fields before it is visited counts as brought up to date; one that is set under a condition on itself, as
//     normalised.
//   - Resets of what was unpacked, if the program has looked at it in between or decides by data.
//   - Anything in a function with goto, or in one that is too large to be followed. A break or continue with a label is
//     taken for one of the innermost loop.
package pupcheck

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports mistakes in PUP methods.
var Analyzer = &analysis.Analyzer{
	Name:      "pupcheck",
	Doc:       doc,
	Run:       check,
	FactTypes: []analysis.Fact{new(FuncFact), new(SkipFact), new(BlockFact)},
}

// A checker holds what is known of one package.
type checker struct {
	pass       *analysis.Pass
	decls      map[*types.Func]*ast.FuncDecl
	funcs      []*types.Func // with a stream parameter, in order of their declaration
	blocks     map[*types.Var][]string
	tables     map[*types.Var]ast.Expr // variables that nobody assigns, with the literal that is their value
	skipped    map[*types.Var]token.Pos
	skipCalls  map[*types.Var]bool // given to pup.Skip
	versions   map[string]int64    // current versions of types
	compared   map[string][]comparedVersion
	reached    map[*ast.FuncDecl]bool
	reported   map[string]bool // places whose missing restoration has been reported, in this run
	constructs bool            // the package registers constructors
	said       map[string]bool
	quiet      bool
	inherited  []inheritedPUP
	texts      map[string]int64
	pending    []finding
}

// check is the analyzer's entry.
func check(pass *analysis.Pass) (any, error) {
	if !importsPup(pass.Pkg) {
		return nil, nil
	}
	c := &checker{
		pass: pass, decls: map[*types.Func]*ast.FuncDecl{}, blocks: map[*types.Var][]string{}, tables: map[*types.Var]ast.Expr{},
		skipped: map[*types.Var]token.Pos{}, skipCalls: map[*types.Var]bool{},
		reached: map[*ast.FuncDecl]bool{}, said: map[string]bool{},
		compared: map[string][]comparedVersion{}, texts: map[string]int64{},
	}
	c.index()
	c.checkFiles()
	c.checkGeneratedAddresses()
	c.reportInherited()
	c.flush()
	registered := c.registered()
	for _, wantPUP := range []bool{true, false} {
		for _, f := range c.funcs {
			decl := c.decls[f]
			if isPUP(f) == wantPUP && decl.Body != nil && (wantPUP || !c.reached[decl]) {
				c.checkFunc(f, decl, registered)
				c.flush()
			}
		}
	}
	c.exportFacts(registered)
	return nil, nil
}

// index lists functions, variables and skipped fields.
func (c *checker) index() {
	assigned := map[types.Object]bool{}
	for _, file := range c.pass.Files {
		for _, d := range file.Decls {
			if decl, ok := d.(*ast.FuncDecl); ok {
				if f, ok := c.pass.TypesInfo.Defs[decl.Name].(*types.Func); ok {
					c.decls[f] = decl
					if takesStream(f.Signature()) {
						c.funcs = append(c.funcs, f)
					}
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			c.noteGlobalUse(n, assigned)
			return true
		})
	}
	for _, file := range c.pass.Files {
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					c.indexVars(spec.(*ast.ValueSpec), assigned)
				}
			}
		}
	}
}

// noteGlobalUse notes variables that are assigned or whose address is taken.
func (c *checker) noteGlobalUse(n ast.Node, assigned map[types.Object]bool) {
	note := func(e ast.Expr) {
		for {
			switch x := ast.Unparen(e).(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.Ident:
				assigned[c.pass.TypesInfo.ObjectOf(x)] = true
				return
			default:
				return
			}
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			note(e)
		}
	case *ast.IncDecStmt:
		note(n.X)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			note(n.X)
		}
	}
}

// indexVars notes the blocks and constant tables among the variables of the package.
func (c *checker) indexVars(spec *ast.ValueSpec, assigned map[types.Object]bool) {
	if len(spec.Values) != len(spec.Names) {
		return
	}
	for i, name := range spec.Names {
		obj, ok := c.pass.TypesInfo.Defs[name].(*types.Var)
		if !ok {
			continue
		}
		init := ast.Unparen(spec.Values[i])
		if call, ok := init.(*ast.CallExpr); ok && pupNamed(obj.Type()) == "Block" {
			if fields := c.blockFields(call); fields != nil {
				c.blocks[obj] = fields
				if obj.Exported() {
					c.pass.ExportObjectFact(obj, &BlockFact{Fields: fields})
				}
			}
		}
		switch init.(type) {
		case *ast.CompositeLit, *ast.FuncLit:
			if !assigned[obj] && !obj.Exported() {
				c.tables[obj] = init
			}
		}
	}
}

// blockOf returns the fields of a variable that holds a pup.Block.
func (c *checker) blockOf(obj *types.Var) ([]string, bool) {
	if fields, ok := c.blocks[obj]; ok {
		return fields, true
	}
	if obj.Pkg() != nil && obj.Pkg() != c.pass.Pkg && pupNamed(obj.Type()) == "Block" {
		fact := new(BlockFact)
		if c.pass.ImportObjectFact(obj, fact) {
			return fact.Fields, true
		}
	}
	return nil, false
}

// number gives equal texts equal numbers.
func (c *checker) number(text string) int64 {
	if _, ok := c.texts[text]; !ok {
		c.texts[text] = int64(len(c.texts))
	}
	return c.texts[text]
}

// A finding is a diagnostic that has not been reported yet.
type finding struct {
	key  string
	diag analysis.Diagnostic
}

// flush reports what is pending.
func (c *checker) flush() {
	for _, f := range c.pending {
		c.pass.Report(f.diag)
	}
	c.pending = nil
}

// drop forgets what is pending.
func (c *checker) drop() []finding {
	list := c.pending
	for _, f := range list {
		delete(c.said, f.key)
	}
	c.pending = nil
	return list
}

// report reports a finding, unless the same was reported at this place.
func (c *checker) report(pos token.Pos, category, format string, args ...any) {
	c.reportFix(pos, category, nil, format, args...)
}

func (c *checker) reportFix(pos token.Pos, category string, fixes []analysis.SuggestedFix, format string, args ...any) {
	key := fmt.Sprint(pos, category)
	if category == "missed" {
		key += fmt.Sprintf(format, args...)
	}
	if c.quiet || c.said[key] || !pos.IsValid() {
		return
	}
	c.said[key] = true
	c.pending = append(c.pending, finding{key, analysis.Diagnostic{
		Pos: pos, Category: category, Message: fmt.Sprintf(format, args...), SuggestedFixes: fixes}})
}

func sortedPlaces(m map[string]Place) []Place {
	return slices.SortedFunc(maps.Values(m), func(a, b Place) int { return cmp.Compare(a.key(), b.key()) })
}

// interpret executes a function in one mode.
func (c *checker) interpret(f *types.Func, decl *ast.FuncDecl, m mode) (*run, bool) {
	c.reported = map[string]bool{}
	r := &run{checker: c, mode: m, root: decl, self: f, isPUP: isPUP(f)}
	return r, r.execute()
}

// checkFunc executes a function in every mode and compares what it did.
func (c *checker) checkFunc(f *types.Func, decl *ast.FuncDecl, registered map[string]int64) {
	c.compared = map[string][]comparedVersion{}
	c.versions = registered
	if _, ok := c.interpret(f, decl, anyVersion); !ok {
		return
	}
	common := c.drop()
	guesses := c.currentVersions(registered)
	best, fewest := 0, -1
	for i, versions := range guesses {
		c.checkVersions(f, decl, versions)
		if n := len(c.drop()); fewest < 0 || n < fewest {
			best, fewest = i, n
		}
	}
	c.checkVersions(f, decl, guesses[best])
	for _, found := range common {
		if !c.said[found.key] {
			c.said[found.key] = true
			c.pending = append(c.pending, found)
		}
	}
}

// checkVersions compares the modes, given the current versions of the types.
func (c *checker) checkVersions(f *types.Func, decl *ast.FuncDecl, versions map[string]int64) {
	c.versions = versions
	var runs [modes]*run
	for m := range anyVersion {
		r, ok := c.interpret(f, decl, m)
		if !ok {
			return
		}
		runs[m] = r
	}
	runs[packing].checkChanges(runs[unpacking])
	runs[sizing].checkChanges(runs[unpacking])
	if !c.compareTraces(runs) && isPUP(f) {
		c.checkCoverage(f, decl, runs)
	}
}

// exportFacts exports the summaries of the functions that other packages can call.
func (c *checker) exportFacts(registered map[string]int64) {
	c.quiet = true
	for _, f := range c.funcs {
		decl := c.decls[f]
		if isPUP(f) || decl.Body == nil || !f.Exported() {
			continue
		}
		c.compared = map[string][]comparedVersion{}
		c.versions = registered
		fact := new(FuncFact)
		ok := true
		for _, m := range []mode{anyVersion, sizing, packing, unpacking} {
			r, done := c.interpret(f, decl, m)
			ok = ok && done
			fact.Modes[m] = r.nodes
			c.versions = c.currentVersions(registered)[0]
		}
		if ok {
			c.pass.ExportObjectFact(f, fact)
		}
	}
}
