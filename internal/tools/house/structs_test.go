package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// What one struct may have. With more methods or fields it is several things that nobody has told apart.
const (
	mostMethods = 30
	mostFields  = 15
)

// A size is how many methods and fields a struct has.
type size struct{ methods, fields int }

// An exception is a struct that has more than it may, how much that is, and why. It must not grow, and goes when its struct is no longer
// too large.
type exception struct {
	name string
	size
	why string
}

// Two reasons that several have.
const (
	record = "a record: its fields are independent values that are written out together, and its few methods read some of them"
	api    = "an interface that users know: a method for each thing that they may want, each short, over hardly any state"
)

var exceptions = []exception{
	{"internal/cli.runFlags", size{15, 27}, "options of the command line, one field each; its methods check and pass on groups of them"},
	{"internal/host/launch.Spec", size{8, 20}, record},
	{"internal/store/dataset.Meta", size{2, 33}, record},
	{"pup.typeInfo", size{14, 24}, "all facts of a type, made once and then only read; one pointer leads to them, which is what makes a visit fast"},
	{"pup/pupcheck.Node", size{4, 17}, record},
	{"pup/pupcheck.value", size{7, 26}, "what is known of a value, made once: independent facts, most of them absent"},

	{"pup.Stream", size{134, 2}, api},
	{"mpi.Comm", size{32, 7}, api},
	{"internal/engine/localmpi.Rank", size{34, 7}, "it implements engine.Engine, which has a method for each function of MPI that is used"},
	{"internal/cli.env", size{61, 4}, "a method for each verb and for what several verbs do, over four fields"},
	{"pup/pupcheck.run", size{175, 23}, "an interpreter: a method for each kind of statement, expression and known function"},
	{"pup/pupcheck.checker", size{51, 17}, "an analyzer: a method for each rule and for each way to find what it is about"},
	{"amt/amtcheck.checker", size{41, 7}, "an analyzer: a method for each rule and for each way to find what it is about"},
}

// TestStructs counts the methods and fields of each struct outside test/ and bench/ that was written by hand. Methods of what is
// embedded are not its own, and a field that is a struct counts as one. Structs without methods are records, whose fields are
// independent values (options, lines of JSON, headers of files): they may have any number of them.
func TestStructs(t *testing.T) {
	found := structs(t)
	for _, e := range exceptions {
		switch is, ok := found[e.name]; {
		case !ok:
			t.Errorf("%s: there is no such struct, but an exception for it", e.name)
		case is.methods > e.methods || is.fields > e.fields:
			t.Errorf("%s has %d methods and %d fields, its exception is for %d and %d", e.name, is.methods, is.fields, e.methods, e.fields)
		case !is.large():
			t.Errorf("%s is not too large any more: its exception can go", e.name)
		case len(e.why) < 20:
			t.Errorf("%s: its exception gives no reason", e.name)
		}
		delete(found, e.name)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if is := found[name]; is.large() {
			t.Errorf("%s has %d methods and %d fields, at most %d and %d", name, is.methods, is.fields, mostMethods, mostFields)
		}
	}
}

func (s size) large() bool { return s.methods > mostMethods || s.methods > 0 && s.fields > mostFields }

// structs are the sizes of all structs, by the folder and name of each. Files that are built instead of each other have one type
// together: the same method in both is one.
func structs(t *testing.T) map[string]size {
	methods := map[string]map[string]bool{}
	fields := map[string]int{}
	for _, file := range files(t, ".go") {
		src := read(t, file)
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/") || strings.HasPrefix(file, "bench/") || generated(src) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					name := path.Dir(file) + "." + receiver(n.Recv.List[0].Type)
					if methods[name] == nil {
						methods[name] = map[string]bool{}
					}
					methods[name][n.Name.Name] = true
				}
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					name := path.Dir(file) + "." + n.Name.Name
					fields[name] = max(fields[name], fieldsOf(s))
				}
			}
			return true
		})
	}
	sizes := map[string]size{}
	for name, n := range fields {
		sizes[name] = size{len(methods[name]), n}
	}
	return sizes
}

// fieldsOf counts the fields of a struct. One that is embedded has no name.
func fieldsOf(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

// receiver is the name of the type that a method is declared on.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	}
	return fmt.Sprint(e)
}
