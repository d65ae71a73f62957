// Command run calls every function of package mpi, under the MPI whose launcher has started it.
package main

import (
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/mpi"
	"github.com/byssus-hpc/byssus/mpi/internal/battery"
)

func main() {
	err := mpi.Run(func(world *mpi.Comm) error {
		err := battery.Run(world)
		if err == nil && world.Rank() == 0 {
			fmt.Println("right on", world.Size())
		}
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		mpi.Abort(1)
		os.Exit(1)
	}
}
