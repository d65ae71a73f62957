// Command byssus runs MPI programs so that they can be checkpointed and go on after a crash. See byssus help.
package main

import (
	"os"

	"github.com/byssus-hpc/byssus/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
