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
	patientFor   = time.Minute            // it says that a task runs; then after twice as long, and so on
)

// PatienceVariable says how long a task or a handler runs, or a main function waits elsewhere than in this package, before it is told
// that it does ("90s"); a minute if it is not set, never if it is 0.
const PatienceVariable = "BYSSUS_AMT_PATIENCE"

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
// messages, and so costs the way of a message nothing; batches of its own do not count.
type watch struct {
	r       *rank
	wave    term.Collective
	holds   bool   // this rank has something to do, as far as it has looked
	stirred uint64 // what this rank has done
	seen    uint64 // of that, when it was last looked at
	since   time.Time
	alarm   time.Time // when the timer ends a rest
	timer   *time.Timer
	counted uint64        // messages of epochs that were handled here
	moved   uint64        // of them, when it was last looked whether there are more
	movedAt time.Time     // when there were
	marked  time.Duration // after so long without one others were told how much was sent to them
	settles int           // how often epochs were settled since times were looked at
	left    []uint64      // by rank: batches of short bytes or less, which arrive in their order
	come    []uint64
	short   int
	lost    error         // what is wrong with that
	queue   []notice      // to be sent
	rests   time.Duration // restsAfter, and marksAfter, but in tests
	asks    time.Duration
	reports []hang.Report
	patient time.Duration
	orders  []term.Order
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
	w.left, w.come = make([]uint64, r.ranks), make([]uint64, r.ranks)
	w.short = r.t.Size()
	w.rests, w.asks, w.patient = restsAfter, marksAfter, patientFor
	if text := os.Getenv(PatienceVariable); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("amt: %s=%s: a time is wanted, such as 90s, or 0", PatienceVariable, text)
		}
		w.patient = d
	}
	r.patience.r, r.patience.lasts = r, w.patient
	return nil
}

// ofWatch tells whether a batch is a watch's: it has that one record.
func ofWatch(b []byte) bool {
	w, _, _, _, ok := nextRecord(b)
	return ok && w.id() == recordWatch
}

// gone counts a batch that the transport has taken.
func (w *watch) gone(to, size int, own bool) {
	if size <= w.short {
		w.left[to]++
	}
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
		w.compare(from, binary.LittleEndian.Uint64(payload))
	}
	if len(b) <= w.short {
		w.come[from]++
	}
}

// compare finds that batches are lost: those that have left a rank before its mark have come before it.
func (w *watch) compare(from int, left uint64) {
	r := w.r
	switch come := w.come[from]; {
	case come < left:
		w.lost = fmt.Errorf("amt: rank %d: the transport has lost %d of %d batches of messages from rank %d", r.self, left-come, left, from)
	case come > left:
		w.lost = fmt.Errorf("amt: rank %d: the transport has brought %d batches of messages from rank %d, which has sent %d", r.self, come, from, left)
	}
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
	w.tasks(now)
	w.r.epochs.complain(now)
	if w.holds && quiet >= w.rests && w.r.stuck() {
		w.holds = false
		w.wave.Release(1)
		w.ordered(w.wave.Settle(w.orders[:0]))
	}
	w.stands(now)
	if now.After(w.alarm) {
		w.alarm = now.Add(restsAfter)
		if w.timer == nil {
			w.timer = time.AfterFunc(restsAfter, w.r.t.Wake)
		} else {
			w.timer.Reset(restsAfter)
		}
	}
}

// settled is called when epochs are settled: those of which a message is lost are settled again and again, and no rank is ever idle.
func (w *watch) settled() {
	if w.settles++; w.settles%settlesTimed == 0 {
		now := time.Now()
		w.r.epochs.complain(now)
		w.stands(now)
	}
}

// stands has others look whether something was lost, if no message of an epoch was handled here for a while.
func (w *watch) stands(now time.Time) {
	if w.counted != w.moved || w.movedAt.IsZero() {
		w.moved, w.movedAt, w.marked = w.counted, now, 0
		return
	}
	if since := now.Sub(w.movedAt); since >= max(w.asks, 2*w.marked) {
		w.marked = since
		w.marks()
	}
}

// stuck tells whether this rank can do nothing before something comes from another.
func (r *rank) stuck() bool {
	o := &r.operations
	return r.waits != nil && r.running == 0 && !r.inbox.some.Load() && r.incoming.len() == 0 && len(r.outs[r.self]) == 0 && r.sorted.n == 0 &&
		len(r.open) == 0 && len(r.epochs.dirty) == 0 && !o.dirty && !o.agreement.Due() && len(o.queue) == 0
}

// end is when the rank needs no watch any more.
func (w *watch) end() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// marks tells all ranks that this one has sent something to how much that was.
func (w *watch) marks() {
	for to, n := range w.left {
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
			binary.LittleEndian.PutUint64(n.body, w.left[n.to])
		}
		b, at := openRecord(w.r.t.Room(wholeSize(len(n.body))))
		b = closeRecord(append(b, n.body...), at, what(recordWatch), uint64(n.kind))
		w.r.memory.packed += cap(b)
		if !w.r.put(n.to, b) {
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
		if w.lost != nil {
			w.r.all().fail(w.lost)
		}
	case noticeWave:
		m, _ := unpackDetector(payload)
		w.ordered(w.wave.Settle(w.wave.Receive(from, m, w.orders[:0])))
	case noticeReport:
		var report hang.Report
		if err := json.Unmarshal(payload, &report); err != nil {
			w.r.all().fail(fmt.Errorf("amt: rank %d: what rank %d waits for: %w", w.r.self, from, err))
			return
		}
		w.report(report)
	}
	if w.r.waits != nil && w.seen == w.stirred {
		w.look()
	}
}

// report brings a rank's report to rank 0, which ends the program when it has all.
func (w *watch) report(report hang.Report) {
	if w.r.self != 0 {
		body, err := json.Marshal(report)
		if err != nil {
			w.r.all().fail(fmt.Errorf("amt: rank %d: what it waits for: %w", w.r.self, err))
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
	w.r.all().fail(err)
}

// tasks says which have run for long.
func (w *watch) tasks(now time.Time) {
	if w.patient <= 0 {
		return
	}
	for t := range w.r.tasks {
		if ran := now.Sub(t.begun); t.waits == nil && ran >= max(w.patient, 2*t.told) {
			t.told = ran
			fmt.Fprintf(os.Stderr, "amt: rank %d: the task %q runs since %v; this rank has nothing else to do\n", w.r.self, t.name, ran.Round(time.Second))
		}
	}
}
