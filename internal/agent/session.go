package agent

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/byssus-hpc/byssus/internal/abi"
	"github.com/byssus-hpc/byssus/internal/coord"
)

// packet is a message on its way to a rank, and the descriptor that goes with it, if any.
type packet struct {
	bytes []byte
	file  *os.File
}

// session is the connection of one rank.
type session struct {
	rank   int
	host   string
	conn   *net.UnixConn
	proc   *process
	epoch  uint64 // of the last report of clocks, and how many it has had; only the reader touches them
	clocks uint64

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

// message turns what a rank says into an event. A file that came with it is the receiver's to close.
func (s *Server) message(ses *session, m abi.Message, file *os.File) error {
	switch m.Type {
	case abi.MsgHand:
		return s.hand(ses, m, file)
	case abi.MsgObjects:
		return s.objects(ses, m)
	}
	if file != nil {
		file.Close()
	}
	ev, err := ses.event(m)
	if err != nil {
		return err
	}
	if m.Type == abi.MsgInit {
		s.cfg.Note(ses.rank, string(m.Body))
	}
	s.cfg.Event(ev)
	return nil
}

func (s *session) event(m abi.Message) (coord.Event, error) {
	switch m.Type {
	case abi.MsgClocks:
		return s.clockReport(m)
	case abi.MsgRaise:
		var c abi.Clock
		_, err := abi.Decode(m.Body, &c)
		return coord.Raise{Rank: s.rank, Epoch: m.Epoch, Clock: c}, err
	case abi.MsgMet:
		var met abi.Met
		_, err := abi.Decode(m.Body, &met)
		return coord.Met{Rank: s.rank, Epoch: m.Epoch, Version: met.Version}, err
	case abi.MsgWaiting:
		var w abi.Waiting
		_, err := abi.Decode(m.Body, &w)
		return coord.Waiting{Rank: s.rank, Epoch: m.Epoch, Where: w.Where, Call: abi.Text(w.Call[:])}, err
	case abi.MsgStopped:
		var st abi.Stopped
		text, err := abi.Decode(m.Body, &st)
		refusals := lines(text, int(st.NRefusals))
		return coord.Stopped{Rank: s.rank, Epoch: m.Epoch, Refusals: refusals, Passing: min(int(st.NPassing), len(refusals))}, err
	case abi.MsgImage:
		var im abi.Image
		text, err := abi.Decode(m.Body, &im)
		return coord.Image{Rank: s.rank, Epoch: m.Epoch, Image: im, Text: sentence(text)}, err
	case abi.MsgResumed:
		var r abi.Resumed
		_, err := abi.Decode(m.Body, &r)
		return coord.Resumed{Rank: s.rank, Epoch: m.Epoch, Stall: time.Duration(r.StallNS)}, err
	case abi.MsgRestored:
		return coord.Restored{Rank: s.rank}, nil
	case abi.MsgFailed:
		return coord.Failed{Rank: s.rank, Text: sentence(m.Body)}, nil
	case abi.MsgInit:
		return coord.Init{Rank: s.rank}, nil
	case abi.MsgFinalizing:
		return coord.Finalizing{Rank: s.rank}, nil
	case abi.MsgFini:
		return coord.Fini{Rank: s.rank}, nil
	case abi.MsgReason:
		return coord.Reason{Rank: s.rank, Text: sentence(m.Body)}, nil
	case abi.MsgTerminate:
		return coord.Terminate{ByRank: true}, nil
	}
	return nil, fmt.Errorf("agent: message of unknown type %d from rank %d", m.Type, s.rank)
}

// clockReport takes a part of a report. The count in it is that of the part or of the whole report; what tells the
// last part is FLAG_MORE or the count being reached.
func (s *session) clockReport(m abi.Message) (coord.Event, error) {
	words, clocks, err := abi.ParseClocks(m.Body, 0)
	if err != nil {
		return nil, err
	}
	if m.Epoch != s.epoch {
		s.epoch, s.clocks = m.Epoch, 0
	}
	s.clocks += uint64(len(clocks))
	total := words[0]
	more := m.Flags&abi.FlagMore != 0 || s.clocks < total && uint64(len(clocks)) < total
	if !more {
		s.clocks = 0
	}
	return coord.Clocks{Rank: s.rank, Epoch: m.Epoch, Clocks: clocks, More: more}, nil
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
