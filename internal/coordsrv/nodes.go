package coordsrv

import (
	"sync"

	"github.com/byssus-hpc/byssus/internal/agent"
	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/coord"
	"github.com/byssus-hpc/byssus/internal/dataset"
	"github.com/byssus-hpc/byssus/internal/node"
)

// inbox is what agents have said and the loop has not heard yet.
type inbox struct {
	mu    sync.Mutex
	list  []control.Message
	ready chan struct{} // there may be something
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put does not wait: an agent that the loop is giving an order may have something to say.
func (b *inbox) put(m control.Message) {
	b.mu.Lock()
	b.list = append(b.list, m)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []control.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list
}

// joinSelf makes the agent of this machine, which lives in this process and is spoken to as one elsewhere would be.
func (s *Server) joinSelf() {
	store := *s.opt.Job // the agent's own: Meta changes here
	s.agent = agent.NewNode(s.opt.RunDir, s.jobID, &store, s.inbox.put)
}

// hear takes in what an agent says. Of a start that is over only answers count.
func (s *Server) hear(m control.Message) {
	switch b := m.Body.(type) {
	case control.Done:
		s.answered(b.Order, m)
	case control.Sealed:
		s.answered(b.Order, m)
	case control.Pages:
		s.answered(b.Order, m)
	case node.Report:
		if m.Start == s.number {
			s.step(b)
		}
	}
}

// order gives the agent an order that is answered; then hears the answer, on the loop's goroutine.
func (s *Server) order(body func(order uint64) any, then func(control.Message)) {
	s.orders++
	s.waiting[s.orders] = then
	s.agent.Hear(control.Message{Start: s.number, Body: body(s.orders)})
}

func (s *Server) answered(order uint64, m control.Message) {
	if then := s.waiting[order]; then != nil {
		delete(s.waiting, order)
		then(m)
	}
}

// tell gives the agent an order that is not answered.
func (s *Server) tell(body any) { s.agent.Hear(control.Message{Start: s.number, Body: body}) }

// failure is what an answer says went wrong.
func failure(m control.Message) string {
	if d, ok := m.Body.(control.Done); ok {
		return d.Err
	}
	return ""
}

func (s *Server) prepare(n uint64) {
	s.order(func(order uint64) any { return control.Prepare{Order: order, Checkpoint: n} },
		func(m control.Message) { s.step(coord.Prepared{Checkpoint: n, Err: failure(m)}) })
}

// commit: the agent seals its part, and gets the record of the whole.
func (s *Server) commit(n uint64) {
	ranks := s.allRanks()
	s.order(func(order uint64) any { return control.Seal{Order: order, Checkpoint: n, Ranks: ranks} }, func(m control.Message) {
		sealed, ok := m.Body.(control.Sealed)
		if !ok {
			s.step(coord.Committed{Checkpoint: n, Err: failure(m)})
			return
		}
		record := s.opt.Job.Record(n, &sealed.Holding)
		s.order(func(order uint64) any { return control.Commit{Order: order, Checkpoint: n, Record: *record} }, func(m control.Message) {
			s.step(coord.Committed{Checkpoint: n, Err: failure(m)})
			if failure(m) == "" {
				s.dropForeign()
			}
		})
	})
}

// remove discards or drops a checkpoint; that it cannot be removed is told, and changes nothing.
func (s *Server) remove(body func(order uint64) any) {
	s.order(body, func(m control.Message) {
		if why := failure(m); why != "" {
			s.opt.Say(why)
		}
	})
}

// dropForeign removes the checkpoints of an earlier job of this name, now that this one has its own.
func (s *Server) dropForeign() {
	for _, n := range s.foreign {
		if m, err := dataset.ReadManifest(s.opt.Job.Path(n)); err == nil && m.ID != s.opt.Job.Meta.ID {
			s.remove(func(order uint64) any { return control.Drop{Order: order, Checkpoint: n} })
		}
	}
	s.foreign = nil
}

// allRanks are the ranks of the job, all of which are on this machine.
func (s *Server) allRanks() []int {
	ranks := make([]int, s.opt.Spec.Ranks)
	for rank := range ranks {
		ranks[rank] = rank
	}
	return ranks
}
