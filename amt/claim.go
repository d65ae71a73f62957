package amt

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// Whose is an error of an epoch? Theirs who wait for it, or begin what comes after it. The code that began it may do so until it
// ends; so the answer does not depend on when the epoch was over. Code that cannot wait, a handler, leaves it at once to the epoch
// around.

// An unclaimed epoch is over and has failed, while the code that began it runs.
type unclaimed struct {
	*Epoch
	since time.Time
	told  bool
}

// began notes which code began an epoch.
func (ep *Epoch) began(f *frame) {
	if !f.onLoop() {
		ep.by, ep.life = f, f.life
	}
}

// claim makes what becomes of the epoch somebody's concern.
func (ep *Epoch) claim() {
	ep.claimed = true
	if r := ep.r; len(r.unclaimed) > 0 {
		r.unclaimed = slices.DeleteFunc(r.unclaimed, func(u unclaimed) bool { return u.Epoch == ep })
	}
}

// disown makes the error of an epoch that is over that of the one around, unless somebody has claimed it, or may do so.
func (ep *Epoch) disown() {
	switch {
	case ep.err == nil || ep.claimed:
	case ep.by != nil && ep.by.life == ep.life:
		ep.r.unclaimed = append(ep.r.unclaimed, unclaimed{ep, time.Now(), false})
	default:
		ep.outer.fail(ep.err)
	}
}

// ends notes that the code of a frame has ended: what it began and has not claimed is left to the epoch around, which is held yet.
func (r *rank) ends(f *frame) {
	f.life++
	if len(r.unclaimed) == 0 {
		return
	}
	var left []*Epoch
	r.unclaimed = slices.DeleteFunc(r.unclaimed, func(u unclaimed) bool {
		ended := u.by == f
		if ended {
			left = append(left, u.Epoch)
		}
		return ended
	})
	for _, ep := range left {
		ep.disown()
	}
}

// complain says, once, what nobody has claimed for long: the code that began it may run for days.
func (r *rank) complain(now time.Time) {
	for i := range r.unclaimed {
		u := &r.unclaimed[i]
		if waited := now.Sub(u.since); r.watch.patient > 0 && !u.told && waited >= r.watch.patient {
			u.told = true
			fmt.Fprintf(os.Stderr, "amt: rank %d: the epoch %q has failed, and %s, which began it, has not waited for it since %v: %v\n",
				r.self, u.label, u.by.who(), waited.Round(max(r.watch.patient/100, 1)), u.err)
		}
	}
}
