package amt

import (
	"encoding/binary"
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A load is what is measured of an element since the last phase ended. It goes with the element.
type load struct {
	timed      bool      // the time of its methods is measured
	period     int       // which of a rank's it is for: one more than its rank's if that has not ended the phase yet
	times      []int64   // of the thread in its methods, in nanoseconds, by subphase
	weights    []float64 // that the program has given, the same way
	weighed    bool
	messages   uint64 // that its methods have handled
	broadcasts uint64 // of them
	edges      edges  // of what it has sent
}

// A target is an element of a measured collection, to which something is sent.
type target struct {
	collection uint32
	key        uint64
}

// An edge is what was sent to a target.
type edge struct {
	to              target
	messages, bytes uint64
}

// edges are those of one sender. What is sent to the same targets in the same order as before finds each at once.
type edges struct {
	all  []edge
	at   map[target]int // their places, if they are many
	next int            // the place of that which is expected
}

// fewEdges are looked through one by one.
const fewEdges = 8

// count counts a message of so many bytes.
func (es *edges) count(to target, bytes int) {
	if es.next >= len(es.all) {
		es.next = 0
	}
	if len(es.all) == 0 || es.all[es.next].to != to {
		es.next = es.find(to)
	}
	e := &es.all[es.next]
	e.messages++
	e.bytes += uint64(bytes)
	es.next++
}

// find returns the place of a target, which is a new one if there is none.
func (es *edges) find(to target) int {
	if len(es.all) <= fewEdges {
		for n := range es.all {
			if es.all[n].to == to {
				return n
			}
		}
	} else if n, ok := es.at[to]; ok {
		return n
	}
	es.add(edge{to: to})
	return len(es.all) - 1
}

func (es *edges) add(e edge) {
	es.all = append(es.all, e)
	switch n := len(es.all); {
	case n == fewEdges+1:
		if es.at == nil {
			es.at = make(map[target]int, 2*n)
		}
		for i := range es.all {
			es.at[es.all[i].to] = i
		}
	case n > fewEdges:
		es.at[e.to] = n - 1
	}
}

// reset forgets all, but keeps the memory.
func (es *edges) reset() {
	es.all, es.next = es.all[:0], 0
	clear(es.at)
}

// reset begins another period.
func (l *load) reset(period int) {
	l.period, l.weighed, l.messages, l.broadcasts = period, false, 0, 0
	l.times, l.weights = l.times[:0], l.weights[:0]
	l.edges.reset()
}

// grown is a list that has a value for a subphase.
func grown[V any](list []V, subphase int) []V {
	for len(list) <= subphase {
		var none V
		list = append(list, none)
	}
	return list
}

// A load travels as words: how many these are, its counts, then times, weights and edges, each kind behind its number.
const (
	loadCounts = 4
	edgeWords  = 4
)

func (l *load) words() int {
	return 1 + loadCounts + 3 + len(l.times) + len(l.weights) + edgeWords*len(l.edges.all)
}

// pack writes the load into as many words as it has.
func (l *load) pack(b []byte) {
	put := func(words ...uint64) {
		for _, w := range words {
			binary.LittleEndian.PutUint64(b, w)
			b = b[8:]
		}
	}
	weighed := uint64(0)
	if l.weighed {
		weighed = 1
	}
	put(uint64(l.words()), uint64(l.period), weighed, l.messages, l.broadcasts, uint64(len(l.times)), uint64(len(l.weights)), uint64(len(l.edges.all)))
	for _, t := range l.times {
		put(uint64(t))
	}
	for _, w := range l.weights {
		put(math.Float64bits(w))
	}
	for _, e := range l.edges.all {
		put(uint64(e.to.collection), e.to.key, e.messages, e.bytes)
	}
}

// unpack reads what pack has written, and returns what follows it.
func (l *load) unpack(b []byte) []byte {
	next := func() uint64 {
		w := binary.LittleEndian.Uint64(b)
		b = b[8:]
		return w
	}
	next()
	l.period, l.weighed = int(next()), next() == 1
	l.messages, l.broadcasts = next(), next()
	times, weights, edges := next(), next(), next()
	for range times {
		l.times = append(l.times, int64(next()))
	}
	for range weights {
		l.weights = append(l.weights, math.Float64frombits(next()))
	}
	for range edges {
		l.edges.add(edge{target{uint32(next()), next()}, next(), next()})
	}
	return b
}

// measures are what a rank knows of the loads of its elements. They belong to the goroutine that drives the rank.
type measures struct {
	period   int   // how often a phase has ended, or has failed to
	called   int   // how often Subphase was called in this one
	subphase int   // that which counts: another rank may have told of a later one
	origin   int32 // what stamps have: the rank, and the subphase
	runs     bool  // a method that is measured
	clock    unix.Timespec
	edges    edges // of what the rank's own code has sent
	window   []PhaseLoads
	hooks    []func(c Context, phase int) error
}

// The origin in the stamp of a message has the rank that has sent it first, and the subphase in which.
const (
	originRank   = 1<<24 - 1 // as many ranks as there may be
	subphaseBit  = 24
	mostSubphase = 127 // what comes after it counts for it
)

// enters has a subphase begin, unless it has.
func (ms *measures) enters(subphase int) {
	if subphase = min(subphase, mostSubphase); subphase > ms.subphase {
		ms.subphase = subphase
		ms.origin = ms.origin&originRank | int32(subphase)<<subphaseBit
	}
}

// now is the time that the thread has computed. (The time of day would have that of others in it, too.)
func (ms *measures) now() int64 {
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&ms.clock)), 0)
	return ms.clock.Nano()
}

// begin begins to measure code of an element, unless some is measured already. The code stays on its thread until end.
func (ms *measures) begin(l *load) (since int64, ok bool) {
	if !l.timed || ms.runs {
		return 0, false
	}
	ms.runs = true
	runtime.LockOSThread()
	return ms.now(), true
}

// end counts what was computed since.
func (ms *measures) end(l *load, since int64) {
	took := ms.now() - since
	runtime.UnlockOSThread()
	ms.runs = false
	l.times = grown(l.times, ms.subphase)
	l.times[ms.subphase] += took
}

// counts counts a message that the code of a frame sends to an element of a measured collection.
func (f *frame) counts(to target, bytes int) {
	from := &f.r.measures.edges
	if s := f.seat; s != nil && s.load() != nil {
		from = &s.load().edges
	}
	from.count(to, bytes)
}

// A measuring is what a rank's part of a collection measures.
type measuring struct {
	on    bool
	timed bool
	gone  []departed
}

// A departed element was deleted since the last phase ended.
type departed struct {
	key uint64
	*load
}

// begins is the baggage of an element that is made, or comes from another rank: its load; nil: it is not measured.
func (g *measuring) begins(period int) *baggage {
	if !g.on {
		return nil
	}
	return &baggage{load: &load{timed: g.timed, period: period}}
}

// ends keeps the load of an element that is deleted.
func (g *measuring) ends(s *seat) {
	if s.load() != nil {
		g.gone = append(g.gone, departed{s.key, s.load()})
	}
}
