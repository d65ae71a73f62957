package pup_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/testdata/odd"
)

var (
	seed    = flag.Uint64("seed", 0, "of the random values; 0: from the clock")
	lasting = flag.Duration("lasting", 0, "go on with random values until so much time is over")
)

// A maker makes random values. Most are small; some slices are long.
type maker struct{ *rand.Rand }

func (m maker) count() int {
	switch m.IntN(12) {
	case 0:
		return m.IntN(3000)
	case 1:
		return m.IntN(300)
	default:
		return m.IntN(4)
	}
}

func (m maker) text() string { return strings.Repeat("x", m.IntN(1+m.IntN(300))) }

func (m maker) frugal(depth int) odd.Frugal {
	f := odd.Frugal{ID: m.Int64N(100), Name: m.text(), Vals: [4]float64{m.Float64()}, Cache: [40]int64{1, 2, m.Int64()}}
	if depth > 0 {
		f.Kids = m.list(depth-1, m.IntN(4))
		if m.IntN(2) == 0 {
			x := m.frugal(depth - 1)
			f.Next = &x
		}
	}
	return f
}

func (m maker) list(depth, n int) []odd.Frugal {
	if n == 0 && m.IntN(2) == 0 {
		return nil
	}
	list := make([]odd.Frugal, n)
	for k := range list {
		list[k] = m.frugal(depth)
	}
	return list
}

func (m maker) scratchy() []odd.Scratchy {
	list := make([]odd.Scratchy, m.count())
	for k := range list {
		list[k] = odd.Scratchy{ID: int16(k)}
		for range m.IntN(3) {
			list[k].Names = append(list[k].Names, m.text())
		}
	}
	return list
}

// economy makes a value; in a graph, with parts that are shared.
func (m maker) economy(shared bool) *odd.Economy {
	e := &odd.Economy{Slice: m.list(m.IntN(3), m.count()), Last: m.list(2, m.IntN(3)), Scratch: m.scratchy(),
		Empty: make([]struct{}, m.count()), Map: map[int16]odd.Frugal{}, Tags: map[string][]odd.Scratchy{}, Numbers: make([]int32, m.count()), Text: make([]string, m.count())}
	for k := range e.Plans {
		if e.Plans[k] = uint16(m.IntN(odd.AllPlans)); m.IntN(2) == 0 {
			e.Plans[k] = 1 << m.IntN(8) >> 1 // little or nothing
		}
	}
	for range m.IntN(4) {
		e.Slices = append(e.Slices, m.list(m.IntN(3), m.count()/20))
	}
	for range m.IntN(40) {
		e.Map[int16(m.IntN(1000))] = m.frugal(1)
	}
	for range m.count() {
		x := m.frugal(1)
		e.Ptrs = append(e.Ptrs, &x)
	}
	for range m.IntN(3) {
		e.Tags[m.text()] = m.scratchy()
	}
	for range m.IntN(5) {
		e.Any = append(e.Any, []any{1, "text", []any{2.5, []int{1, 2, 3}}, map[string]any{"k": nil}, m.text()})
	}
	if n := len(e.Slice); shared && n > 3 {
		e.Last, e.Ptrs = e.Slice[1:n/2:n/2], append(e.Ptrs, &e.Slice[n/2], &e.Slice[0])
	}
	return e
}

// TestAcceptedIsReadable packs random values whose element functions visit what they like. What is accepted must come back, by
// every reader; what is refused must be so by name.
func TestAcceptedIsReadable(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	began, accepted, refused := time.Now(), 0, 0
	for n := uint64(0); n < 150 || time.Since(began) < *lasting; n++ {
		m := maker{rand.New(rand.NewPCG(*seed, n))}
		var opts []pup.Option
		if n%2 == 1 {
			opts = append(opts, pup.Graph())
		}
		if m.IntN(2) == 0 {
			opts = append(opts, pup.MaxMemory(1<<m.IntN(22)))
		}
		if m.IntN(4) == 0 {
			opts = append(opts, pup.Unchecked())
		}
		v := m.economy(n%2 == 1)
		data, err := pup.Marshal(v, opts...)
		if err != nil {
			if !errors.Is(err, pup.ErrMemory) && !errors.Is(err, pup.ErrType) {
				t.Fatalf("-seed %d, value %d: %v", *seed, n, err)
			}
			if err := pup.ToWriter(io.Discard, v, opts...); err == nil {
				t.Fatalf("-seed %d, value %d: Marshal refuses, ToWriter does not", *seed, n)
			}
			refused++
			continue
		}
		accepted++
		for name, read := range readers(t, v, data, opts) {
			var back odd.Economy
			if err := read(&back); err != nil {
				t.Fatalf("-seed %d, value %d, %s: %v", *seed, n, name, err)
			}
			if again, err := pup.Marshal(&back, opts...); err != nil || !bytes.Equal(again, data) {
				t.Fatalf("-seed %d, value %d, %s: packed again it differs (%v)", *seed, n, name, err)
			}
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted == 0 || refused == 0 {
		t.Errorf("%d accepted, %d refused: want both", accepted, refused)
	}
}

// readers are the ways to read data that holds v.
func readers(t *testing.T, v any, data []byte, opts []pup.Option) map[string]func(any) error {
	name := filepath.Join(t.TempDir(), "value")
	if err := pup.ToFile(name, v, opts...); err != nil {
		t.Fatal(err)
	}
	if file, err := os.ReadFile(name); err != nil || !bytes.Equal(file, data) {
		t.Fatalf("ToFile and Marshal differ (%v)", err)
	}
	return map[string]func(any) error{
		"Unmarshal":  func(v any) error { return pup.Unmarshal(data, v, opts...) },
		"FromFile":   func(v any) error { return pup.FromFile(name, v, opts...) },
		"FromReader": func(v any) error { return pup.FromReader(iotest.HalfReader(bytes.NewReader(data)), v, opts...) },
		"InPlace": func(v any) error {
			if err := pup.Unmarshal(data, v, opts...); err != nil {
				return err
			}
			return pup.Unmarshal(data, v, append(opts, pup.InPlace())...)
		},
	}
}

// TestShortElements writes elements that store less than their type holds, which could not be read again once.
func TestShortElements(t *testing.T) {
	e := &odd.Economy{Plans: [6]uint16{odd.VisitID, odd.VisitID, odd.VisitID, odd.VisitID, odd.VisitID}, Slice: make([]odd.Frugal, 100000), Last: []odd.Frugal{{ID: 7}}}
	data, err := pup.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range readers(t, e, data, nil) {
		var back odd.Economy
		if err := read(&back); err != nil || len(back.Slice) != 100000 || back.Last[0].ID != 7 {
			t.Errorf("%s: %d elements, %v", name, len(back.Slice), err)
		}
	}
}

func TestElementsStay(t *testing.T) {
	v := &odd.Kept{Kids: make([]odd.Child, 18000)}
	data, err := pup.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range readers(t, v, data, nil) {
		var back odd.Kept
		if err := read(&back); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for k := range back.Kids {
			if back.Kids[k].Self != &back.Kids[k] {
				t.Fatalf("%s: element %d was moved", name, k)
			}
		}
	}
}

// TestMaxMemory: a value that takes far more memory than data is refused, by name and in both directions, unless asked for.
func TestMaxMemory(t *testing.T) {
	v := &odd.Kept{Kids: make([]odd.Child, 100000)}
	if _, err := pup.Marshal(v); !errors.Is(err, pup.ErrMemory) || !strings.Contains(err.Error(), "100000 elements of type odd.Child, of 816 bytes") {
		t.Errorf("packing: found %v", err)
	}
	room := pup.MaxMemory(100 << 20)
	data, err := pup.Marshal(v, room)
	if err != nil {
		t.Fatal(err)
	}
	var back odd.Kept
	if err := pup.Unmarshal(data, &back); !errors.Is(err, pup.ErrMemory) || !strings.Contains(err.Error(), "Kept.Kids: ") {
		t.Errorf("unpacking: found %v", err)
	}
	if err := pup.Unmarshal(data, &back, room); err != nil || len(back.Kids) != 100000 {
		t.Errorf("with room: %d, %v", len(back.Kids), err)
	}
}

type thicket struct{ Kids []thicket }

// vast takes no bytes, and much memory.
type vast struct {
	Room [512]int32 `pup:"-,made again"`
}

// TestMemoryBombs gives data that announces much and holds little. What it makes the reader allocate is bounded.
func TestMemoryBombs(t *testing.T) {
	bushes := func(n int) string { // each level has as many branches as there are bytes left
		var b strings.Builder
		for b.Len() < 1000*3 {
			b.WriteString(uvarint(uint64(n) / 2))
		}
		return b.String() + strings.Repeat("\x00", n-b.Len())
	}
	for _, c := range []struct {
		name  string
		into  any
		graph bool
		body  string
	}{
		{"elements without bytes", new([]vast), false, uvarint(1 << 20)},
		{"elements without bytes, graph", new([]vast), true, "\x01" + uvarint(1<<20)},
		{"maps", new(map[int8]vast), false, uvarint(100) + strings.Repeat("x", 100)},
		{"branches", &thicket{}, false, bushes(100000)},
		{"branches, graph", &thicket{}, true, strings.ReplaceAll(bushes(50000), uvarint(25000), "\x01"+uvarint(25000))},
		{"by hand", &odd.Economy{}, false, strings.Repeat("\x00", 12) + uvarint(1<<20) + "abc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := pup.Wrap(c.into, c.graph, []byte(c.body))
			for name, read := range map[string]func() error{
				"Unmarshal":  func() error { return pup.Unmarshal(data, c.into, pup.MaxDepth(100000)) },
				"FromReader": func() error { return pup.FromReader(bytes.NewReader(data), c.into, pup.MaxDepth(100000)) },
			} {
				took, err := allocated(read)
				if err != nil && strings.Contains(err.Error(), "panicked") {
					t.Error(err)
				}
				if most := most(len(data)); took > most {
					t.Errorf("%s: %d bytes of data made it allocate %d (%v)", name, len(data), took, err)
				}
			}
		})
	}
}

// most is what reading so much data may allocate: MaxMemory, the elements that it pays for, and what it leads to by pointers and
// in interfaces, whose types here have at most some hundred bytes.
func most(data int) uint64 { return 17<<20 + 1024*uint64(data) }

func allocated(f func() error) (bytes uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// TestReaderMemory reads one large slice from a reader that proves nothing: beside the value, a 64th of it is held.
func TestReaderMemory(t *testing.T) {
	v := make([]float64, 4<<20)
	data, err := pup.Marshal(&v)
	if err != nil {
		t.Fatal(err)
	}
	var back []float64
	took, err := allocated(func() error { return pup.FromReader(bytes.NewReader(data), &back) })
	if own := uint64(8 * len(v)); err != nil || took > own+own/32 {
		t.Errorf("%v; it allocated %d for a value of %d", err, took, own)
	}
	name := filepath.Join(t.TempDir(), "holes") // announces what no memory holds
	if err := os.WriteFile(name, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, int64(len(data))); err != nil {
		t.Fatal(err)
	}
	if err := pup.FromFile(name, &back); !errors.Is(err, pup.ErrData) {
		t.Errorf("holes: found %v", err)
	}
}

// FuzzMemory gives bodies. Whatever they hold, what they make a reader allocate is bounded.
func FuzzMemory(f *testing.F) {
	types := func() []any {
		return []any{&odd.Economy{}, &thicket{}, new([]vast), new(map[int8]vast), new([]odd.Scratchy), new(map[string][]thicket), &everything{}, &mesh{}, new([]any), &owner{}, &arraysLast{}, new([]ownRoom)}
	}
	m := maker{rand.New(rand.NewPCG(1, 2))}
	for n, v := range types() {
		f.Add(uint8(n), false, []byte("\x02\x02\x02\x01\x01\x01"))
		f.Add(uint8(n), true, []byte("\x01\x02\x01\x01\x03\x02"))
		if n == 0 {
			v = m.economy(true)
		}
		if data, err := pup.Marshal(v, pup.Graph(), pup.Unchecked()); err == nil && len(data) < 1<<16 {
			f.Add(uint8(n), true, pup.Body(data))
		}
		if data, err := pup.Marshal(v, pup.Unchecked()); err == nil && len(data) < 1<<16 {
			f.Add(uint8(n), false, pup.Body(data))
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, graph bool, body []byte) {
		v := types()[int(n)%len(types())]
		data := pup.Wrap(v, graph, body)
		for _, read := range []func(any) error{
			func(v any) error { return pup.Unmarshal(data, v, pup.MaxMemory(1<<20)) },
			func(v any) error { return pup.FromReader(bytes.NewReader(data), v, pup.MaxMemory(1<<20)) },
		} {
			fresh := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if took, err := allocated(func() error { return read(fresh) }); took > most(len(data)) {
				t.Fatalf("%d bytes made it allocate %d (%v)", len(data), took, err)
			} else if err != nil && strings.Contains(err.Error(), "panicked") {
				t.Fatal(err)
			}
		}
	})
}
