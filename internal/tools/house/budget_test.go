package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// allTests is what all tests may cost together, in seconds of the whole machine: 25 minutes.
const allTests = 25 * 60

// TestBudgets: every test that starts jobs has its cost in test/budget.txt, no package's tests cost more than its budget, and the
// budgets together are what a run of all tests may take. What tests really cost `make test` says; here nothing is measured.
func TestBudgets(t *testing.T) {
	const file = "test/budget.txt"
	budgets, err := harness.ReadBudgets(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	written := testNames(t)
	var sum float64
	for _, b := range budgets {
		sum += b.Seconds
		var costs float64
		for _, c := range b.Tests {
			costs += c.Seconds
			if !slices.Contains(written[b.Package], c.Test) {
				t.Errorf("%s: %s: there is no test %s", file, b.Package, c.Test)
			}
		}
		if costs > b.Seconds {
			t.Errorf("%s: %s: its tests cost %.0f seconds, its budget has %.0f", file, b.Package, costs, b.Seconds)
		}
		if !strings.HasPrefix(b.Package, "test/") {
			continue // packages with many cheap tests: their costs need not be told one by one
		}
		for _, name := range written[b.Package] {
			if !slices.ContainsFunc(b.Tests, func(c harness.Cost) bool { return c.Test == name }) {
				t.Errorf("%s: %s: %s has no cost", file, b.Package, name)
			}
		}
	}
	for name := range written {
		if strings.HasPrefix(name, "test/") && !slices.ContainsFunc(budgets, func(b harness.Budget) bool { return b.Package == name }) {
			t.Errorf("%s: %s has no budget", file, name)
		}
	}
	if sum > allTests {
		t.Errorf("%s: all packages have %.0f seconds, at most %d are there", file, sum, allTests)
	}
}

// testNames are the tests of each package.
func testNames(t *testing.T) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	for _, file := range files(t, "_test.go") {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
				names[filepath.Dir(file)] = append(names[filepath.Dir(file)], fn.Name.Name)
			}
		}
	}
	return names
}

// TestSharesAreNotWaitedFor: a test that has a share of the machine and waits for its parallel subtests, which wait for their turn, waits
// for ever when those whose turn it is wait for that share.
func TestSharesAreNotWaitedFor(t *testing.T) {
	for _, file := range files(t, "_test.go") {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil && callsOf(fn.Body, false)["harness.Share"] && callsOf(fn.Body, true)["t.Parallel"] {
				t.Errorf("%s: %s has a share and parallel subtests", file, fn.Name.Name)
			}
		}
	}
}

// callsOf are the calls in a function's body, as PACKAGE.NAME: those in the functions within it, or all others.
func callsOf(body *ast.BlockStmt, within bool) map[string]bool {
	calls := map[string]bool{}
	ast.PreorderStack(body, nil, func(n ast.Node, above []ast.Node) bool {
		inner := slices.ContainsFunc(above, func(a ast.Node) bool { _, ok := a.(*ast.FuncLit); return ok })
		if call, ok := n.(*ast.CallExpr); ok && inner == within {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok {
					calls[x.Name+"."+sel.Sel.Name] = true
				}
			}
		}
		return true
	})
	return calls
}
