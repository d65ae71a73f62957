package trace

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// logOf is a log with n events, each a millisecond after the one before.
func logOf(bytes, n int, first int64) *Log {
	l := NewLog(bytes)
	name := l.Name("works", -1)
	for i := range n {
		l.Add(Event{At: first + int64(i)*1e6, Took: 1000, Name: name, Kind: Handler})
	}
	return l
}

// TestNewest: what is left is the newest, and what is not is counted.
func TestNewest(t *testing.T) {
	for _, n := range []int{0, 1, chunkSize, chunkSize + 1, 2 * chunkSize, 2*chunkSize + 1, 9*chunkSize + 7} {
		for _, bytes := range []int{0, 3 * chunkSize * eventSize} {
			l := logOf(bytes, n, 0)
			kept, next := 0, int64(l.Dropped())*1e6
			l.Each(func(e *Event) {
				if e.At != next {
					t.Fatalf("%d events in %d bytes: one of %d, wanted %d", n, bytes, e.At, next)
				}
				next += 1e6
				kept++
			})
			if most := max(2, bytes/chunkSize/eventSize) * chunkSize; kept+int(l.Dropped()) != n || kept > most || kept < min(n, most-chunkSize) {
				t.Errorf("%d events in %d bytes: %d are left, %d dropped", n, bytes, kept, l.Dropped())
			}
		}
	}
	if l := logOf(0, 0, 0); testing.AllocsPerRun(5*chunkSize, func() { l.Add(Event{}) }) != 0 {
		t.Error("an event allocates")
	}
}

// TestNames: there are no more than have numbers.
func TestNames(t *testing.T) {
	l := NewLog(0)
	for i := range 1 << 17 {
		l.Name(fmt.Sprint(i), 1)
	}
	if n := l.Name("0", 1); l.Text(n).Text != "0" || len(l.names) != 1<<16 || l.Name("another", 1) != Other {
		t.Errorf("%d names, the first is %d", len(l.names), n)
	}
}

type file struct {
	TraceEvents []struct {
		Ph   string
		Pid  int
		Ts   float64
		Name string
	}
	OtherData Footer
}

func read(t *testing.T, path string) (f file) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for i, w := range f.OtherData.Parts {
		text := strings.TrimPrefix(string(b[w.Begin:w.End]), ",\n")
		if !json.Valid([]byte("["+text+"]")) || !strings.Contains(text, fmt.Sprintf(`"pid":%d,`, w.Rank)) {
			t.Errorf("part %d of rank %d: %q", i, w.Rank, text)
		}
	}
	return f
}

func part(rank int, node string, wall int64, l *Log) *Part {
	return &Part{Log: l, Rank: rank, Process: fmt.Sprint("rank ", rank), Node: node, Wall: wall, Element: func(int, uint64) string { return "" }}
}

// TestWrite: ranks write in any order, and one again that was restored from a time before it had.
func TestWrite(t *testing.T) {
	const ranks = 5
	path := filepath.Join(t.TempDir(), "trace.json")
	for again := range ranks {
		if err := Remove(path); err != nil || Complete(path) {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for rank := range ranks {
			all.Go(func() {
				if err := Write(path, ranks, part(rank, "a", 0, logOf(0, 3+rank, 5e9))); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, rank := range []int{again, (again + 1) % ranks} {
			if err := Write(path, ranks, part(rank, "a", 0, logOf(0, 10+rank, 6e9))); err != nil {
				t.Error(err)
			}
		}
		f, events := read(t, path), map[int]int{}
		for _, e := range f.TraceEvents {
			if e.Ph == "X" {
				events[e.Pid]++
			}
		}
		for rank := range ranks {
			want := 3 + rank
			if rank == again || rank == (again+1)%ranks {
				want = 10 + rank
			}
			if events[rank] != want || len(f.OtherData.Parts) != ranks || !Complete(path) {
				t.Errorf("rank %d has %d events, wanted %d; parts %v", rank, events[rank], want, f.OtherData.Parts)
			}
		}
	}
}

// TestOneRank: a rank alone may write again, too.
func TestOneRank(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	for n := range 3 {
		if err := Write(path, 1, part(0, "a", 0, logOf(0, 100>>n, 1e9))); err != nil {
			t.Fatal(err)
		}
		if f := read(t, path); len(f.OtherData.Parts) != 1 || len(f.TraceEvents) != 100>>n+3 {
			t.Errorf("%d events, parts %v", len(f.TraceEvents), f.OtherData.Parts)
		}
	}
}

// TestNodes: ranks of one node have one clock, others are brought together by the time of day.
func TestNodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	for rank, p := range []*Part{part(0, "a", 1000e9, logOf(0, 1, 7e9)), part(1, "a", 1111e9, logOf(0, 1, 8e9)), part(2, "b", 1002e9, logOf(0, 1, 4e9))} {
		if err := Write(path, 3, p); err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
	want := map[int]float64{0: 60e6, 1: 61e6, 2: 59e6} // of rank 2: 4 + 1002 - 1000 - 7 seconds
	for _, e := range read(t, path).TraceEvents {
		if e.Ph == "X" && e.Ts != want[e.Pid] {
			t.Errorf("rank %d: %v, wanted %v", e.Pid, e.Ts, want[e.Pid])
		}
	}
}

// TestForeign: what is no trace is left as it is.
func TestForeign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	for _, text := range []string{"mine", "mine\n", "{}\n", opening + ending + "}\n", opening + "\n" + ending + `{"parts":[]}}` + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		err := Write(path, 1, part(0, "a", 0, logOf(0, 1, 1)))
		if b, _ := os.ReadFile(path); err == nil || !strings.Contains(err.Error(), "no trace") || string(b) != text {
			t.Errorf("%q: %v; now %q", text, err, b)
		}
	}
	if err := Write(t.TempDir(), 1, part(0, "a", 0, logOf(0, 1, 1))); err == nil {
		t.Error("a directory is written")
	}
}
