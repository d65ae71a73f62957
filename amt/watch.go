package amt

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/byssus-hpc/byssus/amt/internal/hang"
	"github.com/byssus-hpc/byssus/amt/internal/term"
)

// When a rank that has nothing to do looks after what it waits for. Times decide when it looks, never what is concluded.
const (
	watchLooks   = 64                     // turns in a row without anything to do, before it is thought of
	restsAfter   = 100 * time.Millisecond // it takes part in finding that nothing can go on
	marksAfter   = time.Second            // without a message, it tells others how much it sent them; then after twice as long, and so on
	settlesTimed = 64                     // times that epochs are settled, after which it looks at the time
)

// DOTVariable names a file that gets the graph of who waits for whom, in the language of Graphviz, when nothing can go on.
const DOTVariable = "BYSSUS_AMT_DOT"

// A HangError says that nothing of a program can ever go on: every rank's main function and tasks wait for epochs, and no
// message is on its way.
type HangError struct {
	Text string // who waits for whom
	DOT  string // the same, all of it, in the language of Graphviz
}

func (e *HangError) Error() string { return "amt: nothing can go on: " + e.Text }

// A watch finds out that nothing can go on, or that the transport has lost something.
//
// What ranks do at all is watched like a collective epoch (package term) that is held wherever there is something to do, a task
// runs, or a main function does not wait. When that is over and the program is not, nothing can go on. It counts batches, not
// messages, and so costs the way of a message nothing; batches of its own do not count. It belongs to the goroutine that drives the rank.
type watch struct {
	r       *rank
	wave    term.Collective
	holds   bool          // this rank has something to do, as far as it has looked
	stirred uint64        // what this rank has done
	seen    uint64        // of that, when it was last looked at
	since   time.Time     // when it was first seen to do no more
	rests   time.Duration // restsAfter, but in tests
	settles int           // how often epochs were settled since times were looked at
	orders  []term.Order
	queue   []notice // to be sent
	reports []hang.Report

	losses   losses
	alarm    alarm
	patience patience
}

// An alarm ends a rest of the rank, so that it looks at the time. It belongs to the goroutine that drives the rank.
type alarm struct {
	at    time.Time
	timer *time.Timer
}

// set has a rest end after restsAfter, unless it does so earlier already.
func (a *alarm) set(now time.Time, t *transport) {
	if !now.After(a.at) {
		return
	}
	a.at = now.Add(restsAfter)
	if a.timer == nil {
		a.timer = time.AfterFunc(restsAfter, t.Wake)
	} else {
		a.timer.Reset(restsAfter)
	}
}

// stop is when the rank needs none any more.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// A notice is what watches tell each other.
type notice struct {
	to   int
	kind noticeKind
	body []byte
}

type noticeKind uint32

const (
	noticeWave   noticeKind = iota // a term.Message
	noticeMark                     // how many short batches have left before
	noticeReport                   // a hang.Report, as JSON
)

func (w *watch) init(r *rank) error {
	w.r, w.holds, w.wave = r, true, term.NewCollective(r.self, r.ranks)
	w.rests = restsAfter
	w.losses.init(r)
	return w.patience.init(r)
}

// ofWatch tells whether a batch is a watch's: it has that one record.
func ofWatch(b []byte) bool {
	w, _, _, _, ok := nextRecord(b)
	return ok && w.id() == recordWatch
}

// gone counts a batch that the transport has taken.
func (w *watch) gone(to, size int, own bool) {
	w.losses.gone(to, size)
	if !own {
		w.wave.Sent(to)
	}
}

// arrived counts a batch that has come; it holds until it is handled.
func (w *watch) arrived(from int, b []byte) {
	if !ofWatch(b) {
		w.wave.Hold()
		w.wave.Got(from, 1)
		w.stirred++
	} else if _, kind, payload, _, ok := nextRecord(b); ok && noticeKind(kind) == noticeMark {
		w.losses.compare(from, binary.LittleEndian.Uint64(payload))
	}
	w.losses.arrived(from, len(b))
}

// hold notes that this rank has, or had, something to do.
func (w *watch) hold() {
	if w.seen != w.stirred {
		w.seen, w.since = w.stirred, time.Time{}
		if !w.holds {
			w.holds = true
			w.wave.Hold()
		}
	}
}

// look is called when the rank has nothing to do, again and again.
func (w *watch) look() {
	w.hold()
	w.send()
	now := time.Now()
	if w.since.IsZero() {
		w.since = now
	}
	quiet := now.Sub(w.since)
	w.r.tasks.complain(now, w.patience.lasts)
	w.r.epochs.complain(now)
	if w.holds && quiet >= w.rests && w.r.stuck() {
		w.holds = false
		w.wave.Release(1)
		w.ordered(w.wave.Settle(w.orders[:0]))
	}
	w.marks(now)
	w.alarm.set(now, &w.r.t)
}

// settled is called when epochs are settled: those of which a message is lost are settled again and again, and no rank is ever idle.
func (w *watch) settled() {
	if w.settles++; w.settles%settlesTimed == 0 {
		now := time.Now()
		w.r.epochs.complain(now)
		w.marks(now)
	}
}

// marks tells all ranks that this one has sent something to how much that was, when it is time for that.
func (w *watch) marks(now time.Time) {
	if !w.losses.due(now) {
		return
	}
	for to, n := range w.losses.left {
		if n > 0 && to != w.r.self {
			w.queue = append(w.queue, notice{to, noticeMark, make([]byte, 8)})
		}
	}
	w.send()
}

// send sends what the transport takes now.
func (w *watch) send() {
	left := w.queue[:0]
	for _, n := range w.queue {
		if n.kind == noticeMark {
			binary.LittleEndian.PutUint64(n.body, w.losses.left[n.to])
		}
		b, at := openRecord(w.r.t.Room(wholeSize(len(n.body))))
		b = closeRecord(append(b, n.body...), at, what(recordWatch), uint64(n.kind))
		w.r.memory.packed += cap(b)
		if !w.r.t.put(n.to, b) {
			w.r.memory.packed -= cap(b)
			w.r.t.Free(b)
			left = append(left, n)
		}
	}
	w.queue = left
}

// ordered sends what the detector wants sent; if it finds that nothing can go on, this rank says what it waits for.
func (w *watch) ordered(orders []term.Order) {
	w.orders = orders
	for _, o := range orders {
		w.queue = append(w.queue, notice{o.To, noticeWave, appendDetector(nil, o.Message)})
	}
	if w.wave.Over() && w.reports == nil {
		w.reports = make([]hang.Report, 0, 1)
		w.report(w.r.report())
	}
	w.send()
}

// receive takes what another rank's watch says. What this rank has done meanwhile comes first.
func (w *watch) receive(from int, kind noticeKind, payload []byte) {
	w.hold()
	switch kind {
	case noticeMark:
		if lost := w.losses.found; lost != nil {
			w.r.main.all().fail(lost)
		}
	case noticeWave:
		m, _ := unpackDetector(payload)
		w.ordered(w.wave.Settle(w.wave.Receive(from, m, w.orders[:0])))
	case noticeReport:
		var report hang.Report
		if err := json.Unmarshal(payload, &report); err != nil {
			w.r.main.all().fail(fmt.Errorf("amt: rank %d: what rank %d waits for: %w", w.r.self, from, err))
			return
		}
		w.report(report)
	}
	if w.r.main.waits != nil && w.seen == w.stirred {
		w.look()
	}
}

// report brings a rank's report to rank 0, which ends the program when it has all.
func (w *watch) report(report hang.Report) {
	if w.r.self != 0 {
		body, err := json.Marshal(report)
		if err != nil {
			w.r.main.all().fail(fmt.Errorf("amt: rank %d: what it waits for: %w", w.r.self, err))
			return
		}
		w.queue = append(w.queue, notice{0, noticeReport, body})
		return
	}
	w.reports = append(w.reports, report)
	if len(w.reports) < w.r.ranks {
		return
	}
	g := hang.New(w.reports)
	err := &HangError{g.Text(), g.DOT()}
	if file := os.Getenv(DOTVariable); file != "" {
		if e := os.WriteFile(file, []byte(err.DOT), 0o666); e != nil {
			fmt.Fprintf(os.Stderr, "amt: rank 0: %s: %v\n", DOTVariable, e)
		}
	}
	w.r.main.all().fail(err)
}
