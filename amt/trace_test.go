package amt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/trace"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
	"github.com/byssus-hpc/byssus/amt/internal/random"
)

// A tracedEvent is one of the Trace Event Format.
type tracedEvent struct {
	Ph, Name, Cat, ID, Bp string
	Pid, Tid              int
	Ts, Dur               float64
	ID2                   struct{ Local string }
	Args                  map[string]any
}

type traced struct {
	TraceEvents []tracedEvent
	OtherData   struct {
		Ranks int
		Parts []struct {
			Rank    int
			Dropped uint64
		}
	}
}

// readTrace reads a file, and looks for all that holds for each: the parts of all ranks, durations of a track lie within each other or
// apart, arrows begin and end within one, what is begun ends.
func readTrace(t *testing.T, file string, ranks int) *traced {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tr := new(traced)
	if err := json.Unmarshal(b, tr); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var from []int
	for _, p := range tr.OtherData.Parts {
		from = append(from, p.Rank)
	}
	slices.Sort(from)
	if len(from) != ranks || tr.OtherData.Ranks != ranks || from[0] != 0 || from[ranks-1] != ranks-1 {
		t.Fatalf("%s: parts of ranks %v of %d", file, from, ranks)
	}
	tr.nested(t)
	tr.paired(t)
	return tr
}

// nanos is a time without what is lost by its being a decimal fraction.
func nanos(us float64) int64 { return int64(us*1000 + 0.5) }

// nested looks whether durations are.
func (tr *traced) nested(t *testing.T) {
	t.Helper()
	tracks := map[[2]int][]tracedEvent{}
	for _, e := range tr.TraceEvents {
		if at := [2]int{e.Pid, e.Tid}; strings.Contains("Xsfi", e.Ph) {
			tracks[at] = append(tracks[at], e)
		}
	}
	for at, all := range tracks {
		slices.SortStableFunc(all, func(a, b tracedEvent) int { return int(nanos(a.Ts) - nanos(b.Ts)) })
		var ends []int64
		for _, e := range all {
			begin := nanos(e.Ts)
			for len(ends) > 0 && ends[len(ends)-1] <= begin {
				ends = ends[:len(ends)-1]
			}
			if e.Ph != "X" {
				if len(ends) == 0 && e.Ph != "i" && tr.dropped() == 0 {
					t.Errorf("track %v: %+v is in no duration", at, e)
				}
				continue
			}
			end := begin + nanos(e.Dur)
			if len(ends) > 0 && end > ends[len(ends)-1] {
				t.Errorf("track %v: %+v ends at %d, what it lies in at %d", at, e, end, ends[len(ends)-1])
			}
			ends = append(ends, end)
		}
	}
}

func (tr *traced) dropped() (n uint64) {
	for _, p := range tr.OtherData.Parts {
		n += p.Dropped
	}
	return n
}

// paired looks whether arrows and epochs are.
func (tr *traced) paired(t *testing.T) {
	t.Helper()
	sent, open := map[string]float64{}, map[string]int{}
	for _, e := range tr.TraceEvents {
		at := fmt.Sprint(e.Pid, " ", e.Cat, " ", e.ID2.Local, " ", e.Name)
		switch e.Ph {
		case "s":
			if _, twice := sent[e.ID]; twice {
				t.Errorf("two messages have the number %s", e.ID)
			}
			sent[e.ID] = e.Ts
		case "b":
			open[at]++
		case "e":
			if open[at]--; open[at] < 0 {
				t.Errorf("%+v was not begun", e)
			}
		case "X", "f", "i", "C", "M":
		default:
			t.Errorf("%+v: what is it?", e)
		}
	}
	for at, n := range open {
		if n != 0 {
			t.Errorf("%s has no end", at)
		}
	}
	handled := map[string]bool{}
	for _, e := range tr.TraceEvents {
		if e.Ph != "f" {
			continue
		}
		if at, found := sent[e.ID]; (!found && tr.dropped() == 0) || at > e.Ts || handled[e.ID] || e.Bp != "e" {
			t.Errorf("message %s is handled at %v, and sent at %v (%v); handled before: %v", e.ID, e.Ts, at, found, handled[e.ID])
		}
		handled[e.ID] = true
	}
}

// count is how many events of a kind there are whose name has a text.
func (tr *traced) count(ph, cat, name string) (n int) {
	for _, e := range tr.TraceEvents {
		if e.Ph == ph && e.Cat == cat && strings.Contains(e.Name, name) {
			n++
		}
	}
	return n
}

// leap is a message to an element that may go elsewhere.
type leap struct{ Left, Seed uint64 }

// parcel is one that may be longer than a batch.
type tracedParcel struct {
	Left, Seed uint64
	B          []byte
}

type tracedAll struct{ X uint64 }

type empty struct{}

// did is what the program counts of itself.
type did struct{ Leaps, Parcels, All, Urgent, Empty, Moves, Tasks, Follows, Drums atomic.Int64 }

var (
	leapers  amt.Collection[amt.Index2, cell]
	leapOn   amt.Method[amt.Index2, cell, leap]
	leapDrum amt.Method[amt.Index2, cell, number]
	parcels  amt.Handler[tracedParcel]
	toAll    amt.Handler[tracedAll]
	urgent   amt.Handler[leap]
	empties  amt.Handler[empty]
	traces   = &did{}
)

func init() {
	leapers.Is("leapers")
	leapOn.Is(&leapers, func(c amt.At[amt.Index2], e *cell, m *leap) {
		traces.Leaps.Add(1)
		if to := int(m.Seed>>20) % (2 * c.Ranks()); to < c.Ranks() {
			if to != c.Rank() {
				traces.Moves.Add(1)
			}
			c.MoveTo(to)
		}
		if next := m.Seed*6364136223846793005 + 1; m.Left > 0 {
			leapOn.Send(c.Context, amt.Index2{X: int(next >> 33 % 4), Y: int(next >> 40 % 4)}, &leap{m.Left - 1, next})
		}
	})
	leapDrum.Is(&leapers, func(amt.At[amt.Index2], *cell, *number) { traces.Drums.Add(1) })
	parcels.Is(func(c amt.Context, m *tracedParcel) {
		traces.Parcels.Add(1)
		next := m.Seed*6364136223846793005 + 1
		if m.Left == 0 {
			return
		}
		empties.Send(c, int(next>>35)%c.Ranks(), &empty{})
		urgent.SendAt(c, int(next>>36)%c.Ranks(), &leap{}, amt.Priority(next>>50%3))
		m.B[0]++
		parcels.Send(c, int(next>>37)%c.Ranks(), &tracedParcel{m.Left - 1, next, make([]byte, 1+next>>30%40_000)})
	})
	toAll.Is(func(c amt.Context, m *tracedAll) { traces.All.Add(1) })
	urgent.Is(func(c amt.Context, m *leap) { traces.Urgent.Add(1) })
	empties.Is(func(c amt.Context, m *empty) { traces.Empty.Add(1) })
}

// tracedProgram does a little of everything.
func tracedProgram(c amt.Context) error {
	if err := leapers.Create(c, amt.Index2{X: 4, Y: 4}, func(amt.Index2) (cell, error) { return cell{}, nil }); err != nil {
		return err
	}
	for phase := range 3 {
		err := c.Collective("all of it", func(c amt.Context) error {
			seed := uint64(c.Rank()*3+phase) * 0x9e3779b97f4a7c15
			leapOn.Send(c, amt.Index2{X: c.Rank() % 4, Y: phase}, &leap{40, seed})
			parcels.Send(c, (c.Rank()+1)%c.Ranks(), &tracedParcel{20, seed, []byte{1}})
			toAll.Broadcast(c, &tracedAll{})
			leapDrum.Broadcast(c, &number{})
			c.Go("works", func(c amt.Context) error {
				traces.Tasks.Add(1)
				return c.Rooted("of a task", func(c amt.Context) error { empties.Send(c, 0, &empty{}); return nil }).Wait(c)
			})
			c.Rooted("first", func(c amt.Context) error { empties.Send(c, 0, &empty{}); return nil }).OnDone(c, func(amt.Context) { traces.Follows.Add(1) })
			return nil
		}).Wait(c)
		if err == nil {
			err = c.Phase(amt.Given("leapers", make([]int, 16)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestTrace: what is noted of a program is what it has counted itself.
func TestTrace(t *testing.T) {
	const ranks = 3
	for n := range 4 {
		file := filepath.Join(t.TempDir(), "trace.json")
		t.Setenv(amt.TraceVariable, file)
		*traces = did{}
		if n%2 == 0 {
			amttest.Run(t, ranks, tracedProgram)
		} else if err := amt.RunLocal(ranks, tracedProgram); err != nil {
			t.Fatal(err)
		}
		tr := readTrace(t, file, ranks)
		for _, x := range []struct {
			ph, cat, name string
			want          int64
		}{
			{"X", "method", "amt_test.leap ", traces.Leaps.Load()},
			{"X", "method", "amt_test.number ", traces.Drums.Load()},
			{"X", "handler", "amt_test.tracedParcel ", traces.Parcels.Load()},
			{"X", "handler", "amt_test.tracedAll ", traces.All.Load()},
			{"X", "handler", "amt_test.leap ", traces.Urgent.Load()},
			{"X", "handler", "amt_test.empty ", traces.Empty.Load()},
			{"X", "task", "works", traces.Tasks.Load()},
			{"X", "wait", "of a task", traces.Tasks.Load()},
			{"X", "after", "after first", traces.Follows.Load()},
			{"X", "main", "main function", ranks},
			{"b", "phase", "", 3 * ranks},
			{"b", "epoch", "all of it", 3 * ranks},
			{"b", "epoch", "of a task", 3 * ranks},
		} {
			if got := tr.count(x.ph, x.cat, x.name); int64(got) != x.want || x.want == 0 {
				t.Errorf("%s %s: found %d, the program has counted %d", x.cat, x.name, got, x.want)
			}
		}
		leaves, arrives := tr.count("i", "element", "leaves leapers"), tr.count("X", "element", "arrives in leapers")
		if leaves != arrives || int64(leaves) < traces.Moves.Load() || leaves == 0 {
			t.Errorf("%d elements leave, %d arrive; %d have asked for it", leaves, arrives, traces.Moves.Load())
		}
		if s, f := tr.count("s", "message", ""), tr.count("f", "message", ""); s != f {
			t.Errorf("%d messages are sent, %d handled", s, f)
		}
		for _, e := range tr.TraceEvents {
			if e.Cat == "method" && !strings.HasPrefix(fmt.Sprint(e.Args["element"]), "{") {
				t.Errorf("%+v has no element", e)
			}
		}
	}
}

// TestTraceRandom: random programs, whose messages are of any length, have as many arrows as messages.
func TestTraceRandom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	t.Setenv(amt.TraceVariable, file)
	t.Logf("seed %d", *seed)
	for n := *seed; n < *seed+8; n++ {
		ranks := 1 + int(n%5)
		if err := (amt.Trial{Seed: n | 1, Poison: true}).RunLocal(ranks, random.Program(n, ranks)); err != nil {
			t.Fatal(err)
		}
		tr := readTrace(t, file, ranks)
		if s, f := tr.count("s", "message", ""), tr.count("f", "message", ""); s != f && tr.count("X", "handler", "") > 0 {
			t.Errorf("program %d on %d ranks: %d messages are sent, %d handled", n, ranks, s, f)
		}
	}
}

// TestTraceBounded: there is no more in a file than there was room for, and it says what is not.
func TestTraceBounded(t *testing.T) {
	const limit, messages = 1 << 20, 100_000
	file := filepath.Join(t.TempDir(), "trace.json")
	t.Setenv(amt.TraceVariable, file)
	t.Setenv(amt.TraceMemoryVariable, "1M")
	if err := amt.RunLocal(1, func(c amt.Context) error {
		return c.Collective("all", func(c amt.Context) error { chain.Send(c, 0, &number{messages - 1}); return nil }).Wait(c)
	}); err != nil {
		t.Fatal(err)
	}
	tr := readTrace(t, file, 1)
	handled, said := tr.count("X", "handler", "amt_test.number"), uint64(0)
	for _, e := range tr.TraceEvents {
		if e.Name == "process_labels" {
			if _, err := fmt.Sscanf(fmt.Sprint(e.Args["labels"]), "%d older events are not here", &said); err != nil {
				t.Error(err)
			}
		}
	}
	// Of each message that is not there three events are not, and perhaps some of what else there was.
	if gone := 3 * uint64(messages-handled); tr.dropped() != said || said < gone-4096 || said > gone+gone/10 || handled*eventBytes > limit {
		t.Errorf("%d messages are there; %d events are said to be dropped, the file says %d", handled, said, tr.dropped())
	}
	if tr.count("X", "main", "") != 1 || tr.count("b", "epoch", "all") != 1 {
		t.Error("what has lasted from the beginning on is not there")
	}
}

const eventBytes = 32

const tracedVariable = "AMT_TEST_TRACED"

// TestTraceAtTheEnd: the file is there after an error, a hang, a panic and a Goexit; that it cannot be written is told, and no more.
func TestTraceAtTheEnd(t *testing.T) {
	ends := map[string]func(c amt.Context) error{
		"error": func(c amt.Context) error { return errors.New("bad") },
		"hang": func(c amt.Context) error {
			if c.Rank() == 0 {
				return c.Collective("never", func(amt.Context) error { return nil }).Wait(c)
			}
			return nil
		},
		"panic": func(c amt.Context) error { panic("bad") },
		"fine":  func(c amt.Context) error { return nil },
	}
	if how := os.Getenv(tracedVariable); how != "" {
		fmt.Println(amt.RunLocal(2, func(c amt.Context) error {
			err := c.Collective("all", func(c amt.Context) error { sink.Send(c, 1-c.Rank(), &number{}); return nil }).Wait(c)
			if err != nil {
				return err
			}
			return ends[how](c)
		}))
		return
	}
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign", "trace.json") // in a directory that is not there
	for _, x := range []struct{ how, file, prints, says string }{
		{"error", "error.json", "bad", ""}, {"hang", "hang.json", "nothing can go on", ""}, {"panic", "panic.json", "", "panics: bad"}, {"fine", foreign, "<nil>", "no such file"},
	} {
		if !filepath.IsAbs(x.file) {
			x.file = filepath.Join(dir, x.file)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTraceAtTheEnd$")
		cmd.Env = append(os.Environ(), tracedVariable+"="+x.how, amt.TraceVariable+"="+x.file)
		var said strings.Builder
		cmd.Stderr = &said
		out, _ := cmd.Output()
		if !strings.Contains(string(out), x.prints) || !strings.Contains(said.String(), x.says) {
			t.Errorf("%s: it prints %q and says %q", x.how, out, said.String())
		}
		if x.says == "no such file" {
			continue
		}
		b, err := os.ReadFile(x.file)
		if err != nil || !json.Valid(b) || !bytes.Contains(b, []byte("amt_test.number")) {
			t.Errorf("%s: %v: %.200q", x.how, err, b)
		}
	}
}

// TestRegions: Go's own tracer sees handlers, methods and epochs while it is on.
func TestRegions(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("it is on already")
	}
	*traces = did{}
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	err := amt.RunLocal(2, tracedProgram)
	trace.Stop()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"all of it", "amt_test.leap (trace_test.go", "amt_test.number (trace_test.go", "amt_test.tracedParcel (trace_test.go"} {
		if !bytes.Contains(b.Bytes(), []byte(name)) {
			t.Errorf("there is no %q in what Go's tracer has seen", name)
		}
	}
}
