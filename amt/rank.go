package amt

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/byssus-hpc/byssus/amt/internal/term"
	"github.com/byssus-hpc/byssus/amt/internal/wire"
	"github.com/byssus-hpc/byssus/internal/engine"
)

// How a rank goes on; measured by bench/amt.
const (
	flushAfter   = 64 // messages handled in a row, after which what they sent leaves
	waitingLooks = 32 // looks for a batch when nothing else is to be done
)

// A rank is the runtime on one rank. All of it belongs to the goroutine that drives it, which is that of the main function,
// but for inbox.
type rank struct {
	self, ranks int
	t           wire.Transport
	table       []*entry

	outs     [][]byte // by rank: the batch that is being filled; its own: messages that stay here
	open     []int    // other ranks whose batch is not empty
	incoming []parcel // batches to be handled, from handled on
	handled  int
	since    int  // messages handled since the last flush
	idle     int  // turns in a row without anything to do
	busy     bool // a message from another rank was handled since epochs were settled

	main        *Epoch
	epochs      map[uint64]*Epoch
	last        *Epoch // the one that was looked up last
	collectives uint64 // epochs made here, of each kind
	rooteds     uint64
	dirty       []*Epoch // that nothing holds any more, to be settled
	spare       []*Epoch // the memory of such a list
	orders      []term.Order
	io          wire.Turn
	reductions  map[uint64]any // by epoch: *reducing of some type
	operations  operations
	handler     frame // of the handler that runs
	frames      []*frame
	broken      error // the transport's: nothing can go on

	watch   watch
	waits   *Epoch             // what the main function waits for
	ended   bool               // the main function has returned
	tasks   map[*task]struct{} // that have not ended
	running int                // of them, those that do not wait

	inbox  inbox
	locals sync.Map // by *Local of some type: a pointer to the value
}

// A parcel is a batch to be handled.
type parcel struct {
	from   int
	remote bool
	b      []byte
}

// An inbox is what goroutines other than a rank's own want of it.
type inbox struct {
	some atomic.Bool
	mu   sync.Mutex
	list []func()
}

func newRank(t wire.Transport, e engine.Engine, table []*entry) (*rank, error) {
	r := &rank{self: t.Rank(), ranks: t.Ranks(), t: t, table: table, epochs: map[uint64]*Epoch{},
		reductions: map[uint64]any{}, tasks: map[*task]struct{}{}}
	r.operations.init(r)
	r.outs = make([][]byte, r.ranks)
	r.handler.r = r
	r.watch.init(r)
	if err := r.operations.open(e); err != nil {
		return nil, fmt.Errorf("amt: rank %d: %w", r.self, err)
	}
	return r, nil
}

// ask has the rank's own goroutine do something.
func (r *rank) ask(do func()) {
	r.inbox.mu.Lock()
	r.inbox.list = append(r.inbox.list, do)
	r.inbox.some.Store(true)
	r.inbox.mu.Unlock()
	r.t.Wake()
}

// asked does what others want.
func (r *rank) asked() {
	r.inbox.mu.Lock()
	list := r.inbox.list
	r.inbox.list = nil
	r.inbox.some.Store(false)
	r.inbox.mu.Unlock()
	r.watch.stirred++
	for _, do := range list {
		do()
	}
}

// step does one thing of what there is to do: what others want, a batch of messages, to send and to look for more, to
// settle epochs, to rest.
func (r *rank) step() {
	switch {
	case r.inbox.some.Load():
		r.asked()
	case r.handleNext():
	case r.operations.perform():
	case r.exchange(r.patience()):
	case len(r.dirty) > 0:
		r.settle()
	case r.operations.settle():
	case r.exchange(waitingLooks):
	default:
		if r.idle++; r.idle >= watchLooks {
			r.watch.look()
		}
		r.t.Idle(r.idle)
		return
	}
	r.idle = 0
}

// patience is how many looks for a batch come before epochs are settled: who has just had a message from elsewhere may have an
// answer soon, and a wave meanwhile would be in vain.
func (r *rank) patience() int {
	if r.busy {
		return waitingLooks
	}
	return 1
}

// until drives the rank until an epoch is over, or nothing can go on: what the rank has to send by then has been sent.
func (r *rank) until(ep *Epoch) error {
	for !ep.over {
		switch {
		case r.broken != nil:
			return r.broken
		case r.main.err != nil:
			return r.main.err
		}
		r.step()
	}
	return r.drain()
}

// drain sends what there is to send.
func (r *rank) drain() error {
	for r.flush(); len(r.open) > 0 && r.broken == nil; r.flush() {
		r.turn(-1, nil, waitingLooks)
	}
	return r.broken
}

// handleNext handles a batch, if there is one.
func (r *rank) handleNext() bool {
	if r.handled < len(r.incoming) {
		p := r.incoming[r.handled]
		r.incoming[r.handled].b = nil
		if r.handled++; r.handled == len(r.incoming) {
			r.incoming, r.handled = r.incoming[:0], 0
		}
		r.handle(p)
		return true
	}
	if len(r.outs[r.self]) == 0 {
		return false
	}
	own := r.outs[r.self]
	r.outs[r.self] = nil
	r.handle(parcel{r.self, false, own})
	return true
}

// exchange sends what there is to send, and looks for a batch. It tells whether there was either.
func (r *rank) exchange(looks int) bool {
	some := len(r.open) > 0
	r.send(looks)
	return some || r.handled < len(r.incoming)
}

// turn is a turn of the transport: what it brings waits to be handled. It tells whether the batch was taken.
func (r *rank) turn(to int, out []byte, looks int) bool {
	r.io = wire.Turn{To: to, Out: out}
	size, own := len(out), ofWatch(out) // of what is the transport's afterwards
	if err := r.t.Turn(&r.io, looks); err != nil {
		r.broken = errors.Join(r.broken, fmt.Errorf("amt: rank %d: %w", r.self, err))
	}
	if r.io.In != nil {
		r.watch.arrived(r.io.From, r.io.In)
		r.incoming = append(r.incoming, parcel{r.io.From, true, r.io.In})
	}
	if r.io.Out == nil && size > 0 {
		r.watch.gone(to, size, own)
	}
	return r.io.Out == nil
}

// flush sends the batches to other ranks that the transport takes now.
func (r *rank) flush() {
	if len(r.open) > 0 {
		r.send(0)
	}
}

// send is flush, and looks for a batch in the turn that the last one leaves in.
func (r *rank) send(looks int) {
	r.since = 0
	if len(r.open) == 0 {
		r.turn(-1, nil, looks)
		return
	}
	left := r.open[:0]
	for n, to := range r.open {
		now := 0
		if n == len(r.open)-1 {
			now = looks
		}
		if r.turn(to, r.outs[to], now) {
			r.outs[to] = nil
		} else {
			left = append(left, to)
		}
	}
	r.open = left
}

// room returns the batch that a record for a rank is appended to, with room for so many bytes.
func (r *rank) room(to, n int) []byte {
	b := r.outs[to]
	if len(b)+n <= cap(b) && b != nil {
		return b
	}
	return r.newRoom(to, n)
}

func (r *rank) newRoom(to, n int) []byte {
	switch b := r.outs[to]; {
	case len(b) == 0:
		if to != r.self {
			r.open = append(r.open, to)
		}
	case to == r.self:
		r.incoming = append(r.incoming, parcel{to, false, b})
	default:
		if !r.turn(to, b, 0) {
			return b // grows until the transport takes it
		}
	}
	return r.t.Room(n)
}

// control sends a record that is not a message of the program.
func (r *rank) control(to int, id uint16, epoch uint64, payload []byte) {
	b, at := openRecord(r.room(to, headerSize+len(payload)+8))
	r.outs[to] = closeRecord(append(b, payload...), at, id, epoch)
}

// handle does what the records of a batch say.
func (r *rank) handle(p parcel) {
	rest, counts := p.b, p.remote && !ofWatch(p.b)
	for len(rest) > 0 {
		rec, next, ok := nextRecord(rest)
		if !ok {
			r.broken = errors.Join(r.broken, fmt.Errorf("amt: rank %d: a batch from rank %d ends within a record", r.self, p.from))
			break
		}
		rest = next
		switch rec.id {
		case recordDetector:
			r.handler.entry = nil
			r.detected(p.from, rec)
			continue
		case recordAgreement:
			r.operations.receive(p.from, rec)
			continue
		case recordWatch:
			r.watch.receive(p.from, rec)
			continue
		}
		r.message(p.from, p.remote, rec)
		if r.since++; r.since >= flushAfter {
			r.flush()
		}
	}
	r.handler.gen++
	r.handler.entry = nil
	r.t.Free(p.b)
	if counts {
		r.watch.wave.Release()
	}
}

// message handles one that counts in its epoch.
func (r *rank) message(from int, remote bool, rec record) {
	ep := r.find(rec.epoch)
	if remote {
		ep.got(from)
		r.busy = true
	}
	switch {
	case rec.id < firstHandler:
		r.ownRecord(ep, from, rec)
	case int(rec.id-firstHandler) >= len(r.table):
		ep.fail(fmt.Errorf("amt: rank %d: a message from rank %d is for handler %d of %d", r.self, from, rec.id-firstHandler, len(r.table)))
	case ep.err == nil:
		e := r.table[rec.id-firstHandler]
		f := &r.handler
		f.gen++
		f.ep, f.from, f.entry = ep, from, e
		if err := e.run(Context{f, f.gen}, rec.payload); err != nil {
			ep.fail(fmt.Errorf("amt: rank %d: a message from rank %d for %v: %w", r.self, from, e, err))
		}
	}
	ep.release()
}

// ownRecord handles what the runtime itself sends within an epoch.
func (r *rank) ownRecord(ep *Epoch, from int, rec record) {
	switch rec.id {
	case recordFailure:
		ep.failed(errors.New(string(rec.payload)))
	case recordSpread:
		r.spread(ep, rec.payload)
	}
}
