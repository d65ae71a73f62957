package coord

import (
	"fmt"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// What a checkpoint does from STOP to COMMIT: hears what cannot be saved, has the images written, and lets the ranks go on.

// stopped takes in that ranks stand still; when all do, they are told to write, if everything can be saved.
func (c *checkpoint) stopped(ev node.Stopped) {
	if !c.in(stopping, ev.Epoch) || !c.answer(ev.Ranks) {
		return
	}
	c.refusals, c.passing = append(c.refusals, ev.Refusals...), append(c.passing, ev.Passing...)
	if c.left > 0 {
		return
	}
	shares, hold, refusals := c.shared.decide(c.cfg.Files)
	c.refusals = append(c.refusals, refusals...)
	c.result.Refusals = append(c.refusals, c.passing...)
	if len(c.result.Refusals) > 0 && !c.cfg.DropBad {
		c.refused()
		return
	}
	c.work = c.taker.work()
	c.enter(writing, workLimit)
	c.tellShares(shares, hold)
	c.send(node.Order{Type: abi.MsgDrain, Checkpoint: c.number, ExitAfter: c.leave})
}

// refused: something cannot be saved. A child process may be gone a moment later, if the application goes on meanwhile, and with
// it what the program shares with it: a pipe, memory, a file.
func (c *checkpoint) refused() {
	why := c.result.Refusals[0]
	if len(c.passing) == 0 {
		c.fail(why)
		return
	}
	if c.tries.children == 0 {
		c.tries.children = c.turn.now + childLimit
	}
	if c.turn.now >= c.tries.children {
		c.fail(fmt.Sprintf("%s (tried again and again for %v)", why, childLimit))
		return
	}
	c.send(node.Order{Type: abi.MsgCancel})
	c.awaitOthers()
	c.pause(firstPause)
}

// tellShares tells the ranks, before DRAIN, what they share.
func (c *checkpoint) tellShares(shares []node.Share, hold bool) {
	if c.hold = hold; len(shares) > 0 {
		c.send(node.Order{Type: abi.MsgShared, Shares: shares, Hold: hold})
	}
}

// progress: bytes are written, so that the limit of that begins anew.
func (c *checkpoint) progress() {
	if c.stage == writing {
		c.until = c.turn.now + workLimit
	}
}

// imageDone takes in that images are written, or why one is not; with the last one the driver can commit.
func (c *checkpoint) imageDone(ev node.Image) {
	if !c.in(writing, ev.Epoch) || !c.answer(ev.Ranks) {
		return
	}
	if ev.Text != "" { // the others may wait for this rank
		c.fail(ev.Text)
		return
	}
	c.result.Bytes += ev.Bytes
	c.progress()
	if c.left > 0 {
		return
	}
	c.enter(committing, commitLimit)
	c.release()
	c.turn.do(Commit{c.number, c.epoch})
}

// release lets ranks that hold go on. Those that are to leave wait for the commit.
func (c *checkpoint) release() {
	if c.hold && !c.leave {
		c.send(node.Order{Type: abi.MsgResume})
	}
}

// resumed takes in that ranks have gone on after their images.
func (c *checkpoint) resumed(ev node.Resumed) {
	if !c.in(writing, ev.Epoch) && !c.in(committing, ev.Epoch) {
		return
	}
	for _, r := range ev.Ranks {
		c.running[r] = true
	}
	c.result.Stall = max(c.result.Stall, ev.Stall)
	c.maybeConclude()
}
