package amt

import (
	"errors"
	"fmt"
	"sync"

	"github.com/byssus-hpc/byssus/amt/internal/inproc"
	"github.com/byssus-hpc/byssus/amt/internal/owner"
	"github.com/byssus-hpc/byssus/internal/engine/localmpi"
)

// RunLocal runs a program on n ranks that are goroutines of this process. It returns when the main function has returned on
// all of them and everything that was begun is done; its error is that of all ranks together.
func RunLocal(n int, main func(Context) error) error { return Trial{}.RunLocal(n, main) }

// A Trial is how a program is tried harder than by RunLocal alone; package amttest has one for each test.
type Trial struct {
	Seed   uint64 // not 0: of a random order in which ranks take what has come from others, within what is guaranteed
	Poison bool   // the memory of messages that have been handled is overwritten: what has kept a pointer into it finds so
}

// poisoned is what it is overwritten with.
const poisoned = 0xdb

// RunLocal is the function of this name, with what the trial adds.
func (t Trial) RunLocal(n int, main func(Context) error) error {
	if n < 1 {
		return fmt.Errorf("amt: %d ranks: at least one is needed", n)
	}
	handlers, err := table()
	if err != nil {
		return err
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	engines := localmpi.New(n)
	told := &failures{all: map[string]error{}}
	for rank, end := range inproc.New(n) {
		all.Go(func() {
			r, err := newRank(t.around(end), engines[rank], handlers)
			if err != nil {
				errs[rank] = err
				return
			}
			r.epochs.failures, r.poison = told, t.Poison
			defer r.exited(func(err error) { errs[rank] = err })
			errs[rank] = r.run(main)
		})
	}
	all.Wait()
	return joined(errs)
}

// joined joins the errors of ranks; what several of them say is said once.
func joined(errs []error) error {
	var list []error
	said := map[string]bool{}
	for _, err := range errs {
		if err != nil && !said[err.Error()] {
			said[err.Error()] = true
			list = append(list, err)
		}
	}
	return errors.Join(list...)
}

// run runs a program on one rank, in the main epoch. When that fails, nobody waits for anybody else.
func (r *rank) run(main func(Context) error) error {
	if r.attached == nil { // else Attach has begun it
		r.watch.patience.begin()
		defer r.watch.patience.end()
	}
	r.ended, r.goroutine = false, owner.Current()
	r.main = r.epochs.nextCollective()
	var failed error
	r.main.begin(&frame{r: r, ep: r.attached, from: r.self}, "main", func(c Context) error {
		failed = main(c)
		return failed
	}, nil)
	r.ended = true
	err := r.main.wait()
	r.watch.alarm.stop()
	if failed != nil {
		err = failed
	}
	if err != nil && r.attached != nil {
		r.attached.fail(err) // for ranks that wait in an Enter
	}
	if err = errors.Join(err, r.drain(err != nil)); err != nil {
		r.abandon(err)
	}
	r.returned = true
	return err
}

// exited is deferred around run. Where the program has ended the rank's goroutine, the others are told, and what it did is given to
// then, as an error.
func (r *rank) exited(then func(error)) {
	if r.returned {
		return
	}
	if p := recover(); p != nil {
		panic(fmt.Sprintf("amt: rank %d: %s panics: %v", r.self, r.runs(), p))
	}
	err := fmt.Errorf("amt: rank %d: the main function, a body or a handler: %w", r.self, errGoexit)
	r.watch.alarm.stop()
	r.main.fail(err)
	err = errors.Join(err, r.drain(true))
	r.abandon(err)
	then(err)
}

// abandon is the end of a rank whose program has failed, by an error: tasks wait for nothing more.
func (r *rank) abandon(err error) {
	r.die(err)
	select {
	case <-r.gone:
	default:
		close(r.gone)
	}
}
