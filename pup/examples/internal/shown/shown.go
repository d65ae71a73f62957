// Package shown compares what an example program prints with what its opening comment shows. It guarantees that the
// comments of the examples stay true.
package shown

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// Output reports a fault unless got is the last indented block of the package comment in a file.
func Output(t *testing.T, file, got string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	if want := lastBlock(f.Doc.Text()); got != want {
		t.Errorf("%s: printed\n%s\nthe comment shows\n%s", file, got, want)
	}
}

// lastBlock returns the last run of indented lines, without the indent.
func lastBlock(text string) string {
	block, inside := "", false
	for line := range strings.Lines(text) {
		shown, indented := strings.CutPrefix(line, "\t")
		if indented && !inside {
			block = ""
		}
		if inside = indented; inside {
			block += shown
		}
	}
	return block
}
