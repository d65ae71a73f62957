package coord

import (
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// Config holds what does not change during a job.
type Config struct {
	Ranks    int
	Keep     int           // committed checkpoints that are kept, at least 1
	Every    time.Duration // time between checkpoints; 0: only on request
	Retries  int           // restarts without a checkpoint beyond the point of the death
	Restarts int           // and in all; 0: any number
	Anew     bool          // a node that is lost before there is a checkpoint lets the job begin anew
	DropBad  bool          // write the image even when something cannot be saved (--policy drop)
	Patience time.Duration // how long nobody must move before an attempt counts as stuck
	Grace    time.Duration // from SIGTERM to the end of the job
	Mends    bool          // what is damaged of an image may be made again
	Files    uint64        // bytes of files that are read and written in place which a checkpoint may have
}

// Limits that are not the user's business.
const (
	defaultPatience = 250 * time.Millisecond
	maxAttempts     = 100 // of one checkpoint, before it is refused
	firstPause      = 50 * time.Millisecond
	longestPause    = 2 * time.Second
	killGrace       = 5 * time.Second // for a launcher to end by itself after a rank died, and for each way to end it
	lastWait        = time.Minute     // for a launcher to vanish after SIGKILL
	lostGrace       = 2 * time.Second // for ranks to vanish after their launcher
	maxReserve      = 5 * time.Second // of the grace time, to end the ranks in
	oneRequest      = 2 * time.Second // a SIGTERM so soon after the first is the same request
	firstBackoff    = 200 * time.Millisecond
	longestBackoff  = 30 * time.Second
	triesPerImage   = 2
)

// Every stage has an end. These are for hangs, on machines that are overloaded, too; docs/operations.md names them.
const (
	startLimit   = 10 * time.Minute // of a start or restart, without a rank coming further
	prepareLimit = 2 * time.Minute  // for the store to make a directory
	answerLimit  = 2 * time.Minute  // from REQUEST to the last clocks
	agreeLimit   = 30 * time.Minute // from the request to the stop, over all attempts
	childLimit   = 10 * time.Second // of attempts that found child processes
	stopLimit    = 2 * time.Minute  // from STOP to the last STOPPED
	workLimit    = 5 * time.Minute  // of draining and writing, without a byte written
	commitLimit  = 30 * time.Minute // for the store to commit
	goOnLimit    = 5 * time.Minute  // from the end of a checkpoint to the last RESUMED
)

// Phase is the state of the job.
type Phase int

// The phases.
const (
	Idle     Phase = iota // before Start
	Starting              // ranks are being started
	Running
	Ending  // a rank is gone, the launcher is not
	Gone    // the launcher is gone, some rank may not be
	Backoff // waiting to start again
	Done
)

func (p Phase) String() string {
	return [...]string{"idle", "starting", "running", "ending", "gone", "backoff", "done"}[p]
}

// Machine is the state of one job. It is not safe for concurrent use.
type Machine struct {
	cfg   Config
	turn  turn
	ranks ranks
	run
	verdict

	leaving  int  // exit code of a requested end, 0: none
	tried    bool // a checkpoint after which the job leaves has been begun
	term     termination
	nodes    nodes
	images   images
	setbacks setbacks
	failures failures

	epoch    uint64
	op       *checkpoint
	pending  *checkpoint   // what the driver still commits after the ranks are gone
	waiting  []Request     // for the checkpoint after the present one
	standing map[int]bool  // ranks that have not gone on yet after one that is over
	settled  time.Duration // when these count as stuck
	due      time.Duration
}

// nodes is what the loss of some does to the job.
type nodes struct {
	robbed  bool // some were lost, and the job has not gone on since
	lacking bool // ranks were not started for lack of nodes, and none have been since
	patient bool // as in Start, until the job goes on
}

// New returns a machine that waits for Start.
func New(cfg Config) *Machine {
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	if cfg.Grace == 0 {
		cfg.Grace = DefaultGrace
	}
	m := &Machine{cfg: cfg, ranks: make(ranks, cfg.Ranks), setbacks: setbacks{most: cfg.Retries, work: map[uint64]time.Duration{}}}
	m.run = run{turn: &m.turn, term: &m.term}
	m.verdict = verdict{turn: &m.turn, run: &m.run}
	m.images = newImages(&m.turn, cfg.Keep, &m.setbacks)
	return m
}

// Step takes in an event and returns what is to be done, in order.
func (m *Machine) Step(now time.Duration, ev Event) []Action {
	m.turn.begin(now)
	if m.run.phase != Done {
		m.dispatch(ev)
		m.timers()
	} else if r, ok := ev.(Request); ok {
		m.turn.reply([]Request{r}, Result{Err: "the job is ending"})
	}
	return m.turn.out
}

// Next is when Tick should come at the latest; false: no need.
func (m *Machine) Next() (time.Duration, bool) {
	var at time.Duration
	if m.run.phase == Done {
		return 0, false
	}
	add := func(t time.Duration) {
		if t > 0 && (at == 0 || t < at) {
			at = t
		}
	}
	add(m.run.deadline)
	add(m.term.next(m.verdict.ordered))
	if m.run.phase == Running && m.op == nil {
		add(m.due)
		if len(m.standing) > 0 {
			add(m.settled)
		}
	}
	if m.op != nil {
		add(m.opDeadline())
	}
	return at, at > 0
}

// LeavesBy is when the job must have left at the latest; false: there is no such time.
func (m *Machine) LeavesBy() (time.Duration, bool) { return m.term.until, m.term.asked }

func (m *Machine) dispatch(ev Event) {
	switch ev := ev.(type) {
	case Start:
		m.start(ev)
	case Tick:
	case node.Hello, node.Init, node.Finalizing, node.Fini, node.Restored, node.Failed, node.Lost, node.Left, node.Where, node.Reason:
		m.process(ev)
	case node.Progress:
		m.progress()
	case NodeLost:
		m.nodeLost(ev)
	case RankKilled:
		m.verdict.rankKilled(ev, m.ranks[ev.Rank])
	case LauncherExit:
		m.launcherExit(ev)
	case LaunchFailed:
		m.launchFailed(ev)
	case Flushed:
		m.images.flushed[ev.Checkpoint] = true
		if m.run.phase == Running { // what was kept for it may be what the job is going back to
			m.images.prune()
		}
	case Request:
		m.request(ev)
	case Terminate:
		m.terminate(false)
	case node.Asked:
		m.terminate(true)
	case node.Moved:
		m.ranks.note(ev)
		m.moved(ev.Rank)
	case node.Refused:
		m.refusedBy(ev)
	case Interrupt:
		m.interrupt(ev.Code)
	default:
		m.checkpointEvent(ev)
	}
}

func (m *Machine) start(ev Start) {
	m.nodes.patient = ev.Patient
	m.images.begin(ev)
	if !ev.Restart {
		m.launch(0)
		return
	}
	if n := m.images.candidate(); n != 0 {
		m.launch(n)
		return
	}
	m.turn.say("there is no checkpoint to go on from%s", m.images.asideHint())
	m.finish(abi.ExitInternal)
}

// launch starts the ranks anew.
func (m *Machine) launch(image uint64) {
	m.standing = nil
	m.verdict.reset()
	clear(m.ranks)
	m.run.launch(image, m.images.doubted[image])
}

// process takes in the life of a rank.
func (m *Machine) process(ev Event) {
	m.ranks.note(ev)
	switch ev := ev.(type) {
	case node.Hello, node.Restored:
		m.progress()
		m.maybeRunning()
	case node.Finalizing:
		m.noMore(ev.Ranks)
	case node.Reason:
		m.verdict.said(ev)
	case node.Where:
		m.checkpointEvent(ev)
	case node.Left:
		m.noMore([]int{ev.Rank})
	case node.Failed:
		m.failed(ev)
	case node.Lost:
		m.lost(ev)
	}
}

// noMore: because of these ranks there can be no checkpoint any more. When their images are written and they have gone on,
// the present one needs nothing more of them.
func (m *Machine) noMore(ranks []int) {
	why := m.ranks.whyNot()
	if why != "" && m.op != nil && (m.op.stage == committing || m.op.stage == writing && m.op.haveAnswered(ranks)) {
		m.turn.reply(m.waiting, Result{Err: why})
		m.waiting = nil
		return
	}
	m.giveUp(why)
}

// progress: the limit of a start or of an image begins anew.
func (m *Machine) progress() {
	switch {
	case m.run.phase == Starting:
		m.run.progress()
	case m.run.phase == Running && m.op != nil && m.op.stage == writing:
		m.op.until = m.turn.now + workLimit
	}
}

func (m *Machine) maybeRunning() {
	if m.run.phase != Starting || !m.ranks.there(m.run.image != 0) {
		return
	}
	m.run.goesOn()
	m.nodes.robbed, m.nodes.lacking, m.nodes.patient = false, false, false
	m.setbacks.start(m.run.image, m.turn.now)
	if m.run.image != 0 {
		m.turn.say("the job goes on from checkpoint %d", m.run.image)
		m.images.wentOn(m.run.image)
	}
	m.schedule()
	m.goOn()
}

func (m *Machine) schedule() {
	if m.cfg.Every > 0 {
		m.due = m.turn.now + m.cfg.Every
	}
}

// failed: a rank says that it cannot start. An image that is refused by name is not tried again; but one that is damaged is, once, if
// what is damaged may be made again. What other ranks say after that may follow from it.
func (m *Machine) failed(ev node.Failed) {
	switch {
	case m.run.image == 0 || m.verdict.damaged:
	case ev.Damaged && m.cfg.Mends && m.images.doubt(m.run.image):
		m.verdict.damaged = true
	default:
		m.images.condemn(m.run.image)
	}
	m.verdict.failed(ev)
	m.ending()
}

// lost: the process of a rank is gone. The first one that did not end well decides what it means.
func (m *Machine) lost(ev node.Lost) {
	m.ranks[ev.Rank].lost = true
	m.verdict.lost(ev, m.ranks[ev.Rank])
	switch m.run.phase {
	case Starting, Running, Ending:
		m.ending()
		m.giveUp(m.verdict.because())
	case Gone:
		m.giveUp(m.verdict.because())
		m.decideWhenAllGone()
	}
}

// nodeLost: its ranks are gone. Those on other nodes cannot go on without them, and launchers hang: all are ended at once. What
// other ranks may have died of, or ended the job for, is that they lost these, which they notice first.
func (m *Machine) nodeLost(ev NodeLost) {
	robbed := m.ranks.lose(ev.Ranks)
	if len(ev.Ranks) == 0 {
		return
	}
	m.nodes.robbed = true
	m.verdict.nodeLost(ev, robbed)
	switch m.run.phase {
	case Starting, Running, Ending:
		m.giveUp(m.verdict.because())
		m.run.kill(KillBoth)
	case Gone:
		m.giveUp(m.verdict.because())
		m.decideWhenAllGone()
	}
}

// ending waits for the launcher; one that hangs on a dead rank is ended.
func (m *Machine) ending() {
	m.verdict.gone()
	m.run.ending(m.verdict.why != "")
}

func (m *Machine) launcherExit(ev LauncherExit) {
	m.verdict.launcherExit(ev)
	m.run.launcherGone()
	m.giveUp("the job is ending")
	m.decideWhenAllGone()
}

func (m *Machine) launchFailed(ev LaunchFailed) {
	if ev.Bad && m.run.image != 0 {
		m.images.condemn(m.run.image)
	}
	m.verdict.why, m.verdict.exit = ev.Text, abi.ExitInternal
	m.nodes.lacking = m.nodes.lacking || ev.Away || ev.Nowhere
	if (ev.Nowhere || ev.Away && m.nodes.patient) && m.leaving == 0 {
		m.verdict.reason = ev.Text
		m.turn.say("%s", ev.Text)
		m.finish(abi.ExitInternal)
		return
	}
	m.decide()
}

func (m *Machine) decideWhenAllGone() {
	if m.ranks.connected() == 0 {
		m.decide()
	}
}

// decide what follows on the end of all ranks.
func (m *Machine) decide() {
	m.giveUp("the job is ending")
	if until := m.commitAwaited(); m.turn.now < until {
		m.run.holdsOut(until)
		return
	}
	switch {
	case m.leaving != 0 && !m.verdict.ownEnd():
		m.finish(m.leaving)
	case m.verdict.why == "":
		if m.verdict.reason != "" && !m.verdict.ordered {
			m.turn.say("%s", m.verdict.reason)
		}
		m.finish(m.verdict.exit)
	default:
		m.verdict.nameCrash(m.ranks)
		m.verdict.reason = m.verdict.why
		m.again()
	}
}

// commitAwaited is until when a commit under way is waited for: after SIGTERM it decides on the exit code, after a crash
// on where the job goes back to.
func (m *Machine) commitAwaited() time.Duration {
	switch {
	case m.pending == nil:
	case m.term.asked:
		return m.term.until
	case m.verdict.why != "" && m.leaving == 0:
		return m.pending.until
	}
	return 0
}

// again starts the job from its newest good image, or gives up. Only a job that ran uses up retries: an image that does
// not even start is tried twice at most and then never again, so that there is an end to it. The end of a node counts for
// nothing of that: nodes that are lost do not come back, so that there is an end to it, too.
func (m *Machine) again() {
	if m.verdict.innocent && !m.run.ran {
		m.turn.say("%s; starting again", m.verdict.why)
		m.run.backoff(1)
		return
	}
	if m.run.image == 0 && !m.run.ran {
		m.turn.say("the job did not start: %s", m.verdict.why)
		m.finish(m.verdict.crashCode())
		return
	}
	why := m.verdict.why + "; "
	switch {
	case m.verdict.innocent:
	case m.run.ran:
		m.setbacks.died(m.verdict.at, m.run.image, m.images.good())
	default:
		if m.images.failed(m.run.image) {
			m.turn.say("checkpoint %d cannot be used: %s", m.run.image, m.verdict.why)
			why = ""
		}
	}
	n := m.images.candidate()
	switch {
	case n == 0 && m.verdict.innocent && m.run.image == 0 && len(m.images.list) == 0 && m.cfg.Anew:
		m.turn.say("%snothing is saved yet: the job begins anew", why)
		m.run.backoff(1)
	case n == 0:
		m.turn.say("%sthere is no good checkpoint to go back to%s", why, m.images.asideHint())
		m.finish(m.verdict.crashCode())
	case m.verdict.innocent:
		m.turn.say("%sgoing back to checkpoint %d", why, n)
		m.run.backoff(1)
	case m.run.ran && m.cfg.Retries == 0:
		m.turn.say("%snot started again (--retries 0)", why)
		m.finish(m.verdict.crashCode())
	case m.run.ran && m.setbacks.count > m.cfg.Retries:
		m.turn.say("%sgiven up after %d restarts without a checkpoint beyond the point at which it died (--retries)", why, m.cfg.Retries)
		m.finish(m.verdict.crashCode())
	case m.run.ran && m.cfg.Restarts > 0 && m.setbacks.all > m.cfg.Restarts:
		m.turn.say("%sgiven up after %d restarts in all (--max-restarts)", why, m.cfg.Restarts)
		m.finish(m.verdict.crashCode())
	case m.run.ran:
		m.turn.say("%sgoing back to checkpoint %d (restart %d of %d)", why, n, m.setbacks.count, m.cfg.Retries)
		m.run.backoff(m.setbacks.count)
	case m.verdict.damaged && n == m.run.image:
		m.turn.say("%slooking through what the nodes have of checkpoint %d", why, n)
		m.run.backoff(1)
	default:
		m.turn.say("%strying checkpoint %d", why, n)
		m.run.backoff(1)
	}
}

func (m *Machine) finish(code int) {
	m.giveUp("the job is ending")
	m.turn.reply(m.waiting, Result{Err: "the job is ending"})
	if m.pending != nil {
		m.turn.reply(m.pending.askers, Result{Err: "the job is ending"})
	}
	m.sayFailures()
	m.waiting, m.op, m.pending = nil, nil, nil
	m.run.over()
	m.turn.do(Finish{code})
}
