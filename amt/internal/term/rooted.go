package term

import (
	"fmt"
	"slices"
)

// Rooted is the detector of a rooted epoch on one rank: on its root, or on one that messages of it have reached.
//
// The ranks that have work, or wait for acknowledgements, form a tree: a rank's parent is whoever sent the message that
// made it part of it. It acknowledges that message last, when nothing holds the epoch there and all that it sent is
// acknowledged; all others as soon as nothing holds it.
type Rooted struct {
	root     bool
	held     int    // what is not done here
	awaited  uint64 // messages sent to other ranks that are not acknowledged
	parent   int    // whose first message is not acknowledged; -1: none
	owed     map[int]uint64
	isOver   bool
	lastFrom int    // the rank that owedLast is owed to
	owedLast uint64 // kept apart from owed: one rank often sends many in a row
}

// NewRooted makes the detector. On the root it is held once, by who made it.
func NewRooted(root bool) Rooted {
	r := Rooted{root: root, parent: -1, lastFrom: -1}
	if root {
		r.held = 1
	}
	return r
}

// Hold keeps the epoch from being over until it is released as often.
func (r *Rooted) Hold() { r.held++ }

// Release undoes n Holds, and tells whether nothing holds the epoch any more; Settle is due then.
func (r *Rooted) Release(n int) bool {
	if r.held -= n; r.held < 0 {
		panic("term: a rooted epoch is released that nothing holds")
	}
	return r.held == 0
}

// Sent counts a message that leaves for another rank.
func (r *Rooted) Sent(int) { r.awaited++ }

// Got counts n messages from another rank. The epoch is held while they are taken care of: from before they are counted.
func (r *Rooted) Got(from, n int) {
	if !r.root && r.parent < 0 {
		r.parent = from
		n--
	}
	if from != r.lastFrom {
		r.put()
		r.lastFrom = from
	}
	r.owedLast += uint64(n)
}

// put moves what is kept apart to the others.
func (r *Rooted) put() {
	if r.owedLast == 0 {
		return
	}
	if r.owed == nil {
		r.owed = map[int]uint64{}
	}
	r.owed[r.lastFrom] += r.owedLast
	r.owedLast = 0
}

// Over tells whether the epoch is over: only the root ever knows.
func (r *Rooted) Over() bool { return r.isOver }

// Asleep tells whether the rank has nothing to do with the epoch, as if it had never heard of it.
func (r *Rooted) Asleep() bool {
	return !r.root && r.held == 0 && r.awaited == 0 && r.parent < 0 && r.owedLast == 0 && len(r.owed) == 0
}

// Settle acknowledges what can be if nothing holds the epoch here. The caller calls it when it has nothing else to do, so
// that one message acknowledges many.
func (r *Rooted) Settle(out []Order) []Order {
	if r.held > 0 {
		return out
	}
	if r.awaited == 0 {
		r.isOver = r.root
		if r.parent >= 0 {
			if r.lastFrom != r.parent {
				r.put()
				r.lastFrom = r.parent
			}
			r.owedLast++
			r.parent = -1
		}
	}
	if r.owedLast > 0 && len(r.owed) == 0 {
		out = append(out, Order{r.lastFrom, Message{Kind: Ack, Received: r.owedLast}})
		r.owedLast = 0
		return out
	}
	r.put()
	first := len(out)
	for to, n := range r.owed {
		out = append(out, Order{to, Message{Kind: Ack, Received: n}})
	}
	slices.SortFunc(out[first:], func(a, b Order) int { return a.To - b.To })
	clear(r.owed)
	return out
}

// Receive takes an acknowledgement. Settle is due afterwards.
func (r *Rooted) Receive(from int, m Message, out []Order) []Order {
	if m.Kind != Ack || m.Received > r.awaited {
		panic(fmt.Sprintf("term: rank %d acknowledges %d messages of a rooted epoch (kind %d) of which %d are awaited", from, m.Received, m.Kind, r.awaited))
	}
	r.awaited -= m.Received
	return out
}

// Awaited is the number of messages that this rank sent and that are not acknowledged.
func (r *Rooted) Awaited() uint64 { return r.awaited }
