package coord

import "fmt"

// restarts decides whether a job whose ranks are gone by no wish is started again, and from what. It tells the user so.
//
// It guarantees an end: only a job that ran uses up retries, but an image that does not even start is tried twice at most and then
// never again. The end of a node counts for nothing of that: nodes that are lost do not come back, so that there is an end to it, too.
type restarts struct {
	turn     *turn
	cfg      *Config
	run      *run
	verdict  *verdict
	images   *images
	setbacks *setbacks
	replaced map[int]bool // ranks that have been, since the newest image
}

// again says whether the job is started again, from the newest good image, and how long that is put off: as after the nth death.
func (r *restarts) again() (nth int, ok bool) {
	why := r.verdict.why + "; "
	switch ran, image := r.run.ran, r.run.image; {
	case r.verdict.innocent && !ran:
		r.turn.say("%sstarting again", why)
		return 1, true
	case image == 0 && !ran:
		r.turn.say("the job did not start: %s", r.verdict.why)
		return 0, false
	case r.verdict.innocent:
	case ran:
		r.setbacks.died(r.verdict.at, image, r.images.good())
	case r.images.failed(image):
		r.turn.say("checkpoint %d cannot be used: %s", image, r.verdict.why)
		why = ""
	}
	text, nth, ok := r.choose(r.images.candidate())
	r.turn.say("%s%s", why, text)
	return nth, ok
}

// choose says what is done when n is the image to go back to, 0: there is none.
func (r *restarts) choose(n uint64) (text string, nth int, ok bool) {
	back := fmt.Sprintf("going back to checkpoint %d", n)
	switch image := r.run.image; {
	case n == 0 && r.verdict.innocent && image == 0 && len(r.images.list) == 0 && r.cfg.Anew:
		return "nothing is saved yet: the job begins anew", 1, true
	case n == 0:
		return "there is no good checkpoint to go back to" + r.images.asideHint(), 0, false
	case r.verdict.innocent:
		return back, 1, true
	case r.run.ran:
		if text := r.usedUp(); text != "" {
			return text, 0, false
		}
		return fmt.Sprintf("%s (restart %d of %d)", back, r.setbacks.count, r.cfg.Retries), r.setbacks.count, true
	case r.verdict.damaged && n == image:
		return fmt.Sprintf("looking through what the nodes have of checkpoint %d", n), 1, true
	}
	return fmt.Sprintf("trying checkpoint %d", n), 1, true
}

// usedUp says why a job that ran is not started again, empty when it may be.
func (r *restarts) usedUp() string {
	switch {
	case r.cfg.Retries == 0:
		return "not started again (--retries 0)"
	case r.setbacks.count > r.cfg.Retries:
		return fmt.Sprintf("given up after %d restarts without a checkpoint beyond the point at which it died (--retries)", r.cfg.Retries)
	case r.cfg.Restarts > 0 && r.setbacks.all > r.cfg.Restarts:
		return fmt.Sprintf("given up after %d restarts in all (--max-restarts)", r.cfg.Restarts)
	}
	return ""
}
