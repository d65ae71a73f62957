package coordsrv

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// spares are processes that the program's launcher has started and that are no members: they wait for the place of one that has died, where no
// process can be started later, as in the world of an MPI. They belong to the loop's goroutine.
type spares struct {
	memory  *memory
	waiting []spare
	chosen  []chosen // until they say that they begin
	ended   uint64   // the start whose members have finished and ended, 0: none has
}

// spare is one, by what its agent has asked for it.
type spare struct {
	ask    outputs.Ask
	node   int
	number uint64
	rank   uint64
	group  string // of whose members it takes the place; empty: of any
}

// chosen is one that is to take the place of a process, which was these members.
type chosen struct {
	spare
	of []seat
}

// seat is a member of a group.
type seat struct {
	group  string
	member int
}

// enter: a process waits.
func (s *spares) enter(ask outputs.Ask, a control.Asked) {
	if !s.memory.keeps() {
		s.memory.w.done(ask, errors.New("a spare: found byssus run without --survivors keep, where all are started again"))
		return
	}
	group := ""
	if len(a.Text) > 0 {
		group = a.Text[0]
	}
	s.waiting = append(s.waiting, spare{ask, ask.Node, a.Number, a.NFiles, group})
}

// began: a member has, by whatever process.
func (s *spares) began(group string, member int) {
	s.chosen = slices.DeleteFunc(s.chosen, func(c chosen) bool { return slices.Contains(c.of, seat{group, member}) })
}

// replace has a spare take the place of a process that has died, where others cannot be started, as a member of the group of which it speaks.
// Without one all are ended, and started again.
func (s *spares) replace(list []death) {
	var of []seat
	for _, d := range list {
		if d.group == nil || !d.group.Over() {
			of = append(of, seat{d.name, d.member})
		}
	}
	s.fill(of)
}

func (s *spares) fill(of []seat) {
	w := s.memory.w
	sp := w.s.ranks.now.spread
	if len(of) == 0 || !s.memory.keeps() || sp == nil || sp.launcher == nil || w.s.ranks.now.killed != 0 || s.memory.finished() {
		return
	}
	for i, next := range s.waiting {
		if s.memory.ending() {
			break
		}
		at := slices.IndexFunc(of, func(o seat) bool { return next.group == "" || next.group == o.group })
		if at < 0 {
			continue
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.chosen = append(s.chosen, chosen{next, of})
		w.Say(fmt.Sprintf("member %d has died; the others go on, and process %d takes its place", of[at].member, next.rank))
		s.answer(next, client.Answered{Answer: client.Answer{Valid: 1, Dataset: uint64(of[at].member)}})
		return
	}
	why := fmt.Sprintf("member %d has died, and no spare is left", of[0].member)
	if s.memory.ending() {
		why = fmt.Sprintf("member %d has died, and a group is over, which a spare would begin anew", of[0].member)
	}
	w.s.step(coord.Unreplaced{Why: why})
}

func (s *spares) answer(to spare, a client.Answered) {
	if q, ok := s.memory.w.asks[to.ask.Number]; ok {
		delete(s.memory.w.asks, to.ask.Number)
		s.memory.w.tell(q, a)
	}
}

// left: the process for which an agent has asked this has ended.
func (s *spares) left(node int, number uint64) {
	s.gone(func(sp spare) bool { return sp.node == node && sp.number == number })
}

// lost: a node is gone.
func (s *spares) lost(node int) { s.gone(func(sp spare) bool { return sp.node == node }) }

// gone: some are. For those that were to take a place another is.
func (s *spares) gone(which func(spare) bool) {
	var stay []spare
	for _, sp := range s.waiting {
		if which(sp) {
			s.answer(sp, client.Refusal("it has ended"))
		} else {
			stay = append(stay, sp)
		}
	}
	s.waiting = stay
	for _, c := range slices.Clone(s.chosen) {
		if which(c.spare) {
			s.chosen = slices.DeleteFunc(s.chosen, func(o chosen) bool { return o.ask == c.ask })
			s.fill(c.of)
		}
	}
}

// launcherLimit is how long a launcher that has lost a node may take to end when all members have: what they have printed is under way.
const launcherLimit = 5 * time.Second

// end: all members have finished, and ended. A launcher that goes on when processes die may wait for ever for some that have, for their node, or
// for what has not called MPI_Finalize, which would wait for the dead.
func (s *spares) end() {
	srv := s.memory.w.s
	sp, start := srv.ranks.now.spread, srv.agents.start
	if sp == nil || sp.launcher == nil || !s.memory.keeps() {
		return
	}
	s.ended = start
	time.AfterFunc(launcherLimit, func() {
		srv.ask(func() {
			if srv.agents.start == start && srv.ranks.now.spread == sp {
				srv.agents.tell(control.Kill{})
			}
		})
	})
}

// over: none is needed any more; or why there can be none.
func (s *spares) over(why error) {
	for _, sp := range s.waiting {
		if why != nil {
			s.answer(sp, client.Refusal(why.Error()))
		} else {
			s.answer(sp, client.Answered{})
		}
	}
	s.waiting, s.chosen = nil, nil
}
