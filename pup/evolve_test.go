package pup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

// evolved is in its third version:
//
//	1: Ident int16, Mass float32, Junk map[string]*pup_test.inner, Part test.oldPart, Codes []int8
//	2: Ident is ID, Label is new
//	3: ID is an int64, Mass a float64, Codes []int32, Junk is gone, Weights are new
type evolved struct {
	ID      int64
	Mass    float64
	Part    part
	Codes   []int32
	Label   string
	Weights []float64
}

// part was called test.oldPart.
type part struct{ X, Y float32 }

var _ = pup.Register[part]("test.part", pup.Alias("test.oldPart"))

var _ = pup.Register[evolved]("test.evolved", pup.SchemaVersion(3),
	pup.Renamed("Ident", "ID", 2), pup.Added("Label", 2),
	pup.Widened("ID", "int16", 3), pup.Widened("Mass", "float32", 3), pup.Widened("Codes", "[]int8", 3),
	pup.Removed("Junk", 3), pup.Added("Weights", 3), pup.Construct(func() evolved { return evolved{Label: "none"} }))

const (
	schema1 = "test.evolved\n" +
		"test.evolved 1 struct Ident int16; Mass float32; Junk map[string]*test.inner; Part test.oldPart; Codes []int8\n" +
		"test.inner 1 struct A int8; S struct{X []string,Y [2]bool}; T time\n" +
		"test.oldPart 1 struct X float32; Y float32\n"
	schema2 = "test.evolved\n" +
		"test.evolved 2 struct ID int16; Mass float32; Junk map[string]*test.inner; Part test.part; Codes []int8; Label string\n" +
		"test.inner 1 struct A int8; S struct{X []string,Y [2]bool}; T time\n" +
		"test.part 1 struct X float32; Y float32\n"
	schema3 = "test.evolved\n" +
		"test.evolved 3 struct ID int64; Mass float64; Part test.part; Codes []int32; Label string; Weights []float64\n" +
		"test.part 1 struct X float32; Y float32\n"
)

func le(list ...any) string {
	var b bytes.Buffer
	for _, x := range list {
		if s, ok := x.(string); ok {
			b.WriteString(s)
		} else if err := binary.Write(&b, binary.LittleEndian, x); err != nil {
			panic(err)
		}
	}
	return b.String()
}

func TestOldVersions(t *testing.T) {
	if s := pup.Schema(&evolved{}); s != schema3 {
		t.Fatalf("today's schema: found %q, want %q", s, schema3)
	}
	time := le(int64(5), uint32(6), uint8(0))
	junk := le("\x03", "\x01a", "\x00", "\x01b", "\x01", int8(1), "\x02\x02hi", "\x01\x00", time)
	old := le(int16(-7), float32(1.5), junk, float32(3), float32(4), "\x03", int8(-1), int8(2))
	want := evolved{ID: -7, Mass: 1.5, Part: part{3, 4}, Codes: []int32{-1, 2}, Label: "none"}
	for version, c := range []struct {
		schema, body, label string
	}{{schema1, old, "none"}, {schema2, old + "\x03lab", "lab"}} {
		want.Label = c.label
		got := []evolved{{}}
		if err := pup.Unmarshal(pup.WrapSchema("[]"+c.schema, false, []byte("\x02"+c.body)), &got); err != nil {
			t.Fatalf("version %d: %v", version+1, err)
		}
		if !reflect.DeepEqual(got[0], want) {
			t.Errorf("version %d: found %+v, want %+v", version+1, got[0], want)
		}
	}
}

func TestSchemaDifferences(t *testing.T) {
	cases := []struct{ name, schema, want string }{
		{"no rule", strings.Replace(schema3, "Mass float64", "Mass float32", 1), "test.evolved, version 3 in the data, 3 here: no rule for what differs\n  Mass: float32 in the data, float64 here"},
		{"a field too many", strings.Replace(schema3, "Label string", "Label string; Extra bool", 1), "Extra bool: in the data, not here"},
		{"a field missing", strings.Replace(schema3, "; Label string", "", 1), "Label string: here, not in the data"},
		{"from the future", strings.Replace(schema3, "test.evolved 3", "test.evolved 4", 1), "the data has version 4, this program knows up to 3"},
		{"another type", strings.Replace(schema3, "test.evolved\n", "test.other\n", 1), "the data holds a test.other, want a test.evolved"},
		{"narrowed", strings.Replace(schema1, "Ident int16", "Ident float64", 1), "Ident"},
		{"a nested type", strings.Replace(schema3, "X float32; Y", "X float64; Y", 1), "test.part, version 1 in the data, 1 here: no rule for what differs\n  X: float64 in the data, float32 here"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := pup.Unmarshal(pup.WrapSchema(c.schema, false, nil), &evolved{})
			if !errors.Is(err, pup.ErrSchema) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v\nwant %s", err, c.want)
			}
		})
	}
}

// counted has code of its own, which asks for the version.
type counted struct{ N, M int32 }

var _ = pup.Register[counted]("test.counted", pup.SchemaVersion(2))

func (c *counted) PUP(p *pup.Stream) {
	pup.Number(p, &c.N)
	if pup.Version[counted](p) >= 2 {
		pup.Number(p, &c.M)
	}
}

func TestHandwrittenVersions(t *testing.T) {
	old := "[]test.counted\ntest.counted 1 visits N int32\n"
	var got []counted
	if err := pup.Unmarshal(pup.WrapSchema(old, false, []byte(le("\x03", int32(1), int32(2)))), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, []counted{{1, 0}, {2, 0}}) {
		t.Errorf("found %v", got)
	}
	data, err := pup.Marshal(&got)
	if err != nil {
		t.Fatal(err)
	}
	if err := pup.Unmarshal(data, &got); err != nil || len(got) != 2 {
		t.Errorf("today's version: %v, %v", got, err)
	}
}

// holder has an interface; the schema of what it holds comes with the value.
type holder struct{ V any }

func TestOldTypeInAnInterface(t *testing.T) {
	text := "test.oldPart\ntest.oldPart 1 struct X float32; Y float32\n"
	body := le("\x01", "\x0ctest.oldPart", "\x01", uvarint(uint64(len(text))), text, "\x01", float32(1), float32(math.Pi))
	var h holder
	if err := pup.Unmarshal(pup.Wrap(&h, false, []byte(body)), &h); err != nil {
		t.Fatal(err)
	}
	if p, ok := h.V.(*part); !ok || p.Y != math.Pi {
		t.Errorf("found %v", h.V)
	}
}

// narrow is what wide was: all its numbers were shorter.
type (
	narrow struct {
		Part  []float32
		All   []float32
		Rows  [][]int8
		Early []int16
		N     [3]int16
		Same  [][]int8
		Empty []uint8
		Nil   []uint8
		Void  [][0]int8
		Pair  *[2]int16
	}
	wide struct {
		Part  []float64
		All   []float64
		Rows  [][]int32
		Early []float32 // of N
		N     [3]float32
		Same  [][]int32
		Empty []int64
		Nil   []int64
		Void  [][0]int32
		Pair  *[2]int16
	}
	halfWide struct {
		All  []float64
		Part []float32
	}
	halfNarrow struct{ All, Part []float32 }
)

var (
	_ = pup.Register[narrow]("test.narrow")
	_ = pup.Register[wide]("test.wide", pup.SchemaVersion(2), pup.Widened("Part", "[]float32", 2), pup.Widened("All", "[]float32", 2),
		pup.Widened("Rows", "[][]int8", 2), pup.Widened("Early", "[]int16", 2), pup.Widened("N", "[3]int16", 2), pup.Widened("Same", "[][]int8", 2),
		pup.Widened("Empty", "[]uint8", 2), pup.Widened("Nil", "[]uint8", 2), pup.Widened("Void", "[][0]int8", 2))
	_ = pup.Register[halfNarrow]("test.halfNarrow")
	_ = pup.Register[halfWide]("test.halfWide", pup.SchemaVersion(2), pup.Widened("All", "[]float32", 2))
)

// asOld packs a value as if it were one of an older version of the type named, in a graph or a tree.
func asOld(t testing.TB, v any, name string, graph bool) (schema string, body []byte) {
	t.Helper()
	data, err := pup.Marshal(v, graphOptions(graph)...)
	if err != nil {
		t.Fatal(err)
	}
	schema = pup.Schema(v)
	own, _, _ := strings.Cut(schema, "\n")
	return strings.ReplaceAll(schema, own, name), pup.Body(data)
}

func fromOld(t testing.TB, old any, name string, graph bool, to any) error {
	t.Helper()
	schema, body := asOld(t, old, name, graph)
	return pup.Unmarshal(pup.WrapSchema(schema, graph, body), to)
}

func newNarrow() *narrow {
	v := &narrow{All: []float32{1, 2, 3, 4.5}, Rows: [][]int8{{1, -2}, nil, {}}, N: [3]int16{7, -8, 9}, Empty: []uint8{}, Void: make([][0]int8, 2)}
	v.Part, v.Early, v.Same = v.All[1:3], v.N[1:], v.Rows[:1]
	return v
}

// TestWidenedSlices widens slices that share memory, which they do afterwards.
func TestWidenedSlices(t *testing.T) {
	want := &wide{Part: []float64{2, 3}, All: []float64{1, 2, 3, 4.5}, Rows: [][]int32{{1, -2}, nil, {}}, Early: []float32{-8, 9},
		N: [3]float32{7, -8, 9}, Same: [][]int32{{1, -2}}, Empty: []int64{}, Void: make([][0]int32, 2)}
	for _, graph := range []bool{false, true} {
		var got wide
		if err := fromOld(t, newNarrow(), "test.wide", graph, &got); err != nil || !reflect.DeepEqual(&got, want) {
			t.Fatalf("graph %v: found %+v, %v, want %+v", graph, got, err, want)
		}
		shared := []bool{&got.Part[0] == &got.All[1], &got.Early[0] == &got.N[1], &got.Same[0] == &got.Rows[0], cap(got.Part) == 3}
		if want := []bool{graph, graph, graph, graph}; !reflect.DeepEqual(shared, want) {
			t.Errorf("graph %v: shared: found %v, want %v", graph, shared, want)
		}
	}
}

// TestWidenedInPart refuses, by name, what only one of those that share it widens.
func TestWidenedInPart(t *testing.T) {
	old := &halfNarrow{All: []float32{1, 2}}
	old.Part = old.All
	var got halfWide
	if err := fromOld(t, old, "test.halfWide", false, &got); err != nil || got.All[1] != 2 || got.Part[1] != 2 {
		t.Errorf("a tree: found %v, %v", got, err)
	}
	err := fromOld(t, old, "test.halfWide", true, &got)
	if err == nil || !strings.Contains(err.Error(), "halfWide.Part: ") || !strings.Contains(err.Error(), "object 1 is of float64, want float32") {
		t.Errorf("found %v", err)
	}
	n := &narrow{N: [3]int16{1, 2, 3}}
	n.Pair = (*[2]int16)(n.N[1:])
	if err := fromOld(t, n, "test.wide", true, &wide{}); err == nil || !strings.Contains(err.Error(), "wide.Pair: ") ||
		!strings.Contains(err.Error(), `has no [2]int16 at ".N[1]"`) {
		t.Errorf("found %v", err)
	}
}
