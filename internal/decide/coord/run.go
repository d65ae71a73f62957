package coord

import "time"

// run is the present start of the ranks: from which image they began, how far they have come, and how they are ended. It owns the phase
// of the job, and the time at which that must be over.
//
// It guarantees that only Running, and an end that the application makes by itself, may last for any time; and that ranks which do
// not end are ended by stronger means each time, within the grace time if there is one.
type run struct {
	turn *turn
	term *termination

	phase    Phase
	deadline time.Duration // of Starting, Ending, Gone, Backoff; 0: none
	image    uint64        // that it began from, 0: none
	ran      bool          // all ranks were there
	killed   KillHow       // what was ordered to end it, 0: nothing yet
}

// launch starts the ranks anew.
func (r *run) launch(image uint64, doubted bool) {
	r.phase, r.image, r.deadline, r.killed, r.ran = Starting, image, r.turn.now+startLimit, 0, false
	r.turn.do(Launch{image, doubted})
}

// progress: a rank has come further with its start.
func (r *run) progress() {
	if r.phase == Starting && r.killed == 0 {
		r.deadline = r.turn.now + startLimit
	}
}

// goesOn: all ranks are there.
func (r *run) goesOn() { r.phase, r.ran, r.deadline = Running, true, 0 }

// kill ends launcher and ranks.
func (r *run) kill(how KillHow) {
	if r.killed == KillBoth {
		return
	}
	r.phase, r.deadline, r.killed = Ending, r.turn.now+r.killPatience(), how
	if how == KillBoth {
		r.deadline = r.turn.now + r.term.within(r.turn.now, lastWait)
	}
	r.turn.do(Kill{how})
}

// killHarder ends them by the next stronger means.
func (r *run) killHarder() { r.kill(min(r.killed+1, KillBoth)) }

// killRest ends what may be left after the launcher.
func (r *run) killRest() {
	r.killed, r.deadline = KillBoth, r.turn.now+r.killPatience()
	r.turn.do(Kill{KillBoth})
}

// ending: ranks are gone, and the launcher ought to end as well. One that hangs on a dead rank is ended; one that sees the application
// end by itself has time.
func (r *run) ending(died bool) {
	if r.phase != Ending {
		r.phase, r.deadline = Ending, 0
	}
	if died && r.deadline == 0 {
		r.deadline = r.turn.now + r.killPatience()
	}
}

// exiting: the ranks were told to exit, and have a while for it.
func (r *run) exiting() { r.phase, r.deadline = Ending, r.turn.now+r.killPatience() }

// launcherGone: what is left of the ranks has a while to go, too.
func (r *run) launcherGone() {
	r.phase, r.deadline = Gone, r.turn.now+r.term.within(r.turn.now, lostGrace)
}

// holdsOut: nothing is left of the ranks, but what follows is decided later.
func (r *run) holdsOut(until time.Duration) { r.phase, r.deadline, r.killed = Gone, until, KillBoth }

// backoff waits before the next start, longer each time.
func (r *run) backoff(nth int) {
	r.phase, r.deadline = Backoff, r.turn.now+min(firstBackoff<<min(nth-1, 20), longestBackoff)
}

// over: there is no other start.
func (r *run) over() { r.phase, r.deadline = Done, 0 }

// due says whether the deadline is reached, and does away with it then.
func (r *run) due() bool {
	if r.phase == Done || r.deadline == 0 || r.turn.now < r.deadline {
		return false
	}
	r.deadline = 0
	return true
}

// killPatience is how long one way to end the ranks gets before the next.
func (r *run) killPatience() time.Duration { return r.term.within(r.turn.now, killGrace) }
