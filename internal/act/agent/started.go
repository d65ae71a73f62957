package agent

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/host/rundir"
)

// started are the processes that this agent has started for its start: the ranks, or an MPI's launcher or its daemon, which starts them.
// All of them, and what they have made on this node, are gone when end has returned.
type started struct {
	cfg  *Config
	crew *crew // an MPI's launcher, or its daemon

	mu       sync.Mutex
	family   *family   // nil: an MPI's launcher has started the ranks
	launcher *launcher // nil: that runs elsewhere, or there is none
}

// begin makes ready for them, and removes what those of earlier terms have left.
func (p *started) begin() error {
	tidyStarts(p.cfg.JobID[:], func(start uint64) bool { return start>>termBits < p.cfg.Start>>termBits })
	if dir := MemoryDir(p.cfg.JobID, p.cfg.Start); dir != "" {
		if err := rundir.Make(dir); err != nil {
			return fmt.Errorf("agent: memory of the launcher's ranks: %w", err)
		}
	}
	return nil
}

// ranks are those that this agent has started itself, nil: there are none.
func (p *started) ranks() *family {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.family
}

// shells is the launcher, whose remote shells ask this agent; nil: that runs elsewhere, or there is none.
func (p *started) shells() *launcher {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.launcher
}

// signal sends a signal to those that have not ended.
func (p *started) signal(sig syscall.Signal) {
	p.crew.signal(sig)
	if f := p.ranks(); f != nil {
		f.signal(sig)
	}
}

// end ends all of them, and removes what they have made.
func (p *started) end() {
	f, l := p.ranks(), p.shells()
	if f != nil {
		f.end()
	}
	p.crew.end()
	_ = os.RemoveAll(p.sessionDir()) // of a launcher that was killed
	_ = os.RemoveAll(memoryDir(p.cfg.JobID[:], fmt.Sprintf("%x", p.cfg.Start)))
	if l != nil {
		l.close()
	}
}
