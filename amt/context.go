package amt

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/owner"
)

// A Context is where a piece of code runs: on which rank, within which epoch, because of whose message. A handler, a worker
// task, the body of an epoch and the function given to Run get one each, and may use it for as long as they run.
type Context struct {
	f   *frame
	gen uint64
}

// A frame is what a Context stands for. It serves one piece of code after the other: gen tells them apart.
type frame struct {
	gen   uint64
	r     *rank
	ep    *Epoch
	from  int
	entry *entry // of the handler, if it is one
	task  *task  // of the worker task, if it is one
	seat  *seat  // of the element, if it is a method's, or what one has begun

	follows  *Epoch // what runs after that, if it is such
	performs *Scope // an operation of that, if it is one
	driven   bool   // by the rank, while the main function waits or polls

	life uint64 // how many such codes have ended, as far as the rank's own goroutine knows
}

// frames are those of the code of the program, but for handlers, that runs on the goroutine that drives a rank. They belong to that; any
// other may look which it is.
type frames struct {
	goroutine uintptr // the one that drives the rank
	drives    bool    // it runs what there is to do, while the main function waits or polls
	code      *frame  // of what runs on it
	spare     []*frame
}

// enter makes a frame for code within an epoch, and returns that of the code around too. Within a handler, or what follows an epoch, it
// is still that.
func (fs *frames) enter(ep *Epoch, around *frame) (f, before *frame) {
	if n := len(fs.spare); n > 0 {
		f, fs.spare = fs.spare[n-1], fs.spare[:n-1]
	} else {
		f = &frame{r: ep.r}
	}
	f.ep, f.from, f.entry, f.follows, f.performs, f.seat = ep, around.from, around.entry, around.follows, around.performs, around.seat
	before = fs.code
	f.driven, fs.code = fs.drives, f
	return f, before
}

// leave is the end of the code of a frame.
func (fs *frames) leave(f, before *frame) {
	fs.code = before
	f.gen++
}

// free has a frame used again.
func (fs *frames) free(f *frame) { fs.spare = append(fs.spare, f) }

// onLoop tells whether the code has the rank wait: nothing of the runtime goes on before it returns.
func (f *frame) onLoop() bool { return f.entry != nil || f.follows != nil || f.performs != nil }

// live returns the frame. To use a context that is over is a mistake of the program which cannot be answered otherwise: the
// epoch that it meant may be over, and what would be sent lost.
func (c Context) live() *frame {
	if c.f == nil || c.f.gen != c.gen {
		c.dead()
	}
	return c.f
}

// own is live for what only the code itself may do that the context was given to, and while no other of its rank runs: what another
// goroutine did would race with the rank, and what a handler did as the main function would be counted in another epoch than meant.
func (c Context) own() *frame {
	f := c.live()
	goroutine := f.r.frames.goroutine
	if f.task != nil {
		goroutine = f.task.goroutine
	}
	if owner.Current() != goroutine || f.task == nil && f.driven != f.r.frames.drives {
		f.misused(goroutine)
	}
	return f
}

// misused says what is wrong with the use of a context.
//
//go:noinline
func (f *frame) misused(goroutine uintptr) {
	if owner.Current() != goroutine {
		panic(fmt.Sprintf("amt: rank %d: the Context of %s is used by another goroutine: one that sends, waits or begins epochs is started by Context.Go, which gives it a Context of its own",
			f.r.self, f.who()))
	}
	panic(fmt.Sprintf("amt: rank %d: the Context of %s is used in %s: use the one that this was given", f.r.self, f.who(), f.r.runs()))
}

// dead says what is wrong with a context.
//
//go:noinline
func (c Context) dead() {
	if c.f == nil {
		panic("amt: a Context that was not given by the runtime is used")
	}
	panic(fmt.Sprintf("amt: rank %d: a Context is used after the handler, task or body that it was given to has ended", c.f.r.self))
}

// Rank is the number of this rank, from 0.
func (c Context) Rank() int { return c.live().r.self }

// Ranks is how many ranks there are.
func (c Context) Ranks() int { return c.live().r.ranks }

// From is the rank whose message is being handled; outside of handlers, this rank.
func (c Context) From() int { return c.live().from }

// who says what kind of code runs, for messages.
func (f *frame) who() string {
	switch {
	case f.entry != nil:
		return f.entry.String()
	case f.task != nil:
		return fmt.Sprintf("the task %q", f.task.name)
	case f.follows != nil:
		return fmt.Sprintf("what follows the epoch %q", f.follows.label)
	case f.performs != nil:
		return fmt.Sprintf("an operation of the scope %q", f.performs.label)
	}
	return "the main function"
}

// Poll handles what has come, and returns when there is nothing to do, or after some hundred messages: for main functions that
// compute for long. In handlers and tasks it does nothing.
func (c Context) Poll() {
	f := c.own()
	if f.onLoop() || f.task != nil {
		return
	}
	f.r.loop.poll()
}
