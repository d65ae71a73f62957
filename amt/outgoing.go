package amt

import (
	"encoding/binary"
	"time"
	"unsafe"
)

// outgoing is what a rank sends: records are put into batches, one for each rank, and those leave when the transport takes them. Batches
// between two ranks leave in the order in which they were begun. It belongs to the goroutine that drives the rank.
type outgoing struct {
	r       *rank
	reached int            // ranks that Send reaches the short way: none, while there is too much in memory
	batches [][]byte       // by rank: the one that is being filled; its own: messages that stay here
	tracer  *tracer        // that of the rank
	refused []fifo[[]byte] // by rank: batches before it that the transport has not taken
	open    []int          // other ranks that there are batches for
	pace    pace           // of flushes, while messages are handled
}

func (o *outgoing) init(r *rank) {
	o.r, o.tracer, o.reached, o.pace.messages = r, r.tracer, r.ranks, 1
	o.batches, o.refused = make([][]byte, r.ranks), make([]fifo[[]byte], r.ranks)
}

// A pace is after how many messages there is a flush: fewer, if they take long.
type pace struct {
	messages int
	since    int // messages handled since the last flush
	last     time.Time
}

const quick, slow = 200 * time.Microsecond, time.Millisecond // for so many messages

// due counts a message, and tells whether a flush is to follow.
func (p *pace) due() bool {
	p.since++
	return p.since >= p.messages
}

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

// flush sends the batches to other ranks that the transport takes now.
func (o *outgoing) flush() {
	r := o.r
	o.pace.since = 0
	if r.memory.over {
		r.memory.relax()
	}
	r.operations.flush()
	left := o.open[:0]
	for _, to := range o.open {
		if o.putAll(to) {
			o.batches[to] = nil
		} else {
			left = append(left, to)
		}
	}
	o.open = left
}

// putAll sends the batches for another rank, the oldest first. It tells whether all were taken.
func (o *outgoing) putAll(to int) bool {
	for q := &o.refused[to]; q.len() > 0; q.pop() {
		if !o.r.t.put(to, q.all()[0]) {
			return false
		}
	}
	return o.r.t.put(to, o.batches[to])
}

// own is the batch for the rank itself that is being filled.
func (o *outgoing) own() []byte { return o.batches[o.r.self] }

// takeOwn returns that, to be handled.
func (o *outgoing) takeOwn() parcel {
	self := o.r.self
	b := o.batches[self]
	o.batches[self] = nil
	return parcel{self, false, b}
}

// place makes a record for a rank whose payload has so many bytes, and returns where that is to lie.
func (o *outgoing) place(to int, w what, epoch uint64, size int) unsafe.Pointer {
	whole := wholeSize(size)
	if cap(o.batches[to])-len(o.batches[to]) < whole {
		o.newRoom(to, whole)
	}
	at := len(o.batches[to])
	if tr := o.tracer; tr != nil {
		tr.sends(to, at, w)
	}
	o.batches[to] = o.batches[to][:at+whole]
	b := o.batches[to][at:]
	putHeader(b, size, w, epoch)
	binary.LittleEndian.PutUint64(b[whole-8:], 0) // what the payload does not fill
	return unsafe.Pointer(&b[headerSize])
}

// room returns the batch that a record for a rank is appended to (fill), with room for so many bytes. One that is longer than the
// transport's batches gets a batch of its own.
func (o *outgoing) room(to, n int) []byte {
	if b := o.batches[to]; len(b)+n <= cap(b) {
		return b
	}
	return o.newRoom(to, n)
}

// newRoom begins a batch with room for so many bytes. While the transport takes nothing, those of short records get longer.
func (o *outgoing) newRoom(to, n int) []byte {
	if !o.leave(to) && n <= o.r.t.short {
		n = max(n, min(2*cap(o.batches[to]), longest))
	}
	tr := o.tracer
	if tr != nil {
		n += headerSize
	}
	b := o.r.t.Room(n)
	if tr != nil {
		b = tr.mark(to, b)
	}
	o.batches[to] = b
	o.r.memory.took(to, cap(b))
	return b
}

// leave is the end of the batch that is being filled for a rank, if there is one; another takes its place. It tells whether the transport
// has taken it, as far as it is its to take.
func (o *outgoing) leave(to int) bool {
	switch b := o.batches[to]; {
	case b == nil:
		if to != o.r.self {
			o.open = append(o.open, to)
		}
	case to == o.r.self:
		o.r.dispatcher.incoming.push(parcel{to, false, b})
	case !o.putAll(to):
		o.refused[to].push(b)
		return false
	}
	return true
}

// record sends one that was made elsewhere: room for its header, and its payload. It is the rank's then: a long one is a batch by itself.
func (o *outgoing) record(to int, w what, epoch uint64, b []byte) {
	b = closeRecord(b, 0, w, epoch)
	if len(b) <= o.r.t.short {
		o.fill(to, append(o.room(to, len(b)), b...))
		return
	}
	o.leave(to)
	if tr := o.tracer; tr != nil {
		b = tr.mark(to, b)
		tr.sends(to, 0, w)
	}
	o.batches[to] = b
	o.r.memory.took(to, cap(b))
}

// fill makes what room has returned, and more, the batch for a rank.
func (o *outgoing) fill(to int, b []byte) {
	if tr := o.tracer; tr != nil {
		if at := len(o.batches[to]); len(b) > at {
			w, _, _, _, _ := nextRecord(b[at:])
			tr.sends(to, at, w)
		}
	}
	if old := o.batches[to]; unsafe.SliceData(old) != unsafe.SliceData(b) {
		if len(b) <= cap(old) { // it need not have grown: the transport knows the memory of short ones
			b = append(old[:0], b...)
		} else {
			o.r.memory.took(to, cap(b)-cap(old))
			o.r.t.Free(old)
		}
	}
	o.batches[to] = b
}

// control sends a record that is not a message of the program.
func (o *outgoing) control(to int, w what, epoch uint64, payload []byte) {
	b, at := openRecord(o.room(to, wholeSize(len(payload))))
	o.fill(to, closeRecord(append(b, payload...), at, w, epoch))
}
