package coord

import (
	"fmt"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// leaving is the end of the job that somebody has asked for: by a signal, by a request, or because a process is about to do what
// cannot be. It owns with which code the job leaves, and the grace time after a SIGTERM.
//
// It guarantees that a job which is to leave does so: after one more checkpoint if it was asked for that and there can be one, else at
// once, and within the grace time in any case.
type leaving struct {
	turn     *turn
	grace    time.Duration
	run      *run
	verdict  *verdict
	ranks    ranks
	saves    *checkpoints
	finisher finisher

	code   int  // 0: nobody has asked for it
	plain  bool // the job takes its checkpoints itself, and is told that it is to end
	heeded bool // it has heard that
	tried  bool // a checkpoint after which the job leaves has been begun
	term   termination
}

// finisher is who ends the job.
type finisher interface {
	decide()         // there are no ranks: what follows on that
	finish(code int) // it is over, whatever is left of it
}

const codeTerminated = 128 + 15

// leaves says whether the job is to leave.
func (l *leaving) leaves() bool { return l.code != 0 }

// terminated says whether it is because of a SIGTERM.
func (l *leaving) terminated() bool { return l.term.asked }

// deadline is when something has to be done about it, 0: there is no such time.
func (l *leaving) deadline() time.Duration { return l.term.next(l.verdict.ordered) }

// terminate leaves after a checkpoint. Again, and not at once after the first time, it leaves without waiting for one. ByRank: a
// rank was asked to, as when a batch system signals all processes of a job.
func (l *leaving) terminate(byRank bool) {
	if l.term.asked && (byRank || l.turn.now < l.term.at+oneRequest) {
		return
	}
	if !l.term.asked {
		l.term.ask(l.turn.now, l.grace)
	}
	if l.code != 0 {
		if !byRank {
			l.interrupt(l.code)
		}
		return
	}
	l.code = codeTerminated
	switch l.run.phase {
	case Running:
		l.turn.say("leaving after a checkpoint%s", map[bool]string{true: " of the program's own"}[l.plain])
		if l.saves.leaveWithPresent() {
			l.tried = true
		}
		l.depart()
	case Starting: // it departs when all ranks are there; what they were started from may be all that there is
		l.turn.say("leaving after a checkpoint, as soon as all ranks are there")
	case Ending, Gone: // on its way out
	default:
		l.interrupt(codeTerminated)
	}
}

// depart takes the checkpoint after which the job leaves, once nothing else is under way. The second time there can be none.
func (l *leaving) depart() {
	switch {
	case l.run.phase != Running || l.saves.op != nil || l.verdict.ordered:
	case l.ranks.finalizing() >= 0: // it ends by itself
	case l.plain && !l.tried:
		l.tried = true
		l.turn.do(Halt{"byssus was told to end"})
	case l.plain:
	case l.tried || l.ranks.whyNot() != "":
		l.interrupt(codeTerminated)
	default:
		l.tried = true
		l.saves.wish(Request{Stop: true})
	}
}

// leave ends the job after a checkpoint that is committed. The ranks have been told.
func (l *leaving) leave(number uint64) {
	l.code = abi.ExitStopped
	l.verdict.order()
	l.turn.say("checkpoint %d is committed; leaving", number)
	l.run.exiting()
}

// savedLate: a checkpoint is committed whose ranks were gone before. After a SIGTERM that is as good as any.
func (l *leaving) savedLate() {
	if l.term.asked {
		l.code = abi.ExitStopped
	}
}

// interrupt leaves at once. Each further time by stronger means.
func (l *leaving) interrupt(code int) {
	if l.code != abi.ExitStopped {
		l.code = code
	}
	l.verdict.order()
	l.saves.giveUp("the job is ending")
	switch l.run.phase {
	case Idle, Backoff:
		l.finisher.decide()
	case Gone:
	default:
		l.run.killHarder()
	}
}

// refusedBy: a process was about to do what cannot be. Its own exit code may reach nobody: there may be others around it.
func (l *leaving) refusedBy(ev node.Refused) {
	if l.code == abi.ExitRefused {
		return // said once; others follow
	}
	text := fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
	l.turn.say("%s", text)
	l.verdict.give(text)
	if l.code == 0 {
		l.interrupt(abi.ExitRefused)
	}
}

// timers ends the ranks when the grace time is nearly over, and the job when it is.
func (l *leaving) timers() {
	switch at := l.deadline(); {
	case at == 0 || l.turn.now < at:
	case !l.verdict.ordered:
		l.turn.say("no checkpoint in time: a grace time of %v has %v for it", l.grace, l.grace-l.term.reserve)
		l.interrupt(codeTerminated)
	default:
		l.finisher.finish(l.code)
	}
}

// exitCode is the code of the end that was asked for. If none was, it is this one, as if somebody had asked for the end.
func (l *leaving) exitCode(other int) int {
	if l.code == 0 {
		l.code = other
	}
	return l.code
}
