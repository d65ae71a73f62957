package mpi

import (
	"errors"
	"fmt"
	"sync"

	"github.com/byssus-hpc/byssus/internal/engine/localmpi"
	"github.com/byssus-hpc/byssus/internal/engine/mpilib"
)

// Run runs a program on the ranks of the job that a launcher of MPI has started this process for; without one, on a single
// rank, as RunLocal does. After an error under MPI nothing is finalized: the process should end with Abort.
func Run(main func(world *Comm) error) error {
	library := mpilib.Launched()
	if library == "" {
		return RunLocal(1, main)
	}
	if err := mpilib.Load(library); err != nil {
		return fmt.Errorf("mpi: %w", err)
	}
	if _, _, err := mpilib.Init(); err != nil {
		return fmt.Errorf("mpi: %w", err)
	}
	e, err := mpilib.NewEngine()
	if err != nil {
		return fmt.Errorf("mpi: %w", err)
	}
	world, err := New(e, e.World(), nil)
	if err != nil {
		return fmt.Errorf("mpi: %w", err)
	}
	if err := main(world); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return fmt.Errorf("mpi: %w", err)
	}
	return mpilib.Finalize()
}

// Abort ends all ranks of the job, once a launcher has read what this one printed: for that it waits two seconds at most. On ranks
// that are goroutines it does nothing.
func Abort(code int) {
	if mpilib.Name() != "" {
		mpilib.Abort(code)
	}
}

// RunLocal runs a program on n ranks that are goroutines of this process. Its error is that of all ranks together.
func RunLocal(n int, main func(world *Comm) error) error {
	if n < 1 {
		return fmt.Errorf("mpi: %d ranks: at least one is needed", n)
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for rank, e := range localmpi.New(n) {
		all.Go(func() {
			world, err := New(e, e.World(), nil)
			if err == nil {
				err = main(world)
			}
			if err == nil {
				err = e.Close()
			}
			errs[rank] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
