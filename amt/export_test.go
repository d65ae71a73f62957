package amt

import (
	"fmt"
	"sync"
	"time"

	"github.com/byssus-hpc/byssus/amt/internal/inproc"
	"github.com/byssus-hpc/byssus/amt/internal/wire"
	"github.com/byssus-hpc/byssus/internal/engine/localmpi"
)

// Table is the numbers of the handlers, a line each.
func Table() ([]string, error) {
	all, err := table()
	var lines []string
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("handler %d: %v", e.id, e))
	}
	return lines, err
}

// RunOver is RunLocal over transports that a test has put around those within a process. Ranks take part in finding that
// nothing can go on when they have had nothing to do for so long, and look for lost batches.
func RunOver(n int, around func(wire.Transport) wire.Transport, rests time.Duration, main func(Context) error) error {
	return runOver(n, around, main, func(r *rank) { r.watch.rests, r.watch.losses.asks = rests, rests }, func(r *rank) error { return nil })
}

// RunWithin is RunOver with a limit of memory. That nothing counts when all is done is looked for.
func RunWithin(n, limit int, around func(wire.Transport) wire.Transport, rests time.Duration, main func(Context) error) error {
	return runOver(n, around, main, func(r *rank) {
		r.watch.rests, r.watch.losses.asks = rests, rests
		r.memory.bound(limit)
	}, func(r *rank) error {
		kept := 0 // by what came while the rank sent its last words, and is no message
		for _, p := range r.dispatcher.incoming.all() {
			if kept += cap(p.b); HasMessages(p.b) {
				return fmt.Errorf("rank %d: at the end there is a message from rank %d", r.self, p.from)
			}
		}
		if m := &r.memory; m.packed != 0 || m.local != 0 || m.kept != kept || m.asked.Load() != 0 || len(m.waiting) != 0 {
			return fmt.Errorf("rank %d: at the end %d bytes count as packed, %d as local, %d as kept, of which %d are here, %d as asked; %d tasks wait",
				r.self, m.packed, m.local, m.kept, kept, m.asked.Load(), len(m.waiting))
		}
		return nil
	})
}

func runOver(n int, around func(wire.Transport) wire.Transport, main func(Context) error, before func(*rank), after func(*rank) error) error {
	handlers, err := table()
	if err != nil {
		return err
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	engines := localmpi.New(n)
	for rank, end := range inproc.New(n) {
		all.Go(func() {
			r, err := newRank(around(end), engines[rank], handlers)
			if err == nil {
				before(r)
				if err = r.run(main); err == nil {
					err = after(r)
				}
			}
			errs[rank] = err
		})
	}
	all.Wait()
	return joined(errs)
}

// ParseSize reads what MemoryVariable says.
func ParseSize(text string) (int, error) { return parseSize(text) }

// HasMessages tells whether a batch has messages that count in their epochs.
func HasMessages(b []byte) bool {
	for len(b) > 0 {
		w, _, _, rest, ok := nextRecord(b)
		if !ok {
			return false
		}
		if w >= what(firstCounted) {
			return true
		}
		b = rest
	}
	return false
}
