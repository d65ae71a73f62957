package amt

import (
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/amt/internal/trace"
)

// TraceVariable names a file that gets what each rank has done, for ui.perfetto.dev: handlers and methods, epochs, phases, tasks, messages,
// migrations. Without it nothing is noted. The file is written when the program ends, also by an error, as far as it returns from Run; a
// panic of what runs on a rank's own goroutine is among it.
const TraceVariable = "BYSSUS_AMT_TRACE"

// TraceMemoryVariable says how many bytes of memory each rank has for what it notes ("64M", if it is not set; no limit if it is 0). An event
// takes 32. If there are more, the oldest are dropped: how a program has come to where it ends is more often asked than how it began, and
// what lasts from the beginning on is noted when it ends. The file and the standard error say how many were.
const TraceMemoryVariable = "BYSSUS_AMT_TRACE_MEMORY"

const defaultTraceMemory = 64 << 20

// counterPause is how long it is at least from one look at the length of queues to the next.
const counterPause = 100 * time.Microsecond

// A tracer notes what a rank does. It belongs to the goroutine that drives the rank; tasks read its clock alone. A rank that is not traced
// has none, and looks for it where there is one for many messages, or little else is done; handlers are wrapped by it (dispatcher.table).
//
// Messages are told apart by the batch that they come in, which has a record of its own for that (recordTrace), and where in it they lie:
// they are no longer for it.
type tracer struct {
	r    *rank
	path string
	log  *trace.Log
	beginning
	last    int64    // the newest time: no two events of the rank's goroutine have the same
	open    []opened // durations that have not ended, the innermost last
	idle    int64    // since when the rank has nothing to do; 0: it has
	counted int64    // when queues were looked at
	epochs  map[uint64]int64
	phase   int64  // when it began
	lanes   []bool // of tasks: somebody runs there
	ended   bool
	numbers
	names struct{ idle, main trace.Name }
}

// numbers are those of batches.
type numbers struct {
	incoming flows    // of the batch that is handled
	outgoing []uint64 // by rank: that which is being filled
	batches  uint64   // that were begun
}

// A beginning is the moment when the tracing began.
type beginning struct {
	base  time.Time
	begun int64 // the same, by the clock of the machine
	wall  int64 // that the time of day was ahead of that
}

// An opened duration has not ended.
type opened struct {
	at   int64
	a    uint64
	b    int32
	name trace.Name
	kind trace.Kind
}

// flows are the numbers of the messages of a batch, from that of what would lie at its beginning on.
type flows struct {
	number uint64 // 0: its sender is not traced
	base   uintptr
}

// newTracer is that of a rank; nil: it is not traced.
func newTracer(r *rank) (*tracer, error) {
	file := os.Getenv(TraceVariable)
	if file == "" {
		return nil, nil
	}
	limit, err := parseSize(os.Getenv(TraceMemoryVariable))
	switch {
	case err != nil:
		return nil, fmt.Errorf("amt: %s=%s: %w", TraceMemoryVariable, os.Getenv(TraceMemoryVariable), err)
	case os.Getenv(TraceMemoryVariable) == "":
		limit = defaultTraceMemory
	}
	tr := &tracer{r: r, path: file, log: trace.NewLog(limit), epochs: map[uint64]int64{}, numbers: numbers{outgoing: make([]uint64, r.ranks)}}
	if tr.base, tr.begun, err = sameMoment(); err != nil {
		return nil, fmt.Errorf("amt: %s: the clock: %w", TraceVariable, err)
	}
	tr.last, tr.phase, tr.wall = tr.begun, tr.begun, tr.base.UnixNano()-tr.begun
	tr.names.idle, tr.names.main = tr.log.Name("idle", -1), tr.log.Name("main function", -1)
	return tr, nil
}

// sameMoment is a moment by Go's clock, and by the machine's that all its processes have: as near to each other as some tries can find.
func sameMoment() (base time.Time, machine int64, err error) {
	best := time.Duration(math.MaxInt64)
	for range 64 {
		var clock unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
			return base, 0, err
		}
		if took := time.Since(before); took < best {
			best, base, machine = took, before.Add(took/2), clock.Nano()
		}
	}
	return base, machine, nil
}

// forgetTrace removes the file of a run before: on rank 0, before another can have ended.
func forgetTrace(rank int) {
	if file := os.Getenv(TraceVariable); rank == 0 && file != "" {
		if err := trace.Remove(file); err != nil {
			fmt.Fprintf(os.Stderr, "amt: rank 0: %s: %v\n", TraceVariable, err)
		}
	}
}

// clock is the time; any goroutine may ask.
func (tr *tracer) clock() int64 { return tr.begun + int64(time.Since(tr.base)) }

// now is the time, later than any before.
func (tr *tracer) now() int64 {
	tr.last = max(tr.clock(), tr.last+1)
	return tr.last
}

// begin begins a duration on the rank's goroutine, within those that are open.
func (tr *tracer) begin(kind trace.Kind, name trace.Name, a uint64, b int32) {
	tr.busy()
	tr.open = append(tr.open, opened{tr.now(), a, b, name, kind})
}

// end ends the innermost, unless all have.
func (tr *tracer) end() {
	if len(tr.open) == 0 {
		return
	}
	tr.busy()
	o := tr.open[len(tr.open)-1]
	tr.open = tr.open[:len(tr.open)-1]
	tr.log.Add(trace.Event{At: o.at, Took: tr.now() - o.at, A: o.a, B: o.b, Name: o.name, Kind: o.kind})
}

// rests: the rank has nothing to do.
func (tr *tracer) rests() {
	if tr.idle == 0 {
		tr.idle = tr.now()
	}
}

// busy: it has.
func (tr *tracer) busy() {
	if tr.idle != 0 {
		tr.log.Add(trace.Event{At: tr.idle, Took: tr.now() - tr.idle, Name: tr.names.idle, Kind: trace.Idle})
		tr.idle = 0
	}
}

// label is the name of what has one of the program's.
func (tr *tracer) label(before, label string) trace.Name {
	return tr.log.Name(before+shortened(label), -1)
}

// body begins that of an epoch.
func (tr *tracer) body(ep *Epoch) {
	if ep == tr.r.main.epoch {
		tr.begin(trace.Main, tr.names.main, 0, 0)
	} else {
		tr.begin(trace.Body, tr.label("body of ", ep.label), 0, 0)
	}
}

// epoch: one has begun here.
func (tr *tracer) epoch(ep *Epoch) {
	tr.epochs[ep.id] = tr.now()
	ep.ended = append(ep.ended, func() {
		tr.epochOver(ep)
		delete(tr.epochs, ep.id)
	})
}

func (tr *tracer) epochOver(ep *Epoch) {
	at := tr.epochs[ep.id]
	tr.log.Add(trace.Event{At: at, Took: tr.now() - at, A: ep.id, Name: tr.label("", ep.label), Kind: trace.Epoch})
}

// phaseOver: a phase is.
func (tr *tracer) phaseOver(number int) {
	at := tr.phase
	tr.phase = tr.now()
	tr.log.Add(trace.Event{At: at, Took: tr.phase - at, A: uint64(number), Name: tr.label("phase ", fmt.Sprint(number)), Kind: trace.Phase})
}

// leaves: an element goes to another rank.
func (tr *tracer) leaves(of *collectionEntry, key uint64, to int) {
	tr.log.Add(trace.Event{At: tr.now(), A: key, B: int32(to), Name: tr.log.Name("leaves "+of.name, of.id), Kind: trace.Leaves})
}

// arrives begins what an element's arrival takes.
func (tr *tracer) arrives(of *collectionEntry, key uint64, from int, payload []byte) {
	tr.begin(trace.Arrives, tr.log.Name("arrives in "+of.name, of.id), key, int32(from))
	tr.takes(payload)
}

// counts looks at queues.
func (tr *tracer) counts() {
	now := tr.now()
	if now-tr.counted < int64(counterPause) {
		return
	}
	tr.counted = now
	d, m := &tr.r.dispatcher, &tr.r.memory
	tr.log.Add(trace.Event{At: now, Took: int64(m.packed + m.local + m.kept), A: uint64(d.incoming.len() + d.sorted.n), Kind: trace.Waiting})
}

// A message has the number of its batch, in the upper 48 bits with the lowest 16 of its sender, and the place of its record in it, in
// units of 16 bytes: two records do not begin in the same.
const (
	placeBits  = 16
	placeUnits = 16
)

func (tr *tracer) nextBatch() uint64 {
	tr.batches++
	return (uint64(tr.r.self)<<32 | tr.batches&(1<<32-1)) << placeBits
}

// mark begins a batch for a rank by the record that says its number.
func (tr *tracer) mark(to int, b []byte) []byte {
	tr.outgoing[to] = tr.nextBatch()
	b, at := openRecord(b)
	return closeRecord(b, at, what(recordTrace), tr.outgoing[to])
}

// sends: a record is put into the batch for a rank.
func (tr *tracer) sends(to, at int, w what) {
	switch id := w.id(); {
	case id == recordSpread:
		at += headerSize + 8 // the record within is handled
	case id != recordElement && id < firstHandler:
		return
	}
	tr.log.Add(trace.Event{At: tr.now(), A: tr.outgoing[to] + uint64(at/placeUnits)&(1<<placeBits-1), Kind: trace.Sent})
}

// handles: a batch is.
func (tr *tracer) handles(b []byte) {
	tr.counts()
	tr.incoming = flows{base: uintptr(unsafe.Pointer(unsafe.SliceData(b)))}
	w, number, _, rest, ok := nextRecord(b)
	if ok && w != what(recordTrace) { // of a long one it is the second
		w, number, _, _, ok = nextRecord(rest)
	}
	if ok && w == what(recordTrace) {
		tr.incoming.number = number
	}
}

// moved: what is left of the batch lies elsewhere now, from here on so many bytes before.
func (f flows) moved(b []byte, before int) flows {
	f.base = uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(before)
	return f
}

// takes: the message with a payload is handled by what has just begun.
func (tr *tracer) takes(payload []byte) {
	if tr.incoming.number == 0 {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(payload))) - tr.incoming.base
	if cap(payload) > 0 { // else it is where its record begins
		at -= headerSize
	}
	tr.last++ // within the duration
	tr.log.Add(trace.Event{At: tr.last, A: tr.incoming.number + uint64(at/placeUnits)&(1<<placeBits-1), Kind: trace.Taken})
}

// taskBegins gives a task a track of its own as long as it runs.
func (tr *tracer) taskBegins(t *task) {
	n := slices.Index(tr.lanes, false)
	if n < 0 {
		n = len(tr.lanes)
		tr.lanes = append(tr.lanes, false)
	}
	tr.lanes[n] = true
	t.timed = timed{tr, n, tr.clock()}
}

// taskEnds notes a task, which has looked up itself when it has ended.
func (tr *tracer) taskEnds(t *task, ended int64) {
	tr.taskDid(t, trace.Task, tr.label("", t.name), t.timed.begun, ended)
	tr.lanes[t.timed.lane] = false
}

func (tr *tracer) taskDid(t *task, kind trace.Kind, name trace.Name, begun, ended int64) {
	tr.log.Add(trace.Event{At: begun, Took: ended - begun, B: int32(t.timed.lane), Name: name, Kind: kind})
}

// A timed task is one of a rank that is traced.
type timed struct {
	tracer *tracer
	lane   int // of the tasks that run at the same time
	begun  int64
}

// now is the time; 0 if nothing is traced.
func (t *timed) now() int64 {
	if t.tracer == nil {
		return 0
	}
	return t.tracer.clock()
}

// title is what the runs of a handler or a method are called: by its function, if that has a name, else by its message and where it is.
func title(e *entry) string {
	function := path.Base(e.function)
	text := fmt.Sprintf("%v (%s)", e.message, e.at)
	if !strings.Contains(function, ".func") && !strings.Contains(function, ".init.") {
		text = fmt.Sprintf("%s (%v)", function, e.message)
	}
	if e.ordinal > 0 {
		text += fmt.Sprintf(" #%d", e.ordinal+1)
	}
	return text
}

// skip is what becomes of a message whose epoch has failed.
func (d *dispatcher) skip(payload []byte) {
	if tr := d.r.tracer; tr != nil {
		tr.begin(trace.Skip, tr.log.Name("not handled", -1), 0, 0)
		tr.takes(payload)
		tr.end()
	}
}

// wrap is a table of handlers whose runs are noted.
func (tr *tracer) wrap(table []*entry) []*entry {
	all := make([]*entry, len(table))
	for n, e := range table {
		wrapped := *e
		wrapped.run = tr.handler(e)
		if method, ok := e.handler.(elementMethod); ok {
			wrapped.run = tr.method(e, method)
		}
		all[n] = &wrapped
	}
	return all
}

func (tr *tracer) handler(e *entry) func(Context, []byte) error {
	name := tr.log.Name(title(e), -1)
	return func(c Context, payload []byte) error {
		tr.begin(trace.Handler, name, 0, int32(c.f.from))
		tr.takes(payload)
		err := e.run(c, payload)
		tr.end()
		return err
	}
}

func (tr *tracer) method(e *entry, method elementMethod) func(Context, []byte) error {
	of := method.collection()
	name, find := tr.log.Name(title(e), of.id), tr.log.Name("not here: "+title(e), of.id)
	return func(c Context, payload []byte) error {
		if len(payload) < stampSize {
			return e.run(c, payload)
		}
		key, stamp := stampOf(payload)
		if method.here(c.f.r, key) {
			tr.begin(trace.Method, name, key, stamp.Origin)
		} else {
			tr.begin(trace.Find, find, key, int32(c.f.from))
		}
		tr.takes(payload)
		err := e.run(c, payload)
		tr.end()
		return err
	}
}

// announced begins the run of a method by an element that a broadcast is for.
func (tr *tracer) announced(e *entry, method elementMethod, key uint64, origin int) {
	tr.begin(trace.Method, tr.log.Name(title(e), method.collection().id), key, int32(origin))
}

// write ends the tracing, and writes what was noted. An error of it is told, and not the program's. What has not ended ends here.
func (tr *tracer) write(failed bool) {
	if tr == nil || tr.ended {
		return
	}
	tr.ended = true
	for len(tr.open) > 0 {
		tr.end()
	}
	for _, ep := range tr.r.epochs.byID {
		if ep.begun && !ep.over {
			tr.epochOver(ep)
		}
	}
	for t := range tr.r.tasks.all {
		if t.timed.tracer != nil {
			tr.taskDid(t, trace.Task, tr.label("has not ended: ", t.name), t.timed.begun, tr.clock())
		}
	}
	host, _ := os.Hostname()
	node := host
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil { // the same for what has the same clock
		node = strings.TrimSpace(string(boot))
	}
	r := tr.r
	p := &trace.Part{Log: tr.log, Rank: r.self, Process: fmt.Sprintf("rank %d (process %d of %s)", r.self, os.Getpid(), host), Node: node, Wall: tr.wall,
		Element: func(n int, key uint64) string { return r.population.indexOf(n, key) }}
	if err := trace.Write(tr.path, r.ranks, p); err != nil {
		fmt.Fprintf(os.Stderr, "amt: rank %d: %s: %v\n", r.self, TraceVariable, err)
		return
	}
	if n := tr.log.Dropped(); n > 0 {
		fmt.Fprintf(os.Stderr, "amt: rank %d: %s: the %d oldest events are not in %s: there was no more room for them (%s)\n", r.self, TraceVariable, n, tr.path, TraceMemoryVariable)
	}
	if failed && r.epochs.failures == nil { // who fails ends the others
		for until := time.Now().Add(farewell); !trace.Complete(tr.path) && time.Now().Before(until); {
			time.Sleep(lookAgain)
		}
	}
}

const lookAgain = 10 * time.Millisecond

// indexOf is the index of an element, or its number if nothing is known of it any more.
func (p *population) indexOf(collection int, key uint64) string {
	if collection < 0 || collection >= len(p.collections) || p.collections[collection] == nil {
		return fmt.Sprint(key)
	}
	return p.collections[collection].indexOf(key)
}
