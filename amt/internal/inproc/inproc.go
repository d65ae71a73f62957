// Package inproc carries batches between ranks that are goroutines of one process.
//
// It guarantees what wire.Transport asks, without copying: the memory of a batch goes from rank to rank.
package inproc

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// patience is how many turns without a batch a rank lets others run before it sleeps: a switch between goroutines takes a
// fraction of a microsecond, to be woken several.
const patience = 64

// size is how many bytes a batch has room for.
const size = 16 << 10

// ready is how many batches a rank keeps for itself.
const ready = 4

// A World is ranks that reach each other.
type World struct {
	ends []*End
	pool sync.Pool // of *[size]byte
}

// An End is one rank's.
type End struct {
	world *World
	rank  int
	mu    sync.Mutex
	come  []parcel // not taken
	some  atomic.Bool
	take  []parcel // taken all at once, from next on
	next  int
	free  [][]byte // what was given back here last, for what is sent next: a processor's cache may have it

	sent  int          // bytes that Send has taken, ever
	back  atomic.Int64 // of them, those that were handled
	waits atomic.Bool  // to be woken when there are more

	asleep atomic.Bool
	wake   chan struct{} // has room for one
}

type parcel struct {
	from int
	b    []byte
}

// New makes the transports of n ranks.
func New(n int) []*End {
	w := &World{ends: make([]*End, n)}
	w.pool.New = func() any { return new([size]byte) }
	for rank := range w.ends {
		w.ends[rank] = &End{world: w, rank: rank, wake: make(chan struct{}, 1)}
	}
	return w.ends
}

// Rank is this rank's number.
func (e *End) Rank() int { return e.rank }

// Ranks is how many there are.
func (e *End) Ranks() int { return len(e.world.ends) }

// Size is how many bytes a batch has room for.
func (e *End) Size() int { return size }

// Room returns an empty batch.
func (e *End) Room(n int) []byte {
	if n > size {
		return make([]byte, 0, n)
	}
	if last := len(e.free) - 1; last >= 0 {
		b := e.free[last]
		e.free = e.free[:last]
		return b
	}
	return e.world.pool.Get().(*[size]byte)[:0]
}

// Free takes the memory of a batch back.
func (e *End) Free(in []byte) {
	switch {
	case cap(in) != size:
	case len(e.free) < ready:
		e.free = append(e.free, in[:0])
	default:
		e.world.pool.Put((*[size]byte)(in[:size]))
	}
}

// Send sends a batch.
func (e *End) Send(to int, b []byte) (bool, error) {
	e.sent += cap(b)
	e.world.ends[to].put(parcel{e.rank, b})
	return true, nil
}

// Held is how many bytes that this rank has sent were not handled.
func (e *End) Held(wake bool) int {
	if e.waits.Load() != wake {
		e.waits.Store(wake) // who has handled something afterwards sees it
	}
	return e.sent - int(e.back.Load())
}

// Handled tells a rank that bytes that it has sent were handled.
func (e *End) Handled(from, bytes int) {
	sender := e.world.ends[from]
	sender.back.Add(int64(bytes))
	if sender.waits.Load() {
		sender.Wake()
	}
}

// SendUrgently is Send, which waits for nothing.
func (e *End) SendUrgently(to int, b []byte) (bool, error) { return e.Send(to, b) }

// Look returns a batch, if one has come.
func (e *End) Look(int) (int, []byte, error) {
	if e.next == len(e.take) && !e.refill() {
		return 0, nil, nil
	}
	p := e.take[e.next]
	e.take[e.next].b = nil
	e.next++
	return p.from, p.b, nil
}

func (e *End) put(p parcel) {
	e.mu.Lock()
	e.come = append(e.come, p)
	e.some.Store(true)
	e.mu.Unlock()
	if e.asleep.Load() {
		e.Wake()
	}
}

// refill takes all that has come.
func (e *End) refill() bool {
	if !e.some.Load() {
		return false
	}
	e.mu.Lock()
	e.take, e.come = e.come, e.take[:0]
	e.some.Store(false)
	e.mu.Unlock()
	e.next = 0
	return true
}

// Idle lets others run, and then sleeps until something comes.
func (e *End) Idle(turns int) {
	if turns < patience {
		runtime.Gosched()
		return
	}
	e.asleep.Store(true)
	if !e.some.Load() { // who puts something afterwards sees that this rank is asleep
		<-e.wake
	}
	e.asleep.Store(false)
}

// Wake ends an Idle, this or the next.
func (e *End) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}
