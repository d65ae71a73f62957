package amt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/amt/internal/term"
	"github.com/byssus-hpc/byssus/amt/internal/trace"
)

// An Epoch is work that ends together: every message sent by its body, and by the handlers and tasks that follow from those,
// belongs to it, wherever they run. It is over when all of that is done.
type Epoch struct {
	r            *rank
	id           uint64
	label        string
	fault        error // why it was not begun
	elsewhere    elsewhere
	outer        *Epoch // is held by this one
	detector     detector
	modification modification
	begun        bool // here
	over         bool
	err          error // the first failure that is known here
	concern      concern
	gate         gate
	waiters      waiters
	ended        []func() // what the runtime does when it is over
}

// elsewhere is what another rank calls an epoch, if it has told that before the epoch was begun here.
type elsewhere struct {
	label string
	rank  int
}

func (ep *Epoch) collective() bool { return !ep.detector.rooted }

// release undoes n holds. It asks the parts of the detector itself: every message comes here, and has a call less.
func (ep *Epoch) release(n int) {
	if d := &ep.detector; d.rooted && d.tree.Release(n) || !d.rooted && d.wave.Release(n) {
		ep.r.epochs.mark(ep)
	}
}

// sent counts a message that is sent to a rank, this or another.
func (ep *Epoch) sent(to int) {
	if to == ep.r.self {
		ep.detector.hold()
	} else {
		ep.detector.sent(to)
	}
}

// post sends a record that counts in the epoch: room for its header, and its payload.
func (ep *Epoch) post(to int, w what, record []byte) {
	if ep.gate.closed() {
		ep.detector.hold()
		ep.gate.held = append(ep.gate.held, heldMessage{to, w, record})
		return
	}
	ep.sent(to)
	ep.r.outgoing.record(to, w, ep.id, record)
}

// detectorPayload is what the epoch's detector sends, until the next call.
func (ep *Epoch) detectorPayload(m term.Message) []byte {
	b := appendDetector(ep.r.epochs.packed[:0], m)
	if ep.collective() && m.Kind == term.Count && m.Wave == 1 {
		b = append(b, shortened(ep.label)...)
	}
	ep.r.epochs.packed = b
	return b
}

// mostLabel is how much of a label, in bytes, is compared with those of other ranks.
const mostLabel = 160

func shortened(label string) string { return label[:min(len(label), mostLabel)] }

// compare compares the label of a collective epoch with that on another rank, now or when it is begun here. Ranks that do not begin
// the same would wait for each other, or for what nobody will ever begin: the program ends with what they call it.
func (ep *Epoch) compare(from int, label []byte) {
	switch {
	case !ep.begun:
		ep.elsewhere = elsewhere{string(label), from}
	case string(label) != shortened(ep.label):
		err := fmt.Errorf("amt: ranks begin collective epochs, reductions or scopes in different orders, or leave some out: what is %q on rank %d is %q on rank %d",
			ep.label, ep.r.self, label, from)
		ep.fail(err)
		ep.r.main.epoch.fail(err)
	}
}

// ordered sends what a detector wants sent, and ends the epoch if it is over.
func (ep *Epoch) ordered(orders []term.Order) {
	ep.r.epochs.orders = orders
	for _, o := range orders {
		ep.r.epochs.lull.settled = true
		ep.r.outgoing.control(o.To, what(recordDetector), ep.id, ep.detectorPayload(o.Message))
	}
	switch {
	case ep.detector.over():
		ep.end()
	case ep.detector.asleep():
		ep.r.epochs.forget(ep)
	}
}

// end is what follows from the epoch's being over.
func (ep *Epoch) end() {
	if ep.over {
		return
	}
	ep.over = true
	ep.r.epochs.forget(ep)
	ep.r.epochs.lull.over()
	for _, do := range ep.ended {
		do()
	}
	ep.ended = nil
	w := &ep.waiters
	for _, next := range w.next {
		next.inherit(ep)
		next.ungate(ep)
	}
	if w.done != nil {
		ep.r.tasks.running += w.tasks
		close(w.done)
	}
	if ep.outer == nil {
		return
	}
	ep.disown()
	w.next = nil
	for _, next := range w.then {
		ep.followed(ep.outer, next)
		next.seat.pin(-1)
	}
	ep.outer.release(1)
}

// followed runs what was to be done when the epoch is over, within another; if it has failed, there is nothing to follow.
func (ep *Epoch) followed(within *Epoch, next follower) {
	if ep.err != nil {
		return
	}
	if tr := ep.r.tracer; tr != nil {
		tr.begin(trace.After, tr.label("after ", ep.label), 0, 0)
		defer tr.end()
	}
	around := frame{follows: ep, from: ep.r.self, seat: next.seat}
	within.run(&around, func(c Context) error {
		if s := next.seat; s != nil && s.load() != nil {
			if since, ok := ep.r.measures.begin(s.load()); ok {
				defer ep.r.measures.end(s.load(), since)
			}
		}
		next.then(c)
		return nil
	})
}

// inherit makes the failure of the epoch before the epoch's own. All ranks are told, also if all may know: where that one was over
// before this was begun, an epoch within this one does not come after it.
func (ep *Epoch) inherit(before *Epoch) {
	if before.err != nil {
		ep.fail(before.err)
	}
}

// ungate is the end of an epoch before: what has waited for it, and for no other, is sent.
func (ep *Epoch) ungate(before *Epoch) {
	for _, m := range ep.gate.passed(before) {
		ep.r.dispatcher.numbers(m)
		ep.sent(m.to)
		ep.r.outgoing.record(m.to, m.what, ep.id, m.record)
		ep.release(1)
	}
	ep.release(1)
}

// run runs a function within the epoch, on the rank's own goroutine.
func (ep *Epoch) run(around *frame, body func(Context) error) {
	r := ep.r
	f, before := r.frames.enter(ep, around)
	err := body(Context{f, f.gen})
	r.frames.leave(f, before)
	if err != nil {
		ep.fail(err)
	}
	r.epochs.ends(f)
	r.frames.free(f)
}

// fail makes an error the epoch's, everywhere. The epoch is over no earlier for it: messages that wait are taken, but not
// handled.
func (ep *Epoch) fail(err error) {
	if ep.err != nil || err == nil {
		return
	}
	ep.failed(err)
	w, text := what(recordFailure), []byte(err.Error())
	ep.r.epochs.failures.keep(string(text), err)
	var hang *HangError
	if errors.As(err, &hang) {
		w, text = what(recordHang), []byte(hang.Text+"\x00"+hang.DOT)
	}
	if !ep.collective() {
		if root := rootOf(ep.id); root != ep.r.self {
			ep.sent(root)
			ep.r.outgoing.control(root, w, ep.id, text)
			return
		}
	}
	for to := range ep.r.ranks {
		if to != ep.r.self {
			ep.sent(to)
			ep.r.outgoing.control(to, w, ep.id, text)
		}
	}
}

// failed notes an error that others know, or are told.
func (ep *Epoch) failed(err error) {
	if ep.err != nil {
		return
	}
	ep.err = err
	ep.r.tasks.cancel(ep, err)
}

// An EpochOption changes how an epoch is begun.
type EpochOption func(*Epoch) error

// After has what is sent under the new epoch wait until another is over, as far as it is sent by the new epoch's own bodies:
// so a phase can be prepared while the one before still runs. The other epoch was begun on this rank. If it fails, so does the
// new one, with its error: to wait for the last epoch of a chain is enough.
func After(other *Epoch) EpochOption {
	return func(ep *Epoch) error {
		if other == nil {
			return fmt.Errorf("amt: the epoch %q would wait for nil", ep.label)
		}
		if other.fault != nil {
			return other.fault
		}
		if other.r != ep.r {
			return fmt.Errorf("amt: rank %d: the epoch %q would wait for %q of rank %d: each rank has an *Epoch of its own", ep.r.self, ep.label, other.label, other.r.self)
		}
		for o := ep.outer; o != nil; o = o.outer {
			if o == other {
				return fmt.Errorf("amt: the epoch %q would wait for %q, which it is a part of", ep.label, other.label)
			}
		}
		ep.follow(other)
		return nil
	}
}

// follow has the epoch, and what is sent under it, wait until another is over.
func (ep *Epoch) follow(other *Epoch) {
	other.claim()
	switch {
	case other.over:
		ep.inherit(other)
	case !slices.Contains(ep.gate.after, other):
		ep.detector.hold()
		ep.gate.after = append(ep.gate.after, other)
		other.waiters.next = append(other.waiters.next, ep)
	}
}

// Collective begins an epoch that all ranks begin, in the same order, from their main functions. The body runs at once, on
// this rank's part; an error of it, on any rank, is the epoch's.
func (c Context) Collective(label string, body func(Context) error, opts ...EpochOption) *Epoch {
	f := c.own()
	if f.onLoop() || f.task != nil {
		err := fmt.Errorf("amt: rank %d: %s begins the collective epoch %q: only main functions can", f.r.self, f.who(), label)
		c.Fail(err)
		return &Epoch{fault: err}
	}
	return f.r.epochs.nextCollective().begin(f, label, body, opts)
}

// Rooted begins an epoch of this rank's own. The body runs at once; an error of it, or of what follows from it on any rank,
// is the epoch's.
func (c Context) Rooted(label string, body func(Context) error, opts ...EpochOption) *Epoch {
	f := c.own()
	if f.task != nil {
		return f.task.rooted(f, label, body, opts)
	}
	return f.r.epochs.nextRooted().begin(f, label, body, opts)
}

// begin begins the epoch within that of a frame.
func (ep *Epoch) begin(f *frame, label string, body func(Context) error, opts []EpochOption) *Epoch {
	ep.label, ep.outer, ep.begun = label, f.ep, true
	ep.concern.begins(f)
	ep.r.dispatcher.regions.epoch(ep)
	if tr := ep.r.tracer; tr != nil {
		tr.epoch(ep)
	}
	if ep.outer != nil {
		ep.outer.detector.hold()
		for _, before := range ep.outer.gate.after {
			ep.follow(before)
		}
	}
	if other := ep.elsewhere; other.label != "" {
		ep.compare(other.rank, []byte(other.label))
	}
	var wrong error
	for _, set := range opts {
		wrong = errors.Join(wrong, set(ep))
	}
	wrong = errors.Join(wrong, ep.modification.begins(ep, f))
	if wrong != nil {
		ep.fail(wrong)
	} else { // also if it has failed already: other ranks, who may not know, run theirs, which may begin epochs of all ranks
		ep.begins(f, body)
	}
	ep.release(1)
	return ep
}

// begins runs the body.
func (ep *Epoch) begins(f *frame, body func(Context) error) {
	if tr := ep.r.tracer; tr != nil {
		tr.body(ep)
		defer tr.end()
	}
	ep.run(f, body)
}

// Wait returns when the epoch is over, with the first error of it that is known here. It is for main functions and tasks:
// in a handler it is an error, since a rank that waits there could do nothing of what it waits for; OnDone serves there.
func (ep *Epoch) Wait(c Context) error {
	f := c.own()
	switch {
	case ep.fault != nil:
		return ep.fault
	case ep.r != f.r:
		err := ep.foreign(f, "waits for")
		c.Fail(err)
		return err
	case f.onLoop():
		err := fmt.Errorf("amt: rank %d: %s waits for the epoch %q: a rank that waits there could do nothing of it, use OnDone", f.r.self, f.who(), ep.label)
		f.ep.fail(err)
		return err
	case f.task != nil:
		return f.task.wait(f, ep)
	case ep.holds(f.ep):
		return fmt.Errorf("amt: rank %d: the epoch %q is waited for from within itself", f.r.self, ep.label)
	}
	return ep.wait()
}

// foreign is the error of what is done with an epoch of another rank: ranks that are goroutines can get at them, which is of no use.
func (ep *Epoch) foreign(f *frame, does string) error {
	return fmt.Errorf("amt: rank %d: %s %s the epoch %q of rank %d: each rank has an *Epoch of its own", f.r.self, f.who(), does, ep.label, ep.r.self)
}

// wait drives the rank until the epoch is over.
func (ep *Epoch) wait() error {
	ep.claim()
	if tr := ep.r.tracer; tr != nil {
		tr.begin(trace.Wait, tr.label("wait for ", ep.label), 0, 0)
		defer tr.end()
	}
	m := &ep.r.main
	before := m.waits
	m.waits = ep
	defer func() { m.waits = before }()
	err := ep.r.loop.until(ep)
	switch {
	case err == nil:
		return ep.err
	case ep.err == nil || ep == m.epoch || ep.err.Error() == err.Error():
		return err
	}
	return errors.Join(ep.err, err) // the first may be why the second is
}

// holds tells whether an epoch is this one or lies within it.
func (ep *Epoch) holds(inner *Epoch) bool {
	for ; inner != nil; inner = inner.outer {
		if inner == ep {
			return true
		}
	}
	return false
}

// OnDone has a function run on this rank when the epoch is over, within the epoch that it was begun in, which is not over
// before; if it is over already, at once, within that of the context. It does not run if the epoch fails: the error is, unless
// the code that began the epoch waits for it, that of the one around.
func (ep *Epoch) OnDone(c Context, then func(Context)) {
	f := c.own()
	if ep.fault == nil && ep.r != f.r {
		c.Fail(ep.foreign(f, "has something follow on"))
		return
	}
	if within := f.ep; f.task != nil { // which holds it until what it asks for now is done
		f.r.inbox.ask(func() { ep.onDone(within, follower{then, f.seat}) })
		return
	}
	ep.onDone(f.ep, follower{then, f.seat})
}

func (ep *Epoch) onDone(within *Epoch, next follower) {
	switch {
	case ep.fault != nil:
		within.fail(ep.fault)
	case ep.over:
		ep.followed(within, next)
	default:
		next.seat.pin(1)
		ep.waiters.then = append(ep.waiters.then, next)
	}
}

// Fail makes an error that of the epoch of this context: what waits for it gets the error. Messages that are on their way
// are not handled any more where the error is known; the epoch is over no earlier for it. No error is none.
func (c Context) Fail(err error) {
	f := c.own()
	if f.task != nil {
		ep := f.ep
		f.r.inbox.ask(func() { ep.fail(err) })
		return
	}
	f.ep.fail(err)
}
