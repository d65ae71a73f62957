package amt

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// MemoryVariable says how many bytes of memory the messages may take that a rank has sent and that are not handled, or under MPI, have not
// left ("512M"; K, M and G are powers of 1024). If it is not set 512M, no limit if it is 0. Beyond it, Send and Broadcast of main functions
// handle what comes, as Poll does, until there is room; those of tasks wait for it. Handlers, what follows an epoch, operations
// of scopes and Attached.Enter never wait: what they send is taken, and told once on the standard error when it is twice the limit.
const MemoryVariable = "BYSSUS_AMT_MEMORY"

const (
	defaultMemory = 512 << 20
	toldBeyond    = 2 // times the limit
	givenBack     = 8 // so many parts of the limit, over all ranks, are handled before their senders are told
)

// A memory bounds what a rank has sent and nobody has handled yet.
//
// It counts the memory of whole batches, not messages. A batch counts at its sender from when it is begun: until the transport has taken it
// (packed), then as long as the transport says (wire.Transport.Held): on ranks of one process until its receiver has handled it, under
// MPI until a long one has left. One for the rank itself counts until it is handled (local). What tasks have packed counts until the
// rank takes it (asked). What waits for an epoch before (After) does not count: that may be over only after what the sender does next.
//
// A rank that would get beyond the limit waits for room. No circle of ranks can wait so for each other:
//
//   - Who waits is a main function, which drives its rank all the while, or a task, which keeps its rank from nothing. What drives a rank
//     never waits for room itself: handlers, what follows epochs and operations of scopes are let beyond the limit.
//   - So every rank that is driven goes on to take, handle and free whatever comes, however much it has sent itself; nothing
//     that counts waits for anything but that.
//   - What a rank has handled it gives back to the sender when that is a part of the limit (givenBack), when the rank has nothing else to
//     do, and now and then if it is never out of work.
//
// Ranks that nobody drives, because their main functions compute or block elsewhere, keep their senders waiting as they keep their
// messages waiting. A rank takes no more batches than the limit says before it handles those that it has, unless it has nothing to handle.
//
// Detectors (package term) see nothing of it: Send waits before its message counts, and the code that sends holds its epoch. A main function or a task that waits for room does not wait in the sense of the watch: nothing is ever told hung for it.
type memory struct {
	r       *rank
	limit   int
	packed  int
	local   int
	kept    int   // of batches of other ranks that are here and not handled
	left    int   // may be begun before a look at what is used
	over    bool  // the limit is exceeded, as far as was looked
	owed    []int // by rank: handled, and not given back
	owing   []int // those ranks
	quantum int   // of that, given back at once

	full    atomic.Bool  // over, for tasks
	asked   atomic.Int64 // of messages of tasks that the rank has not taken
	waiting []chan struct{}
}

// toldMemory: the process has said that handlers exceed the limit.
var toldMemory = new(atomic.Bool)

func (m *memory) init(r *rank) error {
	m.r, m.owed = r, make([]int, r.ranks)
	limit, err := parseSize(os.Getenv(MemoryVariable))
	if err != nil {
		return fmt.Errorf("amt: %s=%s: %w", MemoryVariable, os.Getenv(MemoryVariable), err)
	}
	m.bound(limit)
	return nil
}

// bound sets the limit.
func (m *memory) bound(limit int) {
	m.limit, m.left, m.quantum = limit, limit, max(1, limit/(givenBack*m.r.ranks))
}

// parseSize reads a number of bytes; 0 is as many as there may be, nothing the default.
func parseSize(text string) (int, error) {
	if text == "" {
		return defaultMemory, nil
	}
	digits, unit := text, 0
	if n := strings.IndexByte("KMG", text[len(text)-1]); n >= 0 {
		digits, unit = text[:len(text)-1], 10*(n+1)
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt>>unit {
		return 0, errors.New("a number of bytes is wanted, such as 512M, or 0")
	}
	if n == 0 {
		return math.MaxInt, nil
	}
	return int(n) << unit, nil
}

// took counts a batch that is begun for a rank.
func (m *memory) took(to, size int) {
	if to == m.r.self {
		m.local += size
	} else {
		m.packed += size
	}
	if m.left -= size; m.left < 0 && !m.over {
		m.look()
	}
}

// look finds whether the limit is exceeded, and if not, how much may be begun before that has to be looked for again.
func (m *memory) look() {
	if m.left = m.limit - m.used(false); m.left >= 0 {
		return
	}
	if m.left = m.limit - m.used(true); m.left < 0 {
		m.over, m.r.outgoing.reached = true, 0
		m.full.Store(true)
	}
}

// used is all that counts, but for what tasks have asked for. If so wanted, the rank's rest ends when it becomes less.
func (m *memory) used(wake bool) int { return m.packed + m.local + m.r.t.Held(wake) }

// relax finds that there is room again.
func (m *memory) relax() {
	if !m.over {
		return
	}
	if m.left = m.limit - m.used(true); m.left < 0 {
		return
	}
	m.over, m.r.outgoing.reached = false, m.r.ranks
	m.full.Store(false)
	for _, ready := range m.waiting {
		close(ready)
	}
	m.waiting = nil
}

// handled is the end of so many bytes of a batch.
func (m *memory) handled(p *parcel, size int) {
	if !p.remote {
		m.local -= size
		return
	}
	m.kept -= size
	if m.owed[p.from] == 0 && size > 0 {
		m.owing = append(m.owing, p.from)
	}
	if m.owed[p.from] += size; m.owed[p.from] >= m.quantum {
		m.pay()
	}
}

// pay gives back what was handled.
func (m *memory) pay() {
	for _, from := range m.owing {
		m.r.t.Handled(from, m.owed[from])
		m.owed[from] = 0
	}
	m.owing = m.owing[:0]
}

// wait is called before code sends that is beyond the limit: it returns when there is room, or the code may not wait for it.
func (m *memory) wait(f *frame) {
	r := m.r
	switch {
	case f.task != nil:
		m.waitTask()
		return
	case f.onLoop() || r.main.entered:
		if m.relax(); m.over && m.used(true)/toldBeyond > m.limit && toldMemory.CompareAndSwap(false, true) {
			fmt.Fprintf(os.Stderr, "amt: rank %d: %s sends without waiting for room, as it must: what this rank has sent takes more than %d times %d bytes (%s)\n",
				r.self, f.who(), toldBeyond, m.limit, MemoryVariable)
		}
		return
	}
	begun, told := time.Now(), time.Duration(0)
	for m.relax(); m.over && r.failure() == nil; m.relax() {
		r.loop.drive()
		if waited := time.Since(begun); r.watch.patience.lasts > 0 && waited >= max(r.watch.patience.lasts, 2*told) {
			told = waited
			fmt.Fprintf(os.Stderr, "amt: rank %d: the main function waits for room since %v: other ranks do not handle what this one has sent, %d bytes (%s)\n",
				r.self, waited.Round(max(r.watch.patience.lasts/100, 1)), m.used(false), MemoryVariable)
		}
	}
}

// waitTask is wait on a task's goroutine.
func (m *memory) waitTask() {
	for m.crowded() {
		ready := make(chan struct{})
		m.r.inbox.ask(func() {
			if m.relax(); m.over {
				m.waiting = append(m.waiting, ready)
			} else {
				close(ready)
			}
		})
		select {
		case <-ready:
		case <-m.r.tasks.gone:
			return
		}
	}
}

// crowded tells a task whether it has to wait.
func (m *memory) crowded() bool { return m.full.Load() || m.asked.Load() > int64(m.limit) }
