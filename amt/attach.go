package amt

import (
	"errors"
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/mpiwire"
	"github.com/byssus-hpc/byssus/amt/internal/owner"
	"github.com/byssus-hpc/byssus/amt/internal/trace"
	"github.com/byssus-hpc/byssus/internal/engine/mpilib"
)

// An Attached is the runtime within a program of MPI that has its own main function, of C or Fortran, and calls a library of
// Go (built as c-shared or c-archive): it enters the runtime as often as it likes, and is as it was between.
//
// All methods are called by all ranks, in the same order, by the thread that may call MPI; MPI_THREAD_FUNNELED is enough if no
// task calls MPI (Context.World). While a rank is outside, messages to it wait.
type Attached struct {
	r      *rank
	w      *mpiwire.Wire
	frame  frame // of Enter
	failed error
	inside bool // one of the methods runs
}

var errInside = errors.New("it is entered within itself")

// enter begins one of the methods; leave ends it.
func (a *Attached) enter() error {
	switch {
	case a.inside:
		return fmt.Errorf("amt: rank %d: %w", a.r.self, errInside)
	case a.failed != nil:
		return fmt.Errorf("amt: rank %d: the runtime has failed before: %w", a.r.self, a.failed)
	}
	a.inside, a.r.frames.goroutine = true, owner.Current()
	return nil
}

// leave notes what the method came to, after which there may be no other.
func (a *Attached) leave(err error) error {
	a.inside, a.failed = false, err
	if err != nil {
		a.r.tracer.write(true)
		a.r.watch.patience.end()
		a.r.tasks.abandon(err)
		err = errors.Join(err, a.w.Abandon())
	}
	return err
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
	forgetTrace(self)
	if err := sameTable(self, ranks, handlers); err != nil {
		return nil, errors.Join(err, mpilib.Detach())
	}
	r, w, err := openMPI(self, ranks, handlers)
	if err != nil {
		return nil, err
	}
	all := r.epochs.nextCollective()
	r.main.attached, r.main.epoch, all.label = all, all, "attached"
	r.watch.patience.begin()
	return &Attached{r: r, w: w, frame: frame{r: r, ep: all, from: r.self}}, nil
}

// Enter runs a function on this rank alone, and returns when it has; what it sends to other ranks leaves by then. It may begin
// rooted epochs and wait for them, or for others later; collective ones, reductions and scopes as all ranks do. What it begins and
// nobody waits for is done by Detach. A function that waits for nothing enters and leaves in a fraction of a microsecond.
func (a *Attached) Enter(do func(Context) error) error {
	if err := a.enter(); err != nil {
		return err
	}
	r := a.r
	m := &r.main
	m.epoch, m.ended, m.entered = m.attached, false, true
	if tr := r.tracer; tr != nil {
		tr.begin(trace.Main, tr.names.main, 0, 0)
		defer tr.end()
	}
	err := do(Context{&a.frame, a.frame.gen})
	a.frame.gen++
	m.ended, m.entered = true, false
	if err != nil {
		m.attached.fail(err)
	}
	r.epochs.ends(&a.frame)
	return a.leave(errors.Join(m.attached.err, r.loop.drain(m.attached.err != nil)))
}

// Run runs a main function, and returns when it has returned on all ranks and everything that it began is done. After an
// error, of Enter too, there is no other: ranks may know different parts of what there was.
func (a *Attached) Run(main func(Context) error) error {
	if err := a.enter(); err != nil {
		return err
	}
	return a.leave(a.r.run(main))
}

// Detach does what is left to be done, and gives back to MPI what Attach has made. After an error of anything before, it does nothing
// but say so.
func (a *Attached) Detach() error {
	if err := a.enter(); err != nil {
		return err
	}
	all := a.r.main.attached
	a.r.main.epoch = all
	all.release(1)
	if err := all.wait(); err != nil {
		return a.leave(errors.Join(err, a.r.loop.drain(true)))
	}
	a.leave(nil)
	a.r.tracer.write(false)
	a.failed = errors.New("it is detached")
	a.r.watch.patience.end()
	a.r.tasks.abandon(a.failed)
	if err := errors.Join(a.w.Close(), a.r.operations.close(), mpilib.Detach()); err != nil {
		return fmt.Errorf("amt: rank %d: %w", a.r.self, err)
	}
	return nil
}
