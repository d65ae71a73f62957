package amt

import (
	"cmp"
	"slices"
)

// A Priority says which of the messages that have come to a rank is handled next: one of those with the highest, among these the
// one that came first. It is that of a handler (Is), or of one message (SendAt); without, it is 0. A handler that runs is not
// interrupted, and what comes from other ranks is looked for at least every 64 messages. Messages with a lower priority wait as long as
// there are others. Where no priority is used, nothing is sorted; the batch that is being handled when the first one comes is done first.
type Priority int16

// sorted is what has come to a rank that sorts, and was not handled; its memory is in proportion to that. When that is nothing, it sorts no longer; it begins again with the
// next message that has a priority.
type sorted struct {
	always bool    // a handler has one
	levels []level // the highest priority first
	top    int     // before this level there is nothing
	n      int
}

// A level is the messages of one priority, in the order of their coming.
type level struct {
	Priority
	fifo[waiting]
}

// A waiting message holds its epoch, and keeps its batch.
type waiting struct {
	ep      *Epoch
	what    what
	payload []byte
	batch   *batch
}

// A batch is one of which messages wait.
type batch struct {
	parcel
	left  int
	flows flows // of its messages, if the rank is traced
}

func (s *sorted) push(w waiting) {
	p := w.what.priority()
	at, found := slices.BinarySearchFunc(s.levels, p, func(l level, p Priority) int { return cmp.Compare(p, l.Priority) })
	if !found {
		s.levels = slices.Insert(s.levels, at, level{Priority: p})
	}
	s.levels[at].push(w)
	s.top = min(s.top, at)
	s.n++
}

// pop returns the message that is next; there is one.
func (s *sorted) pop() waiting {
	for s.levels[s.top].len() == 0 {
		s.top++
	}
	if s.top > idleLevels {
		s.levels, s.top = slices.Delete(s.levels, 0, s.top), 0
	}
	w := s.levels[s.top].pop()
	if s.n--; s.n == 0 && cap(s.levels) > idleLevels {
		s.levels, s.top = nil, 0
	}
	return w
}

// idleLevels is how many levels in which nothing waits are kept.
const idleLevels = 64

// sort takes the messages of a batch, from somewhere in it on, to be handled in their order; what else is in it is done.
func (d *dispatcher) sort(p parcel, b []byte) {
	r, before := d.r, len(p.b)-len(b)
	if len(b) < r.t.short/2 { // those that wait for long must not keep a whole batch
		whole := p.b
		b = slices.Clone(b)
		r.memory.handled(&p, cap(whole)-cap(b))
		r.t.Free(whole)
		p.b = b
	} else {
		before = 0
	}
	of := &batch{parcel: p, left: 1}
	if r.tracer != nil {
		of.flows = r.tracer.incoming.moved(p.b, before)
	}
	for len(b) > 0 {
		w, epoch, payload, rest, ok := nextRecord(b)
		if !ok {
			r.t.torn(p.from)
			break
		}
		b = rest
		if w.id() < firstCounted {
			d.controlled(p.from, w.id(), epoch, payload)
			continue
		}
		ep := r.epochs.find(epoch)
		if p.remote {
			ep.detector.hold()
			ep.detector.got(p.from, 1)
			r.epochs.lull.came()
		}
		of.left++
		d.sorted.push(waiting{ep, w, payload, of})
	}
	d.done(of)
}

// done is the end of a message of a batch.
func (d *dispatcher) done(b *batch) {
	if b.left--; b.left == 0 {
		d.free(b.parcel)
	}
}

// next handles the message that is next, if there is one.
func (d *dispatcher) next() bool {
	r := d.r
	if d.sorted.n == 0 {
		d.sorts = d.sorted.always
		return false
	}
	w := d.sorted.pop()
	if r.tracer != nil {
		r.tracer.incoming = w.batch.flows
	}
	d.message(w.ep, w.batch.from, w.what, w.payload)
	d.handled()
	w.ep.release(1)
	d.done(w.batch)
	if r.outgoing.pace.due() {
		r.outgoing.pace.next()
		r.watch.patience.beat()
		r.outgoing.flush()
		r.loop.unlooked = true
	}
	return true
}
