package pup_test

import (
	"errors"
	"hash/maphash"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
	"unique"
	"weak"

	"github.com/byssus-hpc/byssus/pup"
)

type pair2 struct {
	A string
	B int
}

type ownHandles struct {
	Name, None unique.Handle[string]
	List       []unique.Handle[int]
	At         *time.Location
}

func (x *ownHandles) PUP(p *pup.Stream) {
	pup.Handle(p, &x.Name)
	pup.Handle(p, &x.None)
	pup.Slice(p, &x.List, pup.Handle)
	pup.Location(p, &x.At)
}

type looseHandle struct{ H unique.Handle[pair2] }

type pointerHandle struct {
	H unique.Handle[struct{ P *link }]
	P *link
}

func (x *pointerHandle) PUP(p *pup.Stream) {
	pup.Handle(p, &x.H)
	pup.Ptr(p, &x.P, pup.Value)
}

type pairHandle struct{ Pair unique.Handle[pair2] }

func (x *pairHandle) PUP(p *pup.Stream) { pup.Handle(p, &x.Pair) }

var (
	_ = pup.Register[unique.Handle[string]]("test.handle", pup.Visit(pup.Handle[string]))
	_ = pup.Register[pairHandle]("test.pairHandle")
)

func TestHandles(t *testing.T) {
	a, b := unique.Make("a"), unique.Make("b")
	for name, v := range map[string]any{
		"registered": &struct {
			Name, None unique.Handle[string]
			List       []unique.Handle[string]
			M          map[unique.Handle[string]]int
			Any        any
		}{a, unique.Handle[string]{}, []unique.Handle[string]{b, a, {}}, map[unique.Handle[string]]int{a: 1, b: 2}, b},
		"visited": &ownHandles{Name: a, List: []unique.Handle[int]{unique.Make(7), {}}, At: time.UTC},
		"nothing": &ownHandles{},
		"pair":    &[]any{pairHandle{unique.Make(pair2{"x", 5})}},
	} {
		for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
			roundTrip(t, name, v, opts...)
			if err := pup.Check(v, opts...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if !strings.Contains(pup.Schema(&pairHandle{}), "string") {
		t.Errorf("the handle's value is not in the schema: %s", pup.Schema(&pairHandle{}))
	}
}

// TestHandleOfPointers keeps what the values of handles lead to in a graph, and refuses them in a tree.
func TestHandleOfPointers(t *testing.T) {
	l := &link{ID: 4}
	x := &pointerHandle{unique.Make(struct{ P *link }{l}), l}
	if _, err := pup.Marshal(x); !errors.Is(err, pup.ErrType) || !strings.Contains(err.Error(), "Graph") {
		t.Errorf("found %v", err)
	}
	data, err := pup.Marshal(x, pup.Graph())
	if err != nil {
		t.Fatal(err)
	}
	var y pointerHandle
	if err := pup.Unmarshal(data, &y); err != nil || y.H.Value().P != y.P || y.P.ID != 4 {
		t.Errorf("found %v, %v", y, err)
	}
}

// TestIdentityRefused asks that what cannot be kept is refused by name, by Marshal and Check.
func TestIdentityRefused(t *testing.T) {
	loc := *time.FixedZone("X", 60)
	for want, v := range map[string]any{
		"unique.Handle[":           &looseHandle{unique.Make(pair2{})},
		"time.Location":            &struct{ L time.Location }{loc},
		"maphash.Seed":             &struct{ S maphash.Seed }{maphash.MakeSeed()},
		"maphash.Hash":             &struct{ S []maphash.Hash }{make([]maphash.Hash, 1)},
		"unsafe.Pointer":           &struct{ W weak.Pointer[int] }{weak.Make(new(int))},
		"reflect.rtype":            &[]any{reflect.TypeFor[int]()},
		"*pup_test.pair2":          &[]any{&pair2{}},
		"time.Timer":               &struct{ T *time.Timer }{time.NewTimer(time.Hour)},
		`location "UTC"`:           &struct{ L **time.Location }{ptr(paris(t, "UTC"))},
		`location "Europe/London"`: &struct{ L *time.Location }{paris(t, "Europe/London")},
		`location ""`:              &struct{ L *time.Location }{&time.Location{}},
		`location "Nowhere"`:       &struct{ L *time.Location }{paris(t, "Nowhere")},
	} {
		if _, err := pup.Marshal(v); !errors.Is(err, pup.ErrType) || !strings.Contains(err.Error(), strings.TrimPrefix(want, "time.Timer")) {
			t.Errorf("%s: found %v", want, err)
		}
		if err := pup.Check(v); err == nil || !strings.Contains(err.Error(), "unsound") {
			t.Errorf("%s: Check found %v", want, err)
		}
	}
}

// paris is a location of zones that change, under any name.
func paris(t *testing.T, name string) *time.Location {
	data, err := os.ReadFile("/usr/share/zoneinfo/Europe/Paris")
	if err != nil {
		t.Skip("SKIP: no time zones on this machine")
	}
	l, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPointersToLocations(t *testing.T) {
	paris := paris(t, "Europe/Paris")
	other, _ := time.LoadLocation("Europe/Paris")
	fixed := time.FixedZone("X", -3600)
	type places struct {
		L    []*time.Location
		M    map[string]*time.Location
		Any  any
		P    **time.Location
		Same *time.Location
	}
	v := &places{L: []*time.Location{time.UTC, time.Local, paris, other, fixed, nil, time.FixedZone("", 0), time.FixedZone("UTC", 0)},
		M: map[string]*time.Location{"a": paris}, Any: paris, P: &fixed, Same: paris}
	for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
		data, err := pup.Marshal(v, opts...)
		if err != nil {
			t.Fatal(err)
		}
		var got places
		if err := pup.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		for i, want := range v.L {
			if l := got.L[i]; (l == nil) != (want == nil) || (l == time.UTC) != (want == time.UTC) || (l == time.Local) != (want == time.Local) ||
				want != nil && time.Unix(1e9, 0).In(l).String() != time.Unix(1e9, 0).In(want).String() {
				t.Errorf("found %v, want %v", l, want)
			}
		}
		if got.Same != got.L[2] || got.M["a"] != got.Same || got.Any != any(got.Same) || *got.P != got.L[4] {
			t.Error("one location became several")
		}
		if err := pup.Check(v, opts...); err != nil {
			t.Error(err)
		}
		if n, err := pup.Size(v, opts...); err != nil || n != uint64(len(data)) {
			t.Errorf("sized %d, %v, packed %d", n, err, len(data))
		}
	}
	if err := pup.Unmarshal(pup.Wrap(new(*time.Location), false, []byte("\x03\x07Nowhere")), new(*time.Location)); err == nil || !strings.Contains(err.Error(), "Nowhere") {
		t.Errorf("found %v", err)
	}
	for _, body := range []string{"\x03\x00", "\x03\x05Local", "\x05", "\x04\x01"} {
		if err := pup.Unmarshal(pup.Wrap(new(*time.Location), false, []byte(body)), new(*time.Location)); !errors.Is(err, pup.ErrData) {
			t.Errorf("%q: found %v", body, err)
		}
	}
}

// TestFarOffset refuses zones that do not fit into the data, which would come back as others.
func TestFarOffset(t *testing.T) {
	seconds := int64(1<<33 + 60)
	if int64(int(seconds)) != seconds {
		t.Skip("no zone is that far on this machine")
	}
	far := time.FixedZone("far", int(seconds))
	at := time.Unix(0, 0).In(far)
	for _, v := range []any{&at, &struct{ L *time.Location }{far}} {
		if _, err := pup.Marshal(v); !errors.Is(err, pup.ErrType) {
			t.Errorf("found %v", err)
		}
	}
}

// TestFarFloats refuses floats when they are packed, not when they are unpacked.
func TestFarFloats(t *testing.T) {
	for name, x := range map[string]*big.Float{
		"precision": new(big.Float).SetPrec(big.MaxPrec).SetInt64(3),
		"nearly":    new(big.Float).SetPrec(big.MaxPrec - 62).SetInt64(3),
		"largest":   new(big.Float).SetPrec(big.MaxPrec - 63).SetInt64(3),
		"zero":      new(big.Float).SetPrec(big.MaxPrec),
		"up":        new(big.Float).SetMantExp(big.NewFloat(1), big.MaxExp-1),
		"down":      new(big.Float).SetMantExp(big.NewFloat(1), big.MinExp),
		"infinite":  new(big.Float).SetInf(true),
		"minus":     new(big.Float).Neg(new(big.Float)),
	} {
		data, err := pup.Marshal(x)
		var y big.Float
		switch {
		case err != nil && (!errors.Is(err, pup.ErrType) || !strings.Contains(err.Error(), "precision")):
			t.Errorf("%s: found %v", name, err)
		case err != nil:
			if err := pup.Check(x); err == nil {
				t.Errorf("%s: Check found nothing", name)
			}
		default:
			if err := pup.Unmarshal(data, &y); err != nil || x.Cmp(&y) != 0 || x.Prec() != y.Prec() || x.Mode() != y.Mode() || x.Signbit() != y.Signbit() || x.Acc() != y.Acc() {
				t.Errorf("%s: found %v, %v", name, &y, err)
			}
		}
	}
}

func ptr[T any](v T) *T { return &v }

type byPtr struct{ L *time.Location }

func (x *byPtr) PUP(p *pup.Stream) { pup.Ptr(p, &x.L, pup.Value) }

// TestPtrToLocation visits a location as code from pupgen does.
func TestPtrToLocation(t *testing.T) {
	for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
		data, err := pup.Marshal(&byPtr{time.Local}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		var got byPtr
		if err := pup.Unmarshal(data, &got); err != nil || got.L != time.Local {
			t.Errorf("found %v, %v", got, err)
		}
		if err := pup.Check(&byPtr{time.Local}, opts...); err != nil {
			t.Error(err)
		}
	}
}
