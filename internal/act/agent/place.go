package agent

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// A place is what the launcher starts once for each rank. What it starts there may be a wrapper, and the rank be below it: whichever
// process begins the MPI first (rank/core/base/agent/place.c). All of a place that can be ranks are connected; those that are not the
// rank are aside: they are told of the job's end, and what they say of themselves is nothing to the coordinator.

// places are who is connected. They guarantee: a rank is one process at a time, the newest that may be it, and everybody else of its
// place is aside; nobody comes, and no rank moves, when they are closed. All is protected by mu, also isRank and before of sessions.
type places struct {
	mu     sync.Mutex
	conns  map[*net.UnixConn]bool
	procs  []*process        // all that ever said hello
	ranks  map[int]*session  // the newest of each
	aside  map[*session]bool // of the ranks' places, that are not the ranks
	epoch  uint64            // of the last order
	ending bool              // ranks have been told to end
	closed bool
}

func newPlaces() places {
	return places{conns: map[*net.UnixConn]bool{}, ranks: map[int]*session{}, aside: map[*session]bool{}}
}

// connect enters a connection, which close is going to end; false: it has.
func (p *places) connect(c *net.UnixConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[c] = true
	}
	return !p.closed
}

func (p *places) disconnect(c *net.UnixConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// enter takes a process in, as its rank, or aside when it comes from below the launcher's process. Its pidfd is then closed by close.
func (p *places) enter(ses *session, below bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.ranks[ses.rank]
	again := old != nil && old.pid() == ses.pid() // it has become another program, which starts anew
	if p.closed || old != nil && !again && !below {
		return fmt.Errorf("agent: rank %d is here already (pid %d), this one is pid %d", ses.rank, old.pid(), ses.pid())
	}
	p.procs = append(p.procs, ses.proc)
	if below && !again {
		p.aside[ses] = true
		return nil
	}
	if again {
		ses.isRank = old.isRank
		old.shut()
	}
	p.ranks[ses.rank] = ses
	return nil
}

// leave forgets a process that was aside and has ended.
func (p *places) leave(ses *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.aside, ses)
}

// move makes a process the rank of its place. What the one before has been asked for it need not do any more.
func (p *places) move(ses *session) (moved bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.ranks[ses.rank]
	if p.closed || old == ses {
		return false, nil
	}
	if old != nil && old.isRank {
		return false, fmt.Errorf("agent: rank %d: pid %d begins the MPI, and is pid %d already", ses.rank, ses.pid(), old.pid())
	}
	ses.isRank = true
	delete(p.aside, ses)
	p.ranks[ses.rank] = ses
	if old != nil {
		p.aside[old] = true
		old.put(packet{bytes: abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgCancel, Rank: uint32(ses.rank), Epoch: p.epoch}})})
	}
	return true, nil
}

// rank is the newest session of a rank, nil: there was none.
func (p *places) rank(rank int) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ranks[rank]
}

// isRank says whether a session is the newest of its rank.
func (p *places) isRank(ses *session) bool { return p.rank(ses.rank) == ses }

// isAside says whether a process of the place is aside.
func (p *places) isAside(ses *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aside[ses]
}

// ordered notes the epoch of an order, before ranks hear of it.
func (p *places) ordered(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch = epoch
}

// tell notes that the ranks are now told to end, and which of them have begun to by themselves. It returns how many have come.
func (p *places) tell() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ending {
		for _, ses := range p.ranks {
			ses.before = ses.proc.ending()
		}
		p.ending = true
	}
	return len(p.ranks)
}

// told says whether the ranks have been told to end.
func (p *places) told() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending
}

// untold says whether a process whose connection has ended was not told to end, or had begun to before.
func (p *places) untold(ses *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ending || ses.before
}

// signal sends a signal to the ranks and who is aside.
func (p *places) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ses := range p.ranks {
		ses.proc.signal(sig)
	}
	for ses := range p.aside {
		ses.proc.signal(sig)
	}
}

// pids are all processes that ever said hello, but for who is aside: that is run again at a restart, and does not share anything then.
func (p *places) pids() map[int]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[int]bool{}
	for _, proc := range p.procs {
		all[proc.pid] = true
	}
	for ses := range p.aside {
		delete(all, ses.pid())
	}
	return all
}

// endAside tells those that are aside of the end of the job.
func (p *places) endAside() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ses := range p.aside {
		ses.put(packet{bytes: abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgEnd, Rank: uint32(ses.rank)}})})
	}
}

// leaveFirst ends the wrappers around the ranks, which leave after their images: a shell would go on with its next command. Who is
// beside a rank, and reads what it has written, ends by itself.
func (p *places) leaveFirst() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.aside) == 0 {
		return
	}
	around := map[int]bool{}
	for _, ses := range p.ranks {
		for pid, n := parent(ses.pid()), 0; pid > 1 && n < mostWrappers; pid, n = parent(pid), n+1 {
			around[pid] = true
		}
	}
	for ses := range p.aside {
		if around[ses.pid()] {
			ses.put(packet{bytes: abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgExit, Rank: uint32(ses.rank)}})})
		}
	}
}

// close ends all connections. Who is still there counts as not ended.
func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	for _, proc := range p.procs {
		proc.close()
	}
}

// mostWrappers are looked at around a rank.
const mostWrappers = 64

// parent is the process's parent, 0: it is gone.
func parent(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // proc_pid_stat(5), behind the name
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(string(f[1]))
	return n
}
