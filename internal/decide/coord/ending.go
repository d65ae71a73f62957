package coord

import (
	"fmt"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// ending follows the end of launcher and ranks, whoever is the cause, and decides what comes after it: another start, or the end of
// the job.
//
// It guarantees that nothing is decided before launcher and ranks are gone, and a commit that matters is over; that ranks without
// which the others cannot go on take these with them; and that the job is finished once, with every request answered.
type ending struct {
	turn     *turn
	run      *run
	verdict  *verdict
	ranks    ranks
	images   *images
	saves    *checkpoints
	leaving  *leaving
	restarts restarts
	mends    bool // what is damaged of an image may be made again
	nodes    nodes
}

// nodes is what the loss of some does to the job.
type nodes struct {
	robbed  bool // some were lost, and the job has not gone on since
	lacking bool // ranks were not started for lack of nodes, and none have been since
	patient bool // as in Start, until the job goes on
}

// failed: a rank says that it cannot start. An image that is refused by name is not tried again; but one that is damaged is, once, if
// what is damaged may be made again. What other ranks say after that may follow from it.
func (e *ending) failed(ev node.Failed) {
	switch image := e.run.image; {
	case image == 0 || e.verdict.damaged:
	case ev.Damaged && e.mends && e.images.doubt(image):
		e.verdict.damaged = true
	default:
		e.images.condemn(image)
	}
	e.verdict.failed(ev)
	e.begun()
}

// begun: a rank is gone, or is about to go.
func (e *ending) begun() {
	e.verdict.gone()
	e.run.ending(e.verdict.why != "")
}

// lost: the process of a rank is gone.
func (e *ending) lost(ev node.Lost) {
	e.ranks.note(ev)
	e.verdict.lost(ev, e.ranks[ev.Rank])
	switch e.run.phase {
	case Starting, Running, Ending:
		e.begun()
		e.saves.giveUp(e.verdict.because())
	case Gone:
		e.saves.giveUp(e.verdict.because())
		e.decideWhenAllGone()
	}
}

// nodeLost: its ranks are gone. Those on other nodes cannot go on without them, and launchers hang: all are ended at once.
func (e *ending) nodeLost(ev NodeLost) {
	robbed := e.ranks.lose(ev.Ranks)
	if len(ev.Ranks) == 0 {
		return
	}
	e.nodes.robbed = true
	e.verdict.nodeLost(ev, robbed)
	switch e.run.phase {
	case Starting, Running, Ending:
		e.saves.giveUp(e.verdict.because())
		e.run.kill(KillBoth)
	case Gone:
		e.saves.giveUp(e.verdict.because())
		e.decideWhenAllGone()
	}
}

// stuck: ranks do not go on after a checkpoint, and are ended for that.
func (e *ending) stuck(why string) {
	e.verdict.blame(why)
	e.run.ending(false)
	e.saves.giveUp(why)
	e.run.kill(KillAsk)
}

func (e *ending) launcherExit(ev LauncherExit) {
	e.verdict.launcherExit(ev)
	e.run.launcherGone()
	e.saves.giveUp("the job is ending")
	e.decideWhenAllGone()
}

func (e *ending) launchFailed(ev LaunchFailed) {
	if ev.Bad && e.run.image != 0 {
		e.images.condemn(e.run.image)
	}
	e.verdict.notLaunched(ev.Text)
	e.nodes.lacking = e.nodes.lacking || ev.Away || ev.Nowhere
	if (ev.Nowhere || ev.Away && e.nodes.patient) && !e.leaving.leaves() {
		e.verdict.final()
		e.turn.say("%s", ev.Text)
		e.finish(abi.ExitInternal)
		return
	}
	e.decide()
}

// timeout: the start, or the end, of the ranks takes too long.
func (e *ending) timeout() {
	switch last := e.run.killed == KillBoth; {
	case e.run.phase == Starting:
		if e.verdict.why == "" {
			e.verdict.blame(fmt.Sprintf("the ranks did not start within %v", startLimit))
		}
		e.run.kill(KillAsk)
	case e.run.phase == Ending && last:
		e.hang()
	case e.run.phase == Ending:
		e.run.killHarder()
	case e.run.phase == Gone && last:
		e.decide()
	case e.run.phase == Gone:
		e.run.killRest()
	}
}

// hang: not even SIGKILL ends the launcher. The job cannot be started again beside it.
func (e *ending) hang() {
	e.turn.say("the launcher does not end by SIGKILL: it hangs in the kernel")
	e.finish(e.leaving.exitCode(e.verdict.crashCode()))
}

func (e *ending) decideWhenAllGone() {
	if e.ranks.connected() == 0 {
		e.decide()
	}
}

// commitOver: what waited for the driver's answer can be decided.
func (e *ending) commitOver() {
	if e.run.phase == Gone {
		e.decideWhenAllGone()
	}
}

// decide what follows on the end of all ranks.
func (e *ending) decide() {
	e.saves.giveUp("the job is ending")
	if until := e.commitAwaited(); e.turn.now < until {
		e.run.holdsOut(until)
		return
	}
	switch v := e.verdict; {
	case e.leaving.leaves() && !v.ownEnd():
		e.finish(e.leaving.code)
	case v.why == "" && e.leaving.heeded && v.exit == 0: // it has ended because it was to
		e.finish(abi.ExitStopped)
	case v.why == "":
		if v.reason != "" && !v.ordered {
			e.turn.say("%s", v.reason)
		}
		e.finish(v.exit)
	default:
		v.nameCrash(e.ranks)
		v.final()
		if nth, ok := e.restarts.again(); ok {
			e.run.backoff(nth)
		} else {
			e.finish(v.crashCode())
		}
	}
}

// commitAwaited is until when a commit under way is waited for: after SIGTERM it decides on the exit code, after a crash
// on where the job goes back to.
func (e *ending) commitAwaited() time.Duration {
	switch {
	case e.saves.pending == nil:
	case e.leaving.terminated():
		return e.leaving.term.until
	case e.verdict.why != "" && !e.leaving.leaves():
		return e.saves.pending.until
	}
	return 0
}

// finish ends the job.
func (e *ending) finish(code int) {
	e.saves.close("the job is ending")
	e.run.over()
	e.turn.do(Finish{code})
}

// goesOn: all ranks are there, so no node is missing any more.
func (e *ending) goesOn() { e.nodes = nodes{} }

// The rest is what the driver asks when the job is over.

// own: the application has ended, well or not: nobody has ended it, and no rank has died.
func (e *ending) own() bool {
	return e.run.phase == Done && e.verdict.why == "" && !e.verdict.ordered && !e.leaving.leaves()
}

// robbed: nodes were lost without which the job could not go on, from a checkpoint that they may have.
func (e *ending) robbed() bool {
	return e.run.phase == Done && e.nodes.robbed && !e.leaving.leaves() && !e.verdict.natural && len(e.images.list) > 0
}

// lacking: nodes were missing from the Start on without which the job could not go on.
func (e *ending) lacking() bool {
	return e.run.phase == Done && e.nodes.lacking && !e.run.ran && !e.leaving.leaves()
}
