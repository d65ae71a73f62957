package amt

import (
	"fmt"
	"time"
)

// losses finds that the transport has lost batches, or brought some twice: short ones between two ranks arrive in their order, so those
// that have left before a mark have come before it. It says when a rank tells others by marks how many have left: when no message of an
// epoch was handled for a while. It belongs to the goroutine that drives the rank.
type losses struct {
	self    int
	short   int      // bytes of a batch that counts, at most
	left    []uint64 // by rank: such batches
	come    []uint64
	found   error         // what is wrong with that
	counted uint64        // messages of epochs that were handled here
	moved   uint64        // of them, when it was last looked whether there are more
	movedAt time.Time     // when there were
	marked  time.Duration // after so long without one others were told how much was sent to them
	asks    time.Duration // marksAfter, but in tests
}

func (l *losses) init(r *rank) {
	l.self, l.short, l.asks = r.self, r.t.short, marksAfter
	l.left, l.come = make([]uint64, r.ranks), make([]uint64, r.ranks)
}

// gone counts a batch of so many bytes that the transport has taken.
func (l *losses) gone(to, size int) {
	if size <= l.short {
		l.left[to]++
	}
}

// arrived counts one that has come.
func (l *losses) arrived(from, size int) {
	if size <= l.short {
		l.come[from]++
	}
}

// compare looks at a mark.
func (l *losses) compare(from int, left uint64) {
	switch come := l.come[from]; {
	case come < left:
		l.found = fmt.Errorf("amt: rank %d: the transport has lost %d of %d batches of messages from rank %d", l.self, left-come, left, from)
	case come > left:
		l.found = fmt.Errorf("amt: rank %d: the transport has brought %d batches of messages from rank %d, which has sent %d", l.self, come, from, left)
	}
}

// due tells whether others are to look whether something was lost.
func (l *losses) due(now time.Time) bool {
	if l.counted != l.moved || l.movedAt.IsZero() {
		l.moved, l.movedAt, l.marked = l.counted, now, 0
		return false
	}
	since := now.Sub(l.movedAt)
	if since < max(l.asks, 2*l.marked) {
		return false
	}
	l.marked = since
	return true
}
