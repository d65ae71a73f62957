package amt

import (
	"encoding/binary"
	"fmt"
	"runtime/trace"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/amt/internal/tree"
)

// A dispatcher handles the messages that have come to a rank, one after the other: in the order of batches, or of priorities when there
// are any. What it has not handled keeps its epoch from being over. It belongs to the goroutine that drives the rank.
type dispatcher struct {
	r        *rank
	table    []*entry
	ordered  bool         // there are methods whose messages are
	poison   bool         // messages are made useless when they have been handled
	incoming fifo[parcel] // batches to be handled
	sorts    bool         // there are priorities: all that comes is sorted
	sorted   sorted
	handler  frame // of the handler that runs
	now      what  // its record
	regions  regions
}

func (d *dispatcher) init(r *rank, table []*entry) {
	d.r, d.table = r, table
	d.regions.init(d)
	d.ordered = slices.ContainsFunc(table, func(e *entry) bool { return e.number != nil })
	d.sorted.always = slices.ContainsFunc(table, func(e *entry) bool { return e.priority != 0 })
	d.sorts = d.sorted.always
	d.handler.r, d.handler.driven = r, true
}

// unread tells whether there is a batch to be handled.
func (d *dispatcher) unread() bool { return d.incoming.len() > 0 || len(d.r.outgoing.own()) > 0 }

// fetch looks for a batch of another rank, to be handled later.
func (d *dispatcher) fetch(looks int) {
	if p := d.r.t.take(looks); p.b != nil {
		d.incoming.push(p)
	}
}

// handleNext handles a batch, or a message of what is sorted, if there is one.
func (d *dispatcher) handleNext() bool {
	if d.incoming.len() > 0 {
		d.handle(d.incoming.pop())
		return true
	}
	if len(d.r.outgoing.own()) == 0 {
		return d.sorts && d.next()
	}
	d.handle(d.r.outgoing.takeOwn())
	return true
}

// handle does what the records of a batch say. Messages of one epoch that follow each other are counted together, and hold it
// until then.
func (d *dispatcher) handle(p parcel) {
	r := d.r
	r.watch.patience.beat()
	if trace.IsEnabled() || d.regions.watched {
		d.look(p.b)
	}
	if d.sorts {
		d.sort(p, p.b)
		return
	}
	var ep *Epoch // that of the messages before, of which there were n
	n := 0
	for b := p.b; len(b) > 0; {
		w, epoch, payload, rest, ok := nextRecord(b)
		if !ok {
			r.t.torn(p.from)
			break
		}
		if w < what(firstCounted) {
			d.count(ep, &p, n)
			ep, n = nil, 0
			d.controlled(p.from, w.id(), epoch, payload)
			b = rest
			continue
		}
		if w.priority() != 0 { // the first one that has come here
			d.handled()
			d.count(ep, &p, n)
			d.sorts = true
			d.sort(p, b)
			return
		}
		b = rest
		if ep == nil || ep.id != epoch {
			d.count(ep, &p, n)
			ep, n = r.epochs.find(epoch), 0
			if p.remote {
				ep.detector.hold()
			}
		}
		n++
		d.message(ep, p.from, w, payload)
		if r.outgoing.pace.due() {
			r.outgoing.pace.next()
			r.outgoing.flush()
			r.loop.unlooked = true
		}
	}
	d.handled()
	if !d.unread() { // nothing else will be in what leaves now
		r.outgoing.flush()
	}
	d.count(ep, &p, n)
	d.free(p)
}

// handled is the end of what handlers' contexts are good for.
func (d *dispatcher) handled() {
	d.handler.gen++
	d.handler.entry = nil
}

// free is the end of a batch.
func (d *dispatcher) free(p parcel) {
	r := d.r
	counts := p.remote && !ofWatch(p.b)
	r.memory.handled(&p, cap(p.b))
	r.t.Free(p.b)
	if counts {
		r.watch.wave.Release(1)
	}
}

// count counts n messages of a batch in their epoch: what they held it for is done. Those of this rank hold it one by one since
// they were sent, those of others together.
func (d *dispatcher) count(ep *Epoch, p *parcel, n int) {
	d.r.watch.losses.counted += uint64(n)
	switch {
	case n == 0:
	case p.remote:
		ep.detector.got(p.from, n)
		ep.release(1)
		d.r.epochs.lull.came()
	default:
		ep.release(n)
	}
}

// controlled handles a record that is in no epoch's account.
func (d *dispatcher) controlled(from int, id uint16, epoch uint64, payload []byte) {
	d.handler.entry = nil
	switch id {
	case recordDetector:
		d.r.epochs.detected(from, epoch, payload)
	case recordAgreement:
		d.r.operations.receive(from, payload)
	case recordWatch:
		d.r.watch.receive(from, noticeKind(epoch), payload)
	}
}

// message handles one that counts in its epoch.
func (d *dispatcher) message(ep *Epoch, from int, w what, payload []byte) {
	n := int(w.id()) - int(firstHandler)
	if n < 0 || n >= len(d.table) {
		d.ownRecord(ep, from, w, payload)
		return
	}
	if ep.err != nil && d.table[n].number == nil { // an ordered message has its number all the same
		d.skip(payload)
		return
	}
	e, f := d.table[n], &d.handler
	d.now = w
	f.gen++
	f.ep, f.from, f.entry = ep, from, e
	if err := e.run(Context{f, f.gen}, payload); err != nil {
		ep.fail(fmt.Errorf("amt: rank %d: a message from rank %d for %v: %w", d.r.self, from, e, err))
	}
	if d.poison && e.plain {
		for i := range payload {
			payload[i] = poisoned
		}
	}
}

// ownRecord handles what the runtime itself sends within an epoch.
func (d *dispatcher) ownRecord(ep *Epoch, from int, w what, payload []byte) {
	switch id := w.id(); {
	case id == recordFailure:
		ep.failed(d.r.epochs.failures.told(string(payload)))
	case id == recordHang:
		text, dot, _ := strings.Cut(string(payload), "\x00")
		ep.failed(&HangError{text, dot})
	case id >= recordNews && id <= recordBroadcast: // also if it has failed: no element is lost
		d.ofCollection(ep, from, id, payload)
	case ep.err != nil && id == recordSpread:
		d.skip(payload[min(8+headerSize, len(payload)):])
	case ep.err != nil:
	case id == recordSpread:
		d.spread(ep, w, payload)
	case id >= firstHandler:
		ep.fail(fmt.Errorf("amt: rank %d: a message from rank %d is for handler %d of %d", d.r.self, from, id-firstHandler, len(d.table)))
	}
}

// spread passes a record on to the ranks below this one, in a tree whose root is where it comes from, and handles it.
func (d *dispatcher) spread(ep *Epoch, w what, payload []byte) {
	r, root := d.r, int(binary.LittleEndian.Uint64(payload))
	place := (r.self - root + r.ranks) % r.ranks
	first, last := tree.Children(place, r.ranks)
	for child := first; child < last; child++ {
		to := (child + root) % r.ranks
		ep.sent(to)
		r.outgoing.control(to, w, ep.id, payload)
	}
	of, _, inner, _, ok := nextRecord(payload[8:])
	if !ok || of.id() < firstHandler {
		ep.fail(fmt.Errorf("amt: rank %d: a broadcast of rank %d is not whole", r.self, root))
		return
	}
	d.message(ep, root, of, inner)
}

// ofCollection handles what the parts of a collection on two ranks send each other.
func (d *dispatcher) ofCollection(ep *Epoch, from int, id uint16, payload []byte) {
	const least = 24
	var part membership
	n := 0
	if len(payload) >= least {
		if n, _ = newsOf(payload); n < len(d.r.collections) {
			part = d.r.collections[n]
		}
	}
	switch {
	case part == nil:
		d.r.main.epoch.fail(fmt.Errorf("amt: rank %d: rank %d sends something for a collection that is not here", d.r.self, from))
	case id == recordNews:
		_, n := newsOf(payload)
		part.news(ep, from, n)
	case id == recordElement:
		if tr := d.r.tracer; tr != nil {
			tr.arrives(collections.all[n], binary.LittleEndian.Uint64(payload[8:]), from, payload)
			defer tr.end()
		}
		part.arrive(ep, from, payload)
	default:
		part.broadcast(ep, from, payload)
	}
}
