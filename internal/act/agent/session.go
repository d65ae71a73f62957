package agent

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// packet is a message on its way to a rank, and the descriptor that goes with it, if any.
type packet struct {
	bytes []byte
	file  *os.File
}

// session is the connection of one rank.
type session struct {
	rank      int
	conn      *net.UnixConn
	proc      *process
	restarted bool   // it continues an image
	passes    string // what cannot be saved and has this in it may be gone a moment later: the program talks to us
	isRank    bool   // it has begun the MPI below the launcher's process; places.mu protects it
	before    bool   // it had begun to end when ranks were told to; places.mu protects it
	epoch     uint64 // of the last report of clocks, and how many it has had; only the reader touches them
	clocks    uint64

	mu    sync.Mutex
	wake  *sync.Cond
	queue []packet
	done  bool
}

func (s *session) pid() int {
	if s == nil {
		return 0
	}
	return s.proc.pid
}

// write sends what is queued until the session is shut.
func (s *session) write() {
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.done {
			s.wake.Wait()
		}
		if s.done {
			s.mu.Unlock()
			return
		}
		p := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		if err := p.send(s.conn); err != nil {
			return // the reader notices the end
		}
	}
}

func (s *session) shut() {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.wake.Signal()
	s.conn.Close()
}

// put queues a message.
func (s *session) put(p packet) {
	s.mu.Lock()
	s.queue = append(s.queue, p)
	s.mu.Unlock()
	s.wake.Signal()
}

// putFirst queues a message before all others, none of which has been written yet.
func (s *session) putFirst(p packet) {
	s.mu.Lock()
	s.queue = slices.Insert(s.queue, 0, p)
	s.mu.Unlock()
	s.wake.Signal()
}

// message turns what a rank says into a report. A file that came with it is the receiver's to close.
func (s *Server) message(ses *session, m abi.Message, file *os.File) error {
	if m.Type == abi.MsgHand {
		return s.broker.hand(ses, m, file)
	}
	if file != nil {
		file.Close()
	}
	switch m.Type {
	case abi.MsgClaim:
		return s.broker.claim(ses, m)
	case abi.MsgClocks:
		clocks, more, err := ses.part(m)
		if err == nil {
			s.reports.clocks(ses.rank, m.Epoch, clocks, more)
		}
		return err
	case abi.MsgObjects:
		r, err := s.look.objects(ses, m, s.places.pids)
		if err == nil {
			s.reports.said(r)
		}
		return err
	}
	r, err := ses.report(m)
	if err == nil {
		s.reports.said(r)
	}
	return err
}

// saysAside takes in what a process says that is not the rank.
func (s *Server) saysAside(ses *session, m abi.Message) error {
	switch m.Type {
	case abi.MsgPlace:
		return s.move(ses)
	case abi.MsgTerminate:
		s.reports.said(node.Asked{Rank: ses.rank})
	case abi.MsgRefused:
		s.reports.said(node.Refused{Rank: ses.rank, Text: sentence(m.Body)})
	}
	return nil
}

// move makes a process the rank of its place, and says so.
func (s *Server) move(ses *session) error {
	moved, err := s.places.move(ses)
	if moved {
		s.reports.said(node.Moved{Rank: ses.rank})
	}
	return err
}

// report is what the coordinator is to hear of a message.
func (s *session) report(m abi.Message) (node.Report, error) {
	self := []int{s.rank}
	switch m.Type {
	case abi.MsgRaise:
		var c abi.Clock
		_, err := abi.Decode(m.Body, &c)
		return node.Raise{Rank: s.rank, Epoch: m.Epoch, Clock: node.Clock{Comm: c.Comm, Seq: c.Seq, Members: c.NMembers}}, err
	case abi.MsgMet:
		var met abi.Met
		_, err := abi.Decode(m.Body, &met)
		return node.Met{Ranks: self, Epoch: m.Epoch, Version: met.Version}, err
	case abi.MsgWaiting:
		var w abi.Waiting
		_, err := abi.Decode(m.Body, &w)
		return node.Waiting{Ranks: self, Epoch: m.Epoch, Where: w.Where, Call: abi.Text(w.Call[:])}, err
	case abi.MsgStopped:
		return s.stopped(m)
	case abi.MsgImage:
		return s.image(m)
	case abi.MsgResumed:
		var r abi.Resumed
		_, err := abi.Decode(m.Body, &r)
		return node.Resumed{Ranks: self, Epoch: m.Epoch, Stall: time.Duration(r.StallNS)}, err
	case abi.MsgRestored:
		return node.Restored{Ranks: self}, nil
	case abi.MsgFailed:
		return node.Failed{Rank: s.rank, Text: sentence(m.Body)}, nil
	case abi.MsgDamaged:
		return node.Failed{Rank: s.rank, Text: sentence(m.Body), Damaged: true}, nil
	case abi.MsgInit:
		return node.Init{Ranks: self, Library: sentence(m.Body)}, nil
	case abi.MsgFinalizing:
		return node.Finalizing{Ranks: self}, nil
	case abi.MsgFini:
		return node.Fini{Ranks: self}, nil
	case abi.MsgReason:
		return node.Reason{Rank: s.rank, Text: sentence(m.Body)}, nil
	case abi.MsgTerminate:
		return node.Asked{Rank: s.rank}, nil
	case abi.MsgRefused:
		return node.Refused{Rank: s.rank, Text: sentence(m.Body)}, nil
	}
	return nil, fmt.Errorf("agent: message of unknown type %d from rank %d", m.Type, s.rank)
}

// stopped: each line of the text names something that cannot be saved; the last ones may pass.
func (s *session) stopped(m abi.Message) (node.Report, error) {
	var st abi.Stopped
	text, err := abi.Decode(m.Body, &st)
	list := lines(text, int(st.NRefusals))
	for i := range list {
		list[i] = fmt.Sprintf("rank %d: %s", s.rank, list[i])
	}
	last := len(list) - min(int(st.NPassing), len(list))
	for i := last - 1; i >= 0 && s.passes != ""; i-- {
		if strings.Contains(list[i], s.passes) {
			list[i], list[last-1] = list[last-1], list[i]
			last--
		}
	}
	return node.Stopped{Ranks: []int{s.rank}, Epoch: m.Epoch, Refusals: list[:last:last], Passing: list[last:]}, err
}

func (s *session) image(m abi.Message) (node.Report, error) {
	var im abi.Image
	text, err := abi.Decode(m.Body, &im)
	out := node.Image{Ranks: []int{s.rank}, Epoch: m.Epoch, Bytes: im.Bytes}
	if im.Status != 0 {
		out.Bytes, out.Text = 0, fmt.Sprintf("rank %d: %s", s.rank, sentence(text))
	}
	return out, err
}

// part takes a part of a report of clocks; more: others follow. The count in it is that of the part or of the whole report; what tells
// the last part is FLAG_MORE or the count being reached.
func (s *session) part(m abi.Message) (clocks []abi.Clock, more bool, err error) {
	words, clocks, err := abi.ParseClocks(m.Body, 0)
	if err != nil {
		return nil, false, err
	}
	if m.Epoch != s.epoch {
		s.epoch, s.clocks = m.Epoch, 0
	}
	s.clocks += uint64(len(clocks))
	total := words[0]
	more = m.Flags&abi.FlagMore != 0 || s.clocks < total && uint64(len(clocks)) < total
	if !more {
		s.clocks = 0
	}
	return clocks, more, nil
}

func sentence(b []byte) string { return strings.TrimRight(abi.Text(b), "\n") }

// lines splits a text, and says so when fewer lines came than were announced.
func lines(b []byte, announced int) []string {
	var out []string
	for _, l := range strings.Split(sentence(b), "\n") {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	if len(out) < announced {
		out = append(out, fmt.Sprintf("and %d more things that cannot be saved", announced-len(out)))
	}
	return out
}
