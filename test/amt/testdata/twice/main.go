// Command twice runs two programs one after the other, by amt or by mpi, as its argument says: the first letter of each.
package main

import (
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

func main() {
	for _, by := range os.Args[1] {
		var err error
		if by == 'a' {
			err = amt.Run(func(amt.Context) error { return nil })
		} else {
			err = mpi.Run(func(*mpi.Comm) error { return nil })
		}
		if err != nil {
			fmt.Println(err)
		}
	}
}
