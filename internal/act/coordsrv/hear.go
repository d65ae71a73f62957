package coordsrv

import (
	"slices"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/decide/pmi"
)

// hear takes in what an agent says. Of a start that is over only answers count.
func (s *Server) hear(m said) {
	switch b := m.Body.(type) {
	case control.Done:
		s.agents.answered(b.Order, m.Message)
	case control.Encoded:
		s.agents.answered(b.Order, m.Message)
	case control.Sealed:
		s.agents.answered(b.Order, m.Message)
	case control.Pages:
		s.agents.answered(b.Order, m.Message)
	case control.Asked:
		s.written.asked(m.from, b)
	case control.Gathered:
		s.agents.answered(b.Order, m.Message)
	case control.Unrouted:
		s.agents.answered(b.Order, m.Message)
	case control.Routed:
		if s.written.routing != nil { // also when the start is over: it says what the program has left
			s.written.routing.hear(m.from, m.Start, b)
		}
	case control.Claim:
		if m.Start == s.agents.start && s.written.routing != nil {
			s.written.routing.claim(m.from, b)
		}
	case control.RankLeft:
		if b.Number != 0 {
			s.written.memory.left(slices.Index(s.agents.list, m.from), b)
		} else {
			s.written.book.Left(b.Run, b.Rank)
		}
	case departed:
		s.lost(m.from, b.why)
	case pmi.Up:
		if m.Start == s.agents.start {
			s.ranks.meet(m.from, b)
		}
	case control.Here:
		if m.Start == s.agents.start {
			s.ranks.meeting(b.Meeting)
		}
	case control.WantInput:
		if m.Start == s.agents.start {
			s.input.wantInput(m.from, m.Start, b.Offset)
		}
	case control.Exited:
		if m.Start == s.agents.start {
			s.ranks.exited(b)
		}
	case control.Launched:
		if m.Start == s.agents.start {
			s.ranks.launched(b)
		}
	case control.Spawn:
		if m.Start == s.agents.start {
			s.ranks.spawn(m.from, b)
		}
	case control.Executed:
		if m.Start == s.agents.start {
			s.ranks.executed(b)
		}
	case node.Report:
		if m.Start == s.agents.start {
			s.ranks.diedUntold(b)
			s.step(b)
		}
	}
}
