package amt

import "slices"

// A gate keeps what is sent under an epoch until the epochs before it are over (After). It belongs to the goroutine that drives the rank;
// a task asks for what it sends, and so never looks at it.
type gate struct {
	after []*Epoch // until they are over, what is sent here waits, and the epoch is held
	held  []heldMessage
}

// A heldMessage is a record that waits for the epoch before.
type heldMessage struct {
	to     int
	what   what
	record []byte
}

// closed tells whether what is sent under the epoch has to wait.
func (g *gate) closed() bool { return len(g.after) > 0 }

// passed is the end of an epoch before: what has waited for it, and for no other, may be sent.
func (g *gate) passed(before *Epoch) []heldMessage {
	g.after = slices.DeleteFunc(g.after, func(o *Epoch) bool { return o == before })
	if g.closed() {
		return nil
	}
	free := g.held
	g.held = nil
	return free
}

// waiters are those on a rank who go on when an epoch is over: epochs, tasks and functions. They belong to the goroutine that drives the
// rank, but for the channel, which tasks wait for.
type waiters struct {
	next  []*Epoch      // come after it
	tasks int           // that wait for it
	done  chan struct{} // not nil: closed when it is over
	then  []follower
}

// A follower is what is to be done when an epoch is over, and the element of the method that has said so, if one has.
type follower struct {
	then func(Context)
	seat *seat
}

// channel is the one that is closed when the epoch is over.
func (w *waiters) channel(over bool) chan struct{} {
	if w.done == nil {
		if w.done = make(chan struct{}); over {
			close(w.done)
		}
	}
	return w.done
}
