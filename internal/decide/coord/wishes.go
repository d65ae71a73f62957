package coord

import "time"

// wishes are the requests for the checkpoint after the present one, and when one is due without any.
type wishes struct {
	every   time.Duration // between those that nobody asks for; 0: there are none
	due     time.Duration // when the next of these is, 0: not before the present one is over
	waiting []Request
}

// schedule begins the time to the next one anew.
func (w *wishes) schedule(now time.Duration) {
	if w.every > 0 {
		w.due = now + w.every
	}
}

// periodic asks for the one that is due, unless one is asked for already.
func (w *wishes) periodic(now time.Duration) {
	if w.due != 0 && now >= w.due && len(w.waiting) == 0 {
		w.due = 0
		w.waiting = append(w.waiting, Request{})
	}
}

// take hands over all that waits.
func (w *wishes) take() []Request {
	all := w.waiting
	w.waiting = nil
	return all
}

// earliest is the first of some times, of which 0 is none.
func earliest(times ...time.Duration) time.Duration {
	var first time.Duration
	for _, t := range times {
		if t > 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}
