package coord

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// verdict is what is known of the end of the present start: what came first, whose fault it was, and what exit code that makes.
//
// It guarantees that news which follow from an earlier end do not hide it, in whatever order they come: the end of a node explains
// the deaths of ranks, a rank that has ended by itself explains those that its launcher has killed, and what was ordered explains all.
type verdict struct {
	turn *turn
	run  *run

	ordered  bool          // the end was ordered: what the ranks return means nothing
	why      string        // the ranks are no more, when it was not the application's own end
	rank     int           // whose death that was, -1: none
	rankAt   time.Duration // when it was seen
	at       time.Duration // when the first rank, or the launcher, was seen to be gone
	innocent bool          // it was a node's end: neither the job's fault nor an image's
	natural  bool          // the application ended by its own exit
	refuser  int           // the rank that has said first why it cannot start, -1: none
	damaged  bool          // a rank has found its image damaged, which may be made again
	exit     int           // the launcher's result
	unasked  bool          // which it gave before anything was ended on purpose
	reason   string        // the first that a rank has given for ending the job
}

// reset: nothing is known of the end of a start that begins.
func (v *verdict) reset() { *v = verdict{turn: v.turn, run: v.run, rank: -1, refuser: -1} }

// said takes in why a rank ends the job.
func (v *verdict) said(ev node.Reason) {
	if !v.ordered {
		v.give(fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text))
	}
}

// give takes in a reason for ending the job, of which the first counts.
func (v *verdict) give(reason string) {
	if v.reason == "" {
		v.reason = reason
	}
}

// order: from here on the ranks end because they are to.
func (v *verdict) order() { v.ordered = true }

// blame: that is why the ranks are no more, or are to be ended.
func (v *verdict) blame(why string) { v.why = why }

// notLaunched: there were no ranks at all.
func (v *verdict) notLaunched(why string) { v.why, v.exit = why, abi.ExitInternal }

// final makes that which ended the ranks the reason for which the job ends.
func (v *verdict) final() { v.reason = v.why }

// because is the reason for what fails together with the ranks.
func (v *verdict) because() string {
	if v.why != "" {
		return v.why
	}
	return "the job is ending"
}

// gone: from here on the ranks do no work.
func (v *verdict) gone() {
	if v.at == 0 {
		v.at = v.turn.now
	}
}

// ownEnd says whether the application has ended by itself, well or not.
func (v *verdict) ownEnd() bool { return v.why == "" && !v.ordered && (v.run.ran || v.natural) }

// failed: a rank says that it cannot start. What others say after that may follow from it.
func (v *verdict) failed(ev node.Failed) {
	if v.why == "" && !v.natural {
		v.refuser, v.why = ev.Rank, fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
	}
}

// lost: the process of a rank is gone. The first one that did not end well decides what it means.
func (v *verdict) lost(ev node.Lost, r rank) {
	switch {
	case v.ordered || v.natural:
	case ev.Ended && ev.Code != 0 && v.explains(ev):
		v.natural, v.why, v.rank = true, "", -1
	case v.why == "" && !ev.Ended && !r.fini && !r.left:
		v.why, v.rank, v.rankAt = fmt.Sprintf("rank %d died", ev.Rank), ev.Rank, v.turn.now
	}
}

// explains says whether a rank that has ended by itself with an error did so before any died: launchers kill the others then,
// and the news of their death may come first.
func (v *verdict) explains(ev node.Lost) bool {
	return v.why == "" || v.rank >= 0 && v.turn.now-ev.Ago <= v.rankAt
}

// nodeLost: what ranks may have died of, or ended the job for, is that they lost those of the node, which they notice first. Robbed:
// some of these had not come to their end.
func (v *verdict) nodeLost(ev NodeLost, robbed bool) {
	if !v.ordered && !v.innocent && (robbed || !v.natural && v.why == "") {
		v.why, v.rank, v.innocent, v.natural = fmt.Sprintf("%s was lost: %s", ev.Name, ev.Why), -1, true, false
	}
}

// rankKilled: that is why all end. Where ranks speak over a network, the others may have noticed it before us, and have ended the
// job for it.
func (v *verdict) rankKilled(ev RankKilled, r rank) {
	if v.ordered || v.innocent || v.run.killed != 0 || r.fini || r.left || ev.Rank == v.refuser {
		return
	}
	const first = -1 // before any end that others tell of
	v.why, v.rank, v.rankAt, v.natural = fmt.Sprintf("rank %d died", ev.Rank), ev.Rank, first, false
}

// launcherExit takes in how the launcher has ended, which the run is not told yet.
func (v *verdict) launcherExit(ev LauncherExit) {
	v.exit = ev.Code
	if ev.Signal != 0 {
		v.exit = 128 + ev.Signal
	}
	v.unasked = v.run.killed == 0
	v.gone()
	if v.why != "" || v.natural || v.ordered {
		return
	}
	switch {
	case ev.Died > 0 && ev.Died < len(signalNames) && signalNames[ev.Died] != "":
		v.why, v.exit = fmt.Sprintf("a rank was killed by SIG%s", signalNames[ev.Died]), 128+ev.Died
	case ev.Signal != 0:
		v.why = fmt.Sprintf("the launcher was ended by signal %d", ev.Signal)
	case v.run.phase == Starting && ev.Code != 0:
		v.why = fmt.Sprintf("the launcher ended with %d before the application ran", ev.Code)
	}
}

// nameCrash says of a rank that died what ended it: the rank itself said so, or the launcher's exit code is the signal's. The exit
// code is that of the fault which a rank named, too.
func (v *verdict) nameCrash(rs ranks) {
	if v.rank < 0 {
		return
	}
	sig, said := v.exit, namedSignal(v.reason)
	if sig > 128 {
		sig -= 128
	}
	named := v.unasked && !rs[v.rank].moved && sig > 0 && sig < len(signalNames) && signalNames[sig] != ""
	switch {
	case strings.HasPrefix(v.reason, fmt.Sprintf("rank %d:", v.rank)),
		named && said != 0 && saysToo(sig, said), // the news of its death came second
		!named && said != 0 && said != sigterm:   // which those get that are ended for another one
		v.why = v.reason
		if said != 0 && said != sigterm {
			v.exit = 128 + said
		}
	case named:
		v.why = fmt.Sprintf("rank %d was killed by SIG%s", v.rank, signalNames[sig])
	}
}

// crashCode is the exit code of a job whose ranks died: as a shell says it, when the launcher says it by the number of
// the signal alone.
func (v *verdict) crashCode() int {
	switch {
	case v.exit <= 0 || v.run.image != 0 && !v.run.ran:
		return abi.ExitInternal
	case v.run.ran && v.exit > 0 && v.exit <= 64:
		return 128 + v.exit
	}
	return v.exit
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
