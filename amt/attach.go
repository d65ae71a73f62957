package amt

import (
	"errors"
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/mpiwire"
	"github.com/byssus-hpc/byssus/internal/mpilib"
)

// An Attached is the runtime within a program of MPI that has its own main function, of C or Fortran, and calls a library of
// Go (built as c-shared or c-archive): it enters the runtime as often as it likes, and is as it was between.
//
// All methods are called by all ranks, in the same order, by the thread that may call MPI; MPI_THREAD_FUNNELED is enough if no
// task calls MPI (Context.World). While a rank is outside, messages to it wait.
type Attached struct {
	r      *rank
	w      *mpiwire.Wire
	failed error
}

// Attach makes the runtime on the ranks of a communicator, by its handle in Fortran (MPI_Comm_c2f), of which it makes
// duplicates. A process attaches once at a time.
func Attach(comm int) (*Attached, error) {
	handlers, err := table()
	if err != nil {
		return nil, err
	}
	self, ranks, err := mpilib.Attach(comm)
	if err != nil {
		return nil, fmt.Errorf("amt: %w", err)
	}
	if err := sameTable(self, ranks, handlers); err != nil {
		return nil, errors.Join(err, mpilib.Detach())
	}
	r, w, err := openMPI(self, ranks, handlers)
	if err != nil {
		return nil, err
	}
	return &Attached{r: r, w: w}, nil
}

// Run runs a main function, and returns when it has returned on all ranks and everything that was begun is done. After an
// error there is no other Run: ranks may know different parts of what there was.
func (a *Attached) Run(main func(Context) error) error {
	if a.failed != nil {
		return fmt.Errorf("amt: rank %d: the runtime has failed before: %w", a.r.self, a.failed)
	}
	a.failed = a.r.run(main)
	return a.failed
}

// Detach gives back to MPI what Attach has made. After a Run that has failed it does nothing but say so.
func (a *Attached) Detach() error {
	if a.failed != nil {
		return fmt.Errorf("amt: rank %d: nothing is given back after: %w", a.r.self, a.failed)
	}
	a.failed = errors.New("it is detached")
	if err := errors.Join(a.w.Close(), a.r.operations.close(), mpilib.Detach()); err != nil {
		return fmt.Errorf("amt: rank %d: %w", a.r.self, err)
	}
	return nil
}
