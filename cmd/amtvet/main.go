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
	"github.com/byssus-hpc/byssus/amt/amtcheck"
	"github.com/byssus-hpc/byssus/internal/tools/vettool"
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

func main() { vettool.Main(amtcheck.Analyzer, usage) }
