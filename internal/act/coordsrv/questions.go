package coordsrv

import (
	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// questions are what programs have asked, and this process itself. They belong to the loop's goroutine.
type questions struct {
	s    *Server
	asks map[uint64]question
	last uint64 // number of a question
}

// question is one of a program, whom an agent has asked for.
type question struct {
	from    *peer
	number  uint64 // the agent's
	kind    uint16
	inForce []string             // of Begin: the program's settings
	member  int                  // of a group, that asks
	then    func(outputs.Answer) // asked by this process itself; nil: by a program
}

// own is a question of this process itself; then is called later, if it still wants to know.
func (qs *questions) own(node int, wants func() bool, then func(outputs.Answer)) outputs.Ask {
	qs.last++
	qs.asks[qs.last] = question{then: func(a outputs.Answer) {
		qs.later(func() {
			if wants() {
				then(a)
			}
		})
	}}
	return outputs.Ask{Number: qs.last, Node: node}
}

// later does something in the loop, but not within what is being done.
func (qs *questions) later(f func()) { qs.s.wg.Go(func() { qs.s.ask(f) }) }

// tell answers who has asked.
func (qs *questions) tell(q question, a client.Answered) {
	if !q.from.gone {
		q.from.hear(control.Message{Body: control.Told{Number: q.number, Answered: a}})
	}
}

// endIfWanted ends a program that is to end and does not ask, when a dataset counts.
func endIfWanted(w *written) {
	if w.halted != "" || w.s.halting.done {
		w.s.step(coord.Heeded{Ends: true})
	}
}
