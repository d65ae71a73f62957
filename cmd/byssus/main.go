// Command byssus runs MPI programs so that they can be checkpointed and go on after a crash. See byssus help.
// Called by the name of one of SCR's commands it is that.
package main

import (
	"os"

	"github.com/byssus-hpc/byssus/internal/cli"
)

func main() { os.Exit(cli.Called(os.Args, os.Stdout, os.Stderr)) }
