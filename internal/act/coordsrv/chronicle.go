package coordsrv

import (
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
)

// chronicle tells the log what becomes of datasets of files: it stands between what decides of them and what carries that out. It belongs
// to the loop's goroutine.
type chronicle struct {
	*written
	names map[uint64]string // of datasets
	why   map[uint64]string // they do not count
}

func newChronicle(w *written, known []outputs.Dataset) *chronicle {
	c := &chronicle{written: w, names: map[uint64]string{}, why: map[uint64]string{}}
	for _, d := range known {
		c.names[d.Number] = d.Name
	}
	return c
}

func (c *chronicle) tell(kind timeline.Kind, n uint64, e timeline.Event) {
	e.Kind, e.Dataset, e.Name = kind, n, c.names[n]
	c.s.story.log.Add(e)
}

// Place is outputs'.
func (c *chronicle) Place(n uint64, bypass bool, at []int, then func(string, error)) (string, bool) {
	for _, e := range c.book.Entries() {
		if e.Dataset == n {
			c.names[n] = e.Name
		}
	}
	c.tell(timeline.Opened, n, timeline.Event{})
	return c.written.Place(n, bypass, at, then)
}

// Commit is outputs'.
func (c *chronicle) Commit(n uint64, label holding.Label, how settings.Pick, at []int, then func(string)) {
	e := timeline.Event{Ranks: label.Ranks}
	for _, d := range c.book.Entries() {
		if d.Dataset == n {
			e.Bytes = int64(d.Bytes)
		}
	}
	c.tell(timeline.Written, n, e)
	c.written.Commit(n, label, how, at, func(why string) {
		if why == "" {
			c.tell(timeline.Committed, n, timeline.Event{})
		} else {
			c.why[n] = why
		}
		then(why)
	})
}

// Discard is outputs'.
func (c *chronicle) Discard(n uint64, bypass bool) {
	why := c.why[n]
	if why == "" {
		why = "not all ranks have written it well"
	}
	c.tell(timeline.Failed, n, timeline.Event{Reason: why})
	delete(c.why, n)
	c.written.Discard(n, bypass)
}

// Flush is outputs'.
func (c *chronicle) Flush(n uint64, then func(error)) {
	c.tell(timeline.Flushing, n, timeline.Event{})
	c.written.Flush(n, func(err error) {
		if err != nil {
			c.tell(timeline.Unflushed, n, timeline.Event{Reason: err.Error()})
		} else {
			c.tell(timeline.Flushed, n, timeline.Event{})
		}
		then(err)
	})
}

// Evict is outputs'.
func (c *chronicle) Evict(n uint64) {
	c.tell(timeline.Evicted, n, timeline.Event{})
	c.written.Evict(n)
}

// Forget is outputs'.
func (c *chronicle) Forget(n uint64, files bool) {
	e := timeline.Event{}
	if files {
		e.Reason = "its files in the prefix are removed, too"
	}
	c.tell(timeline.Dropped, n, e)
	delete(c.names, n)
	c.written.Forget(n, files)
}

// Restore is outputs'.
func (c *chronicle) Restore(d outputs.Dataset, at []int, prefix bool, then func(bool, error)) {
	c.written.Restore(d, at, prefix, func(inPrefix bool, err error) {
		if err != nil {
			c.tell(timeline.Unable, d.Number, timeline.Event{InsteadOf: timeline.Restarted, Reason: err.Error()})
		} else {
			c.tell(timeline.Restarted, d.Number, timeline.Event{})
		}
		then(inPrefix, err)
	})
}

// Counts is outputs'.
func (c *chronicle) Counts(n uint64, counts bool) {
	for _, e := range c.book.Entries() {
		if e.Dataset == n && e.Bad && !counts {
			c.tell(timeline.Unread, n, timeline.Event{})
		}
	}
	c.written.Counts(n, counts)
}

// toldCaches tells the log what package keep does with them.
type toldCaches struct {
	writtenCaches
	told *chronicle
}

// Repaired is keep's.
func (c toldCaches) Repaired(n uint64, node int, bytes int64, why string) {
	c.told.tell(timeline.Repaired, n, timeline.Event{Node: c.s.agents.list[node].name, Bytes: bytes, Reason: why})
	c.writtenCaches.Repaired(n, node, bytes, why)
}

// Rebuilt is keep's.
func (c toldCaches) Rebuilt(n uint64, lost string, on int, bytes int64) {
	c.told.tell(timeline.Rebuilt, n, timeline.Event{Node: c.s.agents.list[on].name, PartsOf: []string{lost}, Bytes: bytes})
	c.writtenCaches.Rebuilt(n, lost, on, bytes)
}
