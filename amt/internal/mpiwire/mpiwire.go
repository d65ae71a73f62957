// Package mpiwire carries batches between ranks that are processes of an MPI job.
//
// It guarantees what wire.Transport asks. Batches travel by a ring of receives that are posted beforehand; those that are too
// long for it go straight into memory of their own, after a notice that takes their place in the ring.
package mpiwire

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/byssus-hpc/byssus/internal/engine/mpilib"
)

// Tags in the ring.
const (
	batch  = iota
	notice // of a long one: its length and its tag, 8 bytes each
)

const longTags = 1 << 14 // long messages of one rank on their way at a time; MPI guarantees tags up to 32767

// How a rank rests, by how many turns in a row brought nothing: it lets others of its processor run, then sleeps.
const (
	spins    = 64
	yields   = 256
	sleep    = 50 // microseconds
	goYields = 8  // every so many turns other goroutines get the processor
)

// A Wire is one rank's.
type Wire struct {
	rank, ranks int
	ring        *mpilib.Ring
	crowded     bool // others want this processor: who has nothing to do leaves it at once
	tag         int
	sending     []*mpilib.Long
	held        int // bytes of them
	coming      []arrival
}

// An arrival is a long batch on its way.
type arrival struct {
	from int
	*mpilib.Long
}

// New opens the ring of a rank; all ranks do.
func New(e *mpilib.Engine, rank, ranks int) (*Wire, error) {
	ring, err := mpilib.Open(e)
	return &Wire{rank: rank, ranks: ranks, ring: ring, crowded: e.Share() == 0}, err
}

// Rank is this rank's number.
func (w *Wire) Rank() int { return w.rank }

// Ranks is how many there are.
func (w *Wire) Ranks() int { return w.ranks }

// Size is the ring's.
func (w *Wire) Size() int { return w.ring.Size() }

// Room returns an empty batch.
func (w *Wire) Room(n int) []byte {
	if n > w.Size() {
		return make([]byte, 0, n)
	}
	return w.ring.Room()
}

// Free takes the memory of a batch back.
func (w *Wire) Free(in []byte) {
	if cap(in) == w.Size() {
		w.ring.Free(in)
	}
}

// Send sends a batch.
func (w *Wire) Send(to int, b []byte) (bool, error) {
	if len(b) <= w.Size() {
		return w.ring.Send(to, batch, b, false)
	}
	n := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(w.Room(0), uint64(len(b))), uint64(w.tag))
	sent, err := w.ring.Send(to, notice, n, false)
	switch {
	case err != nil:
	case sent:
		err = w.sendLong(to, b)
	default:
		w.Free(n)
	}
	return sent, err
}

// SendUrgently sends a short batch.
func (w *Wire) SendUrgently(to int, b []byte) (bool, error) { return w.ring.Send(to, batch, b, true) }

// Held is how many bytes long batches have that have not left. No rest is so long that it would have to end when there are fewer.
func (w *Wire) Held(bool) int { return w.held }

// Handled does nothing: what has left is the receiver's.
func (w *Wire) Handled(int, int) {}

// Look returns a batch, if one has come.
func (w *Wire) Look(looks int) (int, []byte, error) {
	if w.crowded {
		looks = min(looks, 1)
	}
	from, tag, b, err := w.ring.Look(looks)
	if b != nil && tag == notice {
		err, b = w.comes(from, b), nil
	}
	if len(w.sending)+len(w.coming) > 0 && err == nil {
		err = w.sends()
		if err == nil && b == nil {
			return w.receives()
		}
	}
	return from, b, err
}

// sendLong sends a batch whose notice has left.
func (w *Wire) sendLong(to int, b []byte) error {
	l, err := w.ring.SendLong(b, to, w.tag)
	w.tag = (w.tag + 1) % longTags
	w.sending = append(w.sending, l)
	w.held += cap(b)
	return err
}

// comes takes the notice of a long batch.
func (w *Wire) comes(from int, in []byte) error {
	defer w.Free(in)
	if len(in) != 16 {
		return fmt.Errorf("a notice of %d bytes from rank %d", len(in), from)
	}
	l, err := w.ring.ReceiveLong(int(binary.LittleEndian.Uint64(in)), from, int(binary.LittleEndian.Uint64(in[8:])))
	w.coming = append(w.coming, arrival{from, l})
	return err
}

// sends looks after long batches that are being sent.
func (w *Wire) sends() error {
	left := w.sending[:0]
	for _, l := range w.sending {
		b, done, err := l.Done()
		switch {
		case err != nil:
			return err
		case done:
			w.held -= cap(b)
		default:
			left = append(left, l)
		}
	}
	clear(w.sending[len(left):])
	w.sending = left
	return nil
}

// receives returns a long batch, if one has come.
func (w *Wire) receives() (int, []byte, error) {
	for i, l := range w.coming {
		b, done, err := l.Done()
		if err != nil {
			return 0, nil, err
		}
		if done {
			w.coming = append(w.coming[:i], w.coming[i+1:]...)
			return l.from, b, nil
		}
	}
	return 0, nil, nil
}

// Idle rests.
func (w *Wire) Idle(turns int) {
	switch {
	case turns < spins && !w.crowded:
		if turns%goYields == 0 {
			runtime.Gosched()
		}
	case turns < yields:
		runtime.Gosched()
		mpilib.Rest(0)
	default:
		mpilib.Rest(sleep)
	}
}

// Wake does nothing: no rest is long.
func (w *Wire) Wake() {}

// Abandon ends the ring on this rank alone, which has failed, as far as that can be.
func (w *Wire) Abandon() error { return w.ring.Abandon() }

// Close ends the ring, when all ranks have nothing on its way.
func (w *Wire) Close() error {
	for len(w.sending) > 0 {
		if err := w.sends(); err != nil {
			return err
		}
	}
	return w.ring.Close()
}
