package coord

import (
	"fmt"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

const codeTerminated = 128 + 15

// terminate leaves after a checkpoint. Again, and not at once after the first time, it leaves without waiting for one. ByRank: a
// rank was asked to, as when a batch system signals all processes of a job.
func (m *Machine) terminate(byRank bool) {
	if m.term.asked && (byRank || m.turn.now < m.term.at+oneRequest) {
		return
	}
	if !m.term.asked {
		m.term.ask(m.turn.now, m.cfg.Grace)
	}
	if m.leaving != 0 {
		if !byRank {
			m.interrupt(m.leaving)
		}
		return
	}
	m.leaving = codeTerminated
	switch m.run.phase {
	case Running:
		m.turn.say("leaving after a checkpoint")
		if op := m.op; op != nil && (op.leave || op.stage < writing) {
			op.leave, m.tried = true, true
		}
		m.depart()
	case Starting: // see maybeRunning; what the ranks were started from may be all that there is
		m.turn.say("leaving after a checkpoint, as soon as all ranks are there")
	case Ending, Gone: // on its way out
	default:
		m.interrupt(codeTerminated)
	}
}

// depart takes the checkpoint after which the job leaves, once nothing else is under way. The second time there can be none.
func (m *Machine) depart() {
	switch {
	case m.run.phase != Running || m.op != nil || m.verdict.ordered:
	case m.ranks.finalizing() >= 0: // it ends by itself
	case m.tried || m.ranks.whyNot() != "":
		m.interrupt(codeTerminated)
	default:
		m.tried = true
		m.waiting = append(m.waiting, Request{Stop: true})
		m.next()
	}
}

// leave ends the ranks after a checkpoint that is committed.
func (m *Machine) leave(number uint64) {
	m.send(node.Order{Type: abi.MsgExit})
	m.leaving, m.verdict.ordered = abi.ExitStopped, true
	m.turn.say("checkpoint %d is committed; leaving", number)
	m.conclude("")
	m.run.exiting()
}

// interrupt leaves at once. Each further time by stronger means.
func (m *Machine) interrupt(code int) {
	if m.leaving != abi.ExitStopped {
		m.leaving = code
	}
	m.verdict.ordered = true
	m.giveUp("the job is ending")
	switch m.run.phase {
	case Idle, Backoff:
		m.decide()
	case Gone:
	default:
		m.run.killHarder()
	}
}

// refusedBy: a process was about to do what cannot be. Its own exit code may reach nobody: there may be others around it.
func (m *Machine) refusedBy(ev node.Refused) {
	if m.leaving == abi.ExitRefused {
		return // said once; others follow
	}
	text := fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
	m.turn.say("%s", text)
	if m.verdict.reason == "" {
		m.verdict.reason = text
	}
	if m.leaving == 0 {
		m.interrupt(abi.ExitRefused)
	}
}

// timers does what is due.
func (m *Machine) timers() {
	m.termTimers()
	if m.run.due() {
		m.phaseTimers()
	}
	if m.run.phase == Running {
		m.checkpointTimers()
	}
}

func (m *Machine) phaseTimers() {
	switch m.run.phase {
	case Starting:
		if m.verdict.why == "" {
			m.verdict.why = fmt.Sprintf("the ranks did not start within %v", startLimit)
		}
		m.run.kill(KillAsk)
	case Backoff:
		m.launch(m.images.candidate())
	case Ending:
		if m.run.killed == KillBoth {
			m.hang()
			return
		}
		m.run.killHarder()
	case Gone:
		if m.run.killed == KillBoth {
			m.decide()
			return
		}
		m.run.killRest()
	}
}

// hang: not even SIGKILL ends the launcher. The job cannot be started again beside it.
func (m *Machine) hang() {
	m.turn.say("the launcher does not end by SIGKILL: it hangs in the kernel")
	if m.leaving == 0 {
		m.leaving = m.verdict.crashCode()
	}
	m.finish(m.leaving)
}

// termTimers ends the ranks when the grace time is nearly over, and the job when it is.
func (m *Machine) termTimers() {
	switch at := m.term.next(m.verdict.ordered); {
	case m.run.phase == Done || at == 0 || m.turn.now < at:
	case !m.verdict.ordered:
		m.turn.say("no checkpoint in time: a grace time of %v has %v for it", m.cfg.Grace, m.cfg.Grace-m.term.reserve)
		m.interrupt(codeTerminated)
	default:
		m.finish(m.leaving)
	}
}
