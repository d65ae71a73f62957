package amt

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Measured has the load of each element be measured, and what it handles and sends: Context.Loads has it when a phase has ended. Load is the
// time that the thread computes in the element's methods, and in what follows epochs that they have begun; that of tasks is not in it.
func Measured[I any]() CollectionOption[I] {
	return func(o *collectionOptions[I]) { o.measures.on, o.measures.timed = true, true }
}

// Weighed is Measured without a clock, which costs less: the load of an element is what the program says (At.Weigh).
func Weighed[I any]() CollectionOption[I] {
	return func(o *collectionOptions[I]) { o.measures.on = true }
}

// An Object is an element, by its collection and the number of its index, or, without a collection, a rank.
type Object struct {
	Collection string
	Number     uint64
}

// A Load is what was measured of an element in a phase.
type Load struct {
	Object
	Home       int       // the rank that it was made on
	Subphases  []float64 // seconds that the thread has computed, or weights: of each subphase
	Weighed    bool      // they are weights
	Messages   uint64    // that it has handled
	Broadcasts uint64    // of them
	Gone       bool      // it was deleted
}

// Total is the load of all subphases together.
func (l *Load) Total() (sum float64) {
	for _, s := range l.Subphases {
		sum += s
	}
	return sum
}

// An Edge is what one object has sent to another, an element of a measured collection, in a phase: by Send, SendAt and callbacks, with the
// bytes of the messages alone. What elements send that are not measured is their rank's. Broadcasts are not among it.
type Edge struct {
	From, To Object
	Messages uint64
	Bytes    uint64
}

// PhaseLoads are what a rank has measured in a phase: of the elements that it had when the phase ended, in the order of collections and
// indices, and of those that were deleted on it.
type PhaseLoads struct {
	Phase int
	Loads []Load
	Edges []Edge // of what these elements have sent, and of what the rank itself has
}

// phaseWindow is of how many phases a rank remembers what it has measured.
const phaseWindow = 8

// Loads are what this rank has measured in the last 8 phases, the newest last: of collections with the option Measured, or Weighed. They are
// for main functions, and not to be changed. Restore brings back those of
// the collections that it does, to where their elements are. A Phase that fails leaves its record, and the next has the same number.
func (c Context) Loads() []PhaseLoads { return slices.Clone(c.own().r.measures.window) }

// OnPhase has a function run in every Phase from now on, when what was measured is in Loads, and before elements move. All main functions
// call it. The function may do all that they may, as All of a Reduction; its error is one of the phase, on all ranks. What it
// sends to elements is counted in the next phase, or in this one on ranks that have not come to the end of it yet.
func OnPhase(c Context, do func(c Context, phase int) error) {
	f := c.own()
	if f.forMainAlone("OnPhase") {
		f.r.measures.hooks = append(f.r.measures.hooks, do)
	}
}

// Subphase begins the next part of a phase: the load of what is done afterwards is counted apart. All main functions call it, when what
// they have begun is over; it waits for nothing. What handlers send to elements on a rank that has not called it yet is counted before it.
// After the first 127 of a phase, there are no more.
func (c Context) Subphase() {
	f := c.own()
	if ms := &f.r.measures; f.forMainAlone("Subphase") {
		ms.called++
		ms.enters(ms.called)
	}
}

// forMainAlone tells whether the code is a main function's; if not, it is an error of its epoch.
func (f *frame) forMainAlone(what string) bool {
	if f.task == nil && !f.onLoop() {
		return true
	}
	err := fmt.Errorf("amt: rank %d: %s calls %s, which is for main functions", f.r.self, f.who(), what)
	if f.task != nil {
		f.r.inbox.ask(func() { f.ep.fail(err) })
	} else {
		f.ep.fail(err)
	}
	return false
}

// Weigh adds to the load of the element: in a phase in which it is called for an element, what is measured of that does not count. Elements
// whose collection is not measured have no load.
func (c At[I]) Weigh(w float64) {
	f := c.own()
	if !(w >= 0 && w <= math.MaxFloat64) {
		f.ep.fail(fmt.Errorf("amt: rank %d: %s has element %v weigh %v", f.r.self, f.who(), c.index, w))
		return
	}
	if l, n := c.seat.load(), f.r.measures.subphase; l != nil {
		l.weighed, l.weights = true, grown(l.weights, n)
		l.weights[n] += w
	}
}

// endPhase notes what was measured since the last time, and has the functions of OnPhase run.
func (c Context) endPhase() error {
	r := c.f.r
	ms := &r.measures
	p := PhaseLoads{Phase: r.phase}
	measured := false
	for _, part := range r.collections {
		if part != nil && part.measured(&p) {
			measured = true
		}
	}
	p.edges(r, Object{Number: uint64(r.self)}, &ms.edges)
	ms.edges.reset()
	ms.period++
	ms.called, ms.subphase, ms.origin = 0, 0, int32(r.self)
	if measured {
		ms.window = append(ms.window[max(0, len(ms.window)+1-phaseWindow):len(ms.window):len(ms.window)], p)
	}
	var failed error
	for _, do := range ms.hooks { // all, since others may not know
		failed = errors.Join(failed, do(c, p.Phase))
	}
	return failed
}

// measured adds what was measured of the elements here; false: they are not measured.
func (m *members[I, T]) measured(p *PhaseLoads) bool {
	if !m.measuring.on {
		return false
	}
	for _, e := range m.elements.inOrder() {
		if e.load().period == m.r.measures.period { // else it comes from a rank that has noted it
			p.add(m.r, Load{Object: Object{m.of.entry.name, e.key}, Home: m.home(e.key)}, e.load())
			e.load().reset(m.r.measures.period + 1)
		}
	}
	for _, d := range m.measuring.gone {
		p.add(m.r, Load{Object: Object{m.of.entry.name, d.key}, Home: m.home(d.key), Gone: true}, d.load)
	}
	m.measuring.gone = nil
	return true
}

// add adds what was measured of an element.
func (p *PhaseLoads) add(r *rank, of Load, l *load) {
	of.Messages, of.Broadcasts, of.Weighed = l.messages, l.broadcasts, l.weighed
	of.Subphases = make([]float64, max(r.measures.subphase+1, len(l.times), len(l.weights)))
	if l.weighed {
		copy(of.Subphases, l.weights)
	} else {
		for n, t := range l.times {
			of.Subphases[n] = float64(t) / 1e9
		}
	}
	p.Loads = append(p.Loads, of)
	p.edges(r, of.Object, &l.edges)
}

func (p *PhaseLoads) edges(r *rank, from Object, es *edges) {
	for _, e := range es.all {
		p.Edges = append(p.Edges, Edge{from, Object{collections.all[e.to.collection].name, e.to.key}, e.messages, e.bytes})
	}
}
