package pup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/testdata/faulty"
	"pgregory.net/rapid"
)

type (
	withChan  struct{ In []struct{ C chan int } }
	withFunc  struct{ M map[string]func() }
	withMutex struct {
		A  int
		Mu sync.Mutex
	}
	withUnregistered struct{ Any any }
	unregistered     struct{ A int }
	promotedTime     struct {
		time.Time
		N int
	}
)

// TestRefusals shows the message for each kind of value that cannot be saved.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{&withChan{In: make([]struct{ C chan int }, 2)}, "withChan.In[0].C: type cannot be saved: chan int: a channel belongs to"},
		{&withFunc{M: map[string]func(){"k": nil}}, `withFunc.M["k"]: type cannot be saved: func(): a function has no form`},
		{&withMutex{}, "withMutex.Mu: type cannot be saved: sync.Mutex: its state means nothing"},
		{&withUnregistered{unregistered{1}}, "withUnregistered.Any: type cannot be saved: it holds a pup_test.unregistered, which is not registered"},
		{&withUnregistered{&unregistered{1}}, "withUnregistered.Any: type cannot be saved: it holds a *pup_test.unregistered"},
		{nil, "nil: want a value or a pointer"},
		{(*withMutex)(nil), "nil *pup_test.withMutex: want a pointer to a value"},
		{&twice{}, "registered as \"test.twice\" and as \"test.again\""},
		{&taken{}, `the name "test.taken" is registered for`},
	} {
		_, err := pup.Marshal(c.v)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%T: found %v\nwant %s", c.v, err, c.want)
		}
	}
	for _, v := range []any{nil, 5, (*int)(nil)} {
		if err := pup.Unmarshal(nil, v); err == nil {
			t.Errorf("unpacked into %v", v)
		}
	}
}

type twice struct{ A int }
type taken struct{ A int }
type untaken struct{ B int }

var (
	_ = pup.Register[twice]("test.twice")
	_ = pup.Register[twice]("test.again")
	_ = pup.Register[taken]("test.taken")
	_ = pup.Register[untaken]("test.taken")
)

// TestPromotedMethods: a method of an embedded type must not stand for the whole.
func TestPromotedMethods(t *testing.T) {
	a := faulty.Embedding{Missed: faulty.Missed{A: 1}, Extra: "extra"}
	data, err := pup.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	var b faulty.Embedding
	if err := pup.Unmarshal(data, &b); err != nil || a != b {
		t.Errorf("found %v, %v", b, err)
	}
	if c := pup.ClassOf[promotedTime](); c != pup.ReflectedClass {
		t.Errorf("a structure with a time embedded is %v", c)
	}
}

func TestClasses(t *testing.T) {
	for _, c := range []struct{ found, want pup.Class }{
		{pup.ClassOf[inner](), pup.PlainClass}, {pup.ClassOf[[4]complex64](), pup.PlainClass},
		{pup.ClassOf[everything](), pup.ReflectedClass}, {pup.ClassOf[counted](), pup.HandwrittenClass},
		{pup.ClassOf[chan int](), pup.RefusedClass},
	} {
		if c.found != c.want {
			t.Errorf("found %v, want %v", c.found, c.want)
		}
	}
}

type built struct {
	Kept  int
	Fresh []int `pup:"-,made by Construct"`
}

var _ = pup.Register[built]("test.built", pup.Construct(func() built { return built{Fresh: make([]int, 3)} }))

func TestConstruct(t *testing.T) {
	type all struct {
		S []built
		P *built
		M map[string]built
		I any
		N []struct{ In [2]built }
	}
	a := all{S: make([]built, 2), P: &built{}, M: map[string]built{"k": {}}, I: built{Kept: 1}, N: make([]struct{ In [2]built }, 1)}
	data, err := pup.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	var b all
	if err := pup.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	if len(b.S[1].Fresh) != 3 || len(b.P.Fresh) != 3 || len(b.M["k"].Fresh) != 3 || len(b.I.(built).Fresh) != 3 || len(b.N[0].In[1].Fresh) != 3 {
		t.Errorf("found %+v %+v", b, b.P)
	}
}

func TestInPlace(t *testing.T) {
	type state struct {
		F []float64
		S []string
		M map[string]int
		P *inner
		G [][]float64
	}
	a := state{[]float64{1, 2}, []string{"a"}, map[string]int{"k": 1}, &inner{A: 1}, [][]float64{{1}, {2, 3}}}
	for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
		data, err := pup.Marshal(&a, opts...)
		if err != nil {
			t.Fatal(err)
		}
		b := state{make([]float64, 5), make([]string, 3), map[string]int{"old": 1}, &inner{}, [][]float64{make([]float64, 9), nil}}
		f, p, g, m := &b.F[0], b.P, &b.G[0][0], b.M
		if err := pup.Unmarshal(data, &b, pup.InPlace()); err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("found %+v, %v", b, err)
		}
		if &b.F[0] != f || b.P != p || &b.G[0][0] != g || len(m) != 1 {
			t.Error("memory was not used again")
		}
		c := state{F: b.F, P: b.P}
		if err := pup.Unmarshal(data, &c); err != nil || &c.F[0] == f || c.P == p {
			t.Errorf("without InPlace, memory was used again (%v)", err)
		}
	}
}

// TestInPlaceShared unpacks two values into what is one piece of memory: neither may be lost.
func TestInPlaceShared(t *testing.T) {
	type state struct {
		A, B []int
		P, Q *int
	}
	one, two := 1, 2
	want := state{[]int{1, 2}, []int{3}, &one, &two}
	data, err := pup.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	all, x := make([]int, 4), new(int)
	for _, got := range []state{{A: all, B: all[1:]}, {P: x, Q: x}, {A: all, P: &all[1]}} {
		if err := pup.FromReader(bytes.NewReader(data), &got, pup.InPlace()); err == nil {
			t.Errorf("read %+v", got)
		}
		if err := pup.Unmarshal(data, &got, pup.InPlace()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("found %+v, %v", got, err)
		}
	}
}

// TestNothingMany has elements that take no bytes.
func TestNothingMany(t *testing.T) {
	v := make([]struct{}, 5<<20)
	for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
		data, err := pup.Marshal(&v, opts...)
		if err != nil {
			t.Fatal(err)
		}
		var got []struct{}
		if err := pup.Unmarshal(data, &got); err != nil || len(got) != len(v) {
			t.Errorf("found %d, %v", len(got), err)
		}
	}
	big := make([]skipsAll, 2<<20)
	if _, err := pup.Marshal(&big); !errors.Is(err, pup.ErrType) {
		t.Errorf("found %v", err)
	}
}

type skipsAll struct {
	A int8 `pup:"-,not saved"`
}

// TestLocations brings times back in the location that they had.
func TestLocations(t *testing.T) {
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Skip("SKIP: no time zones on this machine")
	}
	for _, l := range []*time.Location{time.UTC, time.Local, paris, time.FixedZone("", 0), time.FixedZone("UTC", 0), time.FixedZone("X", -3600)} {
		want := time.Unix(1, 2).In(l)
		data, err := pup.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		var got time.Time
		if err := pup.Unmarshal(data, &got); err != nil || !got.Equal(want) || got.Location().String() != l.String() ||
			got.String() != want.String() || (got.Location() == time.UTC) != (l == time.UTC) {
			t.Errorf("found %v, %v, want %v", got, err, want)
		}
	}
}

func TestNaNKeys(t *testing.T) {
	m := map[float64]int{}
	for i := range 50 {
		m[math.NaN()] = i
	}
	n := map[any]string{math.NaN(): "a", math.Float64frombits(0x7ff8000000000002): "b"}
	n[math.NaN()] = "c"
	if err := pup.Check(&struct {
		M map[float64]int
		N map[any]string
	}{m, n}); err != nil {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "state.pup")
	if err := pup.ToFile(name, full()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("found mode %v, %v", info.Mode(), err)
	}
	var e everything
	if err := pup.FromFile(name, &e); err != nil || e.S != full().S {
		t.Errorf("found %q, %v", e.S, err)
	}
	if err := pup.ToFile(name, &withChan{In: make([]struct{ C chan int }, 1)}); err == nil {
		t.Error("a value that cannot be saved was")
	}
	if err := pup.FromFile(name, &e); err != nil {
		t.Errorf("a failed ToFile has harmed the file: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	if err := os.Truncate(name, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	if err := pup.FromFile(name, &e); !errors.Is(err, pup.ErrData) || !strings.Contains(err.Error(), name) {
		t.Errorf("found %v", err)
	}
	if err := pup.ToFile(filepath.Join(dir, "no", "such"), &e); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("found %v", err)
	}
}

// failing gives an error after some bytes.
type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestWriterErrors(t *testing.T) {
	v := make([]byte, 3<<20)
	for n := 0; n < 4<<20; n += 300000 {
		err := pup.ToWriter(&failing{n}, &v)
		if n < 3<<20 && !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("after %d bytes: found %v", n, err)
		}
	}
	var w bytes.Buffer
	for i := range 3 {
		if err := pup.ToWriter(&w, i); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		var x int
		if err := pup.FromReader(&w, &x); err != nil || x != i {
			t.Errorf("value %d of a stream: found %d, %v", i, x, err)
		}
	}
}

func TestAppend(t *testing.T) {
	head := []byte("head")
	b, err := pup.Append(head, full())
	if err != nil || string(b[:4]) != "head" {
		t.Fatal(err)
	}
	var e everything
	if err := pup.Unmarshal(b[4:], &e); err != nil {
		t.Error(err)
	}
	room := make([]byte, 4, 1<<20)
	c, err := pup.Append(room, full())
	if err != nil || &c[0] != &room[0] || !bytes.Equal(c[4:], b[4:]) {
		t.Errorf("with room: other bytes, or another array (%v)", err)
	}
}

// TestFirstUseAtOnce meets types for the first time in many goroutines.
func TestFirstUseAtOnce(t *testing.T) {
	type a struct{ M map[string][]*everything }
	type b struct {
		A *a
		B []b
		C counted
	}
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			data, err := pup.Marshal(&b{A: &a{M: map[string][]*everything{"k": {full()}}}, B: make([]b, 2)})
			if err == nil {
				err = pup.Unmarshal(data, &b{})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// TestRandomValues packs values that nobody thought of.
func TestRandomValues(t *testing.T) {
	type record struct {
		I  int64
		F  float32
		S  string
		B  []byte
		L  []string
		M  map[int16]string
		N  map[string]map[uint8][]int32
		P  *[3]uint16
		PP **bool
	}
	gen := rapid.MakeCustom[[]record](rapid.MakeConfig{})
	rapid.Check(t, func(t *rapid.T) {
		want := gen.Draw(t, "value")
		for _, opts := range [][]pup.Option{nil, {pup.Graph()}, {pup.Unchecked()}} {
			data, err := pup.Marshal(&want, opts...)
			if err != nil {
				t.Fatal(err)
			}
			var got []record
			if err := pup.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(want, got) {
				again, err := pup.Marshal(&got, opts...) // NaNs are not equal to themselves
				if err != nil || !bytes.Equal(again, data) {
					t.Fatalf("found %+v, want %+v", got, want)
				}
			}
		}
		if err := pup.Check(&want); err != nil {
			t.Fatal(err)
		}
	})
}

// helpers calls every helper by hand.
type helpers struct {
	N  int16
	B  bool
	S  string
	P  inner
	PS []inner
	SL []string
	A  [2]string
	M  map[[2]int]string
	Pt *string
	I  fmt.Stringer
	T  time.Time
	Bi big.Int
	Bf big.Float
	Br big.Rat
	Ad netip.Addr
	Ap netip.AddrPort
	Pr netip.Prefix
	Bn netip.Addr
	V  map[string]any
	Sk int
}

func (h *helpers) PUP(p *pup.Stream) {
	pup.Number(p, &h.N)
	pup.Bool(p, &h.B)
	pup.String(p, &h.S)
	pup.Plain(p, &h.P)
	pup.PlainSlice(p, &h.PS)
	pup.Slice(p, &h.SL, pup.String)
	pup.Array(p, h.A[:], pup.String)
	pup.Map(p, &h.M, pup.Plain, pup.String)
	pup.Ptr(p, &h.Pt, pup.String)
	pup.Interface(p, &h.I)
	pup.Time(p, &h.T)
	pup.BigInt(p, &h.Bi)
	pup.BigFloat(p, &h.Bf)
	pup.BigRat(p, &h.Br)
	pup.Addr(p, &h.Ad)
	pup.AddrPort(p, &h.Ap)
	pup.Prefix(p, &h.Pr)
	pup.Binary(p, &h.Bn)
	pup.Value(p, &h.V)
	pup.Skip(p, &h.Sk, "not needed")
}

func TestHelpers(t *testing.T) {
	word := "word"
	h := &helpers{N: 1, B: true, S: "s", P: inner{A: 1}, PS: []inner{{B: 2}}, SL: []string{"a"}, A: [2]string{"x", "y"},
		M: map[[2]int]string{{1, 2}: "m", {0, 5}: "n"}, Pt: &word, I: time.Second, T: time.Unix(1, 2).UTC(),
		Ad: netip.MustParseAddr("::1"), V: map[string]any{"k": 1}}
	h.Bi.SetInt64(-5)
	h.Bf.SetFloat64(0.5)
	h.Br.SetFrac64(1, 3)
	for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
		if err := pup.Check(h, opts...); err != nil {
			t.Error(err)
		}
		data, err := pup.Marshal(h, opts...)
		if err != nil {
			t.Fatal(err)
		}
		var got helpers
		if err := pup.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(h, &got) {
			t.Errorf("found %+v, %v\nwant %+v", got, err, *h)
		}
	}
}
