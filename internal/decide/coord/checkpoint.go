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

// checkpoint is one checkpoint from the wish to the commit, over all its attempts. It gives the ranks their orders: those that bring them
// to a common point and stop them are here, those that follow are in write.go. It knows nothing of other checkpoints, nor of why its
// ranks live or die.
//
// It guarantees that answers to another stage or attempt than the present one are ignored; that no stage lasts for ever; and that ranks
// which may stand still are told to go on, or to exit, before it is over.
type checkpoint struct {
	turn  *turn
	cfg   *Config
	ranks ranks
	slow  *stragglers
	taker taker

	number uint64
	askers []Request
	leave  bool // the job leaves after it
	began  time.Duration
	commit bool // the driver has committed it

	state   // its stage
	attempt // the present one; empty before the first, and in a pause
	tries   tries
}

// taker is who takes checkpoints.
type taker interface {
	newEpoch() uint64
	work() time.Duration // that the ranks have done until now
	conclude(why string) // the present one is over, with a reason when it failed
	stuck()              // ranks have not gone on after an attempt
}

// state is the stage of a checkpoint, and who has answered in it.
type state struct {
	stage    stage
	since    time.Duration
	until    time.Duration // its deadline, 0: none
	answered []bool
	left     int // ranks whose answer is missing
}

// enter begins a stage.
func (s *state) enter(stage stage, now, limit time.Duration) {
	s.stage, s.since, s.until = stage, now, 0
	if limit > 0 {
		s.until = now + limit
	}
	s.left, s.answered = len(s.answered), make([]bool, len(s.answered))
}

// answer counts the first answers of ranks in a stage; false: there was none among them.
func (s *state) answer(ranks []int) bool {
	any := false
	for _, r := range ranks {
		if !s.answered[r] {
			s.answered[r], any = true, true
			s.left--
		}
	}
	return any
}

// haveAnswered says whether all of these ranks have answered in this stage.
func (s *state) haveAnswered(ranks []int) bool {
	return !slices.ContainsFunc(ranks, func(r int) bool { return !s.answered[r] })
}

// missing names the ranks that have not answered in this stage.
func (s *state) missing() string {
	var names []string
	for rank, ok := range s.answered {
		if !ok {
			names = append(names, fmt.Sprint(rank))
		}
	}
	if len(names) == 1 {
		return "rank " + names[0]
	}
	return "ranks " + strings.Join(names, ", ")
}

// tries are the attempts of a checkpoint, and how long to wait between them.
type tries struct {
	count    int
	pause    time.Duration // before the last one
	children time.Duration // until when attempts are made because of children, 0: none was in the way
}

// attempt is what is known of one try to bring the ranks to a common point, stop them and have their images written. Nothing of it
// counts in the next one.
type attempt struct {
	epoch    uint64
	agree    *agreement
	refusals []string
	passing  []string // those that may be gone a moment later
	shared   sharing
	hold     bool          // the ranks wait for RESUME after their images
	running  map[int]bool  // ranks that have said RESUMED
	work     time.Duration // that was done when the ranks stood (see setbacks)
	result   Result        // as far as it is known
}

// newCheckpoint is a checkpoint for which the directory is to be made first.
func newCheckpoint(c *checkpoints, number uint64, askers []Request) *checkpoint {
	op := &checkpoint{turn: c.turn, cfg: c.cfg, ranks: c.ranks, slow: &c.slow, taker: c, number: number, askers: askers, began: c.turn.now}
	op.leave = slices.ContainsFunc(askers, func(r Request) bool { return r.Stop })
	op.answered = make([]bool, len(c.ranks))
	op.enter(preparing, prepareLimit)
	return op
}

// deadline is when something has to be done about the checkpoint, 0: there is no such time.
func (c *checkpoint) deadline() time.Duration {
	if c.stage != agreeing {
		return c.until
	}
	at := c.began + agreeLimit
	if c.agree.version == 0 {
		return min(at, c.agree.moved+answerLimit)
	}
	if stuck := c.agree.deadline(c.cfg.Patience << min(c.tries.count-1, 4)); stuck != 0 {
		at = min(at, stuck)
	}
	return at
}

func (c *checkpoint) enter(s stage, limit time.Duration) { c.state.enter(s, c.turn.now, limit) }

// try asks all ranks.
func (c *checkpoint) try() {
	c.tries.count++
	epoch := c.taker.newEpoch()
	c.attempt = attempt{epoch: epoch, running: map[int]bool{}, agree: newAgreement(epoch, c.ranks.where(), c.turn.now)}
	c.enter(agreeing, 0)
	c.send(node.Order{Type: abi.MsgRequest})
}

// pause lets some time pass before the next attempt.
func (c *checkpoint) pause(d time.Duration) {
	c.attempt = attempt{}
	c.enter(pausing, d)
}

// send gives an order of this attempt to all ranks.
func (c *checkpoint) send(o node.Order) {
	o.Epoch = c.epoch
	c.turn.do(Send{o})
}

// timeout: a stage before the commit has lasted too long.
func (c *checkpoint) timeout() {
	switch c.stage {
	case preparing:
		c.taker.conclude(fmt.Sprintf("the store has not made a directory within %v", prepareLimit))
	case agreeing:
		c.noAgreement()
	case pausing:
		c.pauseOver()
	case stopping:
		c.fail(fmt.Sprintf("%s did not stop within %v", c.missing(), stopLimit))
	case writing:
		c.fail(fmt.Sprintf("%s did not finish the image, and wrote nothing for %v", c.missing(), workLimit))
	}
}

// pauseOver begins the next attempt, when the ranks have gone on after one in which they had been stopped.
func (c *checkpoint) pauseOver() {
	switch {
	case c.slow.none():
		c.try()
	case c.turn.now >= c.slow.until:
		c.taker.stuck()
	default:
		c.until = c.slow.until
	}
}

// noAgreement: the ranks do not come to a common point in this attempt, or not at all.
func (c *checkpoint) noAgreement() {
	switch {
	case c.turn.now >= c.began+agreeLimit:
		c.fail(fmt.Sprintf("no common point within %v: %s", agreeLimit, c.agree.describe()))
	case c.agree.version == 0:
		c.fail(fmt.Sprintf("%s within %v", strings.TrimSuffix(c.agree.describe(), " yet"), answerLimit))
	default:
		c.retry()
	}
}

// retry gives the attempt up and makes another one somewhat later.
func (c *checkpoint) retry() {
	c.send(node.Order{Type: abi.MsgCancel})
	if c.tries.count >= maxAttempts {
		c.taker.conclude(fmt.Sprintf("no quiet point in %d attempts: %s", c.tries.count, c.agree.describe()))
		return
	}
	c.tries.pause = min(max(2*c.tries.pause, firstPause), longestPause)
	c.pause(c.tries.pause)
}

// event takes in what ranks and driver say, as far as it belongs to this attempt and stage.
func (c *checkpoint) event(ev Event) {
	switch ev := ev.(type) {
	case Prepared:
		c.prepared(ev)
	case node.Clocks:
		if c.in(agreeing, ev.Epoch) && c.agree.clocks(ev, c.turn.now) {
			c.targets(c.agree.all())
		}
	case node.Raise:
		if c.in(agreeing, ev.Epoch) && c.agree.raised(ev, c.turn.now) {
			c.targets([]node.Target{c.agree.target(ev.Clock.Comm)})
		}
	case node.Met:
		if c.in(agreeing, ev.Epoch) {
			c.agree.met(ev, c.turn.now)
			c.maybeStop()
		}
	case node.Waiting:
		if c.in(agreeing, ev.Epoch) {
			c.agree.waits(ev, c.turn.now)
		}
	case node.Where:
		if c.stage == agreeing {
			c.agree.whereabouts(ev, c.turn.now)
		}
	case node.Objects:
		if c.in(stopping, ev.Epoch) {
			c.shared.add(ev)
		}
	case node.Stopped:
		c.stopped(ev)
	case node.Image:
		c.imageDone(ev)
	case node.Resumed:
		c.resumed(ev)
	}
}

// in says whether the checkpoint is in this stage of the attempt with this number.
func (c *checkpoint) in(s stage, epoch uint64) bool { return c.stage == s && c.epoch == epoch }

func (c *checkpoint) prepared(ev Prepared) {
	switch {
	case ev.Checkpoint != c.number || c.stage != preparing:
	case ev.Err != "":
		c.taker.conclude(ev.Err)
	default:
		c.try()
	}
}

func (c *checkpoint) targets(list []node.Target) {
	c.send(node.Order{Type: abi.MsgTargets, Version: c.agree.version, Targets: list})
}

func (c *checkpoint) maybeStop() {
	if c.agree.done() {
		c.enter(stopping, stopLimit)
		c.send(node.Order{Type: abi.MsgStop})
	}
}

// moved: another process is the rank from here on. What the one before has answered, or has not yet, counts for nothing: the attempt
// is made again. An image that is written is that of the process before, which stood still then and will be that again.
func (c *checkpoint) moved(rank int) {
	switch c.stage {
	case agreeing:
		c.send(node.Order{Type: abi.MsgCancel})
		c.pause(firstPause)
	case stopping, writing:
		c.send(node.Order{Type: abi.MsgCancel})
		c.running[rank] = true
		c.awaitOthers()
		c.pause(firstPause)
	case committing:
		c.running[rank] = true
		c.maybeConclude()
	}
}

// others are the ranks that have not said RESUMED.
func (c *checkpoint) others() map[int]bool {
	still := map[int]bool{}
	for rank := range c.ranks {
		if !c.running[rank] {
			still[rank] = true
		}
	}
	return still
}

// awaitOthers: no attempt begins before the others have gone on.
func (c *checkpoint) awaitOthers() { *c.slow = stragglers{c.others(), c.turn.now + goOnLimit} }

// maybeConclude: it is over when it is committed and everybody goes on.
func (c *checkpoint) maybeConclude() {
	if c.commit && len(c.running) == len(c.ranks) {
		c.taker.conclude("")
	}
}

// fail gives up a checkpoint whose ranks may be standing still. The next one waits until they have said RESUMED: a rank
// that is still busy with this one would not hear of it.
func (c *checkpoint) fail(why string) {
	if c.stage >= stopping {
		c.awaitOthers()
	}
	switch {
	case c.leave && (c.stage == committing || (c.stage == writing && c.left == 0)):
		c.send(node.Order{Type: abi.MsgResume}) // they wait for EXIT
	case c.stage >= agreeing:
		c.send(node.Order{Type: abi.MsgCancel})
	}
	c.taker.conclude(why)
}

// outcome is the result for those who have asked. Err says why there is no checkpoint, empty when there is one.
func (c *checkpoint) outcome(err string) Result {
	r := c.result
	r.Checkpoint, r.Attempts, r.Err = c.number, c.tries.count, err
	if err != "" {
		r.Checkpoint, r.Bytes = 0, 0
	}
	return r
}
