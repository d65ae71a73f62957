package amt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/byssus-hpc/byssus/amt/internal/tree"
	"github.com/byssus-hpc/byssus/amt/internal/wire"
	"github.com/byssus-hpc/byssus/internal/engine"
)

// How a rank goes on; measured by bench/tasks.
const (
	flushAfter   = 64  // messages handled in a row, after which what they sent leaves, and others are looked for; fewer if they take long
	settleAfter  = 16  // times that, after which epochs are settled
	waitingLooks = 32  // looks for a batch when nothing else is to be done
	mostLooks    = 512 // the same, before epochs are settled that were settled in vain

	longest = 1 << 20 // bytes of a batch of short messages, while the transport takes none

	farewell = 10 * time.Second // for which a rank that has failed tries to tell others
)

// A rank is the runtime on one rank. All of it belongs to the goroutine that drives it, which is that of the main function,
// but for inbox.
type rank struct {
	self, ranks int
	goroutine   uintptr // the one that drives it
	drives      bool    // it runs what there is to do, while the main function waits or polls
	code        *frame  // of what runs on it beside handlers
	reached     int     // ranks that Send reaches the short way: none, while there is too much in memory
	t           wire.Transport
	table       []*entry
	poison      bool // messages are made useless when they have been handled
	returned    bool // run has

	outs      [][]byte       // by rank: the batch that is being filled; its own: messages that stay here
	refused   []fifo[[]byte] // by rank: batches before it that the transport has not taken
	open      []int          // other ranks that there are batches for
	incoming  fifo[parcel]   // batches to be handled
	memory    memory
	entered   bool // the main function is that of an Enter
	sorts     bool // there are priorities: all that comes is sorted
	sorted    sorted
	since     int  // messages handled since the last flush
	pace      pace // after how many there is one
	askedLast bool // what others want was done last
	rests     int  // how often the rest was done meanwhile
	unlooked  bool // there was one since the last look for others' batches
	idle      int  // turns in a row without anything to do

	main       *Epoch
	attached   *Epoch // what all is within between Attach and Detach
	epochs     epochs
	reductions map[uint64]any // by epoch: *reducing of some type
	above      int            // the rank that this one gives what it reduces; -1: none
	below      []int          // those that give theirs
	operations operations
	handler    frame // of the handler that runs
	frames     []*frame
	broken     error // the transport's: nothing can go on

	watch   watch
	gone    chan struct{}   // closed when a run has failed
	life    context.Context // done then
	die     context.CancelCauseFunc
	waits   *Epoch             // what the main function waits for
	ended   bool               // the main function has returned
	tasks   map[*task]struct{} // that have not ended
	running int                // of them, those that do not wait

	inbox  inbox
	locals sync.Map // by *Local of some type: a pointer to the value

	requests atomic.Uint64 // of calls that this rank has waited for
	replies  sync.Map      // by the number of a request: *awaited of some type
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
	r := &rank{self: t.Rank(), ranks: t.Ranks(), reached: t.Ranks(), t: t, table: table,
		gone: make(chan struct{}), reductions: map[uint64]any{}, tasks: map[*task]struct{}{}, pace: pace{messages: 1}}
	r.life, r.die = context.WithCancelCause(context.Background())
	r.epochs.init(r)
	r.operations.init(r)
	r.outs, r.refused = make([][]byte, r.ranks), make([]fifo[[]byte], r.ranks)
	r.sorted.always = slices.ContainsFunc(table, func(e *entry) bool { return e.priority != 0 })
	r.sorts = r.sorted.always
	r.handler.r, r.handler.driven = r, true
	r.above, r.below = tree.Ordered(r.self, r.ranks)
	if err := r.watch.init(r); err != nil {
		return nil, err
	}
	if err := r.memory.init(r); err != nil {
		return nil, err
	}
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

// step does one thing of what there is to do, or rests.
func (r *rank) step() {
	if r.work() || r.exchange(waitingLooks) {
		r.idle = 0
		return
	}
	if r.idle++; r.idle >= watchLooks {
		r.memory.pay()
		r.watch.patience.beat()
		r.watch.look()
	}
	r.t.Idle(r.idle)
}

// work does one thing of what there is to do, and tells whether there was any: what others want, a batch of messages, an operation of
// a scope, to send and to look for more, to settle epochs. Who never runs out of messages does the rest, too, now and then.
func (r *rank) work() bool {
	asked := r.askedLast
	r.askedLast = false
	switch {
	case r.inbox.some.Load() && !asked: // others may ask all the time
		r.askedLast = true
		r.asked()
	case r.unlooked:
		r.rest()
	case r.handleNext():
	case r.operations.perform():
	case r.exchange(r.epochs.lull.looks()):
	case len(r.epochs.dirty) > 0:
		r.epochs.settle()
	default:
		return r.operations.settle()
	}
	return true
}

// rest does a little of all that is there besides messages to be handled.
func (r *rank) rest() {
	r.unlooked = false
	if r.memory.kept <= r.memory.limit {
		if p := r.look(1); p.b != nil {
			r.incoming.push(p)
		}
	}
	r.operations.perform()
	r.operations.settle()
	if r.rests++; r.rests%settleAfter == 0 {
		r.epochs.settle()
		r.memory.pay()
	}
}

// A pace is after how many messages there is a flush: fewer, if they take long.
type pace struct {
	messages int
	last     time.Time
}

const quick, slow = 200 * time.Microsecond, time.Millisecond // for so many messages

func (p *pace) next() {
	now := time.Now()
	switch took := now.Sub(p.last); {
	case took > slow:
		p.messages = max(1, p.messages/2)
	case took < quick:
		p.messages = min(flushAfter, 2*p.messages)
	}
	p.last = now
}

// until drives the rank until an epoch is over, or nothing can go on: what the rank has to send by then has been sent.
func (r *rank) until(ep *Epoch) error {
	for !ep.over {
		if err := r.failure(); err != nil {
			return err
		}
		r.drive()
	}
	return r.drain(false)
}

// drive is step for a main function, whose Context is not that of the code that runs meanwhile.
func (r *rank) drive() {
	r.drives = true
	r.step()
	r.drives = false
}

// failure is why nothing goes on any more, if that is so.
func (r *rank) failure() error {
	switch {
	case r.broken != nil:
		return r.broken
	case r.attached != nil && r.main.err == nil:
		return r.attached.err
	}
	return r.main.err
}

// all is the epoch that everything is within.
func (r *rank) all() *Epoch {
	if r.attached != nil {
		return r.attached
	}
	return r.main
}

// drain sends what there is to send. That others are to know of a failure is no reason to wait for ever for those that have failed
// too, and take nothing any more.
func (r *rank) drain(failed bool) error {
	var until time.Time
	if failed {
		until = time.Now().Add(farewell)
	}
	for r.flush(); len(r.open)+len(r.operations.queue) > 0 && r.broken == nil; r.flush() {
		if failed && time.Now().After(until) {
			break
		}
		if p := r.look(waitingLooks); p.b != nil {
			r.incoming.push(p)
		}
	}
	return r.broken
}

// handleNext handles a batch, or a message of what is sorted, if there is one.
func (r *rank) handleNext() bool {
	if r.incoming.len() > 0 {
		r.handle(r.incoming.pop())
		return true
	}
	if len(r.outs[r.self]) == 0 {
		return r.sorts && r.next()
	}
	own := r.outs[r.self]
	r.outs[r.self] = nil
	r.handle(parcel{r.self, false, own})
	return true
}

// exchange sends what there is to send, and handles a batch if one comes. It tells whether there was either.
func (r *rank) exchange(looks int) bool {
	r.unlooked = false
	before := len(r.open)
	r.flush()
	sent := len(r.open) < before
	p := r.look(looks)
	if p.b != nil {
		r.handle(p)
	}
	return sent || p.b != nil
}

// look looks for a batch of another rank.
func (r *rank) look(looks int) parcel {
	from, b, err := r.t.Look(looks)
	if err != nil {
		r.breaks(err)
	}
	if b != nil {
		r.watch.arrived(from, b)
		r.memory.kept += cap(b)
	}
	return parcel{from, true, b}
}

// put sends a batch to another rank, which counts as packed until then. It tells whether it was taken.
func (r *rank) put(to int, b []byte) bool {
	short := b
	if len(b) <= r.watch.losses.short && cap(b) > r.watch.losses.short { // less has come into it than was thought: the transport knows the memory of short ones
		short = append(r.t.Room(len(b)), b...)
	}
	size, own := len(b), ofWatch(b) // of what is the transport's afterwards
	sent, err := r.t.Send(to, short)
	if !sent && cap(short) < cap(b) {
		r.t.Free(short)
	}
	if sent {
		r.memory.packed -= cap(b)
	}
	return r.taken(to, size, own, sent, err)
}

// taken is what follows when a batch was given to the transport.
func (r *rank) taken(to, size int, own, sent bool, err error) bool {
	if err != nil {
		r.breaks(err)
	}
	if sent {
		r.watch.gone(to, size, own)
	}
	return sent
}

// breaks notes that the transport has failed.
func (r *rank) breaks(err error) {
	r.broken = errors.Join(r.broken, fmt.Errorf("amt: rank %d: %w", r.self, err))
}

// flush sends the batches to other ranks that the transport takes now.
func (r *rank) flush() {
	r.since = 0
	if r.memory.over {
		r.memory.relax()
	}
	r.operations.flush()
	left := r.open[:0]
	for _, to := range r.open {
		if r.putAll(to) {
			r.outs[to] = nil
		} else {
			left = append(left, to)
		}
	}
	r.open = left
}

// putAll sends the batches for another rank, the oldest first. It tells whether all were taken.
func (r *rank) putAll(to int) bool {
	for q := &r.refused[to]; q.len() > 0; q.pop() {
		if !r.put(to, q.all()[0]) {
			return false
		}
	}
	return r.put(to, r.outs[to])
}

// place makes a record for a rank whose payload has so many bytes, and returns where that is to lie.
func (r *rank) place(to int, w what, epoch uint64, size int) unsafe.Pointer {
	whole := wholeSize(size)
	if cap(r.outs[to])-len(r.outs[to]) < whole {
		r.newRoom(to, whole)
	}
	at := len(r.outs[to])
	r.outs[to] = r.outs[to][:at+whole]
	b := r.outs[to][at:]
	putHeader(b, size, w, epoch)
	binary.LittleEndian.PutUint64(b[whole-8:], 0) // what the payload does not fill
	return unsafe.Pointer(&b[headerSize])
}

// room returns the batch that a record for a rank is appended to (fill), with room for so many bytes. One that is longer than the
// transport's batches gets a batch of its own.
func (r *rank) room(to, n int) []byte {
	if b := r.outs[to]; len(b)+n <= cap(b) {
		return b
	}
	return r.newRoom(to, n)
}

// newRoom begins a batch with room for so many bytes. While the transport takes nothing, those of short records get longer.
func (r *rank) newRoom(to, n int) []byte {
	if !r.leave(to) && n <= r.watch.losses.short {
		n = max(n, min(2*cap(r.outs[to]), longest))
	}
	b := r.t.Room(n)
	r.outs[to] = b
	r.memory.took(to, cap(b))
	return b
}

// leave is the end of the batch that is being filled for a rank, if there is one; another takes its place. It tells whether the transport
// has taken it, as far as it is its to take.
func (r *rank) leave(to int) bool {
	switch b := r.outs[to]; {
	case b == nil:
		if to != r.self {
			r.open = append(r.open, to)
		}
	case to == r.self:
		r.incoming.push(parcel{to, false, b})
	case !r.putAll(to):
		r.refused[to].push(b)
		return false
	}
	return true
}

// record sends one that was made elsewhere: room for its header, and its payload. It is the rank's then: a long one is a batch by itself.
func (r *rank) record(to int, w what, epoch uint64, b []byte) {
	b = closeRecord(b, 0, w, epoch)
	if len(b) <= r.watch.losses.short {
		r.fill(to, append(r.room(to, len(b)), b...))
		return
	}
	r.leave(to)
	r.outs[to] = b
	r.memory.took(to, cap(b))
}

// fill makes what room has returned, and more, the batch for a rank.
func (r *rank) fill(to int, b []byte) {
	if old := r.outs[to]; unsafe.SliceData(old) != unsafe.SliceData(b) {
		if len(b) <= cap(old) { // it need not have grown: the transport knows the memory of short ones
			b = append(old[:0], b...)
		} else {
			r.memory.took(to, cap(b)-cap(old))
			r.t.Free(old)
		}
	}
	r.outs[to] = b
}

// control sends a record that is not a message of the program.
func (r *rank) control(to int, w what, epoch uint64, payload []byte) {
	b, at := openRecord(r.room(to, wholeSize(len(payload))))
	r.fill(to, closeRecord(append(b, payload...), at, w, epoch))
}

// handle does what the records of a batch say. Messages of one epoch that follow each other are counted together, and hold it
// until then.
func (r *rank) handle(p parcel) {
	r.watch.patience.beat()
	if r.sorts {
		r.sort(p, p.b)
		return
	}
	var ep *Epoch // that of the messages before, of which there were n
	n := 0
	for b := p.b; len(b) > 0; {
		w, epoch, payload, rest, ok := nextRecord(b)
		if !ok {
			r.broken = errors.Join(r.broken, fmt.Errorf("amt: rank %d: a batch from rank %d ends within a record", r.self, p.from))
			break
		}
		if w < what(firstCounted) {
			r.count(ep, &p, n)
			ep, n = nil, 0
			r.controlled(p.from, w.id(), epoch, payload)
			b = rest
			continue
		}
		if w.priority() != 0 { // the first one that has come here
			r.handler.gen++
			r.handler.entry = nil
			r.count(ep, &p, n)
			r.sorts = true
			r.sort(p, b)
			return
		}
		b = rest
		if ep == nil || ep.id != epoch {
			r.count(ep, &p, n)
			ep, n = r.epochs.find(epoch), 0
			if p.remote {
				ep.detector.hold()
			}
		}
		n++
		r.message(ep, p.from, w, payload)
		if r.since++; r.since >= r.pace.messages {
			r.pace.next()
			r.flush()
			r.unlooked = true
		}
	}
	r.handler.gen++
	r.handler.entry = nil
	if r.incoming.len() == 0 && len(r.outs[r.self]) == 0 { // nothing else will be in what leaves now
		r.flush()
	}
	r.count(ep, &p, n)
	r.free(p)
}

// free is the end of a batch.
func (r *rank) free(p parcel) {
	counts := p.remote && !ofWatch(p.b)
	r.memory.handled(&p, cap(p.b))
	r.t.Free(p.b)
	if counts {
		r.watch.wave.Release(1)
	}
}

// count counts n messages of a batch in their epoch: what they held it for is done. Those of this rank hold it one by one since
// they were sent, those of others together.
func (r *rank) count(ep *Epoch, p *parcel, n int) {
	r.watch.losses.counted += uint64(n)
	switch {
	case n == 0:
	case p.remote:
		ep.detector.got(p.from, n)
		ep.release(1)
		r.epochs.lull.came()
	default:
		ep.release(n)
	}
}

// controlled handles a record that is in no epoch's account.
func (r *rank) controlled(from int, id uint16, epoch uint64, payload []byte) {
	r.handler.entry = nil
	switch id {
	case recordDetector:
		r.epochs.detected(from, epoch, payload)
	case recordAgreement:
		r.operations.receive(from, payload)
	case recordWatch:
		r.watch.receive(from, noticeKind(epoch), payload)
	}
}

// message handles one that counts in its epoch.
func (r *rank) message(ep *Epoch, from int, w what, payload []byte) {
	n := int(w.id()) - int(firstHandler)
	if n < 0 || n >= len(r.table) {
		r.ownRecord(ep, from, w, payload)
		return
	}
	if ep.err != nil {
		return
	}
	e, f := r.table[n], &r.handler
	f.gen++
	f.ep, f.from, f.entry = ep, from, e
	if err := e.run(Context{f, f.gen}, payload); err != nil {
		ep.fail(fmt.Errorf("amt: rank %d: a message from rank %d for %v: %w", r.self, from, e, err))
	}
	if r.poison && e.plain {
		for i := range payload {
			payload[i] = poisoned
		}
	}
}

// ownRecord handles what the runtime itself sends within an epoch.
func (r *rank) ownRecord(ep *Epoch, from int, w what, payload []byte) {
	switch id := w.id(); {
	case id == recordFailure:
		ep.failed(r.epochs.failures.told(string(payload)))
	case id == recordHang:
		text, dot, _ := strings.Cut(string(payload), "\x00")
		ep.failed(&HangError{text, dot})
	case ep.err != nil:
	case id == recordSpread:
		r.spread(ep, w, payload)
	case id >= firstHandler:
		ep.fail(fmt.Errorf("amt: rank %d: a message from rank %d is for handler %d of %d", r.self, from, id-firstHandler, len(r.table)))
	}
}
