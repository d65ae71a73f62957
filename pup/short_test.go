package pup_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/gen"
	"github.com/byssus-hpc/byssus/pup/internal/gentest"
)

// bareMeasure is a gentest.Measure without generated code.
type bareMeasure struct {
	Place  gentest.Vec3
	Label  gentest.Label
	Temps  []gentest.Celsius
	ID     uint16
	Phases [2]complex64
	Counts gentest.Mask
	Notes  string
	Raw    []byte
	Pos    []gentest.Vec3
	Rank   int
}

// lengths are around those from which on a length takes two bytes.
var lengths = []int{-1, 0, 1, 2, 7, 8, 40, 125, 126, 127, 128, 129, 300}

// some makes a slice, nil when n is negative.
func some[E any](r *rand.Rand, n int, one func() E) []E {
	if n < 0 {
		return nil
	}
	list := make([]E, n, n+r.IntN(3))
	for k := range list {
		list[k] = one()
	}
	return list
}

// measures makes n of them, with strings and slices of all lengths, most of them short.
func measures(r *rand.Rand, n int) ([]gentest.Measure, []bareMeasure) {
	length := func() int { return lengths[min(r.IntN(len(lengths)), r.IntN(3*len(lengths)))] }
	text := func() string { return strings.Repeat("x", max(0, length())) }
	vec := func() gentest.Vec3 { return gentest.Vec3{X: r.Float64(), Y: r.Float64(), Z: 1} }
	list, bare := make([]gentest.Measure, n), make([]bareMeasure, n)
	for k := range list {
		list[k] = gentest.Measure{Place: vec(), Label: gentest.Label(text()), ID: uint16(k), Rank: r.Int(), Notes: text(),
			Temps:  some(r, length(), func() gentest.Celsius { return gentest.Celsius(r.Float32()) }),
			Phases: [2]complex64{complex(r.Float32(), 1), 2},
			Counts: some(r, length(), r.Uint64), Raw: some(r, length(), func() byte { return byte(r.Int()) }), Pos: some(r, length(), vec)}
		m := &list[k]
		bare[k] = bareMeasure{m.Place, m.Label, m.Temps, m.ID, m.Phases, m.Counts, m.Notes, m.Raw, m.Pos, m.Rank}
	}
	return list, bare
}

// TestShort holds short code against the steps of a type with the same fields: the same bytes, across windows of all
// kinds, and the same values from them, in new memory and in memory that was used before.
func TestShort(t *testing.T) {
	if found := pup.HasShort[gentest.Measure](); found != pup.AnyAlignment {
		t.Fatalf("short code of Measure: used %v, want %v", found, pup.AnyAlignment)
	}
	if pup.HasShort[bareMeasure]() {
		t.Fatal("found short code for a type that has none")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		list, bare := measures(r, 1+r.IntN(400))
		want, err := pup.Marshal(&bare, pup.Unchecked())
		if err != nil {
			t.Fatal(err)
		}
		found, err := pup.Marshal(&list, pup.Unchecked())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(pup.Body(found), pup.Body(want)) {
			t.Fatal("other bytes than the steps'")
		}
		old, _ := measures(r, r.IntN(400))
		for _, options := range [][]pup.Option{{}, {pup.Unchecked()}} {
			var stream bytes.Buffer
			if err := pup.ToWriter(&stream, &list, options...); err != nil {
				t.Fatal(err)
			}
			var fresh []gentest.Measure
			if err := pup.Unmarshal(stream.Bytes(), &fresh); err != nil || !reflect.DeepEqual(fresh, list) {
				t.Fatalf("in new memory: other values, %v", err)
			}
			if err := pup.FromReader(&stream, &old, pup.InPlace()); err != nil || !reflect.DeepEqual(old, list) {
				t.Fatalf("in place: other values, %v", err)
			}
		}
	}
}

// Types whose short code does not do what their steps do.
type (
	grown   struct{ Name, Since string }
	swapped struct{ A, B []int32 }
	retyped struct {
		N    [2]int32
		Name string
	}
	careless struct {
		N    int64
		Name string
	}
	mute struct {
		N    int64
		Name string
	}
	listed []string
)

func (x *grown) PUP(p *pup.Stream) {
	if !gen.Old(p, x) {
		pup.String(p, &x.Name)
		pup.String(p, &x.Since)
	}
}

func (x *swapped) PUP(p *pup.Stream) {
	if !gen.Old(p, x) {
		pup.PlainSlice(p, &x.A)
		pup.PlainSlice(p, &x.B)
	}
}

func (x *retyped) PUP(p *pup.Stream) {
	if !gen.Old(p, x) {
		pup.Plain(p, &x.N)
		pup.String(p, &x.Name)
	}
}

func (x *careless) PUP(p *pup.Stream) {
	if !gen.Old(p, x) {
		pup.Number(p, &x.N)
		pup.String(p, &x.Name)
	}
}

func (x *mute) PUP(p *pup.Stream) {
	if !gen.Old(p, x) {
		pup.Number(p, &x.N)
		pup.String(p, &x.Name)
	}
}

func (x *listed) PUP(p *pup.Stream) {
	if !gen.Old(p, x) {
		pup.Slice(p, x, pup.String)
	}
}

var (
	_ = gen.Short(func([]byte, *listed) int { return 0 }, func(*pup.Stream, []byte, *listed) int { return 0 })
	_ = gen.Short(func(room []byte, x *grown) int {
		if gen.TextRoom(x.Name) > len(room) {
			return 0
		}
		return gen.ShortText(room, x.Name)
	}, func(p *pup.Stream, data []byte, x *grown) int {
		end := gen.TextEnd(data, 0)
		if end > len(data) {
			return 0
		}
		gen.FillText(p, data[:end], &x.Name)
		return end
	})
	_ = gen.Short(func(room []byte, x *swapped) int {
		if gen.SliceRoom(x.A)+gen.SliceRoom(x.B) > len(room) {
			return 0
		}
		n := gen.ShortSlice(room, x.B)
		return n + gen.ShortSlice(room[n:], x.A)
	}, func(p *pup.Stream, data []byte, x *swapped) int {
		b := gen.SliceEnd(data, 0, x.B)
		a := gen.SliceEnd(data, b, x.A)
		if a > len(data) {
			return 0
		}
		gen.FillSlice(p, data[:b], &x.B)
		gen.FillSlice(p, data[b:a], &x.A)
		return a
	})
	_ = gen.Short(func(room []byte, x *retyped) int {
		if gen.PlainRoom(&x.N[0])+gen.TextRoom(x.Name) > len(room) {
			return 0
		}
		n := gen.ShortPlain(room, &x.N[0])
		return n + gen.ShortText(room[n:], x.Name)
	}, func(p *pup.Stream, data []byte, x *retyped) int {
		n := gen.PlainRoom(&x.N[0])
		end := gen.TextEnd(data, n)
		if end > len(data) {
			return 0
		}
		gen.FillPlain(data, &x.N[0])
		gen.FillText(p, data[n:end], &x.Name)
		return end
	})
	_ = gen.Short(func(room []byte, x *careless) int { // forgets the room for the string
		if gen.PlainRoom(&x.N) > len(room) {
			return 0
		}
		n := gen.ShortPlain(room, &x.N)
		return n + copy(room[n:], "\x00")
	}, func(_ *pup.Stream, data []byte, x *careless) int {
		gen.FillPlain(data, &x.N)
		return 9
	})
	_ = gen.Short(func([]byte, *mute) int { return 0 }, func(*pup.Stream, []byte, *mute) int { return 0 })
)

// TestStaleShort asks that short code that is wrong, as it is when it is older than its type, is not used.
func TestStaleShort(t *testing.T) {
	for name, used := range map[string]bool{"grown": pup.HasShort[grown](), "swapped": pup.HasShort[swapped](),
		"retyped": pup.HasShort[retyped](), "careless": pup.HasShort[careless](), "mute": pup.HasShort[mute](), "listed": pup.HasShort[listed]()} {
		if used {
			t.Errorf("%s: the short code is used", name)
		}
	}
	for _, v := range []any{&grown{"name", "1990"}, &swapped{[]int32{1}, []int32{2, 3}}, &retyped{[2]int32{1, 2}, "x"}, &careless{1, "x"},
		&mute{2, "y"}, &listed{"z"}} {
		if err := pup.Check(v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
}
