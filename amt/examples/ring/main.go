// Command ring sends a message around all ranks, a few times, and tells what it has seen. It runs on goroutines, or under the
// mpirun of MPICH or of Open MPI:
//
//	go run ./amt/examples/ring
//	go build -o ring ./amt/examples/ring && mpirun -n 2 ./ring
package main

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

// A token goes around, and adds up the numbers of the hops that it makes.
type token struct {
	Hops int64
	Sum  int64
}

var (
	pass    amt.Handler[token]
	arrived amt.Handler[token]
)

const hops = 1000

func init() {
	pass.Is(func(c amt.Context, m *token) {
		next := token{m.Hops + 1, m.Sum + m.Hops}
		if next.Hops == hops {
			arrived.Send(c, 0, &next)
			return
		}
		pass.Send(c, (c.Rank()+1)%c.Ranks(), &next)
	})
	arrived.Is(func(_ amt.Context, m *token) { fmt.Printf("%d hops, sum %d\n", m.Hops, m.Sum) })
}

func main() {
	amt.Main(func(c amt.Context) error {
		for range 3 {
			err := c.Collective("ring", func(c amt.Context) error {
				if c.Rank() == 0 {
					pass.Send(c, 1%c.Ranks(), &token{})
				}
				return nil
			}).Wait(c)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
