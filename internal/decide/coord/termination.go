package coord

import "time"

// DefaultGrace is the time from SIGTERM to the end of the job: batch systems kill 30 seconds after it.
const DefaultGrace = 25 * time.Second

// termination is a SIGTERM that has been received: the job leaves before `until`, whatever happens, and never goes on.
// It leaves with ExitStopped when a checkpoint is committed by then, else as ended by the signal.
type termination struct {
	asked     bool
	at, until time.Duration
	reserve   time.Duration // the end of it, in which the ranks are ended
}

// ask begins the grace time.
func (t *termination) ask(now, grace time.Duration) {
	*t = termination{asked: true, at: now, until: now + grace, reserve: min(maxReserve, grace/4)}
}

// next is when something has to be done about it, 0: there is no such time. Ordered: the end of the ranks is.
func (t *termination) next(ordered bool) time.Duration {
	switch {
	case !t.asked:
		return 0
	case ordered:
		return t.until
	}
	return t.until - t.reserve
}

// within shortens a time so that what follows it still happens in the grace time.
func (t *termination) within(now, d time.Duration) time.Duration {
	if t.asked {
		d = min(d, (t.until-now)/2)
	}
	return max(d, time.Millisecond)
}
