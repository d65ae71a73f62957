package pup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/internal/gentest"
)

type named struct {
	ID   int32
	Name string
	Tags []string
	Attr map[string][]float64
}

type owner struct {
	Label string
	Cells []named
	Inner *named
	Shape any
}

type nest []nest

type chain struct{ Next *chain }

func uvarint(x uint64) string { return string(binary.AppendUvarint(nil, x)) }

// TestHostile gives bodies that nobody packed. Each must be refused with the path of the variable, before much is allocated.
func TestHostile(t *testing.T) {
	zero4 := "\x00\x00\x00\x00"
	cases := []struct {
		name  string
		into  any
		graph bool
		body  string
		want  string
	}{
		{"empty", &owner{}, false, "", "owner.Label: damaged data: 1 bytes wanted, 0 left"},
		{"a string too long", &owner{}, false, uvarint(9223372036854775807) + "abc", "owner.Label: damaged data: length 9223372036854775807 exceeds the 3 bytes left"},
		{"a slice too long", &owner{}, false, "\x00" + uvarint(1<<40) + "0123456789", "owner.Cells: damaged data: length 1099511627775 exceeds the 10 bytes left"},
		{"deep inside", &owner{}, false, "\x00\x03" + zero4 + "\x01a\x00\x00" + zero4 + "\x7fabcdefgh", "owner.Cells[1].Name: damaged data: length 127 exceeds the 8 bytes left"},
		{"in a map", &owner{}, false, "\x00\x02" + zero4 + "\x00\x00\x02\x01k" + uvarint(1<<50) + "0123456789", `owner.Cells[0].Attr["k"]: damaged data: length 1125899906842623 exceeds the 10 bytes left`},
		{"a long number", &owner{}, false, strings.Repeat("\xff", 20), "owner.Label: damaged data: a number that is too long"},
		{"a number not the shortest", &owner{}, false, "\x81\x00a", "owner.Label: damaged data: a number that is too long"},
		{"a pointer of 2", &owner{}, false, "\x00\x00\x02", "owner.Inner: damaged data: a pointer of 2, want 0 or 1"},
		{"an unknown type", &owner{}, false, "\x00\x00\x00\x01\x05Shape\x00\x00", `owner.Shape: other schema: no type of this program is registered as "Shape"`},
		{"a type that never came", &owner{}, false, "\x00\x00\x00\x07", "owner.Shape: damaged data: dynamic type 5 of 0"},
		{"bytes left over", &owner{}, false, "\x00\x00\x00\x00x", "1 bytes are left"},
		{"a bool of 2", new(bool), false, "\x02", "bool: damaged data: a bool of 2"},
		{"a depth bomb", new(nest), false, strings.Repeat("\x02", 20000), "nested too deeply"},
		{"a chain of pointers", &chain{}, false, strings.Repeat("\x01", 20000), "nested too deeply"},
		{"elements without bytes", new([]struct {
			A [1000]int `pup:"-,not saved"`
		}), false, uvarint(1 << 60), "exceeds the 0 bytes left"},
		{"keys twice", new(map[int8]bool), false, "\x03\x01\x00\x01\x01", "2 entries, 1 different keys"},
		{"an object that never came", &gnode{}, true, strings.Repeat("\x00", 8) + "\x0b", "gnode.Next: damaged data: object 4 of 1"},
		{"a pointer into nothing", new([]*float64), true, "\x01\x01" + "\x07\x00\x00", "[]*float64[0]: damaged data: object 2 never came"},
		{"a pointer of another type", &struct {
			A, B *int64
			C    *float64
		}{}, true, "\x01" + strings.Repeat("\x00", 8) + "\x04\x04", "C: damaged data: object 1 is 1 of int64, want one float64"},
		{"a path to nothing", &struct {
			A *inner
			B *float64
		}{}, true, "\x01" + strings.Repeat("\x00", 15) + "\x05\x00\x02.A", "B: damaged data: a pup_test.inner has no float64 at \".A\""},
		{"an element too far", &struct {
			A *inner
			B *float64
		}{}, true, "\x01" + strings.Repeat("\x00", 15) + "\x05\x09\x02.B", "B: damaged data: it points to element 9 of 1"},
		{"a part of a slice too large", new([][]int8), true, "\x01\x01\x02\x02\x00\x05\x05ab", "[][]int8[0]: damaged data: elements 0 to 5, capacity 5, of 2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := pup.Unmarshal(pup.Wrap(c.into, c.graph, []byte(c.body)), c.into)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v\nwant  %s", err, c.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
				t.Errorf("%d bytes of data made it allocate %d", len(c.body), took)
			}
		})
	}
}

// TestNoPointerBehindTheEnd unpacks empty slices that lie behind the last element of an array, which the garbage collector
// would take for pointers into other memory.
func TestNoPointerBehindTheEnd(t *testing.T) {
	var v [][]int64
	body := "\x01\x02" + "\x01\x01" + "12345678" + "\x05\x01\x00\x00"
	if err := pup.Unmarshal(pup.Wrap(&v, true, []byte(body)), &v); err != nil {
		t.Fatal(err)
	}
	if len(v[1]) != 0 || cap(v[1]) != 0 || unsafe.SliceData(v[1]) != unsafe.SliceData(v[0]) {
		t.Errorf("found %p of %p, capacity %d", unsafe.SliceData(v[1]), unsafe.SliceData(v[0]), cap(v[1]))
	}
}

// TestHostileSchema gives schemas that say little and would take for ever.
func TestHostileSchema(t *testing.T) {
	fields := ""
	for i := range 60 {
		fields += fmt.Sprintf("t%d 1 struct A t%d; B t%d\n", i, i+1, i+1)
	}
	for _, junk := range []string{"[1152921504606846976]struct{}", "[1000000][1000000][1000000]struct{}", "t0", "loop", "[-5]int8", "[x]int8", "map[int8", "struct{A", "*", "[]", "[]loop", "what"} {
		schema := strings.Replace(schema1, "Junk map[string]*test.inner", "Junk "+junk, 1) + fields + "t60 1 struct\nloop 1 struct A loop\n"
		err := pup.Unmarshal(pup.WrapSchema(schema, false, []byte(strings.Repeat("\x01", 100))), &evolved{})
		if err == nil || strings.Contains(err.Error(), "panicked") {
			t.Errorf("%s: found %v", junk, err)
		}
	}
}

// TestDamage flips every bit and cuts at every length: nothing of it may pass.
func TestDamage(t *testing.T) {
	v := &owner{"label", []named{{1, "a", []string{"x"}, map[string][]float64{"k": {1, 2}}}}, &named{ID: 7}, "text"}
	data, err := pup.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			if err := pup.Unmarshal(bad, &owner{}); !errors.Is(err, pup.ErrData) {
				t.Fatalf("bit %d of byte %d: found %v", bit, i, err)
			}
			if err := pup.FromReader(bytes.NewReader(bad), &owner{}); err == nil {
				t.Fatalf("bit %d of byte %d: read without an error", bit, i)
			}
		}
		if err := pup.Unmarshal(data[:i], &owner{}); !errors.Is(err, pup.ErrData) {
			t.Fatalf("cut at %d: found %v", i, err)
		}
		if err := pup.FromReader(bytes.NewReader(data[:i]), &owner{}); !errors.Is(err, pup.ErrData) {
			t.Fatalf("cut at %d: found %v", i, err)
		}
	}
	if err := pup.Unmarshal(append(data, 0), &owner{}); !errors.Is(err, pup.ErrData) {
		t.Errorf("a byte too many: found %v", err)
	}
}

// TestChunks packs values whose size is near the size of chunks, so that every kind of field lies across an end.
func TestChunks(t *testing.T) {
	for pad := 64<<10 - 200; pad < 64<<10+20; pad++ {
		v := &struct {
			Pad []byte
			E   everything
		}{make([]byte, pad), *full()}
		data, err := pup.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var w bytes.Buffer
		if err := pup.ToWriter(&w, v); err != nil || !bytes.Equal(w.Bytes(), data) {
			t.Fatalf("pad %d: ToWriter differs (%v)", pad, err)
		}
		got := *v
		got.Pad, got.E = nil, everything{}
		if err := pup.FromReader(&w, &got); err != nil {
			t.Fatalf("pad %d: %v", pad, err)
		}
		again, err := pup.Append(make([]byte, 0, 5000), &got)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("pad %d: packed again: differs (%v)", pad, err)
		}
	}
}

// fuzzedTypes are what the fuzzer fills, each with a value to begin with: every kind, by reflection and by code of its own.
func fuzzedTypes() []struct{ into, seed any } {
	room, own := newRoom(), &ownRoom{Room: [5]int{1}}
	own.Used = own.Room[:2]
	return []struct{ into, seed any }{
		{&everything{}, full()},
		{&mesh{}, newMesh()},
		{&temporary{}, &temporary{list: []int{1, 2}, on: true}},
		{&chain{}, &chain{&chain{}}},
		{new(nest), &nest{nil, {}, {nil}}},
		{&owner{}, &owner{"x", []named{{1, "n", []string{"t"}, map[string][]float64{"k": {1}}}}, &named{}, map[string]any{"a": []any{1, "b"}}}},
		{&gnode{}, &gnode{1, &gnode{ID: 2}, nil, "n"}},
		{&helpers{}, &helpers{SL: []string{"a"}, M: map[[2]int]string{{1, 2}: "m"}}},
		{new(map[any]map[*int]string), &map[any]map[*int]string{1: nil, "k": {}, 2.5: {}}},
		{new([][]int16), &[][]int16{{1, 2, 3}, {}, nil}},
		{new([]*[3]*int32), &[]*[3]*int32{{}, nil}},
		{&built{}, &built{Kept: 1}},
		{new([]counted), &[]counted{{1, 2}}},
		{new([]gentest.Measure), &[]gentest.Measure{{Label: "l", Counts: gentest.Mask{1}}, {Raw: []byte{}, Notes: strings.Repeat("n", 200)}}},
		{&arraysLast{}, &arraysLast{viewsOf(room), room}},
		{new([]ownRoom), &[]ownRoom{*own}},
		{&gentest.Containers{}, &gentest.Containers{Rows: [][]float64{{1}, nil}}},
		{&gentest.Node{}, &gentest.Node{Value: 1, Left: &gentest.Node{}, Kids: []*gentest.Node{{}, nil}}},
		{&gentest.Drawing{}, &gentest.Drawing{Main: gentest.Circle{}, Others: []gentest.Shape{&gentest.Square{Side: 2}}}},
		{&gentest.Derived{}, &gentest.Derived{Extra: "e"}},
		{&gentest.Special{}, &gentest.Special{}},
		{&gentest.Foreign{}, &gentest.Foreign{}},
		{&gentest.Reflected{}, &gentest.Reflected{}},
		{&gentest.Tails{}, &gentest.Tails{Many: make([]gentest.Tail, 2)}},
		{&gentest.Boxes{}, &gentest.Boxes{}},
	}
}

// FuzzUnmarshal gives bodies. One that is accepted must pack, unpack and pack to the same bytes again.
func FuzzUnmarshal(f *testing.F) {
	for n, c := range fuzzedTypes() {
		for _, graph := range []bool{false, true} {
			if data, err := pup.Marshal(c.seed, graphOptions(graph)...); err == nil {
				f.Add(uint8(n), graph, pup.Body(data))
			}
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, graph bool, body []byte) {
		list := fuzzedTypes()
		v := list[int(n)%len(list)].into
		fresh := func() any { return reflect.New(reflect.TypeOf(v).Elem()).Interface() }
		if err := pup.Unmarshal(pup.Wrap(v, graph, body), v); err != nil {
			if strings.Contains(err.Error(), "panicked") {
				t.Fatal(err)
			}
			return
		}
		data, err := pup.Marshal(v, graphOptions(graph)...)
		if err != nil {
			return // what came in was a tree too deep, or shares memory in a way that cannot be named
		}
		w := fresh()
		if err := pup.Unmarshal(data, w); err != nil {
			t.Fatalf("packed again, it cannot be unpacked: %v", err)
		}
		again, err := pup.Marshal(w, graphOptions(graph)...)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("packed a third time, it differs (%v)", err)
		}
	})
}

func graphOptions(graph bool) []pup.Option {
	if graph {
		return []pup.Option{pup.Unchecked(), pup.Graph()}
	}
	return []pup.Option{pup.Unchecked()}
}

// FuzzFile gives whole files, FuzzSchema other schemas.
func FuzzFile(f *testing.F) {
	data, err := pup.Marshal(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, b everything
		err := pup.Unmarshal(data, &a)
		if other := pup.FromReader(bytes.NewReader(data), &b); err == nil && other != nil {
			t.Fatalf("unpacked, but not read: %v", other)
		}
	})
}

func FuzzSchema(f *testing.F) {
	types := func() []any { return []any{&evolved{}, &owner{}, &mesh{}, &wide{}, &halfWide{}} }
	for _, v := range types() {
		f.Add(pup.Schema(v), false, []byte("0123456789"))
	}
	for _, graph := range []bool{false, true} {
		schema, body := asOld(f, newNarrow(), "test.wide", graph)
		f.Add(schema, graph, body)
	}
	for text, body := range oldEvolved() {
		f.Add(text, false, []byte(body))
		f.Add(text, true, []byte(body))
	}
	f.Fuzz(func(t *testing.T, schema string, graph bool, body []byte) {
		if len(schema) > math.MaxUint16 {
			return
		}
		for _, v := range types() {
			if err := pup.Unmarshal(pup.WrapSchema(schema, graph, body), v); err != nil && strings.Contains(err.Error(), "panicked") {
				t.Fatal(err)
			}
		}
	})
}

func oldEvolved() map[string]string {
	list := map[string]string{}
	for v, text := range []string{schema1, schema2, schema3} {
		list[text] = fmt.Sprint("version", v, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	}
	return list
}
