// Command pupvet finds mistakes in the PUP methods of package pup: fields that are not saved, packing and unpacking that
// differ, and more; pupvet --help lists them.
//
// It guarantees the same findings by itself and as a tool of go vet, and that it only reads, unless -fix is given.
//
//	pupvet [flags] [packages]
//	go vet -vettool=$(which pupvet) [packages]
//
// By itself it exits with 0 if there is nothing to report, 1 if a package cannot be loaded, 2 if it is called wrongly
// and 3 if it has findings; go vet exits with 1 in all these cases.
package main

import (
	"github.com/byssus-hpc/byssus/internal/tools/vettool"
	"github.com/byssus-hpc/byssus/pup/pupcheck"
)

const usage = `pupvet finds mistakes in PUP methods, those of package github.com/byssus-hpc/byssus/pup.

usage: pupvet [flags] [packages]
       go vet -vettool=$(which pupvet) [packages]

  pupvet ./...                         check this module
  pupvet -fix ./...                    and mend what can be mended
  pupvet -fix -diff ./...              only show how
  go vet -vettool=$(which pupvet) ./...   use the go command's cache

flags:
  -fix        apply the suggested fixes
  -diff       with -fix: print the changes instead of writing them
  -json       print JSON
  -c N        show N lines around each finding
  -test=false leave out test files

exit codes:
  0  nothing to report
  1  a package could not be loaded
  2  wrong flags or arguments
  3  findings (without -json and -fix)
  go vet -vettool exits with 1 for findings and for failures

`

func main() { vettool.Main(pupcheck.Analyzer, usage) }
