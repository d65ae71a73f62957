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

// A concern tells whose concern the failure of an epoch is. It belongs to the goroutine that drives the rank.
type concern struct {
	by      *frame // the code that began it, if that may wait for it, as long as it has the same life
	life    uint64
	claimed bool // somebody waits for it, has done so, or comes after it: its error is theirs (disown)
}

// begins notes which code begins the epoch.
func (c *concern) begins(f *frame) {
	if !f.onLoop() {
		c.by, c.life = f, f.life
	}
}

// open tells whether the code that began the epoch may claim it yet.
func (c *concern) open() bool { return c.by != nil && c.by.life == c.life }

// claim makes what becomes of the epoch somebody's concern.
func (ep *Epoch) claim() {
	ep.concern.claimed = true
	if es := &ep.r.epochs; len(es.unclaimed) > 0 {
		es.unclaimed = slices.DeleteFunc(es.unclaimed, func(u unclaimed) bool { return u.Epoch == ep })
	}
}

// disown makes the error of an epoch that is over that of the one around, unless somebody has claimed it, or may do so.
func (ep *Epoch) disown() {
	switch {
	case ep.err == nil || ep.concern.claimed:
	case ep.concern.open():
		ep.r.epochs.unclaimed = append(ep.r.epochs.unclaimed, unclaimed{ep, time.Now(), false})
	default:
		ep.outer.fail(ep.err)
	}
}

// ends notes that the code of a frame has ended: what it began and has not claimed is left to the epoch around, which is held yet.
func (es *epochs) ends(f *frame) {
	f.life++
	if len(es.unclaimed) == 0 {
		return
	}
	var left []*Epoch
	es.unclaimed = slices.DeleteFunc(es.unclaimed, func(u unclaimed) bool {
		ended := u.concern.by == f
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
func (es *epochs) complain(now time.Time) {
	r := es.r
	for i := range es.unclaimed {
		u := &es.unclaimed[i]
		if waited := now.Sub(u.since); r.watch.patience.lasts > 0 && !u.told && waited >= r.watch.patience.lasts {
			u.told = true
			fmt.Fprintf(os.Stderr, "amt: rank %d: the epoch %q has failed, and %s, which began it, has not waited for it since %v: %v\n",
				r.self, u.label, u.concern.by.who(), waited.Round(max(r.watch.patience.lasts/100, 1)), u.err)
		}
	}
}
