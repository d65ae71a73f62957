package outputs

import (
	"cmp"
	"fmt"
	"slices"
)

// copies brings datasets from the caches to the prefix, one after the other. It guarantees that each is tried a few times at most, and that who
// waits for one is answered.
type copies struct {
	desk
	shelf   *shelf
	policy  *Policy
	thinOut func() // something is in the prefix, and need not stay elsewhere
	settled func() // something has ended
	flushes []uint64
}

// flush has a dataset copied to the prefix, when those before it are.
func (c *copies) flush(d *Dataset) {
	if d.Stored || d.flushing {
		return
	}
	d.flushing, d.owed = true, true
	c.flushes = append(c.flushes, d.Number)
	if len(c.flushes) == 1 {
		c.flushNext()
	}
}

// due says whether a dataset that is being written is to be copied as soon as it counts, when so many checkpoints have counted; those
// before it that are being stored are expected to count.
func (c *copies) due(d *Dataset, commits int) bool {
	nth := commits + 1
	for _, other := range c.shelf.list {
		if other.state == written && other.Checkpoint {
			nth++
		}
	}
	return d.Output || d.Checkpoint && c.policy.Flush > 0 && nth%c.policy.Flush == 0
}

func (c *copies) flushNext() {
	if len(c.flushes) == 0 {
		return
	}
	n := c.flushes[0]
	c.driver.Flush(n, func(err error) {
		c.flushes = c.flushes[1:]
		if d := c.shelf.find(n); d != nil {
			c.flushed(d, err)
		}
		c.flushNext()
		c.settled()
	})
}

func (c *copies) flushed(d *Dataset, err error) {
	d.flushing, d.Stored = false, err == nil
	if err != nil {
		d.tries++
		c.driver.Say(fmt.Sprintf("dataset %s is not copied to %s: %v", d.Name, cmp.Or(c.policy.Prefix, "the store"), err))
		for _, ask := range d.waiting {
			c.refuse(ask, "dataset %s is not copied to %s: %v", d.Name, c.policy.Prefix, err)
		}
		d.waiting = nil
		return
	}
	c.answered(d)
	c.thinOut()
}

// answered answers those who wait for a dataset to be in the prefix.
func (c *copies) answered(d *Dataset) {
	for _, ask := range d.waiting {
		c.driver.Answer(ask, Answer{})
	}
	d.waiting = nil
}

// mostTries is how often a copy is tried: nodes may be lost, and what they had made again elsewhere; a prefix that is full stays so.
const mostTries = 3

// waits says whether a dataset ought to be in the prefix, is not, and may come there yet: with a node that was lost the copy was, too.
func (c *copies) waits(d *Dataset) bool {
	ought := d.owed || d.Output || d.Checkpoint && c.policy.Flush == 1
	return d.state == counting && ought && d.Cached && !d.Stored && !d.Bad && d.tries < mostTries
}

// copyWaiting has datasets copied that wait for that.
func (c *copies) copyWaiting() {
	for _, d := range slices.Clone(c.shelf.list) {
		if c.waits(d) {
			c.flush(d)
		}
	}
}

// Settle has copied to the prefix what ought to be there when no more follows: results, and the newest checkpoint; that by all means if the
// caches may be lost.
func (c *copies) Settle(unsafe bool) {
	newest := c.shelf.candidate(c.policy.Restart, 0, 0)
	for _, d := range slices.Clone(c.shelf.list) {
		if c.waits(d) {
			c.flush(d)
		}
		if d.state == counting && d.Cached && !d.Stored && d.tries < mostTries && (d.Output || d == newest && (unsafe || c.policy.Flush > 0)) {
			c.flush(d)
		}
	}
}

// Stuck says whether something could not be copied to the prefix.
func (c *copies) Stuck() bool {
	return slices.ContainsFunc(c.shelf.list, func(d *Dataset) bool { return d.tries > 0 && !d.Stored })
}

// Busy says whether anything is being stored or copied.
func (c *copies) Busy() bool { return c.shelf.unsettled() > 0 || len(c.flushes) > 0 }
