package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGofmt asks that every Go file is written as gofmt writes it.
func TestGofmt(t *testing.T) {
	for _, file := range files(t, ".go") {
		src := read(t, file)
		want, err := format.Source(src)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if !bytes.Equal(src, want) {
			t.Errorf("%s: not formatted with gofmt", file)
		}
	}
}

// TestVet runs all of go vet; go test itself runs only part of it.
func TestVet(t *testing.T) {
	for _, dir := range append([]string{"."}, nested...) {
		runIn(t, dir, "go", "vet", "./...")
	}
}

// TestStaticcheck runs the version of staticcheck that go.mod names.
func TestStaticcheck(t *testing.T) {
	staticcheck := strings.TrimSpace(run(t, "go", "tool", "-n", "staticcheck"))
	for _, dir := range append([]string{"."}, nested...) {
		runIn(t, dir, staticcheck, "./...")
	}
}

// TestPackageComments asks every package to say what it is and guarantees, in one comment.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		var docs []string
		for _, file := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				docs = append(docs, f.Doc.Text())
			}
		}
		first := "Package " + p.Name + " "
		if p.Name == "main" {
			first = "Command "
		}
		switch {
		case len(docs) != 1:
			t.Errorf("%s has %d package comments, want 1", p.ImportPath, len(docs))
		case !strings.HasPrefix(docs[0], first):
			t.Errorf("%s: its comment begins %.30q, want %q", p.ImportPath, docs[0], first)
		case len(docs[0]) < 60 || !strings.Contains(docs[0], "."):
			t.Errorf("%s: its comment does not say what it guarantees: %q", p.ImportPath, docs[0])
		}
	}
}

// TestNoGlobals refuses package-level variables that begin empty: they can only be state. Tables, errors and
// compiled expressions have a value where they are declared; embedded files have a directive.
func TestNoGlobals(t *testing.T) {
	for _, file := range files(t, ".go") {
		fset := token.NewFileSet()
		src := read(t, file)
		if generated(src) {
			continue
		}
		f, err := parser.ParseFile(fset, file, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR || g.Doc != nil && strings.Contains(docText(g.Doc), "//go:embed") {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				if len(v.Values) == 0 && !declaresHandler(v) && (v.Doc == nil || !strings.Contains(docText(v.Doc), "//go:embed")) {
					t.Errorf("%s: %s is a global variable", fset.Position(v.Pos()), v.Names[0].Name)
				}
			}
		}
	}
}

// declaresHandler tells whether a variable is a handler, a call, a reduction, a collection or a method of package amt: a declaration, which an
// init function completes.
func declaresHandler(v *ast.ValueSpec) bool {
	var generic ast.Expr
	switch t := v.Type.(type) {
	case *ast.IndexExpr:
		generic = t.X
	case *ast.IndexListExpr:
		generic = t.X
	}
	declared := []string{"Handler", "Call", "Reduction", "Local", "Collection", "Method", "ElementReduction", "Group"}
	switch name := generic.(type) {
	case *ast.Ident: // in package amt itself
		return slices.Contains(declared, name.Name)
	case *ast.SelectorExpr:
		return slices.Contains(declared, name.Sel.Name) && fmt.Sprint(name.X) == "amt"
	}
	return false
}

// docText is the comment with its directives, which CommentGroup.Text leaves out.
func docText(g *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range g.List {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}
