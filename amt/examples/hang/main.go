// Command hang is a program that waits for what can never be, as programs under development do, and is told why: on goroutines,
// or under the mpirun of MPICH or of Open MPI.
//
//	go run ./amt/examples/hang
//	BYSSUS_AMT_DOT=waits.dot go run ./amt/examples/hang; dot -Tsvg waits.dot >waits.svg
package main

import "github.com/byssus-hpc/byssus/amt"

func nothing(amt.Context) error { return nil }

func main() {
	amt.Main(func(c amt.Context) error {
		if c.Rank() == 1 { // has forgotten the exchange
			return c.Collective("step", nothing).Wait(c)
		}
		return c.Collective("step", func(c amt.Context) error {
			return c.Collective("exchange", nothing).Wait(c)
		}).Wait(c)
	})
}
