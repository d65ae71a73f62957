package amt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/byssus-hpc/byssus/amt/internal/owner"
	"github.com/byssus-hpc/byssus/amt/internal/trace"
)

// A task is coarse work on a goroutine of its own.
type task struct {
	name  string
	f     *frame
	begun time.Time
	told  time.Duration // after so long it was told that it runs
	waits *Epoch        // what it waits for

	goroutine uintptr
	ctx       context.Context         // that the work has asked for; nil: it has not
	cancel    context.CancelCauseFunc // of that; belongs to the rank's goroutine

	panics bool // the program ends by it
	timed  timed
}

// tasks are those of a rank that have not ended. They belong to the goroutine that drives the rank. The tasks themselves look at gone and
// life alone.
type tasks struct {
	self    int
	all     map[*task]struct{}
	running int             // of them, those that do not wait
	gone    chan struct{}   // closed when a run has failed
	life    context.Context // done then
	die     context.CancelCauseFunc
}

func (ts *tasks) init(r *rank) {
	ts.self, ts.all, ts.gone = r.self, map[*task]struct{}{}, make(chan struct{})
	ts.life, ts.die = context.WithCancelCause(context.Background())
}

func (ts *tasks) begin(t *task) {
	t.begun = time.Now()
	ts.running++
	ts.all[t] = struct{}{}
}

func (ts *tasks) end(t *task) {
	ts.running--
	delete(ts.all, t)
}

// cancel ends the contexts of those within an epoch, which has failed.
func (ts *tasks) cancel(ep *Epoch, err error) {
	for t := range ts.all {
		if t.cancel != nil && ep.holds(t.f.ep) {
			t.cancel(err)
		}
	}
}

// abandon is the end of a rank whose program has failed, by an error: tasks wait for nothing more.
func (ts *tasks) abandon(err error) {
	ts.die(err)
	select {
	case <-ts.gone:
	default:
		close(ts.gone)
	}
}

// complain says which have run for long.
func (ts *tasks) complain(now time.Time, patient time.Duration) {
	if patient <= 0 {
		return
	}
	for t := range ts.all {
		if ran := now.Sub(t.begun); t.waits == nil && ran >= max(patient, 2*t.told) {
			t.told = ran
			fmt.Fprintf(os.Stderr, "amt: rank %d: the task %q runs since %v; this rank has nothing else to do\n", ts.self, t.name, ran.Round(time.Second))
		}
	}
}

// errGoexit is what code did that neither returned nor panicked.
var errGoexit = errors.New("it has ended its goroutine by runtime.Goexit, as t.FailNow and t.Fatal do: return an error instead")

// Go hands work to a goroutine of its own, beside the handlers of the rank: coarse work, of which the epoch of this context
// is not over before. It may send, begin rooted epochs and wait for them. An error of it fails the epoch. What it shares with
// handlers needs a lock.
func (c Context) Go(name string, work func(Context) error) {
	f := c.own()
	r, ep := f.r, f.ep
	t := &task{name: name}
	t.f = &frame{r: r, ep: ep, from: r.self, task: t, seat: f.seat}
	begin := func() {
		ep.detector.hold()
		t.f.seat.pin(1)
		r.tasks.begin(t)
		if r.tracer != nil {
			r.tracer.taskBegins(t)
		}
		go func() {
			err := errGoexit
			defer func() { // also after runtime.Goexit
				if t.panics {
					return
				}
				t.f.gen++
				ended := t.timed.now()
				r.inbox.ask(func() {
					if t.timed.tracer != nil {
						t.timed.tracer.taskEnds(t, ended)
					}
					if err != nil {
						ep.fail(fmt.Errorf("amt: rank %d: the task %q: %w", r.self, name, err))
					}
					if t.cancel != nil {
						t.cancel(nil)
					}
					r.epochs.ends(t.f)
					r.tasks.end(t)
					t.f.seat.pin(-1)
					ep.release(1)
				})
			}()
			err = t.guard(work)
		}()
	}
	if f.task != nil { // which holds the epoch as long as it runs, and asks for its end after this
		r.inbox.ask(begin)
		return
	}
	begin()
}

// guard runs the work; a panic is told with the task's name, and ends the program as any other.
func (t *task) guard(work func(Context) error) error {
	defer func() {
		if p := recover(); p != nil {
			t.panics = true
			panic(fmt.Sprintf("amt: rank %d: the task %q panics: %v", t.f.r.self, t.name, p))
		}
	}()
	t.goroutine = owner.Current()
	return work(Context{t.f, t.f.gen})
}

// Context is for functions that take one of package context, as those that wait for a network or a program do. That of a task is done
// when its epoch, one around that, or the program has failed, with that failure as its cause; that of other code when the program has.
func (c Context) Context() context.Context {
	f := c.own()
	t, r := f.task, f.r
	if t == nil {
		return r.tasks.life
	}
	if t.ctx != nil {
		return t.ctx
	}
	ctx, cancel := context.WithCancelCause(r.tasks.life)
	t.ctx = ctx
	r.inbox.ask(func() {
		t.cancel = cancel
		for ep := t.f.ep; ep != nil; ep = ep.outer {
			if ep.err != nil {
				cancel(ep.err)
			}
		}
	})
	return ctx
}

// rooted begins an epoch for the task; its body runs on the task's goroutine.
func (t *task) rooted(f *frame, label string, body func(Context) error, opts []EpochOption) *Epoch {
	var held bool // until the body has run; if an option is wrong, it does not
	begun := make(chan *Epoch, 1)
	r := f.r
	r.inbox.ask(func() {
		ep := r.epochs.nextRooted()
		begun <- ep.begin(f, label, func(Context) error {
			held = true
			ep.detector.hold()
			ep.waiters.channel(false)
			return nil
		}, opts)
	})
	var e *Epoch
	select {
	case e = <-begun:
	case <-r.tasks.gone:
		return &Epoch{fault: t.lost()}
	}
	if !held {
		return e
	}
	in := &frame{r: r, ep: e, from: r.self, task: t, seat: f.seat}
	err := body(Context{in, 0})
	in.gen++
	r.inbox.ask(func() {
		if err != nil {
			e.fail(err)
		}
		r.epochs.ends(in)
		e.release(1)
	})
	return e
}

// wait blocks the task's goroutine until the epoch is over.
func (t *task) wait(f *frame, ep *Epoch) error {
	r, since := f.r, t.timed.now()
	ready := make(chan error, 1)
	var done chan struct{}
	r.inbox.ask(func() {
		if ep.holds(f.ep) {
			ready <- fmt.Errorf("amt: rank %d: the task %q waits for the epoch %q, which it is a part of", r.self, t.name, ep.label)
			return
		}
		ep.claim()
		done = ep.waiters.channel(ep.over)
		if !ep.over {
			r.tasks.running--
			ep.waiters.tasks++
			t.waits = ep
		}
		ready <- nil
	})
	select {
	case err := <-ready:
		if err != nil {
			return err
		}
	case <-r.tasks.gone:
		return t.lost()
	}
	select {
	case <-done:
	case <-r.tasks.gone:
		return t.lost()
	}
	until := t.timed.now()
	r.inbox.ask(func() {
		t.waits = nil
		if tr := t.timed.tracer; tr != nil {
			tr.taskDid(t, trace.TaskWait, tr.label("wait for ", ep.label), since, until)
		}
	})
	return ep.err
}

// lost is the error of what a task waits for on a rank that has ended.
func (t *task) lost() error {
	return fmt.Errorf("amt: rank %d: the task %q waits for what does not come: the program has failed", t.f.r.self, t.name)
}
