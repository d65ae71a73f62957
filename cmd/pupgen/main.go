// Command pupgen writes PUP methods from types alone. What it writes visits every field, or says why it does not.
//
// Run pupgen -help for its flags; docs/man/pupgen.1 is its manual.
package main

import (
	"os"

	"github.com/byssus-hpc/byssus/internal/tools/pupgen"
)

func main() { os.Exit(pupgen.Main(os.Args[1:], os.Stdout, os.Stderr)) }
