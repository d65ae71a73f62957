// Command lastwords is a program whose ranks all say why, and abort the job at once.
package main

import (
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/mpi"
)

func main() {
	err := mpi.Run(func(world *mpi.Comm) error { return fmt.Errorf("rank %d: the last words", world.Rank()) })
	fmt.Fprintln(os.Stderr, err)
	mpi.Abort(3)
}
