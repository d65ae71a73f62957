package amt

import "time"

// A loop decides what a rank does next, so that nothing that there is to do waits for ever while there is more and more of something
// else. It belongs to the goroutine that drives the rank.
type loop struct {
	r         *rank
	askedLast bool // what others want was done last
	rests     int  // how often the rest was done meanwhile
	unlooked  bool // there was a flush since the last look for others' batches
	idle      int  // turns in a row without anything to do
}

// step does one thing of what there is to do, or rests.
func (l *loop) step() {
	r := l.r
	if l.work() || l.exchange(waitingLooks) {
		if l.idle > 0 && r.tracer != nil {
			r.tracer.busy()
		}
		l.idle = 0
		return
	}
	if r.tracer != nil {
		r.tracer.rests()
	}
	if l.idle++; l.idle >= watchLooks {
		r.memory.pay()
		r.watch.patience.beat()
		r.watch.look()
	}
	r.t.Idle(l.idle)
}

// work does one thing of what there is to do, and tells whether there was any: what others want, a batch of messages, an operation of
// a scope, to send and to look for more, to settle epochs. Who never runs out of messages does the rest, too, now and then.
func (l *loop) work() bool {
	r := l.r
	asked := l.askedLast
	l.askedLast = false
	switch {
	case r.inbox.some.Load() && !asked: // others may ask all the time
		l.askedLast = true
		l.asked()
	case l.unlooked:
		l.rest()
	case r.dispatcher.handleNext():
	case r.operations.perform():
	case len(r.combining) > 0:
		r.combine()
	case l.exchange(r.epochs.lull.looks()):
	case len(r.epochs.dirty) > 0:
		r.epochs.settle()
	default:
		return r.operations.settle()
	}
	return true
}

// asked does what others want.
func (l *loop) asked() {
	list := l.r.inbox.take()
	l.r.watch.stirred++
	for _, do := range list {
		do()
	}
}

// rest does a little of all that is there besides messages to be handled.
func (l *loop) rest() {
	r := l.r
	l.unlooked = false
	if r.memory.kept <= r.memory.limit {
		r.dispatcher.fetch(1)
	}
	r.operations.perform()
	r.operations.settle()
	if l.rests++; l.rests%settleAfter == 0 {
		r.epochs.settle()
		r.memory.pay()
	}
}

// exchange sends what there is to send, and handles a batch if one comes. It tells whether there was either.
func (l *loop) exchange(looks int) bool {
	r := l.r
	l.unlooked = false
	before := len(r.outgoing.open)
	r.outgoing.flush()
	sent := len(r.outgoing.open) < before
	p := r.t.take(looks)
	if p.b != nil {
		r.dispatcher.handle(p)
	}
	return sent || p.b != nil
}

// drive is step for a main function, whose Context is not that of the code that runs meanwhile.
func (l *loop) drive() {
	l.r.frames.drives = true
	l.step()
	l.r.frames.drives = false
}

// poll is drive until there is nothing to do, or for some turns.
func (l *loop) poll() {
	l.r.frames.drives = true
	for turns := 0; turns < pollTurns && l.work(); turns++ {
	}
	l.r.frames.drives = false
}

const pollTurns = 64

// until drives the rank until an epoch is over, or nothing can go on: what the rank has to send by then has been sent.
func (l *loop) until(ep *Epoch) error {
	for !ep.over {
		if err := l.r.failure(); err != nil {
			return err
		}
		l.drive()
	}
	return l.drain(false)
}

// drain sends what there is to send. That others are to know of a failure is no reason to wait for ever for those that have failed
// too, and take nothing any more.
func (l *loop) drain(failed bool) error {
	var until time.Time
	if failed {
		until = time.Now().Add(farewell)
	}
	r, out := l.r, &l.r.outgoing
	for out.flush(); len(out.open)+len(r.operations.queue) > 0 && r.t.broken == nil; out.flush() {
		if failed && time.Now().After(until) {
			break
		}
		r.dispatcher.fetch(waitingLooks)
	}
	return r.t.broken
}
