// Package vettool makes a command of an analyzer. It guarantees the same findings by itself and as a tool of go vet, and the exit codes
// that the commands document: 0 if there is nothing to report, 1 if a package cannot be loaded, 2 if it is called wrongly, 3 if it has
// findings; go vet exits with 1 in all these cases.
package vettool

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/singlechecker"
	"golang.org/x/tools/go/analysis/unitchecker"
)

// Main is the main function of the command; help is its usage and what the analyzer says of itself.
func Main(a *analysis.Analyzer, usage string) {
	args := os.Args[1:]
	switch {
	case wantsHelp(args):
		help(os.Stdout, a, usage)
	case calledByGo(args):
		unitchecker.Main(a)
	case len(args) == 0:
		help(os.Stderr, a, usage)
		os.Exit(2)
	default:
		singlechecker.Main(a)
	}
}

func wantsHelp(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0])
}

// calledByGo reports whether the arguments are those of the protocol between go vet and its tool.
func calledByGo(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "-V") || a == "-flags" || a == "--flags" || strings.HasSuffix(a, ".cfg")
	})
}

func help(w io.Writer, a *analysis.Analyzer, usage string) { fmt.Fprint(w, usage, a.Doc) }
