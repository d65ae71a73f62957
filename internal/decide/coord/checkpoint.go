package coord

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
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
	passing  []string      // those that may be gone a moment later
	children time.Duration // until when attempts are made because of children, 0: none was in the way
	shared   sharing
	hold     bool          // the ranks wait for RESUME after their images
	work     time.Duration // that was done when the ranks stood (see setbacks)
	result   Result
	commit   bool // the driver has answered
}

// deadline is when something has to be done about the checkpoint, 0: there is no such time.
func (m *Machine) opDeadline() time.Duration {
	if m.op.stage != agreeing {
		return m.op.until
	}
	at := m.op.began + agreeLimit
	if m.op.agree.version == 0 {
		return min(at, m.op.agree.moved+answerLimit)
	}
	if stuck := m.op.agree.deadline(m.cfg.Patience << min(m.op.attempts-1, 4)); stuck != 0 {
		at = min(at, stuck)
	}
	return at
}

func (m *Machine) enter(s stage, limit time.Duration) {
	m.op.stage, m.op.since, m.op.until = s, m.turn.now, 0
	if limit > 0 {
		m.op.until = m.turn.now + limit
	}
	m.op.left, m.op.answered = m.cfg.Ranks, make([]bool, m.cfg.Ranks)
}

// request asks for a checkpoint; one that has not stopped anybody yet serves it too.
func (m *Machine) request(r Request) {
	switch {
	case m.leaving != 0 || m.run.phase == Ending || m.run.phase == Gone || (m.op != nil && m.op.leave && m.op.stage >= stopping):
		m.turn.reply([]Request{r}, Result{Err: "the job is ending"})
	case m.op != nil && m.op.stage < stopping:
		m.op.askers, m.op.leave = append(m.op.askers, r), m.op.leave || r.Stop
	default:
		m.waiting = append(m.waiting, r)
		m.next()
	}
}

// next begins the checkpoint that has been waited for.
func (m *Machine) next() {
	if m.run.phase != Running || m.op != nil || len(m.waiting) == 0 || len(m.standing) > 0 {
		return
	}
	if why := m.ranks.whyNot(); why != "" {
		if m.ranks.finalizing() < 0 {
			m.sayNone(why)
		}
		m.giveUp(why)
		m.schedule()
		return
	}
	m.op = &checkpoint{number: m.images.number(), askers: m.waiting, began: m.turn.now, running: map[int]bool{}}
	for _, r := range m.waiting {
		m.op.leave = m.op.leave || r.Stop
	}
	m.waiting = nil
	m.enter(preparing, prepareLimit)
	m.turn.do(Prepare{m.op.number})
}

// attempt asks all ranks.
func (m *Machine) attempt() {
	m.epoch++
	m.op.attempts++
	m.op.agree = newAgreement(m.epoch, m.ranks.where(), m.turn.now)
	m.enter(agreeing, 0)
	m.send(node.Order{Type: abi.MsgRequest})
}

// send gives an order of this attempt to all ranks.
func (m *Machine) send(o node.Order) {
	o.Epoch = m.epoch
	m.turn.do(Send{o})
}

func (m *Machine) checkpointTimers() {
	if m.op == nil {
		if len(m.standing) > 0 && m.turn.now >= m.settled {
			m.stuck()
			return
		}
		if m.leaving == 0 && m.due != 0 && m.turn.now >= m.due && len(m.waiting) == 0 {
			m.due = 0
			m.waiting = append(m.waiting, Request{})
		}
		m.next()
		return
	}
	if at := m.opDeadline(); at == 0 || m.turn.now < at {
		return
	}
	switch op := m.op; op.stage {
	case preparing:
		m.conclude(fmt.Sprintf("the store has not made a directory within %v", prepareLimit))
	case agreeing:
		m.noAgreement()
	case pausing:
		m.pauseOver()
	case stopping:
		m.fail(fmt.Sprintf("%s did not stop within %v", op.missing(), stopLimit))
	case writing:
		m.fail(fmt.Sprintf("%s did not finish the image, and wrote nothing for %v", op.missing(), workLimit))
	case committing:
		m.noCommit()
	}
}

// pauseOver begins the next attempt, when the ranks have gone on after one in which they had been stopped.
func (m *Machine) pauseOver() {
	switch {
	case len(m.standing) == 0:
		m.attempt()
	case m.turn.now >= m.settled:
		m.stuck()
	default:
		m.op.until = m.settled
	}
}

// noAgreement: the ranks do not come to a common point in this attempt, or not at all.
func (m *Machine) noAgreement() {
	switch op := m.op; {
	case m.turn.now >= op.began+agreeLimit:
		m.fail(fmt.Sprintf("no common point within %v: %s", agreeLimit, op.agree.describe()))
	case op.agree.version == 0:
		m.fail(fmt.Sprintf("%s within %v", strings.TrimSuffix(op.agree.describe(), " yet"), answerLimit))
	default:
		m.retry()
	}
}

// noCommit: the store takes too long, and may still succeed; or it has committed and ranks do not go on.
func (m *Machine) noCommit() {
	if m.op.commit {
		m.standing, m.settled = m.op.others(), m.turn.now
		m.conclude("")
		return
	}
	why := fmt.Sprintf("the store has not committed it within %v", commitLimit)
	m.turn.reply(m.op.askers, Result{Err: why})
	m.op.askers = nil
	m.standing, m.settled = m.op.others(), m.turn.now+goOnLimit
	m.sayNone(why)
	m.giveUp(why)
	m.schedule()
	m.goOn()
}

// goOn is what follows on a checkpoint.
func (m *Machine) goOn() {
	if m.leaving != 0 {
		m.depart()
		return
	}
	m.next()
}

// others are the ranks that have not said RESUMED.
func (c *checkpoint) others() map[int]bool {
	still := map[int]bool{}
	for rank := range c.answered {
		if !c.running[rank] {
			still[rank] = true
		}
	}
	return still
}

// stuck: ranks do not go on although nobody holds them. The job would wait for them for ever.
func (m *Machine) stuck() {
	c := checkpoint{answered: make([]bool, m.cfg.Ranks)}
	for rank := range c.answered {
		c.answered[rank] = !m.standing[rank]
	}
	m.verdict.why, m.standing = fmt.Sprintf("%s did not go on within %v after a checkpoint", c.missing(), goOnLimit), nil
	m.run.phase = Ending
	m.giveUp(m.verdict.why)
	m.run.kill(KillAsk)
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
	m.send(node.Order{Type: abi.MsgCancel})
	if m.op.attempts >= maxAttempts {
		m.conclude(fmt.Sprintf("no quiet point in %d attempts: %s", m.op.attempts, m.op.agree.describe()))
		return
	}
	m.op.pause = min(max(2*m.op.pause, firstPause), longestPause)
	m.enter(pausing, m.op.pause)
}

// checkpointEvent takes in what belongs to an attempt; what belongs to an earlier one is ignored.
func (m *Machine) checkpointEvent(ev Event) {
	if r, ok := ev.(node.Resumed); ok && r.Epoch == m.epoch {
		for _, rank := range r.Ranks {
			delete(m.standing, rank)
		}
		if m.op != nil && m.op.stage == pausing && len(m.standing) == 0 {
			m.op.until = min(m.op.until, m.turn.now+firstPause)
		}
	}
	if c, ok := ev.(Committed); ok && m.pending != nil && c.Checkpoint == m.pending.number {
		m.lateCommit(c)
		return
	}
	if m.op == nil || m.run.phase != Running {
		return
	}
	switch ev := ev.(type) {
	case Prepared:
		m.prepared(ev)
	case node.Clocks:
		if m.current(ev.Epoch, agreeing) && m.op.agree.clocks(ev, m.turn.now) {
			m.targets(m.op.agree.all())
		}
	case node.Raise:
		if m.current(ev.Epoch, agreeing) && m.op.agree.raised(ev, m.turn.now) {
			m.targets([]node.Target{m.op.agree.target(ev.Clock.Comm)})
		}
	case node.Met:
		if m.current(ev.Epoch, agreeing) {
			m.op.agree.met(ev, m.turn.now)
			m.maybeStop()
		}
	case node.Waiting:
		if m.current(ev.Epoch, agreeing) {
			m.op.agree.waits(ev, m.turn.now)
		}
	case node.Where:
		if m.op.stage == agreeing {
			m.op.agree.whereabouts(ev, m.turn.now)
		}
	case node.Objects:
		if m.current(ev.Epoch, stopping) {
			m.op.shared.add(ev)
		}
	case node.Stopped:
		m.stopped(ev)
	case node.Image:
		m.imageDone(ev)
	case node.Resumed:
		if m.current(ev.Epoch, writing) || m.current(ev.Epoch, committing) {
			for _, r := range ev.Ranks {
				m.op.running[r] = true
			}
			m.op.result.Stall = max(m.op.result.Stall, ev.Stall)
			m.maybeConclude()
		}
	case Committed:
		m.committed(ev)
	}
}

func (m *Machine) current(epoch uint64, s stage) bool { return m.op.stage == s && epoch == m.epoch }

func (m *Machine) targets(list []node.Target) {
	m.send(node.Order{Type: abi.MsgTargets, Version: m.op.agree.version, Targets: list})
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
		m.send(node.Order{Type: abi.MsgStop})
	}
}

// answer counts the first answers of ranks in a stage; false: there was none among them.
func (m *Machine) answer(ranks []int) bool {
	any := false
	for _, r := range ranks {
		if !m.op.answered[r] {
			m.op.answered[r], any = true, true
			m.op.left--
		}
	}
	return any
}

// haveAnswered says whether all of these ranks have answered in this stage.
func (c *checkpoint) haveAnswered(ranks []int) bool {
	return !slices.ContainsFunc(ranks, func(r int) bool { return !c.answered[r] })
}

func (m *Machine) stopped(ev node.Stopped) {
	if !m.current(ev.Epoch, stopping) || !m.answer(ev.Ranks) {
		return
	}
	m.op.refusals, m.op.passing = append(m.op.refusals, ev.Refusals...), append(m.op.passing, ev.Passing...)
	if m.op.left > 0 {
		return
	}
	shares, hold, refusals := m.op.shared.decide(m.cfg.Files)
	m.op.refusals = append(m.op.refusals, refusals...)
	m.op.result.Refusals = append(m.op.refusals, m.op.passing...)
	if len(m.op.result.Refusals) > 0 && !m.cfg.DropBad {
		m.refused()
		return
	}
	m.op.work = m.setbacks.done(m.turn.now)
	m.enter(writing, workLimit)
	m.tellShares(shares, hold)
	m.send(node.Order{Type: abi.MsgDrain, Checkpoint: m.op.number, ExitAfter: m.op.leave})
}

// refused: something cannot be saved. A child process may be gone a moment later, if the application goes on meanwhile, and with
// it what the program shares with it: a pipe, memory, a file.
func (m *Machine) refused() {
	op := m.op
	why := op.result.Refusals[0]
	if len(op.passing) == 0 {
		m.fail(why)
		return
	}
	if op.children == 0 {
		op.children = m.turn.now + childLimit
	}
	if m.turn.now >= op.children {
		m.fail(fmt.Sprintf("%s (tried again and again for %v)", why, childLimit))
		return
	}
	op.result.Refusals, op.refusals, op.passing, op.shared = nil, nil, nil, sharing{}
	m.send(node.Order{Type: abi.MsgCancel})
	m.standing, m.settled = op.others(), m.turn.now+goOnLimit
	m.enter(pausing, firstPause)
}

// moved: another process is the rank from here on. What the one before has answered, or has not yet, counts for nothing: the attempt
// is made again. An image that is written is that of the process before, which stood still then and will be that again.
func (m *Machine) moved(rank int) {
	delete(m.standing, rank)
	if m.op == nil || m.run.phase != Running {
		return
	}
	op := m.op
	switch op.stage {
	case agreeing:
		m.send(node.Order{Type: abi.MsgCancel})
		m.enter(pausing, firstPause)
	case stopping, writing:
		m.send(node.Order{Type: abi.MsgCancel})
		op.running[rank] = true
		m.standing, m.settled = op.others(), m.turn.now+goOnLimit
		op.result, op.refusals, op.passing, op.shared, op.running = Result{}, nil, nil, sharing{}, map[int]bool{}
		m.enter(pausing, firstPause)
	case committing:
		op.running[rank] = true
		m.maybeConclude()
	}
}

func (m *Machine) imageDone(ev node.Image) {
	if !m.current(ev.Epoch, writing) || !m.answer(ev.Ranks) {
		return
	}
	if ev.Text != "" { // the others may wait for this rank
		m.fail(ev.Text)
		return
	}
	m.op.result.Bytes += ev.Bytes
	m.progress()
	if m.op.left > 0 {
		return
	}
	m.enter(committing, commitLimit)
	m.release()
	m.turn.do(Commit{m.op.number, m.epoch})
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
	op.result.Took = m.turn.now - op.began
	m.images.add(op.number, op.work)
	if op.leave || m.term.asked {
		m.leave(op.number)
		return
	}
	op.until = m.turn.now + goOnLimit
	m.maybeConclude()
}

// lateCommit: the ranks died, or the store's time was over, while the driver committed. The image is complete all the same.
func (m *Machine) lateCommit(ev Committed) {
	p := m.pending
	m.pending = nil
	p.result.Checkpoint, p.result.Attempts, p.result.Took, p.result.Err = p.number, p.attempts, m.turn.now-p.began, ev.Err
	if ev.Err == "" {
		m.images.add(p.number, p.work)
		m.took(p.result)
		if m.term.asked {
			m.leaving = abi.ExitStopped
		}
	} else {
		p.result.Checkpoint, p.result.Bytes = 0, 0
		m.turn.do(Discard{p.number, ev.Err})
		m.sayNone(ev.Err)
	}
	m.turn.reply(p.askers, p.result)
	if m.run.phase == Gone {
		m.decideWhenAllGone()
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
	if op.stage >= stopping {
		m.standing, m.settled = op.others(), m.turn.now+goOnLimit
	}
	switch {
	case op.leave && (op.stage == committing || (op.stage == writing && op.left == 0)):
		m.send(node.Order{Type: abi.MsgResume}) // they wait for EXIT
	case op.stage >= agreeing:
		m.send(node.Order{Type: abi.MsgCancel})
	}
	m.conclude(why)
}

// giveUp fails the present checkpoint, if any, and refuses the next: the ranks are going away.
func (m *Machine) giveUp(why string) {
	m.turn.reply(m.waiting, Result{Err: why})
	m.waiting = nil
	switch {
	case m.op == nil:
	case m.op.stage == committing && m.op.commit:
		m.conclude("")
	case m.op.stage == committing: // the driver still commits; see lateCommit
		if m.op.leave || m.op.hold {
			m.send(node.Order{Type: abi.MsgCancel})
		}
		m.pending, m.op = m.op, nil
	default:
		m.fail(why)
	}
}

// conclude ends the present checkpoint, with a reason when it failed.
func (m *Machine) conclude(why string) {
	op := m.op
	m.op = nil
	m.setbacks.stood(op.result.Stall)
	op.result.Checkpoint, op.result.Attempts, op.result.Err = op.number, op.attempts, why
	if why != "" {
		op.result.Checkpoint, op.result.Bytes = 0, 0
		m.turn.do(Discard{op.number, why}) // and its number is not used again
		m.sayNone(why)
	} else {
		m.took(op.result)
	}
	m.turn.reply(op.askers, op.result)
	m.schedule()
	m.goOn()
}
