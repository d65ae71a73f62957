// Command soak plays random programs of tasks, one after the other, on whatever ranks it is started.
//
//	soak -seed 1 -programs 1000
package main

import (
	"flag"
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/internal/random"
)

func main() {
	seed := flag.Uint64("seed", 1, "of the first program")
	programs := flag.Uint64("programs", 1000, "how many")
	flag.Parse()
	amt.Main(func(c amt.Context) error {
		for n := *seed; n < *seed+*programs; n++ {
			if err := random.Program(n, c.Ranks())(c); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Printf("%d programs from seed %d: all results are right\n", *programs, *seed)
		}
		return nil
	})
}
