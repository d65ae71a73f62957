// Command amtvet finds misuse of package amt that compiles: a Context that is used by other code than it was given to, handlers
// that wait, or that ranks do not share, messages that are kept, and more; amtvet --help lists them.
//
// It guarantees the same findings by itself and as a tool of go vet, and that it only reads.
//
//	amtvet [flags] [packages]
//	go vet -vettool=$(which amtvet) [packages]
//
// By itself it exits with 0 if there is nothing to report, 1 if a package cannot be loaded, 2 if it is called wrongly
// and 3 if it has findings; go vet exits with 1 in all these cases.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/singlechecker"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/byssus-hpc/byssus/amt/amtcheck"
)

const usage = `amtvet finds misuse of package github.com/byssus-hpc/byssus/amt that compiles.

usage: amtvet [flags] [packages]
       go vet -vettool=$(which amtvet) [packages]

  amtvet ./...                            check this module
  go vet -vettool=$(which amtvet) ./...   use the go command's cache

flags:
  -json       print JSON
  -c N        show N lines around each finding
  -test=false leave out test files

exit codes:
  0  nothing to report
  1  a package could not be loaded
  2  wrong flags or arguments
  3  findings (without -json)
  go vet -vettool exits with 1 for findings and for failures

`

func main() {
	args := os.Args[1:]
	switch {
	case wantsHelp(args):
		help(os.Stdout)
	case calledByGo(args):
		unitchecker.Main(amtcheck.Analyzer)
	case len(args) == 0:
		help(os.Stderr)
		os.Exit(2)
	default:
		singlechecker.Main(amtcheck.Analyzer)
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

func help(w io.Writer) {
	fmt.Fprint(w, usage, amtcheck.Analyzer.Doc)
}
