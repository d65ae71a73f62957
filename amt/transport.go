package amt

import (
	"errors"
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/wire"
)

// A transport is that of a rank. Batches of other ranks are taken and given by its own methods, so that the watch and the memory
// have counted all of them; the first error is kept, and nothing goes on after it.
type transport struct {
	wire.Transport
	r      *rank
	short  int // bytes of a batch whose memory is the transport's, at most
	broken error
}

// A parcel is a batch to be handled.
type parcel struct {
	from   int
	remote bool
	b      []byte
}

// take looks for a batch of another rank; it has none if none has come.
func (t *transport) take(looks int) parcel {
	from, b, err := t.Look(looks)
	if err != nil {
		t.breaks(err)
	}
	if b != nil {
		t.r.watch.arrived(from, b)
		t.r.memory.kept += cap(b)
	}
	return parcel{from, true, b}
}

// put sends a batch to another rank, which counts as packed until then. It tells whether it was taken.
func (t *transport) put(to int, b []byte) bool {
	short := b
	if len(b) <= t.short && cap(b) > t.short { // less has come into it than was thought: the transport knows the memory of short ones
		short = append(t.Room(len(b)), b...)
	}
	size, own := len(b), ofWatch(b) // of what is the transport's afterwards
	sent, err := t.Send(to, short)
	if !sent && cap(short) < cap(b) {
		t.Free(short)
	}
	if sent {
		t.r.memory.packed -= cap(b)
	}
	return t.given(to, size, own, sent, err)
}

// putUrgently is put of a batch that does not wait for others, and does not count as packed.
func (t *transport) putUrgently(to int, b []byte) bool {
	size := len(b)
	sent, err := t.SendUrgently(to, b)
	return t.given(to, size, false, sent, err)
}

// given is what follows when a batch was given to the transport.
func (t *transport) given(to, size int, own, sent bool, err error) bool {
	if err != nil {
		t.breaks(err)
	}
	if sent {
		t.r.watch.gone(to, size, own)
	}
	return sent
}

// breaks notes that the transport has failed.
func (t *transport) breaks(err error) {
	t.broken = errors.Join(t.broken, fmt.Errorf("amt: rank %d: %w", t.r.self, err))
}

// torn notes that it has brought what is no batch.
func (t *transport) torn(from int) {
	t.breaks(fmt.Errorf("a batch from rank %d ends within a record", from))
}
