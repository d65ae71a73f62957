package amt

import (
	"encoding/binary"

	"github.com/byssus-hpc/byssus/amt/internal/term"
)

// A detector finds on one rank when an epoch is over, as package term does for epochs of its kind. It belongs to the goroutine that drives
// the rank.
type detector struct {
	rooted bool
	dirty  bool            // its epoch is in the rank's list of those to be settled
	wave   term.Collective // of a collective epoch
	tree   term.Rooted     // of a rooted one
}

func (d *detector) init(id uint64, r *rank) {
	if d.rooted = id&rootedBit != 0; d.rooted {
		d.tree = term.NewRooted(rootOf(id) == r.self)
	} else {
		d.wave = term.NewCollective(r.self, r.ranks)
	}
}

func (d *detector) hold() {
	if d.rooted {
		d.tree.Hold()
	} else {
		d.wave.Hold()
	}
}

// release undoes n holds, and tells whether nothing holds the epoch here any more.
func (d *detector) release(n int) bool {
	if d.rooted {
		return d.tree.Release(n)
	}
	return d.wave.Release(n)
}

// got counts n messages from another rank, sent one to another.
func (d *detector) got(from, n int) {
	if d.rooted {
		d.tree.Got(from, n)
	} else {
		d.wave.Got(from, n)
	}
}

func (d *detector) sent(to int) {
	if d.rooted {
		d.tree.Sent(to)
	} else {
		d.wave.Sent(to)
	}
}

func (d *detector) settle(orders []term.Order) []term.Order {
	if d.rooted {
		return d.tree.Settle(orders)
	}
	return d.wave.Settle(orders)
}

func (d *detector) receive(from int, m term.Message, orders []term.Order) []term.Order {
	if d.rooted {
		return d.tree.Receive(from, m, orders)
	}
	return d.wave.Receive(from, m, orders)
}

func (d *detector) over() bool { return d.rooted && d.tree.Over() || !d.rooted && d.wave.Over() }

// asleep tells whether the rank has nothing to do with the epoch, as if it had never heard of it.
func (d *detector) asleep() bool { return d.rooted && d.tree.Asleep() }

// detectorSize is that of a detector's message; the label of a collective epoch follows it when a rank takes part in its first wave.
const detectorSize = 24

// appendDetector packs what a detector sends.
func appendDetector(b []byte, m term.Message) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(m.Kind))
	b = binary.LittleEndian.AppendUint32(b, m.Wave)
	b = binary.LittleEndian.AppendUint64(b, m.Sent)
	return binary.LittleEndian.AppendUint64(b, m.Received)
}

func unpackDetector(b []byte) (m term.Message, label []byte) {
	return term.Message{Kind: term.Kind(binary.LittleEndian.Uint32(b)), Wave: binary.LittleEndian.Uint32(b[4:]),
		Sent: binary.LittleEndian.Uint64(b[8:]), Received: binary.LittleEndian.Uint64(b[16:])}, b[detectorSize:]
}
