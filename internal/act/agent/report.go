package agent

import (
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// This file stands between the ranks and the coordinator: what ranks say is folded (package node) and handed on by one
// goroutine, in order; an order goes to the ranks that are concerned.

// said takes in what a rank says, or what is seen of it.
func (s *Server) said(r node.Report) {
	s.foldMu.Lock()
	s.fold.Say(time.Since(s.began), r)
	s.foldMu.Unlock()
	s.stir()
}

func (s *Server) saidClocks(rank int, epoch uint64, clocks []abi.Clock, more bool) {
	s.foldMu.Lock()
	s.fold.SayClocks(time.Since(s.began), rank, epoch, clocks, more)
	s.foldMu.Unlock()
	s.stir()
}

// stir makes the reporting goroutine look whether there is something to report.
func (s *Server) stir() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// report hands on what the coordinator is to hear, until Close.
func (s *Server) report() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		reports, wait := s.due()
		for _, r := range reports {
			s.cfg.Report(r)
		}
		timer.Reset(wait)
		select {
		case <-s.news:
		case <-timer.C:
		case <-s.over:
			return
		}
	}
}

// due returns what is to be reported now, and for how long there will be nothing if nobody says anything.
func (s *Server) due() ([]node.Report, time.Duration) {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	now := time.Since(s.began)
	if at, look, ok := s.fold.Next(); ok && look && now >= at {
		s.foldMu.Unlock() // Sample has a lock of its own
		pages := s.Sample()
		s.foldMu.Lock()
		if pages != nil {
			s.fold.Look(now, pages)
		}
	}
	reports := s.fold.Take(now)
	if at, _, ok := s.fold.Next(); ok {
		return reports, max(at-now, 0)
	}
	return reports, time.Hour
}

// Order gives the ranks an order of the coordinator; it does not wait.
func (s *Server) Order(o node.Order) {
	s.foldMu.Lock()
	messages := s.fold.Hear(o)
	s.foldMu.Unlock()
	s.stir()
	s.mu.Lock()
	s.epoch = o.Epoch
	s.mu.Unlock()
	if o.Type == abi.MsgExit {
		s.leaveFirst()
	}
	for _, m := range messages {
		packets := s.encode(m.Order)
		for _, rank := range m.Ranks {
			for _, p := range packets {
				s.Send(rank, p)
			}
		}
	}
}

// encode turns an order into messages.
func (s *Server) encode(o node.Order) []abi.Message {
	m := abi.Message{Header: abi.Header{Type: o.Type, Epoch: o.Epoch}}
	switch o.Type {
	case abi.MsgTargets:
		clocks := make([]abi.Clock, len(o.Targets))
		for i, t := range o.Targets {
			clocks[i] = t.Clock
		}
		return split(m, abi.Clocks([]uint64{o.Version}, clocks))
	case abi.MsgShared:
		return split(m, shares(o.Hold, s.own(o.Shares)))
	case abi.MsgDrain:
		d := abi.Drain{Writers: uint32(s.cfg.Writers), Checkpoint: o.Checkpoint, JobID: s.cfg.JobID}
		if o.ExitAfter {
			d.Flags = abi.DrainExitAfter
		}
		if s.input != nil {
			d.Input = s.input.read() // all ranks are stopped
		}
		abi.SetText(d.Dir[:], s.cfg.Images(o.Checkpoint)) // its length was checked when the job was made
		m.Body = abi.Encode(d, "")
	}
	return []abi.Message{m}
}

// split makes one message for each body; all but the last say that more follow.
func split(m abi.Message, bodies [][]byte) []abi.Message {
	var out []abi.Message
	for i, b := range bodies {
		m.Body, m.Flags = b, 0
		if i < len(bodies)-1 {
			m.Flags = abi.FlagMore
		}
		out = append(out, m)
	}
	return out
}

// own are the shares that ranks of this node can have, by the devices of this node.
func (s *Server) own(list []node.Share) []abi.Share {
	s.look.mu.Lock()
	defer s.look.mu.Unlock()
	var out []abi.Share
	for _, sh := range list {
		if dev, ok := s.domains.dev[sh.Domain]; ok {
			sh.Share.Dev = dev
			out = append(out, sh.Share)
		}
	}
	return out
}

// shares encodes the list of what ranks share, in as many bodies as it takes: one at least, for ranks that share nothing must know
// that they hold.
func shares(hold bool, list []abi.Share) [][]byte {
	const most = (abi.MaxBody - 64) / 32
	var head abi.SharedHead
	if hold {
		head.Flags = abi.SharedHold
	}
	var bodies [][]byte
	for rest := list; len(rest) > 0 || bodies == nil; {
		n := min(len(rest), most)
		bodies = append(bodies, append(abi.Encode(head, ""), abi.Encode(rest[:n], "")...))
		rest = rest[n:]
	}
	return bodies
}
