package coord

import (
	"fmt"
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/abi"
)

// Config holds what does not change during a job.
type Config struct {
	Ranks    int
	Keep     int           // committed checkpoints that are kept, at least 1
	Every    time.Duration // time between checkpoints; 0: only on request
	Retries  int           // restarts without a new checkpoint in between
	Patience time.Duration // how long nobody must move before an attempt counts as stuck
}

// Limits that are not the user's business.
const (
	defaultPatience = 250 * time.Millisecond
	maxAttempts     = 100 // of one checkpoint, before it is refused
	firstPause      = 50 * time.Millisecond
	longestPause    = 2 * time.Second
	stopLimit       = 60 * time.Second // from STOP to the last STOPPED
	killGrace       = 5 * time.Second  // for a launcher to end by itself after a rank died
	lostGrace       = 2 * time.Second  // for ranks to vanish after their launcher
	firstBackoff    = 200 * time.Millisecond
	longestBackoff  = 30 * time.Second
	triesPerImage   = 2
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

// rank is what is known of one process of the present start.
type rank struct {
	hello, fini, restored, lost bool
	left                        bool // it has become another program
	where                       uint32
}

// Machine is the state of one job. It is not safe for concurrent use.
type Machine struct {
	cfg   Config
	now   time.Duration
	phase Phase
	out   []Action

	ranks    []rank
	image    uint64        // the image of the present start, 0: none
	deadline time.Duration // of Ending, Gone, Backoff; 0: none
	killed   int           // 0: not, 1: asked, 2: forced
	crash    string        // why the ranks are no more, when it was not the application's own end
	natural  bool          // the application ended by its own exit
	ran      bool          // all ranks were there
	exit     int           // the launcher's result

	images   []uint64       // committed and not dropped, ascending
	bad      map[uint64]int // restarts that failed, by image
	deaths   map[uint64]int // and those that went well and died without a new checkpoint
	only     uint64
	last     uint64 // highest number used
	failures int    // restarts since the last commit
	leaving  int    // exit code of a requested end, 0: none

	epoch    uint64
	op       *checkpoint
	waiting  []Request     // for the checkpoint after the present one
	standing map[int]bool  // ranks that have not gone on yet after one that failed
	settled  time.Duration // when that is no longer waited for
	due      time.Duration
}

// New returns a machine that waits for Start.
func New(cfg Config) *Machine {
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	cfg.Keep = max(cfg.Keep, 1)
	return &Machine{cfg: cfg, bad: map[uint64]int{}, deaths: map[uint64]int{}}
}

// Step takes in an event and returns what is to be done, in order.
func (m *Machine) Step(now time.Duration, ev Event) []Action {
	m.now, m.out = max(now, m.now), nil
	if m.phase != Done {
		m.dispatch(ev)
		m.timers()
	} else if r, ok := ev.(Request); ok {
		m.reply([]Request{r}, Result{Err: "the job is ending"})
	}
	return m.out
}

// Next is when Tick should come at the latest; false: no need.
func (m *Machine) Next() (time.Duration, bool) {
	var at time.Duration
	add := func(t time.Duration) {
		if t > 0 && (at == 0 || t < at) {
			at = t
		}
	}
	add(m.deadline)
	if m.phase == Running && m.op == nil {
		add(m.due)
		if len(m.waiting) > 0 {
			add(m.settled)
		}
	}
	if m.op != nil {
		add(m.opDeadline())
	}
	return at, at > 0
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

func (m *Machine) say(format string, args ...any) { m.do(Say{fmt.Sprintf(format, args...)}) }

func (m *Machine) reply(rs []Request, res Result) {
	for _, r := range rs {
		if r.ID != 0 {
			m.do(Reply{r.ID, res})
		}
	}
}

func (m *Machine) dispatch(ev Event) {
	switch ev := ev.(type) {
	case Start:
		m.start(ev)
	case Tick:
	case Hello, Init, Fini, Restored, Failed, Lost, Left, Where:
		m.process(ev)
	case LauncherExit:
		m.launcherExit(ev)
	case LaunchFailed:
		m.launchFailed(ev)
	case Request:
		m.request(ev)
	case Terminate:
		m.terminate()
	case Interrupt:
		m.interrupt(ev.Code)
	default:
		m.checkpointEvent(ev)
	}
}

func (m *Machine) start(ev Start) {
	m.images = slices.Clone(ev.Images)
	slices.Sort(m.images)
	m.last, m.only = ev.Last, ev.Only
	if len(m.images) > 0 {
		m.last = max(m.last, m.images[len(m.images)-1])
	}
	if !ev.Restart {
		m.launch(0)
		return
	}
	if n := m.candidate(); n != 0 {
		m.launch(n)
		return
	}
	m.say("there is no checkpoint to restart from")
	m.finish(abi.ExitInternal)
}

// launch starts the ranks anew.
func (m *Machine) launch(image uint64) {
	m.phase, m.image, m.deadline, m.killed = Starting, image, 0, 0
	m.crash, m.natural, m.ran, m.exit, m.standing = "", false, false, 0, nil
	m.ranks = make([]rank, m.cfg.Ranks)
	m.do(Launch{image})
}

// candidate is the image to go on from, 0: none. The newest good one; but when the job has died from it again and again,
// the next older one, since what kills it may be in the image.
func (m *Machine) candidate() uint64 {
	var newest uint64
	for _, n := range slices.Backward(m.images) {
		switch {
		case m.bad[n] >= triesPerImage || m.only != 0 && m.only != n:
		case m.deaths[n] < triesPerImage:
			return n
		case newest == 0:
			newest = n
		}
	}
	return newest
}

// process takes in the life of a rank.
func (m *Machine) process(ev Event) {
	switch ev := ev.(type) {
	case Hello:
		m.ranks[ev.Rank].hello, m.ranks[ev.Rank].left = true, false
		m.maybeRunning()
	case Restored:
		m.ranks[ev.Rank].restored = true
		m.maybeRunning()
	case Fini:
		m.ranks[ev.Rank].fini = true
	case Where:
		m.ranks[ev.Rank].where = ev.Where
		m.checkpointEvent(ev)
	case Left:
		m.ranks[ev.Rank].left = true
		m.giveUp(m.whoLeft())
	case Failed:
		m.failed(ev)
	case Lost:
		m.lost(ev)
	}
}

// whoLeft says why there can be no checkpoint, empty when there can.
func (m *Machine) whoLeft() string {
	for i, r := range m.ranks {
		if r.left && !r.lost {
			return fmt.Sprintf("rank %d has become another program (exec), which cannot be checkpointed", i)
		}
	}
	return ""
}

func (m *Machine) maybeRunning() {
	for _, r := range m.ranks {
		if !r.hello || (m.image != 0 && !r.restored) {
			return
		}
	}
	if m.phase != Starting {
		return
	}
	m.phase, m.ran = Running, true
	if m.image != 0 {
		m.say("the job goes on from checkpoint %d", m.image)
		delete(m.bad, m.image)
		m.only = 0
	}
	m.schedule()
}

func (m *Machine) schedule() {
	if m.cfg.Every > 0 {
		m.due = m.now + m.cfg.Every
	}
}

// failed: a rank says that it cannot start. An image that is refused by name is not tried again.
func (m *Machine) failed(ev Failed) {
	if m.image != 0 {
		m.bad[m.image] = triesPerImage
	}
	if m.crash == "" && !m.natural {
		m.crash = fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
	}
	m.ending()
}

// lost: the process of a rank is gone. The first one that did not end well decides what it means.
func (m *Machine) lost(ev Lost) {
	r := &m.ranks[ev.Rank]
	r.lost = true
	switch {
	case m.leaving != 0 || m.natural || m.crash != "":
	case ev.Ended && ev.Code != 0 || ev.Following:
		m.natural = true
	case !ev.Ended && !r.fini && !r.left:
		m.crash = fmt.Sprintf("rank %d died", ev.Rank)
	}
	m.giveUp(m.whyEnding())
	switch m.phase {
	case Starting, Running, Ending:
		m.ending()
	case Gone:
		m.decideWhenAllGone()
	}
}

func (m *Machine) whyEnding() string {
	if m.crash != "" {
		return m.crash
	}
	return "the job is ending"
}

// ending waits for the launcher; one that hangs on a dead rank is ended.
func (m *Machine) ending() {
	m.phase = Ending
	if m.crash != "" && m.deadline == 0 {
		m.deadline = m.now + killGrace
	}
}

func (m *Machine) launcherExit(ev LauncherExit) {
	m.exit = ev.Code
	if ev.Signal != 0 {
		m.exit = 128 + ev.Signal
	}
	m.giveUp("the job is ending")
	if m.crash == "" && !m.natural && m.leaving == 0 {
		switch {
		case ev.Signal != 0:
			m.crash = fmt.Sprintf("the launcher was ended by signal %d", ev.Signal)
		case m.phase == Starting && ev.Code != 0:
			m.crash = fmt.Sprintf("the launcher ended with %d before the application ran", ev.Code)
		}
	}
	m.phase, m.deadline = Gone, m.now+lostGrace
	m.decideWhenAllGone()
}

func (m *Machine) launchFailed(ev LaunchFailed) {
	if ev.Bad && m.image != 0 {
		m.bad[m.image] = triesPerImage
	}
	m.crash, m.exit = ev.Text, abi.ExitInternal
	m.decide()
}

func (m *Machine) decideWhenAllGone() {
	for _, r := range m.ranks {
		if r.hello && !r.lost {
			return
		}
	}
	m.decide()
}

// decide what follows on the end of all ranks.
func (m *Machine) decide() {
	m.giveUp("the job is ending")
	switch {
	case m.leaving != 0:
		m.finish(m.leaving)
	case m.crash == "":
		m.finish(m.exit)
	default:
		m.again()
	}
}

// again starts the job from its newest good image, or gives up. Only a job that ran uses up retries: an image that does
// not even start is tried twice at most and then never again, so that there is an end to it.
func (m *Machine) again() {
	if m.image == 0 && !m.ran {
		m.say("the job did not start: %s", m.crash)
		m.finish(m.crashCode())
		return
	}
	why := m.crash + "; "
	switch {
	case m.ran && m.image != 0:
		m.deaths[m.image]++
	case !m.ran:
		if m.bad[m.image]++; m.bad[m.image] >= triesPerImage {
			m.say("checkpoint %d cannot be used: %s", m.image, m.crash)
			why = ""
		}
	}
	n := m.candidate()
	switch {
	case n == 0:
		m.say("%sthere is no good checkpoint to go back to", why)
		m.finish(m.crashCode())
	case m.ran && m.failures >= m.cfg.Retries:
		m.say("%sgiven up after %d restarts without a new checkpoint", why, m.failures)
		m.finish(m.crashCode())
	case m.ran:
		m.failures++
		m.say("%sgoing back to checkpoint %d (restart %d of %d)", why, n, m.failures, m.cfg.Retries)
		m.backoff(m.failures)
	default:
		m.say("%strying checkpoint %d", why, n)
		m.backoff(1)
	}
}

func (m *Machine) backoff(nth int) {
	m.phase, m.deadline = Backoff, m.now+min(firstBackoff<<min(nth-1, 20), longestBackoff)
}

// crashCode is the exit code of a job whose ranks died: as a shell says it, when the launcher says it by the number of
// the signal alone.
func (m *Machine) crashCode() int {
	switch {
	case m.exit == 0 || m.image != 0 && !m.ran:
		return abi.ExitInternal
	case m.ran && m.exit > 0 && m.exit <= 64:
		return 128 + m.exit
	}
	return m.exit
}

func (m *Machine) finish(code int) {
	m.giveUp("the job is ending")
	m.reply(m.waiting, Result{Err: "the job is ending"})
	m.waiting, m.phase, m.deadline, m.op = nil, Done, 0, nil
	m.do(Finish{code})
}

// terminate leaves after a checkpoint. The second time it leaves at once.
func (m *Machine) terminate() {
	const sigterm = 15
	if m.phase != Running || (m.op != nil && m.op.leave) {
		m.interrupt(128 + sigterm)
		return
	}
	m.say("leaving after a checkpoint")
	m.request(Request{Stop: true})
	if m.op != nil {
		m.op.must = 128 + sigterm
	}
}

// interrupt leaves at once. The second time by force.
func (m *Machine) interrupt(code int) {
	if m.leaving == 0 {
		m.leaving = code
	}
	m.giveUp("the job is ending")
	switch m.phase {
	case Idle, Backoff:
		m.finish(m.leaving)
	case Gone:
	default:
		m.kill(m.killed > 0)
	}
}

func (m *Machine) kill(force bool) {
	if m.killed == 2 {
		return
	}
	m.phase, m.deadline, m.killed = Ending, m.now+killGrace, 1
	if force {
		m.killed = 2
	}
	m.do(Kill{force})
}

// timers does what is due.
func (m *Machine) timers() {
	if m.phase != Done && m.deadline != 0 && m.now >= m.deadline {
		m.deadline = 0
		switch m.phase {
		case Backoff:
			m.launch(m.candidate())
		case Ending:
			m.kill(m.killed > 0)
		case Gone:
			if m.killed == 2 {
				m.decide()
				break
			}
			m.killed, m.deadline = 2, m.now+killGrace
			m.do(Kill{true})
		}
	}
	if m.phase == Running {
		m.checkpointTimers()
	}
}
