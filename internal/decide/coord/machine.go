package coord

import (
	"fmt"
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
	phase Phase

	ranks    ranks
	image    uint64        // the image of the present start, 0: none
	deadline time.Duration // of Starting, Ending, Gone, Backoff; 0: none
	ran      bool          // all ranks were there
	reason   string        // the first that a rank has given for ending the job
	leaving  int           // exit code of a requested end, 0: none
	term     termination

	end      end
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

// end is what is known of the end of the present start.
type end struct {
	killed   KillHow       // what was ordered for it, 0: nothing yet
	ordered  bool          // it was: what the ranks return means nothing
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
	m.images = newImages(&m.turn, cfg.Keep, &m.setbacks)
	return m
}

// Step takes in an event and returns what is to be done, in order.
func (m *Machine) Step(now time.Duration, ev Event) []Action {
	m.turn.begin(now)
	if m.phase != Done {
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
	if m.phase == Done {
		return 0, false
	}
	add := func(t time.Duration) {
		if t > 0 && (at == 0 || t < at) {
			at = t
		}
	}
	add(m.deadline)
	add(m.term.next(m.end.ordered))
	if m.phase == Running && m.op == nil {
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
		m.rankKilled(ev)
	case LauncherExit:
		m.launcherExit(ev)
	case LaunchFailed:
		m.launchFailed(ev)
	case Flushed:
		m.images.flushed[ev.Checkpoint] = true
		if m.phase == Running { // what was kept for it may be what the job is going back to
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
	m.phase, m.image, m.deadline, m.end.killed, m.end.ordered = Starting, image, m.turn.now+startLimit, 0, false
	m.end.refuser, m.end.why, m.end.rank, m.reason, m.end.natural, m.ran, m.end.exit, m.standing = -1, "", -1, "", false, false, 0, nil
	m.end.innocent, m.end.damaged, m.end.at = false, false, 0
	clear(m.ranks)
	m.turn.do(Launch{image, m.images.doubted[image]})
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
		if m.reason == "" && !m.end.ordered {
			m.reason = fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
		}
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
	case m.phase == Starting && m.end.killed == 0:
		m.deadline = m.turn.now + startLimit
	case m.phase == Running && m.op != nil && m.op.stage == writing:
		m.op.until = m.turn.now + workLimit
	}
}

func (m *Machine) maybeRunning() {
	if m.phase != Starting || !m.ranks.there(m.image != 0) {
		return
	}
	m.phase, m.ran, m.deadline = Running, true, 0
	m.nodes.robbed, m.nodes.lacking, m.nodes.patient = false, false, false
	m.setbacks.start(m.image, m.turn.now)
	if m.image != 0 {
		m.turn.say("the job goes on from checkpoint %d", m.image)
		m.images.wentOn(m.image)
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
	case m.image == 0 || m.end.damaged:
	case ev.Damaged && m.cfg.Mends && m.images.doubt(m.image):
		m.end.damaged = true
	default:
		m.images.condemn(m.image)
	}
	if m.end.why == "" && !m.end.natural {
		m.end.refuser, m.end.why = ev.Rank, fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
	}
	m.ending()
}

// explains says whether a rank that has ended by itself with an error did so before any died: launchers kill the others then,
// and the news of their death may come first.
func (m *Machine) explains(ev node.Lost) bool {
	return m.end.why == "" || m.end.rank >= 0 && m.turn.now-ev.Ago <= m.end.rankAt
}

// lost: the process of a rank is gone. The first one that did not end well decides what it means.
func (m *Machine) lost(ev node.Lost) {
	r := &m.ranks[ev.Rank]
	r.lost = true
	switch {
	case m.end.ordered || m.end.natural:
	case ev.Ended && ev.Code != 0 && m.explains(ev):
		m.end.natural, m.end.why, m.end.rank = true, "", -1
	case m.end.why == "" && !ev.Ended && !r.fini && !r.left:
		m.end.why, m.end.rank, m.end.rankAt = fmt.Sprintf("rank %d died", ev.Rank), ev.Rank, m.turn.now
	}
	switch m.phase {
	case Starting, Running, Ending:
		m.ending()
		m.giveUp(m.whyEnding())
	case Gone:
		m.giveUp(m.whyEnding())
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
	if !m.end.ordered && !m.end.innocent && (robbed || !m.end.natural && m.end.why == "") {
		m.end.why, m.end.rank, m.end.innocent, m.end.natural = fmt.Sprintf("%s was lost: %s", ev.Name, ev.Why), -1, true, false
	}
	switch m.phase {
	case Starting, Running, Ending:
		m.giveUp(m.whyEnding())
		m.kill(KillBoth)
	case Gone:
		m.giveUp(m.whyEnding())
		m.decideWhenAllGone()
	}
}

// rankKilled: that is why all end. Where ranks speak over a network, the others may have noticed it before us, and have ended the
// job for it.
func (m *Machine) rankKilled(ev RankKilled) {
	if r := m.ranks[ev.Rank]; m.end.ordered || m.end.innocent || m.end.killed != 0 || r.fini || r.left || ev.Rank == m.end.refuser {
		return
	}
	const first = -1 // before any end that others tell of
	m.end.why, m.end.rank, m.end.rankAt, m.end.natural = fmt.Sprintf("rank %d died", ev.Rank), ev.Rank, first, false
}

func (m *Machine) whyEnding() string {
	if m.end.why != "" {
		return m.end.why
	}
	return "the job is ending"
}

// gone: from here on the ranks do no work.
func (m *Machine) gone() {
	if m.end.at == 0 {
		m.end.at = m.turn.now
	}
}

// ending waits for the launcher; one that hangs on a dead rank is ended.
func (m *Machine) ending() {
	m.gone()
	if m.phase != Ending {
		m.phase, m.deadline = Ending, 0
	}
	if m.end.why != "" && m.deadline == 0 {
		m.deadline = m.turn.now + m.killPatience()
	}
}

func (m *Machine) launcherExit(ev LauncherExit) {
	m.end.exit = ev.Code
	if ev.Signal != 0 {
		m.end.exit = 128 + ev.Signal
	}
	m.end.unasked = m.end.killed == 0
	m.gone()
	started := m.phase != Starting
	m.phase, m.deadline = Gone, m.turn.now+m.lostPatience()
	m.giveUp("the job is ending")
	if m.end.why == "" && !m.end.natural && !m.end.ordered {
		switch {
		case ev.Signal != 0:
			m.end.why = fmt.Sprintf("the launcher was ended by signal %d", ev.Signal)
		case !started && ev.Code != 0:
			m.end.why = fmt.Sprintf("the launcher ended with %d before the application ran", ev.Code)
		}
	}
	m.decideWhenAllGone()
}

func (m *Machine) launchFailed(ev LaunchFailed) {
	if ev.Bad && m.image != 0 {
		m.images.condemn(m.image)
	}
	m.end.why, m.end.exit = ev.Text, abi.ExitInternal
	m.nodes.lacking = m.nodes.lacking || ev.Away || ev.Nowhere
	if (ev.Nowhere || ev.Away && m.nodes.patient) && m.leaving == 0 {
		m.reason = ev.Text
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
		m.phase, m.deadline, m.end.killed = Gone, until, KillBoth
		return
	}
	ownEnd := m.end.why == "" && !m.end.ordered && (m.ran || m.end.natural)
	switch {
	case m.leaving != 0 && !ownEnd:
		m.finish(m.leaving)
	case m.end.why == "":
		if m.reason != "" && !m.end.ordered {
			m.turn.say("%s", m.reason)
		}
		m.finish(m.end.exit)
	default:
		m.nameCrash()
		m.reason = m.end.why
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
	case m.end.why != "" && m.leaving == 0:
		return m.pending.until
	}
	return 0
}

// again starts the job from its newest good image, or gives up. Only a job that ran uses up retries: an image that does
// not even start is tried twice at most and then never again, so that there is an end to it. The end of a node counts for
// nothing of that: nodes that are lost do not come back, so that there is an end to it, too.
func (m *Machine) again() {
	if m.end.innocent && !m.ran {
		m.turn.say("%s; starting again", m.end.why)
		m.backoff(1)
		return
	}
	if m.image == 0 && !m.ran {
		m.turn.say("the job did not start: %s", m.end.why)
		m.finish(m.crashCode())
		return
	}
	why := m.end.why + "; "
	switch {
	case m.end.innocent:
	case m.ran:
		m.setbacks.died(m.end.at, m.image, m.images.good())
	default:
		if m.images.failed(m.image) {
			m.turn.say("checkpoint %d cannot be used: %s", m.image, m.end.why)
			why = ""
		}
	}
	n := m.images.candidate()
	switch {
	case n == 0 && m.end.innocent && m.image == 0 && len(m.images.list) == 0 && m.cfg.Anew:
		m.turn.say("%snothing is saved yet: the job begins anew", why)
		m.backoff(1)
	case n == 0:
		m.turn.say("%sthere is no good checkpoint to go back to%s", why, m.images.asideHint())
		m.finish(m.crashCode())
	case m.end.innocent:
		m.turn.say("%sgoing back to checkpoint %d", why, n)
		m.backoff(1)
	case m.ran && m.cfg.Retries == 0:
		m.turn.say("%snot started again (--retries 0)", why)
		m.finish(m.crashCode())
	case m.ran && m.setbacks.count > m.cfg.Retries:
		m.turn.say("%sgiven up after %d restarts without a checkpoint beyond the point at which it died (--retries)", why, m.cfg.Retries)
		m.finish(m.crashCode())
	case m.ran && m.cfg.Restarts > 0 && m.setbacks.all > m.cfg.Restarts:
		m.turn.say("%sgiven up after %d restarts in all (--max-restarts)", why, m.cfg.Restarts)
		m.finish(m.crashCode())
	case m.ran:
		m.turn.say("%sgoing back to checkpoint %d (restart %d of %d)", why, n, m.setbacks.count, m.cfg.Retries)
		m.backoff(m.setbacks.count)
	case m.end.damaged && n == m.image:
		m.turn.say("%slooking through what the nodes have of checkpoint %d", why, n)
		m.backoff(1)
	default:
		m.turn.say("%strying checkpoint %d", why, n)
		m.backoff(1)
	}
}

func (m *Machine) backoff(nth int) {
	m.phase, m.deadline = Backoff, m.turn.now+min(firstBackoff<<min(nth-1, 20), longestBackoff)
}

// crashCode is the exit code of a job whose ranks died: as a shell says it, when the launcher says it by the number of
// the signal alone.
func (m *Machine) crashCode() int {
	switch {
	case m.end.exit <= 0 || m.image != 0 && !m.ran:
		return abi.ExitInternal
	case m.ran && m.end.exit > 0 && m.end.exit <= 64:
		return 128 + m.end.exit
	}
	return m.end.exit
}

func (m *Machine) finish(code int) {
	m.giveUp("the job is ending")
	m.turn.reply(m.waiting, Result{Err: "the job is ending"})
	if m.pending != nil {
		m.turn.reply(m.pending.askers, Result{Err: "the job is ending"})
	}
	m.sayFailures()
	m.waiting, m.phase, m.deadline, m.op, m.pending = nil, Done, 0, nil, nil
	m.turn.do(Finish{code})
}
