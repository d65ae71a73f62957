package agent

import (
	"sync"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// This file stands between the ranks and the coordinator: what ranks say is folded (package node) and handed on by one
// goroutine, in order; an order goes to the ranks that are concerned.

// reports are what the coordinator is to hear. They guarantee: it is told by one goroutine, which runs until they are closed, without any
// lock held, in the order in which it was said.
type reports struct {
	look  func() []node.Sample // reads the shared pages
	tell  func(node.Report)    // the coordinator
	began time.Time
	news  chan struct{} // there may be something to report
	over  chan struct{} // closed by close

	mu   sync.Mutex
	fold *node.Fold
}

func newReports(fold *node.Fold, look func() []node.Sample, tell func(node.Report)) reports {
	return reports{look: look, tell: tell, began: time.Now(), news: make(chan struct{}, 1), over: make(chan struct{}), fold: fold}
}

// said takes in what a rank says, or what is seen of it.
func (r *reports) said(one node.Report) {
	r.mu.Lock()
	r.fold.Say(time.Since(r.began), one)
	r.mu.Unlock()
	r.stir()
}

// clocks takes in a part of a rank's report of clocks.
func (r *reports) clocks(rank int, epoch uint64, clocks []abi.Clock, more bool) {
	r.mu.Lock()
	r.fold.SayClocks(time.Since(r.began), rank, epoch, clocks, more)
	r.mu.Unlock()
	r.stir()
}

// hear takes in an order of the coordinator, and returns what it is to the ranks.
func (r *reports) hear(o node.Order) []node.Message {
	r.mu.Lock()
	messages := r.fold.Hear(o)
	r.mu.Unlock()
	r.stir()
	return messages
}

// stir makes the reporting goroutine look whether there is something to report.
func (r *reports) stir() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// run hands on what the coordinator is to hear, until close.
func (r *reports) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		list, wait := r.due()
		for _, one := range list {
			r.tell(one)
		}
		timer.Reset(wait)
		select {
		case <-r.news:
		case <-timer.C:
		case <-r.over:
			return
		}
	}
}

// due returns what is to be reported now, and for how long there will be nothing if nobody says anything.
func (r *reports) due() ([]node.Report, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.began)
	if at, look, ok := r.fold.Next(); ok && look && now >= at {
		r.mu.Unlock() // look has locks of its own
		pages := r.look()
		r.mu.Lock()
		r.fold.Look(now, pages)
	}
	list := r.fold.Take(now)
	if at, _, ok := r.fold.Next(); ok {
		return list, max(at-now, 0)
	}
	return list, time.Hour
}

// close ends the reporting goroutine.
func (r *reports) close() { close(r.over) }

// Order gives the ranks an order of the coordinator; it does not wait.
func (s *Server) Order(o node.Order) {
	messages := s.reports.hear(o)
	s.places.ordered(o.Epoch)
	if o.Type == abi.MsgExit {
		s.places.leaveFirst()
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
		return split(m, shares(o.Hold, s.look.own(o.Shares)))
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
func (l *look) own(list []node.Share) []abi.Share {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []abi.Share
	for _, sh := range list {
		if dev, ok := l.domains.dev[sh.Domain]; ok {
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
