package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// screen is how many lines a function may have; one that is a test, or a test's table, may have half as many again.
const screen = 70

// TestFunctionsFitAScreen measures every function, Go and C, that was written by hand.
func TestFunctionsFitAScreen(t *testing.T) {
	for _, file := range files(t, ".go", ".c", ".h") {
		src := read(t, file)
		if generated(src) {
			continue
		}
		if strings.HasSuffix(file, ".go") {
			measureGo(t, file, src)
		} else {
			measureC(t, file, strings.Split(string(src), "\n"))
		}
	}
}

func mostLines(file string) int {
	if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/") {
		return screen * 3 / 2
	}
	return screen
}

func measureGo(t *testing.T, file string, src []byte) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	most := mostLines(file)
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > most {
				t.Errorf("%s: %s has %d lines, at most %d", fset.Position(fn.Pos()), fn.Name.Name, n, most)
			}
		}
	}
}

// measureC takes what stands between a brace that opens at the left margin, or at the end of a line that begins there
// with a parameter list, and the next brace that closes at the left margin.
func measureC(t *testing.T, file string, lines []string) {
	begin, open := 0, false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "}"):
			if n := i - begin + 1; open && n > mostLines(file) {
				t.Errorf("%s:%d: this function has %d lines, at most %d", file, begin+1, n, mostLines(file))
			}
			open = false
		case line == "{" || line != "" && !strings.ContainsAny(line[:1], " \t#/*") && strings.HasSuffix(line, ") {"):
			begin, open = i, true
		}
	}
}
