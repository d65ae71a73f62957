package outputs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
)

// world is a driver that keeps what is to be called back until the test says so, and looks at all that is ordered.
type world struct {
	t        *testing.T
	b        *Book
	number   uint64
	asked    map[uint64]bool   // requests that are not answered yet
	answers  map[uint64]Answer // to requests
	due      []func()          // callbacks
	cached   map[uint64]bool
	prefix   map[uint64]bool
	ready    map[uint64]bool // there is room for these datasets before they are begun
	full     map[uint64]bool // and cannot be for these
	placed   map[uint64]bool
	fails    map[uint64]bool // datasets that cannot be stored
	unflush  map[uint64]bool // or copied
	gone     map[uint64]bool // or had
	counting map[uint64]bool
	said     []string
	memory   Memory
	heeded   int
	now      time.Duration
	awaited  []Ask
	inPrefix int // datasets that were wanted in the prefix, wherever they are
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, asked: map[uint64]bool{}, answers: map[uint64]Answer{}, cached: map[uint64]bool{}, prefix: map[uint64]bool{}, fails: map[uint64]bool{},
		ready: map[uint64]bool{}, full: map[uint64]bool{}, placed: map[uint64]bool{},
		unflush: map[uint64]bool{}, gone: map[uint64]bool{}, counting: map[uint64]bool{}}
	w.b = New(w, nil, 0, Memory{})
	return w
}

func (w *world) ask(node int) Ask {
	w.number++
	w.asked[w.number] = true
	return Ask{w.number, node}
}

func (w *world) Answer(ask Ask, a Answer) {
	if !w.asked[ask.Number] {
		w.t.Fatalf("request %d is answered twice, or was not made", ask.Number)
	}
	delete(w.asked, ask.Number)
	w.answers[ask.Number] = a
}

func (w *world) later(f func()) { w.due = append(w.due, f) }

// turn calls one of the callbacks that are due back, all of them with any < 0.
func (w *world) turn(any int) {
	for len(w.due) > 0 {
		i := 0
		if any >= 0 {
			i = any % len(w.due)
		}
		f := w.due[i]
		w.due = slices.Delete(w.due, i, i+1)
		f()
		if any >= 0 {
			return
		}
	}
}

func (w *world) Place(n uint64, bypass bool, at []int, then func(string, error)) (string, bool) {
	dir := fmt.Sprintf("/dir/%d", n)
	if w.ready[n] {
		w.placed[n] = true
		return dir, true
	}
	w.later(func() {
		if w.full[n] {
			then("", errors.New("there is no room"))
			return
		}
		w.placed[n] = true
		then(dir, nil)
	})
	return "", false
}

func (w *world) Commit(n uint64, l holding.Label, _ settings.Pick, at []int, then func(string)) {
	if len(at) != l.Ranks {
		w.t.Fatalf("dataset %d: %d ranks have written it, wanted %d", n, len(at), l.Ranks)
	}
	w.later(func() {
		if w.fails[n] {
			then("the disk is full")
			return
		}
		if l.InPlace {
			w.prefix[n] = true
		} else {
			w.cached[n] = true
		}
		then("")
	})
}

func (w *world) Discard(n uint64, _ bool) {
	if w.cached[n] || w.prefix[n] {
		w.t.Fatalf("dataset %d counts, and is discarded", n)
	}
}

func (w *world) Flush(n uint64, then func(error)) {
	if !w.cached[n] { // which is known at once
		then(errors.New("it is not there"))
		return
	}
	w.later(func() {
		if w.unflush[n] {
			then(errors.New("the prefix is full"))
			return
		}
		w.prefix[n] = true
		then(nil)
	})
}

func (w *world) Evict(n uint64) {
	if !w.prefix[n] {
		w.t.Fatalf("dataset %d is evicted, and nowhere else", n)
	}
	delete(w.cached, n)
}

func (w *world) Forget(n uint64, files bool) {
	delete(w.cached, n)
	delete(w.prefix, n)
}

func (w *world) Restore(d Dataset, at []int, prefix bool, then func(bool, error)) {
	if prefix {
		w.inPrefix++
	}
	w.later(func() {
		if w.gone[d.Number] {
			then(false, errors.New("more is lost than its redundancy covers"))
			return
		}
		then(!w.cached[d.Number], nil)
	})
}

func (w *world) Changed() { w.memory = w.b.Memory() }

func (w *world) Counts(n uint64, counts bool) {
	if w.counting[n] == counts {
		w.t.Fatalf("dataset %d: told twice that it counts: %v", n, counts)
	}
	w.counting[n] = counts
}

func (w *world) Await(ask Ask)      { w.awaited = append(w.awaited, ask) }
func (w *world) Heeded()            { w.heeded++ }
func (w *world) Say(text string)    { w.said = append(w.said, text) }
func (w *world) Now() time.Duration { return w.now }

// begin begins a program whose ranks have joined, and returns its number.
func (w *world) begin(ranks int, p Policy) uint64 {
	for rank := range w.b.program.ranks { // the one before is gone
		w.b.Left(w.b.Run(), rank)
	}
	ask := w.ask(0)
	w.b.Begin(ask, ranks, p, First{})
	run := w.answers[ask.Number].Run
	for rank := range ranks {
		w.b.Join(w.ask(rank/2), run, rank)
	}
	return run
}

// open begins a dataset, and returns its number; 0: it is not answered yet.
func (w *world) open(run uint64, l holding.Label) (Ask, uint64) {
	ask := w.ask(0)
	w.b.Open(ask, run, l)
	return ask, w.answers[ask.Number].Dataset
}

// write writes a dataset from its beginning to its end, but for what is stored behind the program's back.
func (w *world) write(run uint64, ranks int, name string) uint64 {
	w.t.Helper()
	ask, _ := w.open(run, holding.Label{Name: name, Checkpoint: true})
	w.turn(-1)
	a := w.answers[ask.Number]
	if a.Refused != "" {
		w.t.Fatal(a.Refused)
	}
	for rank := range ranks {
		w.b.Written(w.ask(rank/2), Part{Run: run, Dataset: a.Dataset, Rank: rank, Valid: true, Bytes: 1})
	}
	return a.Dataset
}

func (w *world) newest(run uint64) Answer {
	w.t.Helper()
	ask := w.ask(0)
	w.b.Newest(ask, run)
	w.turn(-1)
	a, ok := w.answers[ask.Number]
	if !ok || a.Refused != "" {
		w.t.Fatalf("the newest: %+v, answered %v", a, ok)
	}
	return a
}

var cached = Policy{Prefix: "/p", Keep: 1, Flush: 2}

// TestLife: the one before stays until the next counts; every second one is copied; older ones leave the caches.
func TestLife(t *testing.T) {
	w := newWorld(t)
	run := w.begin(4, cached)
	if a := w.newest(run); a.Dataset != 0 {
		t.Fatalf("%+v, wanted nothing to restart from", a)
	}
	first := w.write(run, 4, "a")
	w.turn(-1)
	second := w.write(run, 4, "b")
	if !w.cached[first] || w.cached[second] {
		t.Errorf("the first is gone before the second counts: %v", w.cached)
	}
	w.turn(-1)
	if w.cached[first] || !w.cached[second] || !w.prefix[second] || len(w.b.List()) != 1 {
		t.Errorf("caches %v, prefix %v, %+v", w.cached, w.prefix, w.b.List())
	}
	third := w.write(run, 4, "c")
	w.turn(-1)
	if !w.cached[third] || w.prefix[third] || w.cached[second] || !w.prefix[second] {
		t.Errorf("caches %v, prefix %v", w.cached, w.prefix)
	}
	end := w.ask(0)
	w.b.End(end, run)
	w.turn(-1)
	if _, ok := w.answers[end.Number]; !ok || !w.prefix[third] {
		t.Errorf("at the end: prefix %v, answered %v", w.prefix, ok)
	}
	if len(w.asked) > 0 {
		t.Errorf("not answered: %v", w.asked)
	}
}

// TestUnsettled: a third dataset waits until one of the first two is stored.
func TestUnsettled(t *testing.T) {
	w := newWorld(t)
	run := w.begin(2, cached)
	for i := range 2 {
		ask, _ := w.open(run, holding.Label{Checkpoint: true})
		w.due[len(w.due)-1]() // there is room for it
		w.due = w.due[:len(w.due)-1]
		n := w.answers[ask.Number].Dataset
		for rank := range 2 {
			w.b.Written(w.ask(0), Part{Run: run, Dataset: n, Rank: rank, Valid: true})
		}
		if n != uint64(i+1) || w.answers[ask.Number].Label.Name != fmt.Sprintf("scr.dataset.%d", n) {
			t.Errorf("%+v", w.answers[ask.Number])
		}
	}
	ask, n := w.open(run, holding.Label{Checkpoint: true})
	if n != 0 || len(w.due) != 2 {
		t.Fatalf("dataset %d has begun beside two that are being stored (%d callbacks)", n, len(w.due))
	}
	w.turn(-1)
	if w.answers[ask.Number].Dataset != 3 {
		t.Errorf("%+v", w.answers[ask.Number])
	}
}

// TestReady: a dataset for which there is room already begins at once; one for which there is none is refused.
func TestReady(t *testing.T) {
	w := newWorld(t)
	run := w.begin(1, Policy{Prefix: "/p", Bypass: true})
	w.ready[1] = true
	if ask, n := w.open(run, holding.Label{Checkpoint: true}); n != 1 || w.answers[ask.Number].Dir != "/dir/1" || len(w.due) != 0 {
		t.Errorf("%+v, %d callbacks are due", w.answers[ask.Number], len(w.due))
	}
	w.b.Written(w.ask(0), Part{Run: run, Dataset: 1, Valid: true})
	w.turn(-1)
	w.full[2] = true
	ask, n := w.open(run, holding.Label{Checkpoint: true})
	w.turn(-1)
	if a := w.answers[ask.Number]; n != 0 || a.Refused == "" || !slices.Equal(w.b.Checkpoints(), []uint64{1}) {
		t.Errorf("%+v, %v", a, w.b.Checkpoints())
	}
}

// TestRefusals: what is not in order is refused by name.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	old := w.begin(2, cached)
	run := w.begin(2, cached)
	refused := func(want string, do func(ask Ask)) {
		t.Helper()
		ask := w.ask(0)
		do(ask)
		w.turn(-1)
		if a, ok := w.answers[ask.Number]; !ok || !strings.Contains(a.Refused, want) {
			t.Errorf("%+v, wanted a refusal with %q", a, want)
		}
	}
	refused("is over", func(ask Ask) { w.b.Open(ask, old, holding.Label{}) })
	refused("is over", func(ask Ask) { w.b.Newest(ask, old) })
	refused("rank 2 of 2", func(ask Ask) { w.b.Join(ask, run, 2) })
	refused("control characters", func(ask Ask) { w.b.Open(ask, run, holding.Label{Name: "a\nb"}) })
	refused("at most 1023", func(ask Ask) { w.b.Open(ask, run, holding.Label{Name: strings.Repeat("x", 1024)}) })
	ask, _ := w.open(run, holding.Label{Name: "a", Checkpoint: true})
	refused("so that another can begin", func(ask Ask) { w.b.Open(ask, run, holding.Label{}) })
	w.turn(-1)
	n := w.answers[ask.Number].Dataset
	refused("is not complete", func(ask Ask) { w.b.Open(ask, run, holding.Label{}) })
	refused("not being written", func(ask Ask) { w.b.Written(ask, Part{Run: run, Dataset: n + 1}) })
	w.b.Written(w.ask(0), Part{Run: run, Dataset: n, Rank: 1, Valid: true})
	refused("already", func(ask Ask) { w.b.Written(ask, Part{Run: run, Dataset: n, Rank: 1, Valid: true}) })
	refused("already", func(ask Ask) { w.b.Written(ask, Part{Run: run, Dataset: n, Rank: -1, Valid: true}) })
	refused("no dataset 9", func(ask Ask) { w.b.Read(ask, run, 9, true) })
	if err := w.b.Current("zzz"); err == nil {
		t.Error("a dataset that is not there is current")
	}
	if err := w.b.Drop("a", false); err == nil {
		t.Error("a dataset that does not count is dropped")
	}
	third := w.ask(0)
	w.b.Begin(third, 0, cached, First{})
	if w.answers[third.Number].Refused == "" {
		t.Error("a program without ranks")
	}
}

// TestInvalid: one rank says that its part is not valid: the dataset does not count, the one before does.
func TestInvalid(t *testing.T) {
	w := newWorld(t)
	run := w.begin(2, cached)
	first := w.write(run, 2, "a")
	w.turn(-1)
	ask, _ := w.open(run, holding.Label{Name: "b", Checkpoint: true})
	w.turn(-1)
	n := w.answers[ask.Number].Dataset
	w.b.Written(w.ask(0), Part{Run: run, Dataset: n, Rank: 0, Valid: false})
	w.b.Written(w.ask(0), Part{Run: run, Dataset: n, Rank: 1, Valid: true})
	w.turn(-1)
	if a := w.newest(run); a.Dataset != first {
		t.Errorf("%+v, wanted %d", a, first)
	}
}

// TestUnreadable: a dataset that could not be read is not offered again, also by the next that decides; an older one is. Somebody may
// know better.
func TestUnreadable(t *testing.T) {
	w := newWorld(t)
	p := cached
	p.Keep = 3
	run := w.begin(2, p)
	w.write(run, 2, "a")
	w.write(run, 2, "b")
	w.turn(-1)
	w.b.Read(w.ask(0), run, w.newest(run).Dataset, false)
	if a := w.newest(run); a.Label.Name != "a" {
		t.Errorf("%+v", a)
	}
	again := New(w, w.b.List(), 2, w.memory)
	if list := again.Checkpoints(); !slices.Equal(list, []uint64{1}) {
		t.Errorf("the next one offers %v", list)
	}
	if err := w.b.Current("b"); err != nil || w.newest(run).Label.Name != "b" {
		t.Errorf("%v, %+v", err, w.newest(run))
	}
	if err := w.b.Current("a"); err != nil || w.newest(run).Label.Name != "a" {
		t.Errorf("%v, %+v", err, w.newest(run))
	}
	w.write(run, 2, "c")
	w.turn(-1)
	if w.newest(run).Label.Name != "c" {
		t.Errorf("after a new one: %+v", w.newest(run))
	}
}

// TestTwoPrograms: a second program begins when the ranks of the first are gone, also with their node; it is refused if they stay.
func TestTwoPrograms(t *testing.T) {
	w := newWorld(t)
	run := w.begin(3, cached) // ranks 0 and 1 on node 0, rank 2 on node 1
	second := w.ask(0)
	w.b.Begin(second, 2, cached, First{})
	third := w.ask(0)
	w.b.Begin(third, 2, cached, First{})
	if a := w.answers[third.Number]; !strings.Contains(a.Refused, "program 1 of this job, of 3 ranks, is not over") {
		t.Errorf("%+v", a)
	}
	w.b.Left(run, 0)
	w.b.Left(run, 0)
	w.b.Lost(1)
	if _, answered := w.answers[second.Number]; answered || len(w.awaited) != 1 {
		t.Fatalf("it has begun beside a rank of the first, awaited %v", w.awaited)
	}
	w.b.Left(run, 1)
	if a := w.answers[second.Number]; a.Run != 2 || a.Refused != "" {
		t.Errorf("%+v", a)
	}
	for rank := range 2 {
		w.b.Join(w.ask(0), 2, rank)
	}
	fourth := w.ask(0)
	w.b.Begin(fourth, 1, cached, First{})
	w.b.GiveUp(fourth)
	w.b.GiveUp(fourth)
	if a := w.answers[fourth.Number]; !strings.Contains(a.Refused, "is not over") {
		t.Errorf("%+v", a)
	}
	w.b.End(w.ask(0), 2)
	w.turn(-1)
	fifth := w.ask(0)
	w.b.Begin(fifth, 1, cached, First{})
	if a := w.answers[fifth.Number]; a.Run != 3 {
		t.Errorf("after the end of the one before: %+v", a)
	}
}

// TestOtherPrefix: a job whose prefix has been moved goes on there; a program with another one than the program before is refused.
func TestOtherPrefix(t *testing.T) {
	w := newWorld(t)
	run := w.begin(1, cached)
	w.write(run, 1, "a")
	w.turn(-1)
	moved := cached
	moved.Prefix = "/moved"
	for rank := range 1 {
		w.b.Left(run, rank)
	}
	ask := w.ask(0)
	w.b.Begin(ask, 1, moved, First{})
	if a := w.answers[ask.Number]; !strings.Contains(a.Refused, "below /p, those of this program below /moved") {
		t.Errorf("%+v", a)
	}
	w.b = New(w, w.b.List(), 1, w.memory)
	ask = w.ask(0)
	w.b.Begin(ask, 1, moved, First{})
	if a := w.answers[ask.Number]; a.Refused != "" || w.b.Prefix() != "/moved" {
		t.Errorf("%+v", a)
	}
}

// TestUnfit: a program of another number of ranks that cannot read a dataset does not spoil it for others.
func TestUnfit(t *testing.T) {
	w := newWorld(t)
	run := w.begin(2, cached)
	w.write(run, 2, "a")
	w.turn(-1)
	run = w.begin(3, cached)
	w.b.Read(w.ask(0), run, w.newest(run).Dataset, false)
	if a := w.newest(run); a.Dataset != 0 {
		t.Errorf("it is offered again: %+v", a)
	}
	run = w.begin(2, cached)
	if a := w.newest(run); a.Label.Name != "a" {
		t.Errorf("%+v", a)
	}
}

// TestLost: what cannot be had is passed by, and stays.
func TestLost(t *testing.T) {
	w := newWorld(t)
	p := cached
	p.Keep, p.Flush = 3, 0
	run := w.begin(2, p)
	w.write(run, 2, "a")
	second := w.write(run, 2, "b")
	w.turn(-1)
	w.gone[second] = true
	if a := w.newest(run); a.Label.Name != "a" {
		t.Errorf("%+v", a)
	}
	delete(w.gone, second)
	if a := w.newest(run); a.Label.Name != "b" {
		t.Errorf("%+v", a)
	}
}

// TestOutputs: results go to the prefix, and leave the caches; with FlushWait their completion is answered then.
func TestOutputs(t *testing.T) {
	w := newWorld(t)
	p := cached
	p.FlushWait = true
	run := w.begin(1, p)
	ask, _ := w.open(run, holding.Label{Name: "result", Output: true})
	w.turn(-1)
	n := w.answers[ask.Number].Dataset
	done := w.ask(0)
	w.b.Written(done, Part{Run: run, Dataset: n, Valid: true})
	if _, ok := w.answers[done.Number]; ok {
		t.Error("it is answered before it is in the prefix")
	}
	w.turn(-1)
	if _, ok := w.answers[done.Number]; !ok || !w.prefix[n] || w.cached[n] {
		t.Errorf("answered %v, prefix %v, caches %v", ok, w.prefix, w.cached)
	}
	if a := w.newest(run); a.Dataset != 0 {
		t.Errorf("a result is offered to restart from: %+v", a)
	}
}

// TestFlushWait: with FlushWait a checkpoint that is copied to the prefix is complete when it is there; others are at once.
func TestFlushWait(t *testing.T) {
	w := newWorld(t)
	p := cached
	p.FlushWait = true
	run := w.begin(1, p)
	for _, waits := range []bool{false, true, false, true} {
		ask, _ := w.open(run, holding.Label{Checkpoint: true})
		w.turn(-1)
		n := w.answers[ask.Number].Dataset
		done := w.ask(0)
		w.b.Written(done, Part{Run: run, Dataset: n, Valid: true})
		if _, ok := w.answers[done.Number]; ok == waits {
			t.Errorf("dataset %d: answered %v", n, ok)
		}
		w.turn(-1)
		if a, ok := w.answers[done.Number]; !ok || a.Refused != "" || w.prefix[n] != waits {
			t.Errorf("dataset %d: answered %v, %+v, prefix %v", n, ok, a, w.prefix)
		}
	}
}

// TestFirst: what a program wants done before it restarts is done for one that begins anew, not again when it is started again.
func TestFirst(t *testing.T) {
	w := newWorld(t)
	p := cached
	p.Keep = 5
	p.Restart.DropAfter = true
	begin := func(first First) (run uint64, names string) {
		ask := w.ask(0)
		w.b.Begin(ask, 1, p, first)
		run = w.answers[ask.Number].Run
		w.b.Join(w.ask(0), run, 0)
		for _, d := range w.b.List() {
			names += d.Name
		}
		return run, names
	}
	write := func(run uint64, names string) {
		for _, name := range names {
			w.write(run, 1, string(name))
			w.turn(-1)
		}
	}
	run, _ := begin(First{})
	write(run, "abc")
	w.b.Left(run, 0)
	w.b = New(w, w.b.List(), 3, w.memory)
	run, names := begin(First{Current: "b"})
	if names != "ab" {
		t.Errorf("b is current, and there are %s", names)
	}
	write(run, "de")
	w.b.Left(run, 0)
	run, names = begin(First{Current: "b", PurgeAll: true, Purge: true})
	if names != "abde" || len(w.said) != 1 || !strings.Contains(w.said[0], "started again: its datasets are not deleted") {
		t.Errorf("started again it has %s; %q", names, w.said)
	}
	w.b.End(w.ask(0), run)
	w.turn(-1)
	if run, names = begin(First{Purge: true}); names != "be" || len(w.cached) > 0 {
		t.Errorf("without what was in the caches alone: %s; there %v", names, w.cached)
	}
	w.b.End(w.ask(0), run)
	w.turn(-1)
	if _, names = begin(First{PurgeAll: true}); names != "" || len(w.prefix) > 0 {
		t.Errorf("without what was in the prefix: %s; there %v", names, w.prefix)
	}
}

// TestWherefrom: settings say from where a program restarts: what the caches have is left out, or what the prefix has, or all is read there.
func TestWherefrom(t *testing.T) {
	for _, c := range []struct {
		Restart
		want   string // of a, which is in the caches alone, b, which is in the prefix as well, and c, in the caches alone
		stored bool   // c is in the prefix then
	}{
		{Restart{}, "c", false}, {Restart{NotCaches: true}, "b", false}, {Restart{NotPrefix: true}, "c", false}, {Restart{NotCaches: true, NotPrefix: true}, "", false},
		{Restart{Flush: true}, "c", true}, {Restart{InPrefix: true}, "c", false}, {Restart{InPrefix: true, Flush: true}, "c", true},
	} {
		w := newWorld(t)
		p := cached
		p.Keep = 5
		run := w.begin(1, p)
		for _, name := range []string{"a", "b", "c"} {
			w.write(run, 1, name)
			w.turn(-1)
		}
		p.Restart = c.Restart
		run = w.begin(1, p)
		if a := w.newest(run); a.Label.Name != c.want || w.prefix[3] != c.stored || (w.inPrefix > 0) != c.InPrefix {
			t.Errorf("%+v: found %q, c in the prefix %v, wanted there %d times", c.Restart, a.Label.Name, w.prefix[3], w.inPrefix)
		}
	}
}

// TestStuck: what cannot be copied stays in the caches, is named, and tried once.
func TestStuck(t *testing.T) {
	w := newWorld(t)
	p := cached
	p.Flush = 1
	run := w.begin(1, p)
	w.unflush[1] = true
	w.write(run, 1, "a")
	w.turn(-1)
	end := w.ask(0)
	w.b.End(end, run)
	w.turn(-1)
	if a := w.answers[end.Number]; !strings.Contains(a.Refused, "stays in the caches") || !w.cached[1] || !w.b.Stuck() {
		t.Errorf("%+v, caches %v", a, w.cached)
	}
}

// TestStuckAtOnce: what a lost node alone had cannot be copied, which is known when the program says that it ends.
func TestStuckAtOnce(t *testing.T) {
	w := newWorld(t)
	p := cached
	p.Flush = 2
	run := w.begin(1, p)
	w.write(run, 1, "a")
	w.turn(-1)
	delete(w.cached, 1)
	end := w.ask(0)
	w.b.End(end, run)
	w.turn(-1)
	if a := w.answers[end.Number]; !strings.Contains(a.Refused, "not all that was written could be copied") {
		t.Errorf("%+v", a)
	}
}

// TestSameName: a dataset of a name that another has takes its place, once it counts.
func TestSameName(t *testing.T) {
	w := newWorld(t)
	p := cached
	p.Keep = 5
	run := w.begin(1, p)
	w.write(run, 1, "a")
	w.turn(-1)
	w.fails[2] = true
	w.write(run, 1, "a")
	w.turn(-1)
	if list := w.b.Checkpoints(); !slices.Equal(list, []uint64{1}) {
		t.Errorf("after one that does not count: %v", list)
	}
	w.write(run, 1, "a")
	w.turn(-1)
	if list := w.b.Checkpoints(); !slices.Equal(list, []uint64{3}) {
		t.Errorf("%v", list)
	}
}

// TestPrefixSize: old checkpoints are removed from the prefix, results are not.
func TestPrefixSize(t *testing.T) {
	w := newWorld(t)
	run := w.begin(1, Policy{Prefix: "/p", Bypass: true, InPrefix: 2})
	for i := range 5 {
		w.write(run, 1, fmt.Sprint(i))
		w.turn(-1)
	}
	ask, _ := w.open(run, holding.Label{Name: "result", Output: true})
	w.turn(-1)
	w.b.Written(w.ask(0), Part{Run: run, Dataset: w.answers[ask.Number].Dataset, Valid: true})
	w.turn(-1)
	if list := w.b.Checkpoints(); !slices.Equal(list, []uint64{4, 5}) || len(w.b.List()) != 3 {
		t.Errorf("%v, %+v", list, w.b.List())
	}
}

// TestNeed: when a checkpoint is due.
func TestNeed(t *testing.T) {
	for _, c := range []struct {
		what string
		Need
		want string // of twelve questions, a second apart; a checkpoint of half a second follows each yes
	}{
		{"always", Need{}, "yyyyyyyyyyyy"},
		{"every third call", Need{Calls: 3}, "nnynnynnynny"},
		{"every four seconds", Need{After: 4 * time.Second}, "nnnnynnnynnn"},
		{"both", Need{Calls: 5, After: 3 * time.Second}, "nnnynnynnynn"},
		{"a tenth of the time", Need{Overhead: 10}, "ynnnnynnnyn"},
	} {
		w := newWorld(t)
		run := w.begin(1, Policy{Prefix: "/p", Bypass: true, Every: c.Need})
		got := ""
		for range len(c.want) {
			w.now += time.Second
			ask := w.ask(0)
			w.b.Need(ask, run)
			if !w.answers[ask.Number].Yes {
				got += "n"
				continue
			}
			got += "y"
			open, _ := w.open(run, holding.Label{Checkpoint: true})
			w.turn(-1)
			w.now += time.Second / 2
			w.b.Written(w.ask(0), Part{Run: run, Dataset: w.answers[open.Number].Dataset, Valid: true})
			w.turn(-1)
		}
		if got != c.want {
			t.Errorf("%s: %s, wanted %s", c.what, got, c.want)
		}
	}
}

// TestHalt: a program that is to end is told so, and that a checkpoint is due.
func TestHalt(t *testing.T) {
	w := newWorld(t)
	run := w.begin(1, Policy{Prefix: "/p", Bypass: true, Every: Need{Calls: 100}})
	ask := func() (need, exit bool) {
		a, b := w.ask(0), w.ask(0)
		w.b.Need(a, run)
		w.b.Exit(b, run)
		return w.answers[a.Number].Yes, w.answers[b.Number].Yes
	}
	if need, exit := ask(); need || exit || w.heeded != 0 {
		t.Errorf("%v, %v, %d", need, exit, w.heeded)
	}
	w.b.Halt("because")
	if need, exit := ask(); !need || !exit || w.heeded != 2 {
		t.Errorf("%v, %v, %d", need, exit, w.heeded)
	}
	w.b.Halt("")
	if need, exit := ask(); need || exit {
		t.Errorf("%v, %v", need, exit)
	}
}

// TestRandom lets programs begin, write, die and restart at random, with copies and commits that fail, and callbacks in any order.
func TestRandom(t *testing.T) {
	for seed := range uint64(3000) {
		t.Run("", func(t *testing.T) { random(t, seed) })
	}
}

func random(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	p := Policy{Prefix: "/p", Bypass: rng.IntN(4) == 0, Keep: rng.IntN(3), Flush: rng.IntN(3), FlushWait: rng.IntN(3) == 0, InPrefix: rng.IntN(3)}
	ranks := 1 + rng.IntN(3)
	run := w.begin(ranks, p)
	newest := uint64(0) // that counts
	open := func() *Dataset { return w.b.opened() }
	for range 60 {
		switch d := open(); rng.IntN(8) {
		case 0, 1: // callbacks in any order, but commits one after the other, as keep makes them
			w.turn(0)
		case 2:
			if d == nil && w.b.opener == nil {
				w.ready[w.b.last+1], w.full[w.b.last+1] = rng.IntN(2) == 0, rng.IntN(8) == 0
				w.open(run, holding.Label{Name: []string{"", "same"}[rng.IntN(2)], Checkpoint: rng.IntN(4) > 0, Output: rng.IntN(4) == 0})
				w.fails[w.b.last+1], w.unflush[w.b.last+1] = rng.IntN(5) == 0, rng.IntN(5) == 0
			}
		case 3, 4, 5:
			if d != nil && w.placed[d.Number] { // else the program does not know of it
				rank := rng.IntN(ranks)
				if _, twice := d.said[rank]; !twice {
					w.b.Written(w.ask(0), Part{Run: run, Dataset: d.Number, Rank: rank, Valid: rng.IntN(8) > 0})
				}
			}
		case 6:
			if rng.IntN(4) == 0 { // it dies
				w.b.Over()
				run = w.begin(ranks, p)
			}
		case 7:
			w.b.Newest(w.ask(0), run)
		}
		if list := w.b.Checkpoints(); len(list) > 0 {
			if n := list[len(list)-1]; n < newest {
				t.Fatalf("the newest was %d, and is %d", newest, n)
			} else {
				newest = n
			}
		} else if newest > 0 {
			t.Fatalf("checkpoint %d was the newest, and there is none", newest)
		}
		if w.b.unsettled() > mostUnsettled {
			t.Fatalf("%d are being stored", w.b.unsettled())
		}
	}
	w.b.Over()
	for len(w.due) > 0 {
		w.turn(-1)
	}
	w.b.Settle(true)
	w.turn(-1)
	if len(w.asked) > 0 || w.b.Busy() {
		t.Fatalf("not answered: %v; busy %v", w.asked, w.b.Busy())
	}
	for _, d := range w.b.List() {
		if d.Cached != w.cached[d.Number] || d.Stored != w.prefix[d.Number] || !d.Cached && !d.Stored {
			t.Fatalf("dataset %d: cached %v %v, in the prefix %v %v", d.Number, d.Cached, w.cached[d.Number], d.Stored, w.prefix[d.Number])
		}
	}
}
