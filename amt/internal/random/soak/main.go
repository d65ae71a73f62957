// Command soak plays random programs of tasks, one after the other, on whatever ranks it is started.
//
//	soak -seed 1 -programs 1000
//	soak -until FILE
//	soak -for 6m
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/internal/random"
)

func main() {
	seed := flag.Uint64("seed", 1, "of the first program")
	programs := flag.Uint64("programs", 1000, "how many")
	until := flag.String("until", "", "go on until this file exists, however many that are")
	lasting := flag.Duration("for", 0, "go on for so long, however many that are")
	with := flag.Bool("busy", false, "have signals, timers and a pipe in each process")
	flag.Parse()
	begun := time.Now()
	amt.Main(func(c amt.Context) error {
		var others busy
		if *with {
			if err := others.begin(); err != nil {
				return err
			}
		}
		n := *seed
		for over := false; !over; n++ {
			if err := random.Program(n, c.Ranks())(c); err != nil {
				return err
			}
			over = n+1 == *seed+*programs
			if *until != "" || *lasting > 0 {
				_, err := os.Stat(*until)
				if over, err = random.Any(c, err == nil || *lasting > 0 && time.Since(begun) > *lasting); err != nil {
					return err
				}
			}
		}
		if *with {
			if err := others.check(); err != nil {
				return fmt.Errorf("rank %d: %w", c.Rank(), err)
			}
		}
		if c.Rank() == 0 {
			fmt.Printf("%d programs from seed %d: all results are right\n", n-*seed, *seed)
		}
		return nil
	})
}
