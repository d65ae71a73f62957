// Command soak plays random programs of tasks, one after the other, on whatever ranks it is started.
//
//	soak -seed 1 -programs 1000
//	soak -until FILE
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/internal/random"
)

func main() {
	seed := flag.Uint64("seed", 1, "of the first program")
	programs := flag.Uint64("programs", 1000, "how many")
	until := flag.String("until", "", "go on until this file exists, however many that are")
	flag.Parse()
	amt.Main(func(c amt.Context) error {
		n := *seed
		for over := false; !over; n++ {
			if err := random.Program(n, c.Ranks())(c); err != nil {
				return err
			}
			over = n+1 == *seed+*programs
			if *until != "" {
				_, err := os.Stat(*until)
				if over, err = random.Any(c, err == nil); err != nil {
					return err
				}
			}
		}
		if c.Rank() == 0 {
			fmt.Printf("%d programs from seed %d: all results are right\n", n-*seed, *seed)
		}
		return nil
	})
}
