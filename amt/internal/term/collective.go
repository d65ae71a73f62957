package term

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/tree"
)

// Collective is the detector of a collective epoch on one rank.
//
// A rank takes part in a wave when nothing holds the epoch there, so a wave passes no rank that is at work, and its sums
// are those of passive ranks. The epoch is over when as many messages had been received at the end of one wave as had been
// sent at the end of the next: all ranks were then passive, and no channel held a message, when the first of the two
// ended. Before the first wave nothing was received, which makes that rule hold for one wave alone if nothing was sent.
type Collective struct {
	rank, ranks    int
	held           int    // what is not done here
	sent, received uint64 // messages to and from other ranks

	wave   uint32 // the wave under way; before it was told of one, a rank takes part in the first
	given  bool   // this rank's subtree has given its sums for it
	told   int    // children that have
	below  Message
	before uint64 // on the root: received by the end of the wave before
	isOver bool
}

// NewCollective makes the detector of an epoch that this rank holds once: by what it does before it has entered and left it.
func NewCollective(rank, ranks int) Collective {
	return Collective{rank: rank, ranks: ranks, held: 1, wave: 1}
}

// Hold keeps the epoch from being over until it is released as often: for a message that stays here, work handed to
// others, an epoch within it.
func (c *Collective) Hold() { c.held++ }

// Release undoes n Holds, and tells whether nothing holds the epoch any more; Settle is due then.
func (c *Collective) Release(n int) bool {
	if c.held -= n; c.held < 0 {
		panic(fmt.Sprintf("term: rank %d releases a collective epoch that nothing holds", c.rank))
	}
	return c.held == 0
}

// Sent counts a message that leaves for another rank.
func (c *Collective) Sent(int) { c.sent++ }

// Got counts n messages from another rank. The epoch is held while they are taken care of: from before they are counted.
func (c *Collective) Got(_, n int) { c.received += uint64(n) }

// Over tells whether the epoch is over, as far as this rank knows.
func (c *Collective) Over() bool { return c.isOver }

// Settle takes part in the wave under way if nothing holds the epoch here: it sends the sums of this rank's subtree upwards when they
// are all there; on the root it ends the wave. The caller calls it when it has nothing else to do: earlier is not wrong, but costs
// waves.
func (c *Collective) Settle(out []Order) []Order {
	first, last := tree.Children(c.rank, c.ranks)
	if c.held > 0 || c.given || c.isOver || c.told < last-first {
		return out
	}
	c.given = true
	sums := Message{Kind: Count, Wave: c.wave, Sent: c.below.Sent + c.sent, Received: c.below.Received + c.received}
	if c.rank != 0 {
		return append(out, Order{tree.Parent(c.rank), sums})
	}
	if c.before == sums.Sent {
		return c.over(out)
	}
	c.before = sums.Received
	return c.begin(c.wave+1, out)
}

// begin takes part in a wave.
func (c *Collective) begin(wave uint32, out []Order) []Order {
	c.wave, c.given, c.told, c.below = wave, false, 0, Message{}
	first, last := tree.Children(c.rank, c.ranks)
	for child := first; child < last; child++ {
		out = append(out, Order{child, Message{Kind: Wave, Wave: wave}})
	}
	return out
}

// over ends the epoch here and below.
func (c *Collective) over(out []Order) []Order {
	c.isOver = true
	first, last := tree.Children(c.rank, c.ranks)
	for child := first; child < last; child++ {
		out = append(out, Order{child, Message{Kind: Over, Wave: c.wave}})
	}
	return out
}

// Receive takes what another rank's detector sent. Settle is due afterwards.
func (c *Collective) Receive(_ int, m Message, out []Order) []Order {
	switch m.Kind {
	case Count:
		c.told++
		c.below.Sent += m.Sent
		c.below.Received += m.Received
		return out
	case Wave:
		return c.begin(m.Wave, out)
	case Over:
		return c.over(out)
	}
	panic(fmt.Sprintf("term: a collective epoch was sent a message of kind %d", m.Kind))
}

// Waves is the number of the wave under way.
func (c *Collective) Waves() uint32 { return c.wave }
