package outputs

import (
	"fmt"
	"slices"
)

// retention decides what stays. It guarantees that nothing leaves the caches by itself that is nowhere else, but for what newer ones that
// count have replaced.
type retention struct {
	desk
	shelf  *shelf
	policy *Policy
	waits  func(*Dataset) bool // it is to be copied to the prefix yet
	again  bool                // the program that begins first has begun before
}

// StartedAgain: the program that begins first has begun before, and is started again because it, or what it ran on, was lost.
func (r *retention) StartedAgain() { r.again = true }

// reduced leaves out of what a program wants done before it restarts what has been done: the settings that say it are there still when the
// program is started again, which is to go on with what it has written since. Began: a program has, and ended: in order.
func (r *retention) reduced(first First, began, ended bool) First {
	if began || r.again {
		first.Current = ""
	}
	if r.again && !began || began && !ended {
		if first.Purge || first.PurgeAll {
			r.driver.Say("the program is started again: its datasets are not deleted, as SCR_CACHE_PURGE or SCR_PREFIX_PURGE would have it for a new one")
		}
		first.Purge, first.PurgeAll = false, false
	}
	return first
}

// prune drops what newer ones have replaced. In the caches the newest checkpoints stay, and what is not in the prefix but ought to be.
func (r *retention) prune() {
	inCaches, inPrefix := 0, 0
	for _, d := range slices.Backward(slices.Clone(r.shelf.list)) {
		if d.state != counting || d.flushing {
			continue
		}
		if d.Cached && !d.Checkpoint && d.Stored { // a result is of no use there
			r.evict(d)
		}
		if d.Cached && d.offered() {
			if inCaches++; inCaches > r.policy.Keep && !r.waits(d) {
				r.evict(d)
			}
		}
		if d.Stored && d.offered() {
			if inPrefix++; r.policy.InPrefix > 0 && inPrefix > r.policy.InPrefix && !d.Output {
				r.forget(d, true)
			}
		}
	}
}

// evict removes a dataset from the caches.
func (r *retention) evict(d *Dataset) {
	if !d.Stored {
		r.forget(d, false)
		return
	}
	d.Cached = false
	r.driver.Evict(d.Number)
}

// forget removes a dataset; with files, also those in the prefix.
func (r *retention) forget(d *Dataset, files bool) {
	r.shelf.remove(d)
	if r.shelf.current == d.Number {
		r.shelf.current = 0
		r.driver.Changed()
	}
	if d.Checkpoint {
		r.driver.Counts(d.Number, false)
	}
	r.driver.Forget(d.Number, files)
	for _, ask := range d.waiting {
		r.refuse(ask, "dataset %s is removed", d.Name)
	}
	d.waiting = nil
}

// Current makes the dataset of a name the one to restart from.
func (r *retention) Current(name string) error {
	d := r.shelf.named(name)
	switch {
	case d == nil:
		return fmt.Errorf("there is no dataset %s", name)
	case !d.Checkpoint:
		return fmt.Errorf("dataset %s is no checkpoint", name)
	}
	if d.Bad { // somebody knows better
		d.Bad = false
		r.driver.Counts(d.Number, true)
	}
	r.shelf.current = d.Number
	if r.policy.Restart.DropAfter {
		r.dropAfter(d)
	}
	r.driver.Changed()
	return nil
}

// Drop forgets the dataset of a name; with files, it is removed with those in the prefix.
func (r *retention) Drop(name string, files bool) error {
	d := r.shelf.named(name)
	if d == nil {
		return fmt.Errorf("there is no dataset %s", name)
	}
	r.forget(d, files)
	return nil
}

// DropAfter forgets all datasets that are newer than that of a name.
func (r *retention) DropAfter(name string) error {
	d := r.shelf.named(name)
	if d == nil {
		return fmt.Errorf("there is no dataset %s", name)
	}
	r.dropAfter(d)
	return nil
}

func (r *retention) dropAfter(d *Dataset) {
	for _, other := range slices.Clone(r.shelf.list) {
		if other.Number > d.Number && other.state == counting {
			r.forget(other, false)
		}
	}
}
