// Command errortext prints what MPI says of a message to a rank that there is not, and of one that is too long.
package main

import (
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/mpi"
)

func main() {
	err := mpi.Run(func(world *mpi.Comm) error {
		if world.Rank() > 0 {
			return nil
		}
		fmt.Println(mpi.Send(world, []int{1}, world.Size(), 0))
		q, err := mpi.Isend(world, make([]byte, 20), 0, 5)
		if err != nil {
			return err
		}
		_, err = mpi.Recv(world, make([]byte, 8), 0, 5)
		fmt.Println(err)
		return mpi.WaitAll(q)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
