package amt

import "github.com/byssus-hpc/byssus/amt/internal/term"

// epochs are those that a rank knows of, and what their detectors want done. They belong to the goroutine that drives the rank.
type epochs struct {
	r           *rank
	byID        map[uint64]*Epoch // not those that are over
	last        *Epoch            // the one that was looked up last
	collectives uint64            // epochs made here, of each kind
	rooteds     uint64
	dirty       []*Epoch // that nothing holds any more, to be settled
	spare       []*Epoch // the memory of such a list
	lull        lull     // before they are settled
	orders      []term.Order
	packed      []byte         // room for what is packed of one
	unclaimed   []unclaimed    // have failed, and are nobody's concern yet
	reductions  map[uint64]any // *reducing of some type, for those that are reductions
	failures    *failures      // of all ranks of this process; nil: there is one
}

func (es *epochs) init(r *rank) {
	es.r, es.byID, es.reductions = r, map[uint64]*Epoch{}, map[uint64]any{}
	es.lull.patient = waitingLooks
}

// Numbers of epochs: collective ones are numbered alike on all ranks, rooted ones by their root and a number of its own.
const (
	rootedBit  = 1 << 63
	rootShift  = 39
	numberMask = 1<<rootShift - 1
)

func rootOf(id uint64) int { return int(id &^ rootedBit >> rootShift) }

// nextCollective is the next one that all ranks begin.
func (es *epochs) nextCollective() *Epoch {
	es.collectives++
	return es.find(es.collectives)
}

// nextRooted is the next one of this rank's own.
func (es *epochs) nextRooted() *Epoch {
	es.rooteds++
	return es.find(rootedBit | uint64(es.r.self)<<rootShift | es.rooteds&numberMask)
}

// find returns what is known of an epoch; one that was not heard of before is not begun here, or not yet.
func (es *epochs) find(id uint64) *Epoch {
	if es.last != nil && es.last.id == id {
		return es.last
	}
	ep := es.byID[id]
	if ep == nil {
		ep = &Epoch{r: es.r, id: id}
		ep.detector.init(id, es.r)
		es.byID[id] = ep
	}
	es.last = ep
	return ep
}

// forget is the end of what a rank knows of an epoch.
func (es *epochs) forget(ep *Epoch) {
	if es.byID[ep.id] == ep {
		delete(es.byID, ep.id)
	}
	if es.last == ep {
		es.last = nil
	}
}

// mark says that an epoch is to be settled when the rank has nothing else to do.
func (es *epochs) mark(ep *Epoch) {
	if !ep.detector.dirty {
		ep.detector.dirty = true
		es.dirty = append(es.dirty, ep)
	}
}

// settle settles the epochs that nothing has held for a moment.
func (es *epochs) settle() {
	list := es.dirty
	es.lull.busy = false
	es.r.watch.settled()
	es.dirty, es.spare = es.spare[:0], list
	for _, ep := range list {
		ep.detector.dirty = false
		if !ep.over {
			ep.ordered(ep.detector.settle(es.orders[:0]))
		}
	}
}

// detected hands a detector what another rank's sent.
func (es *epochs) detected(from int, epoch uint64, payload []byte) {
	ep := es.find(epoch)
	m, label := unpackDetector(payload)
	es.mark(ep)
	if len(label) > 0 {
		ep.compare(from, label)
	}
	ep.ordered(ep.detector.receive(from, m, es.orders[:0]))
}

// A lull is for how long a rank looks for a batch before it settles epochs: who has just had a message from elsewhere may have an
// answer soon, and a wave meanwhile would be in vain. After one that was, it is twice as long, until an epoch is over.
type lull struct {
	busy    bool // a message from another rank was handled since epochs were settled
	settled bool // epochs were settled since then, and others told of it
	patient int  // looks for a batch before epochs are settled
}

// looks is how many looks for a batch come before epochs are settled.
func (l *lull) looks() int {
	if l.busy {
		return l.patient
	}
	return 1
}

// came notes that a message has come from another rank: what was settled before it was settled in vain.
func (l *lull) came() {
	l.busy = true
	if l.settled {
		l.settled, l.patient = false, min(2*l.patient, mostLooks)
	}
}

// over notes that an epoch is.
func (l *lull) over() { l.settled, l.patient = false, waitingLooks }
