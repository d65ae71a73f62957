package pup_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

// shorter has more fields than its data; swappedNames has exchanged the names of two; comeAndGone had one for a while.
type (
	shorter struct {
		A int8
		B float64
		C string
	}
	swappedNames struct{ A, B int8 }
	comeAndGone  struct{ A int8 }
	lostMap      struct{ After int8 }
	lostHand     struct{ After int8 }
	lostPlace    struct{ After int8 }
)

var (
	_ = pup.Register[shorter]("test.shorter", pup.SchemaVersion(2), pup.Added("B", 2), pup.Added("C", 2))
	_ = pup.Register[swappedNames]("test.swappedNames", pup.SchemaVersion(2), pup.Renamed("A", "B", 2), pup.Renamed("B", "A", 2))
	_ = pup.Register[comeAndGone]("test.comeAndGone", pup.SchemaVersion(3), pup.Added("X", 2), pup.Removed("X", 3))
	_ = pup.Register[lostMap]("test.lostMap", pup.SchemaVersion(2), pup.Removed("M", 2))
	_ = pup.Register[lostHand]("test.lostHand", pup.SchemaVersion(2), pup.Removed("H", 2))
	_ = pup.Register[lostPlace]("test.lostPlace", pup.SchemaVersion(2), pup.Removed("L", 2))
)

// TestOldData reads what is harder to read than it looks.
func TestOldData(t *testing.T) {
	for _, c := range []struct {
		name, schema string
		graph        bool
		body         string
		into, want   any
	}{
		{"elements that were shorter", "[]test.shorter\ntest.shorter 1 struct A int8\n", false, "\x04\x01\x02\x03",
			new([]shorter), &[]shorter{{A: 1}, {A: 2}, {A: 3}}},
		{"entries that were shorter", "map[int8]test.shorter\ntest.shorter 1 struct A int8\n", false, "\x03\x01\x02\x03\x04",
			new(map[int8]shorter), &map[int8]shorter{1: {A: 2}, 3: {A: 4}}},
		{"shorter in a graph", "[]test.shorter\ntest.shorter 1 struct A int8\n", true, "\x01\x02\x05\x06",
			new([]shorter), &[]shorter{{A: 5}, {A: 6}}},
		{"names exchanged", "test.swappedNames\ntest.swappedNames 1 struct A int8; B int8\n", false, "\x01\x02",
			new(swappedNames), &swappedNames{2, 1}},
		{"came and went", "test.comeAndGone\ntest.comeAndGone 1 struct A int8\n", false, "\x07", new(comeAndGone), &comeAndGone{7}},
		{"a map is gone", "test.lostMap\ntest.lostMap 1 struct M map[int8]string; After int8\n", true, "\x01\x02\x05\x01x\x09",
			new(lostMap), &lostMap{9}},
		{"a nil map is gone", "test.lostMap\ntest.lostMap 1 struct M map[int8]string; After int8\n", true, "\x00\x09",
			new(lostMap), &lostMap{9}},
		{"a type with code is gone", "test.lostHand\ntest.counted 1 visits N int32\ntest.lostHand 1 struct H test.counted; After int8\n", false,
			"\x01\x00\x00\x00\x09", new(lostHand), &lostHand{9}},
		{"a location is gone", "test.lostPlace\ntest.lostPlace 1 struct L location; After int8\n", false, "\x03\x07Nowhere\x09",
			new(lostPlace), &lostPlace{9}},
		{"a location in a graph is gone", "test.lostPlace\ntest.lostPlace 1 struct L location; After int8\n", true, "\x04\x01X\x05\x00\x00\x00\x09",
			new(lostPlace), &lostPlace{9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := pup.Unmarshal(pup.WrapSchema(c.schema, c.graph, []byte(c.body)), c.into); err != nil || !reflect.DeepEqual(c.into, c.want) {
				t.Errorf("found %+v, %v, want %+v", c.into, err, c.want)
			}
		})
	}
}

type (
	ownedCell struct{ Of *ownerMesh }
	ownerMesh struct{ Cells []ownedCell }
)

// TestGraphReachedFromInside packs what is reached only by a pointer into itself.
func TestGraphReachedFromInside(t *testing.T) {
	m := &ownerMesh{Cells: make([]ownedCell, 3)}
	for i := range m.Cells {
		m.Cells[i].Of = m
	}
	c := &m.Cells[1]
	if _, err := pup.Marshal(&c, pup.Graph()); !errors.Is(err, pup.ErrType) || !strings.Contains(err.Error(), "visited before") {
		t.Errorf("found %v", err)
	}
	if err := pup.Check(m, pup.Graph()); err != nil {
		t.Error(err)
	}
}

func TestGraphHoldsItself(t *testing.T) {
	m := map[string]any{"x": 1}
	m["self"] = m
	data, err := pup.Marshal(&m, pup.Graph())
	if err != nil {
		t.Fatal(err)
	}
	var n map[string]any
	if err := pup.Unmarshal(data, &n); err != nil || reflect.ValueOf(n["self"]).Pointer() != reflect.ValueOf(n).Pointer() {
		t.Errorf("found %v, %v", n, err)
	}
	if _, err := pup.Marshal(&m); !errors.Is(err, pup.ErrDepth) || len(err.Error()) > 2000 {
		t.Errorf("found %d bytes of error: %.300v", len(err.Error()), err)
	}
	s := []any{1, nil}
	s[1] = s
	if data, err = pup.Marshal(&s, pup.Graph()); err != nil {
		t.Fatal(err)
	}
	var u []any
	if err := pup.Unmarshal(data, &u); err != nil || &u[1].([]any)[0] != &u[0] {
		t.Errorf("found %v", err)
	}
}

type ownPlain struct{ A, B int32 }

func (o *ownPlain) PUP(p *pup.Stream) { pup.Number(p, &o.A); pup.Number(p, &o.B) }

type holdsOwn struct{ L []ownPlain }

func (h *holdsOwn) PUP(p *pup.Stream) { pup.PlainSlice(p, &h.L) }

// TestOwnPlain hands PlainSlice elements that have a PUP of their own, in a tree and in a graph.
func TestOwnPlain(t *testing.T) {
	v := &holdsOwn{[]ownPlain{{1, 2}, {3, 4}}}
	for _, o := range [][]pup.Option{nil, {pup.Graph()}} {
		d, err := pup.Marshal(v, o...)
		if err != nil {
			t.Fatal(err)
		}
		var b holdsOwn
		if err := pup.Unmarshal(d, &b, o...); err != nil || b.L[1].B != 4 {
			t.Fatal(err, b)
		}
	}
}
