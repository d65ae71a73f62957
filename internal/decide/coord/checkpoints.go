package coord

import (
	"fmt"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// checkpoints takes them, one after the other: it owns who wants one and when one is due, the present one, the one whose commit outlives
// its ranks, and which ranks have not gone on yet.
//
// It guarantees that at most one is under way; that none is begun while a rank has not gone on after the one before; that every
// request is answered; and that a checkpoint which the driver was told to commit is counted if it succeeds, whatever becomes of the ranks.
type checkpoints struct {
	turn     *turn
	cfg      *Config
	run      *run
	ranks    ranks
	images   *images
	setbacks *setbacks
	leaver   leaver
	ender    ender

	wishes   wishes
	epoch    uint64 // of the last attempt of all
	op       *checkpoint
	pending  *checkpoint // what the driver still commits after the ranks are gone
	slow     stragglers
	failures failures
}

// leaver decides whether and how the job leaves.
type leaver interface {
	leaves() bool        // the job is to leave
	terminated() bool    // it has received a SIGTERM, and leaves after whatever checkpoint is committed next
	depart()             // no checkpoint is under way: the last one can be taken
	leave(number uint64) // the last one is committed, and the ranks have been told to exit
	savedLate()          // one is committed whose ranks were gone by then
}

// ender decides what follows when the ranks end.
type ender interface {
	stuck(why string) // ranks do not go on
	commitOver()      // the driver has answered for a checkpoint whose ranks may be gone
}

// stragglers are the ranks that have not gone on yet after a checkpoint, or an attempt, that is over.
type stragglers struct {
	ranks map[int]bool
	until time.Duration // when they count as stuck
}

func (s *stragglers) none() bool { return len(s.ranks) == 0 }

// wentOn takes in who has gone on, or has become another process.
func (s *stragglers) wentOn(ranks ...int) {
	for _, r := range ranks {
		delete(s.ranks, r)
	}
}

// deadline is when something has to be done about checkpoints, 0: there is no such time.
func (c *checkpoints) deadline() time.Duration {
	switch {
	case c.op != nil:
		return c.op.deadline()
	case c.run.phase != Running:
		return 0
	case c.slow.none():
		return c.wishes.due
	}
	return earliest(c.wishes.due, c.slow.until)
}

// request asks for a checkpoint; one that has not stopped anybody yet serves it too.
func (c *checkpoints) request(r Request) {
	switch phase := c.run.phase; {
	case c.cfg.Plain:
		c.turn.reply([]Request{r}, Result{Err: "the program takes its checkpoints itself (byssus run --plain)"})
	case c.leaver.leaves() || phase == Ending || phase == Gone || (c.op != nil && c.op.leave && c.op.stage >= stopping):
		c.turn.reply([]Request{r}, Result{Err: "the job is ending"})
	case c.op != nil && c.op.stage < stopping:
		c.op.askers, c.op.leave = append(c.op.askers, r), c.op.leave || r.Stop
	default:
		c.wish(r)
	}
}

// wish has a checkpoint taken as soon as that can be.
func (c *checkpoints) wish(r Request) {
	c.wishes.waiting = append(c.wishes.waiting, r)
	c.next()
}

// leaveWithPresent makes the present checkpoint the one after which the job leaves; false: there is none, or it is too far for that.
func (c *checkpoints) leaveWithPresent() bool {
	if c.op == nil || !c.op.leave && c.op.stage >= writing {
		return false
	}
	c.op.leave = true
	return true
}

// next begins the checkpoint that has been waited for.
func (c *checkpoints) next() {
	if c.run.phase != Running || c.op != nil || len(c.wishes.waiting) == 0 || !c.slow.none() {
		return
	}
	if why := c.ranks.whyNot(); why != "" {
		if c.ranks.finalizing() < 0 {
			c.failures.none(why)
		}
		c.giveUp(why)
		c.wishes.schedule(c.turn.now)
		return
	}
	c.op = newCheckpoint(c, c.images.number(), c.wishes.take())
	c.turn.do(Prepare{c.op.number})
}

// goOn is what follows on a checkpoint.
func (c *checkpoints) goOn() {
	if c.leaver.leaves() {
		c.leaver.depart()
		return
	}
	c.next()
}

// begin: all ranks run, and no checkpoint is under way.
func (c *checkpoints) begin() {
	c.wishes.schedule(c.turn.now)
	c.goOn()
}

// progress: the ranks have come further.
func (c *checkpoints) progress() {
	if c.run.phase == Running && c.op != nil {
		c.op.progress()
	}
}

// timers does what is due while the ranks run.
func (c *checkpoints) timers() {
	if c.op == nil {
		if !c.slow.none() && c.turn.now >= c.slow.until {
			c.stuck()
			return
		}
		if !c.leaver.leaves() {
			c.wishes.periodic(c.turn.now)
		}
		c.next()
		return
	}
	switch at := c.op.deadline(); {
	case at == 0 || c.turn.now < at:
	case c.op.stage == committing:
		c.noCommit()
	default:
		c.op.timeout()
	}
}

// noCommit: the store takes too long, and may still succeed; or it has committed and ranks do not go on.
func (c *checkpoints) noCommit() {
	if c.op.commit {
		c.slow = stragglers{c.op.others(), c.turn.now}
		c.conclude("")
		return
	}
	why := fmt.Sprintf("the store has not committed it within %v", commitLimit)
	c.turn.reply(c.op.askers, Result{Err: why})
	c.op.askers = nil
	c.slow = stragglers{c.op.others(), c.turn.now + goOnLimit}
	c.failures.none(why)
	c.giveUp(why)
	c.begin()
}

// stuck: ranks do not go on although nobody holds them. The job would wait for them for ever.
func (c *checkpoints) stuck() {
	s := state{answered: make([]bool, len(c.ranks))}
	for rank := range s.answered {
		s.answered[rank] = !c.slow.ranks[rank]
	}
	c.slow.ranks = nil
	c.ender.stuck(fmt.Sprintf("%s did not go on within %v after a checkpoint", s.missing(), goOnLimit))
}

// event takes in what belongs to an attempt; what belongs to an earlier one is ignored.
func (c *checkpoints) event(ev Event) {
	if r, ok := ev.(node.Resumed); ok && r.Epoch == c.epoch {
		c.slow.wentOn(r.Ranks...)
		if c.op != nil && c.op.stage == pausing && c.slow.none() {
			c.op.until = min(c.op.until, c.turn.now+firstPause)
		}
	}
	if done, ok := ev.(Committed); ok && c.pending != nil && done.Checkpoint == c.pending.number {
		c.lateCommit(done)
		return
	}
	if c.op == nil || c.run.phase != Running {
		return
	}
	if done, ok := ev.(Committed); ok {
		c.committed(done)
		return
	}
	c.op.event(ev)
}

// moved: another process is the rank from here on, which has nothing to go on from.
func (c *checkpoints) moved(rank int) {
	c.slow.wentOn(rank)
	if c.op != nil && c.run.phase == Running {
		c.op.moved(rank)
	}
}

func (c *checkpoints) committed(ev Committed) {
	op := c.op
	if ev.Checkpoint != op.number || op.stage != committing || op.commit {
		return
	}
	if ev.Err != "" {
		op.fail(ev.Err)
		return
	}
	op.commit = true
	op.result.Took = c.turn.now - op.began
	c.images.add(op.number, op.work)
	if op.leave || c.leaver.terminated() {
		op.send(node.Order{Type: abi.MsgExit})
		c.leaver.leave(op.number)
		c.conclude("")
		return
	}
	op.until = c.turn.now + goOnLimit
	op.maybeConclude()
}

// lateCommit: the ranks died, or the store's time was over, while the driver committed. The image is complete all the same.
func (c *checkpoints) lateCommit(ev Committed) {
	p := c.pending
	c.pending = nil
	p.result.Took = c.turn.now - p.began
	result := p.outcome(ev.Err)
	if ev.Err == "" {
		c.images.add(p.number, p.work)
		c.failures.took(result)
		c.leaver.savedLate()
	} else {
		c.turn.do(Discard{p.number, ev.Err})
		c.failures.none(ev.Err)
	}
	c.turn.reply(p.askers, result)
	c.ender.commitOver()
}

// noMore: because of these ranks there can be no checkpoint any more. When their images are written and they have gone on,
// the present one needs nothing more of them.
func (c *checkpoints) noMore(ranks []int) {
	why := c.ranks.whyNot()
	if why != "" && c.op != nil && (c.op.stage == committing || c.op.stage == writing && c.op.haveAnswered(ranks)) {
		c.turn.reply(c.wishes.take(), Result{Err: why})
		return
	}
	c.giveUp(why)
}

// giveUp fails the present checkpoint, if any, and refuses the next: the ranks are going away.
func (c *checkpoints) giveUp(why string) {
	c.turn.reply(c.wishes.take(), Result{Err: why})
	switch {
	case c.op == nil:
	case c.op.stage == committing && c.op.commit:
		c.conclude("")
	case c.op.stage == committing: // the driver still commits; see lateCommit
		if c.op.leave || c.op.hold {
			c.op.send(node.Order{Type: abi.MsgCancel})
		}
		c.pending, c.op = c.op, nil
	default:
		c.op.fail(why)
	}
}

// conclude ends the present checkpoint, with a reason when it failed.
func (c *checkpoints) conclude(why string) {
	op := c.op
	c.op = nil
	c.setbacks.stood(op.result.Stall)
	result := op.outcome(why)
	if why != "" {
		c.turn.do(Discard{op.number, why}) // and its number is not used again
		c.failures.none(why)
	} else {
		c.failures.took(result)
	}
	c.turn.reply(op.askers, result)
	c.begin()
}

// close refuses what is left: the job is over.
func (c *checkpoints) close(why string) {
	c.giveUp(why)
	c.turn.reply(c.wishes.take(), Result{Err: why})
	if c.pending != nil {
		c.turn.reply(c.pending.askers, Result{Err: why})
	}
	c.failures.tell()
	c.op, c.pending = nil, nil
}

// newEpoch is that of an attempt which begins.
func (c *checkpoints) newEpoch() uint64 {
	c.epoch++
	return c.epoch
}

// work is what the ranks have done until now.
func (c *checkpoints) work() time.Duration { return c.setbacks.done(c.turn.now) }
