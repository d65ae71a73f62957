package coord

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// DefaultGrace is the time from SIGTERM to the end of the job: batch systems kill 30 seconds after it.
const DefaultGrace = 25 * time.Second

// termination is a SIGTERM that has been received: the job leaves before `until`, whatever happens, and never goes on.
// It leaves with ExitStopped when a checkpoint is committed by then, else as ended by the signal.
type termination struct {
	asked     bool
	tried     bool // a checkpoint after which the job leaves has been begun
	at, until time.Duration
	reserve   time.Duration // the end of it, in which the ranks are ended
}

const codeTerminated = 128 + 15

// next is when something has to be done about it, 0: there is no such time.
func (t *termination) next(ordered bool) time.Duration {
	switch {
	case !t.asked:
		return 0
	case ordered:
		return t.until
	}
	return t.until - t.reserve
}

// terminate leaves after a checkpoint. Again, and not at once after the first time, it leaves without waiting for one. ByRank: a
// rank was asked to, as when a batch system signals all processes of a job.
func (m *Machine) terminate(byRank bool) {
	if m.term.asked && (byRank || m.turn.now < m.term.at+oneRequest) {
		return
	}
	if !m.term.asked {
		reserve := min(maxReserve, m.cfg.Grace/4)
		m.term = termination{asked: true, at: m.turn.now, until: m.turn.now + m.cfg.Grace, reserve: reserve}
	}
	if m.leaving != 0 {
		if !byRank {
			m.interrupt(m.leaving)
		}
		return
	}
	m.leaving = codeTerminated
	switch m.phase {
	case Running:
		m.turn.say("leaving after a checkpoint")
		if op := m.op; op != nil && (op.leave || op.stage < writing) {
			op.leave, m.term.tried = true, true
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
	case m.phase != Running || m.op != nil || m.end.ordered:
	case m.ranks.finalizing() >= 0: // it ends by itself
	case m.term.tried || m.ranks.whyNot() != "":
		m.interrupt(codeTerminated)
	default:
		m.term.tried = true
		m.waiting = append(m.waiting, Request{Stop: true})
		m.next()
	}
}

// leave ends the ranks after a checkpoint that is committed.
func (m *Machine) leave(number uint64) {
	m.send(node.Order{Type: abi.MsgExit})
	m.leaving, m.end.ordered = abi.ExitStopped, true
	m.turn.say("checkpoint %d is committed; leaving", number)
	m.conclude("")
	m.phase, m.deadline = Ending, m.turn.now+m.killPatience()
}

// interrupt leaves at once. Each further time by stronger means.
func (m *Machine) interrupt(code int) {
	if m.leaving != abi.ExitStopped {
		m.leaving = code
	}
	m.end.ordered = true
	m.giveUp("the job is ending")
	switch m.phase {
	case Idle, Backoff:
		m.decide()
	case Gone:
	default:
		m.kill(min(m.end.killed+1, KillBoth))
	}
}

// refusedBy: a process was about to do what cannot be. Its own exit code may reach nobody: there may be others around it.
func (m *Machine) refusedBy(ev node.Refused) {
	if m.leaving == abi.ExitRefused {
		return // said once; others follow
	}
	text := fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
	m.turn.say("%s", text)
	if m.reason == "" {
		m.reason = text
	}
	if m.leaving == 0 {
		m.interrupt(abi.ExitRefused)
	}
}

// killPatience is how long one way to end the ranks gets before the next.
func (m *Machine) killPatience() time.Duration { return m.within(killGrace) }

func (m *Machine) lostPatience() time.Duration { return m.within(lostGrace) }

// within shortens a time so that what follows it still happens in the grace time.
func (m *Machine) within(d time.Duration) time.Duration {
	if m.term.asked {
		d = min(d, (m.term.until-m.turn.now)/2)
	}
	return max(d, time.Millisecond)
}

func (m *Machine) kill(how KillHow) {
	if m.end.killed == KillBoth {
		return
	}
	m.phase, m.deadline, m.end.killed = Ending, m.turn.now+m.killPatience(), how
	if how == KillBoth {
		m.deadline = m.turn.now + m.within(lastWait)
	}
	m.turn.do(Kill{how})
}

// timers does what is due.
func (m *Machine) timers() {
	m.termTimers()
	if m.phase != Done && m.deadline != 0 && m.turn.now >= m.deadline {
		m.deadline = 0
		m.phaseTimers()
	}
	if m.phase == Running {
		m.checkpointTimers()
	}
}

func (m *Machine) phaseTimers() {
	switch m.phase {
	case Starting:
		if m.end.why == "" {
			m.end.why = fmt.Sprintf("the ranks did not start within %v", startLimit)
		}
		m.kill(KillAsk)
	case Backoff:
		m.launch(m.images.candidate())
	case Ending:
		if m.end.killed == KillBoth {
			m.hang()
			return
		}
		m.kill(m.end.killed + 1)
	case Gone:
		if m.end.killed == KillBoth {
			m.decide()
			return
		}
		m.end.killed, m.deadline = KillBoth, m.turn.now+m.killPatience()
		m.turn.do(Kill{KillBoth})
	}
}

// hang: not even SIGKILL ends the launcher. The job cannot be started again beside it.
func (m *Machine) hang() {
	m.turn.say("the launcher does not end by SIGKILL: it hangs in the kernel")
	if m.leaving == 0 {
		m.leaving = m.crashCode()
	}
	m.finish(m.leaving)
}

// termTimers ends the ranks when the grace time is nearly over, and the job when it is.
func (m *Machine) termTimers() {
	switch at := m.term.next(m.end.ordered); {
	case m.phase == Done || at == 0 || m.turn.now < at:
	case !m.end.ordered:
		m.turn.say("no checkpoint in time: a grace time of %v has %v for it", m.cfg.Grace, m.cfg.Grace-m.term.reserve)
		m.interrupt(codeTerminated)
	default:
		m.finish(m.leaving)
	}
}

// nameCrash says of a rank that died what ended it: the rank itself said so, or the launcher's exit code is the signal's. The exit
// code is that of the fault which a rank named, too.
func (m *Machine) nameCrash() {
	if m.end.rank < 0 {
		return
	}
	sig, said := m.end.exit, namedSignal(m.reason)
	if sig > 128 {
		sig -= 128
	}
	named := m.end.unasked && !m.ranks[m.end.rank].moved && sig > 0 && sig < len(signalNames) && signalNames[sig] != ""
	switch {
	case strings.HasPrefix(m.reason, fmt.Sprintf("rank %d:", m.end.rank)),
		named && said != 0 && saysToo(sig, said), // the news of its death came second
		!named && said != 0 && said != sigterm:   // which those get that are ended for another one
		m.end.why = m.reason
		if said != 0 && said != sigterm {
			m.end.exit = 128 + said
		}
	case named:
		m.end.why = fmt.Sprintf("rank %d was killed by SIG%s", m.end.rank, signalNames[sig])
	}
}

const sigkill, sigterm = 9, 15

// namedSignal is the signal of which a rank said that it dies, or 0.
func namedSignal(reason string) int {
	_, name, _ := strings.Cut(reason, ": killed by SIG")
	return max(0, slices.Index(signalNames[:], name))
}

// saysToo: a launcher's exit code names a signal of which a rank died. Hydra's is the bitwise or of all ranks' ends, and it ends the
// others by SIGKILL.
func saysToo(exit, said int) bool { return exit == said || exit == said|sigkill }

// signalNames are those of the signals that end a process by default.
var signalNames = [...]string{1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
	11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 29: "IO",
	30: "PWR", 31: "SYS"}
