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
	forgetTrace(0)
	for rank, end := range inproc.New(n) {
		all.Go(func() {
			r, err := newRank(t.around(end), engines[rank], handlers)
			if err != nil {
				errs[rank] = err
				return
			}
			r.epochs.failures, r.dispatcher.poison = told, t.Poison
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

// A mainFunction is how far the main function of a rank is; between Attach and Detach there is one after the other. It belongs to the
// goroutine that drives the rank, on which it runs.
type mainFunction struct {
	epoch    *Epoch
	attached *Epoch // what all is within between Attach and Detach
	waits    *Epoch // what it waits for
	entered  bool   // it is that of an Enter
	ended    bool   // it has returned
	returned bool   // run has
}

// all is the epoch that everything is within.
func (m *mainFunction) all() *Epoch {
	if m.attached != nil {
		return m.attached
	}
	return m.epoch
}

// failure is that of everything.
func (m *mainFunction) failure() error {
	if m.attached != nil && m.epoch.err == nil {
		return m.attached.err
	}
	return m.epoch.err
}

// run runs a program on one rank, in the main epoch. When that fails, nobody waits for anybody else.
func (r *rank) run(main func(Context) error) error {
	m := &r.main
	if m.attached == nil { // else Attach has begun it
		r.watch.patience.begin()
		defer r.watch.patience.end()
	}
	m.ended, r.frames.goroutine = false, owner.Current()
	m.epoch = r.epochs.nextCollective()
	var failed error
	m.epoch.begin(&frame{r: r, ep: m.attached, from: r.self}, "main", func(c Context) error {
		failed = main(c)
		return failed
	}, nil)
	m.ended = true
	err := m.epoch.wait()
	r.watch.alarm.stop()
	if failed != nil {
		err = failed
	}
	if err != nil && m.attached != nil {
		m.attached.fail(err) // for ranks that wait in an Enter
	}
	if err = errors.Join(err, r.loop.drain(err != nil)); err == nil && m.attached == nil {
		err = r.ends()
	}
	if err != nil {
		r.tasks.abandon(err)
	}
	m.returned = true
	if m.attached == nil || err != nil {
		r.tracer.write(err != nil)
	}
	return err
}

// exited is deferred around run. Where the program has ended the rank's goroutine, the others are told, and what it did is given to
// then, as an error.
func (r *rank) exited(then func(error)) {
	if r.main.returned {
		return
	}
	if p := recover(); p != nil {
		r.tracer.write(true)
		panic(fmt.Sprintf("amt: rank %d: %s panics: %v", r.self, r.runs(), p))
	}
	err := fmt.Errorf("amt: rank %d: the main function, a body or a handler: %w", r.self, errGoexit)
	r.watch.alarm.stop()
	r.main.epoch.fail(err)
	err = errors.Join(err, r.loop.drain(true))
	r.tasks.abandon(err)
	r.tracer.write(true)
	then(err)
}
