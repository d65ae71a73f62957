// Package puptest runs the shadow check of package pup in tests.
//
// It guarantees that a test fails when a value would not come back as it was packed, with the path of every variable that is
// missed, visited twice, changed or no longer shared. Fields that the source marks with //pup:skip and a reason are
// respected, also in types whose PUP is written by hand.
package puptest

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

// Check fails the test for each fault that pup.Check finds in v, what v points to. Options are those of pup.Marshal.
func Check(t testing.TB, v any, opts ...pup.Option) {
	t.Helper()
	for _, f := range Faults(t, v, opts...) {
		t.Errorf("pup: %v", f)
	}
}

// Faults is what Check would report.
func Faults(t testing.TB, v any, opts ...pup.Option) []pup.Fault {
	t.Helper()
	err := pup.Check(v, opts...)
	var list *pup.CheckError
	if err != nil && !errors.As(err, &list) {
		t.Fatal(err)
	}
	if list == nil {
		return nil
	}
	s := sources{}
	return slices.DeleteFunc(list.Faults, func(f pup.Fault) bool {
		return f.Kind == pup.Missed && slices.ContainsFunc(f.Fields, s.skipped)
	})
}

// sources remembers which fields of a type are marked in its source.
type sources map[reflect.Type]map[string]bool

// skipped tells whether the source of a field says //pup:skip with a reason. Without the source (another machine,
// -trimpath) nothing is skipped.
func (s sources) skipped(f pup.FieldRef) bool {
	marks, known := s[f.Struct]
	if !known {
		marks = marked(f.Struct)
		s[f.Struct] = marks
	}
	return marks[f.Name]
}

// marked reads the files of a type's package, which are where its PUP method is.
func marked(t reflect.Type) map[string]bool {
	m, ok := reflect.PointerTo(t).MethodByName("PUP")
	if !ok || t.Name() == "" {
		return nil
	}
	file, _ := runtime.FuncForPC(m.Func.Pointer()).FileLine(m.Func.Pointer())
	names, err := fs.Glob(os.DirFS(filepath.Dir(file)), "*.go")
	if err != nil {
		return nil
	}
	want, _, _ := strings.Cut(t.Name(), "[")
	marks := map[string]bool{}
	for _, name := range names {
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(filepath.Dir(file), name), nil, parser.ParseComments)
		if err != nil {
			continue
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == want {
				if st, ok := spec.Type.(*ast.StructType); ok {
					mark(marks, st)
				}
			}
			return true
		})
	}
	return marks
}

// mark enters the fields of a structure whose comments have the directive.
func mark(marks map[string]bool, st *ast.StructType) {
	for _, f := range st.Fields.List {
		if !directive(f.Doc) && !directive(f.Comment) {
			continue
		}
		for _, name := range f.Names {
			marks[name.Name] = true
		}
		if len(f.Names) == 0 {
			marks[embedded(f.Type)] = true
		}
	}
}

func directive(g *ast.CommentGroup) bool {
	if g == nil {
		return false
	}
	return slices.ContainsFunc(g.List, func(c *ast.Comment) bool {
		reason, ok := strings.CutPrefix(c.Text, "//pup:skip ")
		return ok && strings.TrimSpace(reason) != ""
	})
}

// embedded is the name of an embedded field.
func embedded(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return embedded(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.IndexExpr:
		return embedded(x.X)
	case *ast.IndexListExpr:
		return embedded(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
