package amt

import (
	"fmt"
	"sync"
	"time"

	"github.com/byssus-hpc/byssus/amt/internal/inproc"
	"github.com/byssus-hpc/byssus/amt/internal/wire"
	"github.com/byssus-hpc/byssus/internal/localmpi"
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
				r.watch.rests, r.watch.asks = rests, rests
				err = r.run(main)
			}
			errs[rank] = err
		})
	}
	all.Wait()
	return joined(errs)
}

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
