package coord

import (
	"fmt"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/abi"
)

// stage of a checkpoint.
type stage int

const (
	preparing stage = iota
	pausing         // between two attempts
	agreeing
	stopping
	writing
	committing // the ranks go on (or wait for EXIT) meanwhile
)

func (s stage) String() string {
	return [...]string{"preparing", "pausing", "agreeing", "stopping", "writing", "committing"}[s]
}

// checkpoint is one checkpoint from the wish to the commit, over all its attempts.
type checkpoint struct {
	number   uint64
	askers   []Request
	leave    bool // the job leaves after it
	must     int  // and leaves with this code even when it fails; 0: goes on
	began    time.Duration
	stage    stage
	since    time.Duration
	until    time.Duration // deadline of the stage, 0: none
	attempts int
	pause    time.Duration
	agree    *agreement
	answered []bool
	left     int          // ranks whose answer is missing
	running  map[int]bool // ranks that have said RESUMED
	refusals []string
	result   Result
	failed   string
	commit   bool // the driver has answered
}

// deadline is when something has to be done about the checkpoint, 0: there is no such time.
func (m *Machine) opDeadline() time.Duration {
	if m.op.stage == agreeing {
		return m.op.agree.deadline(m.cfg.Patience << min(m.op.attempts-1, 4))
	}
	return m.op.until
}

func (m *Machine) enter(s stage, limit time.Duration) {
	m.op.stage, m.op.since, m.op.until = s, m.now, 0
	if limit > 0 {
		m.op.until = m.now + limit
	}
	m.op.left, m.op.answered = m.cfg.Ranks, make([]bool, m.cfg.Ranks)
}

// request asks for a checkpoint; one that has not stopped anybody yet serves it too.
func (m *Machine) request(r Request) {
	switch {
	case m.leaving != 0 || m.phase == Ending || m.phase == Gone || (m.op != nil && m.op.leave && m.op.stage >= stopping):
		m.reply([]Request{r}, Result{Err: "the job is ending"})
	case m.op != nil && m.op.stage < stopping:
		m.op.askers, m.op.leave = append(m.op.askers, r), m.op.leave || r.Stop
	default:
		m.waiting = append(m.waiting, r)
		m.next()
	}
}

// next begins the checkpoint that has been waited for.
func (m *Machine) next() {
	if m.phase != Running || m.op != nil || len(m.waiting) == 0 || len(m.standing) > 0 && m.now < m.settled {
		return
	}
	if why := m.whoLeft(); why != "" {
		m.say("no checkpoint: %s", why)
		m.giveUp(why)
		m.schedule()
		return
	}
	m.last++
	m.op = &checkpoint{number: m.last, askers: m.waiting, began: m.now, running: map[int]bool{}}
	for _, r := range m.waiting {
		m.op.leave = m.op.leave || r.Stop
	}
	m.waiting = nil
	m.enter(preparing, 0)
	m.do(Prepare{m.op.number})
}

// attempt asks all ranks.
func (m *Machine) attempt() {
	m.epoch++
	m.op.attempts++
	where := make([]uint32, m.cfg.Ranks)
	for i := range m.ranks {
		where[i] = m.ranks[i].where
	}
	m.op.agree = newAgreement(m.epoch, m.cfg.Ranks, where, m.now)
	m.enter(agreeing, 0)
	m.broadcast(Send{Type: abi.MsgRequest})
}

func (m *Machine) broadcast(s Send) {
	s.Epoch = m.epoch
	for i := range m.cfg.Ranks {
		s.Rank = i
		m.do(s)
	}
}

func (m *Machine) checkpointTimers() {
	if m.op == nil {
		if m.due != 0 && m.now >= m.due && len(m.waiting) == 0 {
			m.due = 0
			m.waiting = append(m.waiting, Request{})
		}
		m.next()
		return
	}
	if at := m.opDeadline(); at == 0 || m.now < at {
		return
	}
	switch m.op.stage {
	case agreeing:
		m.retry()
	case pausing:
		m.attempt()
	case stopping:
		m.fail(fmt.Sprintf("%s did not stop within %v", m.op.missing(), stopLimit))
	}
}

// missing names the ranks that have not answered in this stage.
func (c *checkpoint) missing() string {
	var names []string
	for rank, ok := range c.answered {
		if !ok {
			names = append(names, fmt.Sprint(rank))
		}
	}
	if len(names) == 1 {
		return "rank " + names[0]
	}
	return "ranks " + strings.Join(names, ", ")
}

// retry gives the attempt up and makes another one somewhat later.
func (m *Machine) retry() {
	m.broadcast(Send{Type: abi.MsgCancel})
	if m.op.attempts >= maxAttempts {
		m.conclude(fmt.Sprintf("no quiet point in %d attempts: %s", m.op.attempts, m.op.agree.describe()))
		return
	}
	m.op.pause = min(max(2*m.op.pause, firstPause), longestPause)
	m.enter(pausing, m.op.pause)
}

// checkpointEvent takes in what belongs to an attempt; what belongs to an earlier one is ignored.
func (m *Machine) checkpointEvent(ev Event) {
	if r, ok := ev.(Resumed); ok && r.Epoch == m.epoch {
		delete(m.standing, r.Rank)
	}
	if m.op == nil || m.phase != Running {
		if c, ok := ev.(Committed); ok {
			m.lateCommit(c)
		}
		return
	}
	switch ev := ev.(type) {
	case Prepared:
		m.prepared(ev)
	case Clocks:
		if m.current(ev.Epoch, agreeing) && m.op.agree.clocks(ev, m.now) {
			m.targets(m.op.agree.all())
		}
	case Raise:
		if m.current(ev.Epoch, agreeing) && m.op.agree.raised(ev, m.now) {
			m.targets([]abi.Clock{ev.Clock})
		}
	case Met:
		if m.current(ev.Epoch, agreeing) {
			m.op.agree.met(ev, m.now)
			m.maybeStop()
		}
	case Waiting:
		if m.current(ev.Epoch, agreeing) {
			m.op.agree.waits(ev, m.now)
		}
	case Where:
		if m.op.stage == agreeing {
			m.op.agree.whereabouts(ev, m.now)
		}
	case Stopped:
		m.stopped(ev)
	case Image:
		m.imageDone(ev)
	case Resumed:
		if m.current(ev.Epoch, writing) || m.current(ev.Epoch, committing) {
			m.op.running[ev.Rank] = true
			m.op.result.Stall = max(m.op.result.Stall, ev.Stall)
			m.maybeConclude()
		}
	case Committed:
		m.committed(ev)
	}
}

func (m *Machine) current(epoch uint64, s stage) bool { return m.op.stage == s && epoch == m.epoch }

func (m *Machine) targets(cs []abi.Clock) {
	m.broadcast(Send{Type: abi.MsgTargets, Version: m.op.agree.version, Targets: cs})
}

func (m *Machine) prepared(ev Prepared) {
	switch {
	case ev.Checkpoint != m.op.number || m.op.stage != preparing:
	case ev.Err != "":
		m.conclude(ev.Err)
	default:
		m.attempt()
	}
}

func (m *Machine) maybeStop() {
	if m.op.agree.done() {
		m.enter(stopping, stopLimit)
		m.broadcast(Send{Type: abi.MsgStop})
	}
}

// answer counts a rank's first answer in a stage.
func (m *Machine) answer(rank int) bool {
	if m.op.answered[rank] {
		return false
	}
	m.op.answered[rank] = true
	m.op.left--
	return true
}

func (m *Machine) stopped(ev Stopped) {
	if !m.current(ev.Epoch, stopping) || !m.answer(ev.Rank) {
		return
	}
	for _, r := range ev.Refusals {
		m.op.refusals = append(m.op.refusals, fmt.Sprintf("rank %d: %s", ev.Rank, r))
	}
	if m.op.left > 0 {
		return
	}
	m.op.result.Refusals = m.op.refusals
	if len(m.op.refusals) > 0 { // what --policy drop drops a rank does not report
		m.fail(m.op.refusals[0])
		return
	}
	m.enter(writing, 0)
	m.broadcast(Send{Type: abi.MsgDrain, Checkpoint: m.op.number, ExitAfter: m.op.leave})
}

func (m *Machine) imageDone(ev Image) {
	if !m.current(ev.Epoch, writing) || !m.answer(ev.Rank) {
		return
	}
	if ev.Image.Status != 0 && m.op.failed == "" {
		m.op.failed = fmt.Sprintf("rank %d: %s", ev.Rank, ev.Text)
	}
	m.op.result.Bytes += ev.Image.Bytes
	if m.op.left > 0 {
		return
	}
	if m.op.failed != "" {
		m.fail(m.op.failed)
		return
	}
	m.enter(committing, 0)
	m.do(Commit{m.op.number})
}

func (m *Machine) committed(ev Committed) {
	op := m.op
	if ev.Checkpoint != op.number || op.stage != committing || op.commit {
		return
	}
	if ev.Err != "" {
		m.fail(ev.Err)
		return
	}
	op.commit = true
	op.result.Took = m.now - op.began
	m.keep(op.number)
	if op.leave {
		m.broadcast(Send{Type: abi.MsgExit})
		m.leaving = abi.ExitStopped
		m.say("checkpoint %d is committed; leaving", op.number)
		m.conclude("")
		m.phase, m.deadline = Ending, m.now+killGrace
		return
	}
	m.maybeConclude()
}

// lateCommit: the ranks died while the driver committed. The image is complete all the same.
func (m *Machine) lateCommit(ev Committed) {
	if ev.Err == "" {
		m.keep(ev.Checkpoint)
	}
}

// keep counts a committed checkpoint, and drops those that it makes superfluous.
func (m *Machine) keep(n uint64) {
	m.images = append(m.images, n)
	m.failures = 0
	clear(m.deaths)
	good := 0
	for i := len(m.images) - 1; i >= 0; i-- {
		if good == m.cfg.Keep {
			for _, old := range m.images[:i+1] {
				m.do(Drop{old})
				delete(m.bad, old)
			}
			m.images = append([]uint64(nil), m.images[i+1:]...)
			return
		}
		if m.bad[m.images[i]] == 0 {
			good++
		}
	}
}

// maybeConclude: it is over when it is committed and everybody goes on.
func (m *Machine) maybeConclude() {
	if m.op.commit && len(m.op.running) == m.cfg.Ranks {
		m.conclude("")
	}
}

// fail gives up a checkpoint whose ranks may be standing still. The next one waits until they have said RESUMED: a rank
// that is still busy with this one would not hear of it.
func (m *Machine) fail(why string) {
	op := m.op
	m.standing = map[int]bool{}
	if op.stage >= stopping {
		m.settled = m.now + stopLimit
		for r := range m.cfg.Ranks {
			if !op.running[r] {
				m.standing[r] = true
			}
		}
	}
	switch {
	case op.leave && (op.stage == committing || (op.stage == writing && op.left == 0)):
		m.broadcast(Send{Type: abi.MsgResume}) // they wait for EXIT
	case op.stage >= agreeing:
		m.broadcast(Send{Type: abi.MsgCancel})
	}
	m.conclude(why)
}

// giveUp fails the present checkpoint, if any, and refuses the next: the ranks are going away.
func (m *Machine) giveUp(why string) {
	m.reply(m.waiting, Result{Err: why})
	m.waiting = nil
	switch {
	case m.op == nil:
	case m.op.stage == committing && m.op.commit:
		m.conclude("")
	case m.op.stage == committing:
		m.reply(m.op.askers, Result{Err: why}) // the driver still commits; see lateCommit
		m.op = nil
	default:
		m.op.must = 0
		m.fail(why)
	}
}

// conclude ends the present checkpoint, with a reason when it failed.
func (m *Machine) conclude(why string) {
	op := m.op
	m.op = nil
	op.result.Checkpoint, op.result.Attempts, op.result.Err = op.number, op.attempts, why
	if why != "" {
		op.result.Checkpoint, op.result.Bytes = 0, 0
		m.do(Discard{op.number})
		m.last--
		m.say("no checkpoint: %s", why)
	} else {
		m.do(Took{op.result})
	}
	m.reply(op.askers, op.result)
	m.schedule()
	if why != "" && op.must != 0 {
		m.interrupt(op.must)
		return
	}
	m.next()
}
