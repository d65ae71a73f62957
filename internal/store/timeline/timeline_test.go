package timeline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// full is an event with something to say in every field.
func full(t *testing.T) Event {
	var e Event
	for f, v := range reflect.ValueOf(&e).Elem().Fields() {
		switch v.Interface().(type) {
		case time.Time:
		case string, Kind:
			v.SetString("a \"" + f.Name + "\"\n\x1b")
		case bool:
			v.SetBool(true)
		case int, int64, time.Duration:
			v.SetInt(1<<40 + 1)
		case uint64:
			v.SetUint(1<<50 + 1)
		case []int:
			v.Set(reflect.ValueOf([]int{0, 7}))
		case []string:
			v.Set(reflect.ValueOf([]string{"node1", "node 2"}))
		default:
			t.Fatalf("field %s: found %s, for which there is no value", f.Name, v.Type())
		}
	}
	return e
}

// write logs the events in one life.
func write(t *testing.T, dir string, term uint64, events ...Event) {
	t.Helper()
	w := Open(dir, term, func(text string) { t.Error(text) })
	for _, e := range events {
		w.Add(e)
	}
	w.Close()
}

// read returns all events, without their times, and the notes as one text.
func read(t *testing.T, dir string) ([]Event, string) {
	t.Helper()
	events, notes, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if events[i].Time.IsZero() || time.Since(events[i].Time) > time.Hour {
			t.Errorf("event %d: its time is %v", i, events[i].Time)
		}
		events[i].Time, events[i].Since = time.Time{}, 0
	}
	var texts []string
	for _, note := range notes {
		texts = append(texts, note.Error())
	}
	return events, strings.Join(texts, "; ")
}

// kinds returns what has happened, and the notes as one text.
func kinds(t *testing.T, dir string) ([]Kind, string) {
	t.Helper()
	events, notes := read(t, dir)
	var list []Kind
	for _, e := range events {
		list = append(list, e.Kind)
	}
	return list, notes
}

// TestRoundTrip: what is logged is read again, from all lives, in a file for nobody else.
func TestRoundTrip(t *testing.T) {
	dir, all := t.TempDir(), full(t)
	write(t, dir, 1, all, Event{Kind: Ended})
	write(t, dir, 2, Event{Kind: Began})
	all.Term = 1
	all.Since = 0
	events, notes, err := Read(dir)
	if err != nil || len(notes) > 0 || len(events) != 3 {
		t.Fatalf("found %v, %v, %v, wanted three events", events, notes, err)
	}
	if events[1].Since < events[0].Since || events[1].Time.Before(events[0].Time) {
		t.Errorf("the second event is before the first: %v", events)
	}
	for i, want := range []Event{all, {Kind: Ended, Term: 1}, {Kind: Began, Term: 2}} {
		found := events[i]
		found.Time, found.Since = time.Time{}, 0
		if !reflect.DeepEqual(found, want) {
			t.Errorf("event %d: found %+v, wanted %+v", i, found, want)
		}
	}
	st, err := os.Stat(filepath.Join(dir, newest))
	if err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("found %v, %v, wanted a file that others cannot read", st.Mode(), err)
	}
}

// TestNone: a job without a log has none, which is not the same as one that cannot be read.
func TestNone(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: found %v, wanted ErrNotExist", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, newest)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link: found %v, wanted another error", err)
	}
}

// TestTornLine: a byssus that was killed leaves a piece of a line, at any byte of it. It is read over and told, also when the
// next byssus has gone on behind it.
func TestTornLine(t *testing.T) {
	whole := t.TempDir()
	write(t, whole, 1, Event{Kind: Began}, Event{Kind: Running, Start: 65537})
	b, err := os.ReadFile(filepath.Join(whole, newest))
	if err != nil {
		t.Fatal(err)
	}
	second := strings.IndexByte(string(b), '\n') + 1
	for at := second; at < len(b); at++ {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, newest), b[:at], 0o600); err != nil {
			t.Fatal(err)
		}
		before, told := kinds(t, dir)
		write(t, dir, 2, Event{Kind: Began})
		after, toldAfter := kinds(t, dir)
		torn := at > second && at < len(b)-1 // without its end alone it is whole
		if torn != strings.Contains(told, "line 2") || torn != strings.Contains(toldAfter, "line 2") {
			t.Errorf("cut at %d of %d: told %q, then %q", at, len(b), told, toldAfter)
		}
		want := []Kind{Began, Running}
		if at < len(b)-1 {
			want = want[:1]
		}
		if !slices.Equal(before, want) || !slices.Equal(after, append(want, Began)) {
			t.Errorf("cut at %d of %d: found %v, then %v", at, len(b), before, after)
		}
	}
}

// TestGenerations: a file that is large is followed by a new one, and both are read; of what is older nothing is left.
func TestGenerations(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(&file{dir: dir, most: 1000}, 1, func(text string) { t.Error(text) })
	const n = 200
	for i := range n {
		w.Add(Event{Kind: Asked, Checkpoint: uint64(i + 1)})
	}
	w.Close()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("found %v, %v, wanted two files", entries, err)
	}
	for _, e := range entries {
		if st, err := e.Info(); err != nil || st.Size() > 1200 {
			t.Errorf("%s: found %d bytes, wanted at most 1200", e.Name(), st.Size())
		}
	}
	events, notes := read(t, dir)
	if notes != "" || len(events) < 8 || len(events) > 40 {
		t.Fatalf("found %d events, %s", len(events), notes)
	}
	for i, e := range events {
		if want := uint64(n - len(events) + 1 + i); e.Checkpoint != want {
			t.Fatalf("event %d: found checkpoint %d, wanted %d", i, e.Checkpoint, want)
		}
	}
}

// gate is a file that takes nothing before it is opened, like one on a file system that does not answer.
type gate struct {
	file
	entered chan struct{}
	once    sync.Once
	open    chan struct{}
}

func (g *gate) Write(b []byte) (int, error) {
	g.once.Do(func() { close(g.entered) })
	<-g.open
	return g.file.Write(b)
}

// TestFullQueue: who logs does not wait for the file. What finds no room is counted, where it is missing.
func TestFullQueue(t *testing.T) {
	g := &gate{file: file{dir: t.TempDir(), most: mostBytes}, entered: make(chan struct{}), open: make(chan struct{})}
	w := newWriter(g, 1, func(text string) { t.Error(text) })
	w.Add(Event{Kind: Began})
	<-g.entered
	const extra = 7
	for range mostQueued + extra {
		w.Add(Event{Kind: Asked})
	}
	close(g.open)
	w.Close()
	events, notes := read(t, g.dir)
	if notes != "" || len(events) != 1+mostQueued+1 {
		t.Fatalf("found %d events, wanted %d; %s", len(events), 1+mostQueued+1, notes)
	}
	want := Event{Kind: Missing, Term: 1, Count: extra}
	if last := events[len(events)-1]; !reflect.DeepEqual(last, want) {
		t.Errorf("found %+v, wanted %+v", last, want)
	}
}

// TestStuck: a file that takes nothing does not keep the job from its end; the writer ends when it does again.
func TestStuck(t *testing.T) {
	g := &gate{file: file{dir: t.TempDir(), most: mostBytes}, entered: make(chan struct{}), open: make(chan struct{})}
	w := newWriter(g, 1, func(text string) { t.Error(text) })
	w.Add(Event{Kind: Began})
	<-g.entered
	for range mostQueued + 5 {
		w.Add(Event{Kind: Asked})
	}
	w.Close()
	close(g.open)
	<-w.done
}

// failing is a file whose disk is full for a while, in the midst of a line.
type failing struct {
	file
	from, to int // the writes that fail
	n        int
}

func (f *failing) Write(b []byte) (int, error) {
	f.n++
	if f.n-1 < f.from || f.n-1 >= f.to {
		return f.file.Write(b)
	}
	if _, err := f.file.Write(b[:len(b)/2]); err != nil {
		return 0, err
	}
	f.torn = true // as file has it after a short write
	return len(b) / 2, errors.New("no space left on device")
}

// TestUnwritable: what could not be written is told once, and counted as soon as there is room.
func TestUnwritable(t *testing.T) {
	f := &failing{file: file{dir: t.TempDir(), most: mostBytes}, from: 2, to: 5}
	var said []string
	w := newWriter(f, 1, func(text string) { said = append(said, text) })
	for i := range 10 {
		w.Add(Event{Kind: Asked, Checkpoint: uint64(i + 1)})
	}
	w.Close()
	if len(said) != 1 || !strings.Contains(said[0], "no space left on device") {
		t.Errorf("said %q, wanted one line", said)
	}
	events, notes := read(t, f.dir)
	var found []string
	for _, e := range events {
		found = append(found, fmt.Sprintf("%s %d %d", e.Kind, e.Checkpoint, e.Count))
	}
	// The third event fails, and then twice the line which says that one, then two, are missing.
	want := []string{"asked 1 0", "asked 2 0", "missing 0 3", "asked 6 0", "asked 7 0", "asked 8 0", "asked 9 0", "asked 10 0"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, wanted %q", found, want)
	}
	if !strings.Contains(notes, "left out: 3, ") {
		t.Errorf("notes %q, wanted three lines that were cut", notes)
	}
}

// TestGone: a directory that is not there is told once.
func TestGone(t *testing.T) {
	var said []string
	w := Open(filepath.Join(t.TempDir(), "gone"), 1, func(text string) { said = append(said, text) })
	w.Add(Event{Kind: Began})
	w.Add(Event{Kind: Ended})
	w.Close()
	if len(said) != 1 || !strings.Contains(said[0], "no such file or directory") {
		t.Errorf("said %q, wanted one line", said)
	}
}
