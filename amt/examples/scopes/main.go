// Command scopes calls collective operations of MPI from handlers, in another order on every rank, beside a library that uses MPI
// too. Scopes have all ranks perform them in one order. With -plain handlers call them at once, as they come: ranks wait for each
// other without end, and the runtime tells which handler does it.
//
//	go run ./amt/examples/scopes
//	go build -o scopes ./amt/examples/scopes && mpirun -n 2 ./scopes
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

const (
	scopes     = 3
	operations = 50
)

// A job is an operation that a handler asks for.
type job struct{ Scope int64 }

// State is what a rank has.
type state struct {
	plain  bool
	scopes [scopes]*amt.Scope
	comms  [scopes]*mpi.Comm // with -plain
	done   [scopes]int
	total  int // of all results
}

var (
	own amt.Local[state]
	do  amt.Handler[job]
)

func init() {
	do.Is(func(c amt.Context, m *job) {
		s, scope := own.Of(c), int(m.Scope)
		add := func(comm *mpi.Comm) error {
			s.done[scope]++
			value := 1000*scope + s.done[scope]
			sum := []int{value}
			if err := mpi.Allreduce(comm, nil, sum, mpi.Sum); err != nil {
				return err
			}
			if sum[0] != value*comm.Size() {
				return fmt.Errorf("operation %d of scope %d: %d, want %d", s.done[scope], scope, sum[0], value*comm.Size())
			}
			s.total += sum[0] / comm.Size()
			return nil
		}
		if !s.plain {
			s.scopes[scope].Do(c, add)
			return
		}
		if err := add(s.comms[scope]); err != nil {
			c.Fail(err)
		}
	})
}

// library does what a library does that knows nothing of tasks: it uses MPI between epochs.
func library(world *mpi.Comm) error {
	comm, err := world.Dup()
	if err == nil {
		err = comm.Barrier()
	}
	if err == nil {
		err = comm.Free()
	}
	return err
}

func program(c amt.Context, plain bool, seed uint64) error {
	s := own.Of(c)
	s.plain = plain
	for n := range scopes {
		var err error
		if s.scopes[n], err = c.Scope(fmt.Sprint("scope ", n)); err != nil {
			return err
		}
		if s.comms[n], err = c.World().Dup(); err != nil {
			return err
		}
	}
	order := rand.New(rand.NewPCG(seed, uint64(c.Rank()))).Perm(scopes * operations)
	err := c.Collective("operations", func(c amt.Context) error {
		for i, n := range order {
			if i%10 == 3 && c.Rank() == 0 { // a straggler
				c.Go("slowly", func(c amt.Context) error {
					time.Sleep(time.Millisecond)
					do.Send(c, c.Rank(), &job{int64(n % scopes)})
					return nil
				})
				continue
			}
			do.Send(c, c.Rank(), &job{int64(n % scopes)})
		}
		return nil
	}).Wait(c)
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Printf("%d operations in each of %d scopes, total %d\n", operations, scopes, s.total)
	}
	return library(c.World())
}

func main() {
	plain := flag.Bool("plain", false, "call MPI in handlers")
	seed := flag.Uint64("seed", 1, "of the orders")
	flag.Parse()
	amt.Main(func(c amt.Context) error { return program(c, *plain, *seed) })
}
