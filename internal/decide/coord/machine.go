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
	Plain    bool          // the ranks are not led: nothing is heard of them but that they are started, and that their launcher has ended
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
//
// It hands each event to the parts that it concerns; the parts decide. They are, from the top to the bottom:
//
//	ending       what follows on the end of the ranks: another start (restarts), or the end of the job
//	leaving      the end of the job that somebody has asked for
//	checkpoints  which are wanted, and the one that is being taken (checkpoint, agreement, sharing)
//	verdict      what the end of the present start means
//	run          the present start, its phase, and how it is ended
//	images       which checkpoints can be gone back to, and which are kept
//	setbacks     how often, and how far, the job has to go back
//	ranks        what the ranks have told of themselves
//	turn         what time it is, and what has been ordered
//
// New gives each part those below it that it needs. Upwards there are only three small interfaces: leaver and ender, by which checkpoints
// tell what has come of them, and finisher, by which leaving ends the job.
//
// Three parts are embedded because tests look at their fields. Their methods are called by the name of the part.
type Machine struct {
	cfg      Config
	turn     turn
	ranks    ranks
	setbacks setbacks
	images   images
	run
	verdict
	checkpoints
	leaving leaving
	ending  ending
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
	m.run = run{turn: &m.turn, term: &m.leaving.term}
	m.verdict = verdict{turn: &m.turn, run: &m.run}
	m.checkpoints = checkpoints{turn: &m.turn, cfg: &m.cfg, run: &m.run, ranks: m.ranks, images: &m.images, setbacks: &m.setbacks,
		leaver: &m.leaving, ender: &m.ending, wishes: wishes{every: cfg.Every}, failures: failures{turn: &m.turn}}
	m.leaving = leaving{turn: &m.turn, plain: cfg.Plain, grace: cfg.Grace, run: &m.run, verdict: &m.verdict, ranks: m.ranks, saves: &m.checkpoints,
		finisher: &m.ending}
	m.ending = ending{turn: &m.turn, run: &m.run, verdict: &m.verdict, ranks: m.ranks, images: &m.images, saves: &m.checkpoints,
		leaving: &m.leaving, mends: cfg.Mends,
		restarts: restarts{turn: &m.turn, cfg: &m.cfg, run: &m.run, verdict: &m.verdict, images: &m.images, setbacks: &m.setbacks, replaced: map[int]bool{}}}
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
	if m.run.phase == Done {
		return 0, false
	}
	at := earliest(m.run.deadline, m.leaving.deadline(), m.checkpoints.deadline())
	return at, at > 0
}

// LeavesBy is when the job must have left at the latest; false: there is no such time.
func (m *Machine) LeavesBy() (time.Duration, bool) {
	return m.leaving.term.until, m.leaving.term.asked
}

func (m *Machine) dispatch(ev Event) {
	switch ev := ev.(type) {
	case Start:
		m.start(ev)
	case Tick:
	case node.Hello, node.Init, node.Finalizing, node.Fini, node.Restored, node.Left, node.Moved, node.Where:
		m.told(ev)
	case node.Progress:
		m.progress()
	case node.Reason:
		m.verdict.said(ev)
	case node.Failed:
		m.ending.failed(ev)
	case node.Lost:
		m.ending.lost(ev)
	case NodeLost:
		m.ending.nodeLost(ev)
	case RanksDied:
		m.ending.ranksDied(ev)
	case Unreplaced:
		m.ending.unreplaced(ev)
	case RankKilled:
		m.verdict.rankKilled(ev, m.ranks[ev.Rank])
	case LauncherExit:
		m.ending.launcherExit(ev)
	case LaunchFailed:
		m.ending.launchFailed(ev)
	case Launched:
		m.launched()
	case Counts:
		m.images.counts(ev.Checkpoint, ev.Counts, m.setbacks.done(m.turn.now))
		clear(m.ending.restarts.replaced)
	case Heeded:
		m.leaving.heeded = true
		if ev.Ends && !m.leaving.verdict.ordered {
			m.leaving.interrupt(abi.ExitStopped)
		}
	case Flushed:
		m.images.flush(ev.Checkpoint, m.run.phase == Running)
	case Request:
		m.checkpoints.request(ev)
	case Terminate:
		m.leaving.terminate(false)
	case node.Asked:
		m.leaving.terminate(true)
	case node.Refused:
		m.leaving.refusedBy(ev)
	case Interrupt:
		m.leaving.interrupt(ev.Code)
	default:
		m.checkpoints.event(ev)
	}
}

func (m *Machine) start(ev Start) {
	m.ending.nodes.patient = ev.Patient
	m.images.begin(ev)
	n := m.images.candidate()
	switch {
	case !ev.Restart:
		m.launch(0)
	case n != 0:
		m.launch(n)
	default:
		m.turn.say("there is no checkpoint to go on from%s", m.images.asideHint())
		m.ending.finish(abi.ExitInternal)
	}
}

// launch starts the ranks anew, of which nothing is known then.
func (m *Machine) launch(image uint64) {
	clear(m.ranks)
	m.leaving.heeded = false // what is started now has not heard of it
	clear(m.ending.restarts.replaced)
	m.checkpoints.slow = stragglers{}
	m.verdict.reset()
	m.run.launch(image, m.images.doubted[image])
}

// told takes in what a rank tells of its life.
func (m *Machine) told(ev Event) {
	m.ranks.note(ev)
	switch ev := ev.(type) {
	case node.Hello, node.Restored:
		m.progress()
		m.maybeRunning()
	case node.Finalizing:
		m.checkpoints.noMore(ev.Ranks)
	case node.Left:
		m.checkpoints.noMore([]int{ev.Rank})
	case node.Moved:
		m.checkpoints.moved(ev.Rank)
	case node.Where:
		m.checkpoints.event(ev)
	}
}

// progress: the limit of a start, or of an image, begins anew.
func (m *Machine) progress() {
	m.run.progress()
	m.checkpoints.progress()
}

// maybeRunning: when all ranks are there, the job goes on.
func (m *Machine) maybeRunning() {
	image := m.run.image
	if m.run.phase != Starting || m.cfg.Plain || !m.ranks.there(image != 0) {
		return
	}
	m.run.goesOn()
	m.ending.goesOn()
	m.setbacks.start(image, m.turn.now)
	if image != 0 {
		m.turn.say("the job goes on from checkpoint %d", image)
		m.images.wentOn(image)
	}
	m.checkpoints.begin()
}

// launched: the ranks of a plain job are started, as far as can be told.
func (m *Machine) launched() {
	if m.run.phase != Starting || !m.cfg.Plain {
		return
	}
	m.run.goesOn()
	m.ending.goesOn()
	m.setbacks.start(m.run.image, m.turn.now)
	if m.leaving.leaves() {
		m.leaving.depart()
	}
}

// timers does what is due.
func (m *Machine) timers() {
	if m.run.phase != Done {
		m.leaving.timers()
	}
	if m.run.due() {
		if m.run.phase == Backoff {
			m.launch(m.images.candidate())
		} else {
			m.ending.timeout()
		}
	}
	if m.run.phase == Running {
		m.checkpoints.timers()
	}
}
