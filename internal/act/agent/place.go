package agent

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// A place is what the launcher starts once for each rank. What it starts there may be a wrapper, and the rank be below it: whichever
// process begins the MPI first (rank/core/base/agent/place.c). All of a place that can be ranks are connected; those that are not the
// rank are aside: they are told of the job's end, and what they say of themselves is nothing to the coordinator.

// saysAside takes in what a process says that is not the rank.
func (s *Server) saysAside(ses *session, m abi.Message) error {
	switch m.Type {
	case abi.MsgPlace:
		return s.move(ses)
	case abi.MsgTerminate:
		s.said(node.Asked{Rank: ses.rank})
	case abi.MsgRefused:
		s.said(node.Refused{Rank: ses.rank, Text: sentence(m.Body)})
	}
	return nil
}

// move makes a process the rank of its place. What the one before has been asked for it need not do any more.
func (s *Server) move(ses *session) error {
	s.mu.Lock()
	old := s.sessions[ses.rank]
	if s.closed || old == ses {
		s.mu.Unlock()
		return nil
	}
	if old != nil && old.isRank {
		s.mu.Unlock()
		return fmt.Errorf("agent: rank %d: pid %d begins the MPI, and is pid %d already", ses.rank, ses.pid(), old.pid())
	}
	ses.isRank = true
	delete(s.aside, ses)
	s.sessions[ses.rank] = ses
	if old != nil {
		s.aside[old] = true
	}
	epoch := s.epoch
	s.mu.Unlock()
	if old != nil {
		old.put(packet{bytes: abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgCancel, Rank: uint32(ses.rank), Epoch: epoch}})})
	}
	s.said(node.Moved{Rank: ses.rank})
	return nil
}

// isAside says whether a process of the place is aside.
func (s *Server) isAside(ses *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aside[ses]
}

// everyone are the ranks and who is aside. The server is locked.
func (s *Server) everyone() []*session {
	var all []*session
	for _, ses := range s.sessions {
		all = append(all, ses)
	}
	for ses := range s.aside {
		all = append(all, ses)
	}
	return all
}

// end tells those that are aside of the end of the job.
func (s *Server) endAside() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ses := range s.aside {
		ses.put(packet{bytes: abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgEnd, Rank: uint32(ses.rank)}})})
	}
}

// leaveFirst ends the wrappers around the ranks, which leave after their images: a shell would go on with its next command. Who is
// beside a rank, and reads what it has written, ends by itself.
func (s *Server) leaveFirst() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.aside) == 0 {
		return
	}
	around := map[int]bool{}
	for _, ses := range s.sessions {
		for pid, n := parent(ses.pid()), 0; pid > 1 && n < mostWrappers; pid, n = parent(pid), n+1 {
			around[pid] = true
		}
	}
	for ses := range s.aside {
		if around[ses.pid()] {
			ses.put(packet{bytes: abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgExit, Rank: uint32(ses.rank)}})})
		}
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
