package pup_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/testdata/faulty"
)

// leafBinary has methods so small that the compiler copies them into the wrappers of what embeds it.
type leafBinary struct{ N uint8 }

func (x leafBinary) MarshalBinary() ([]byte, error)     { return []byte{x.N}, nil }
func (x *leafBinary) UnmarshalBinary(data []byte) error { x.N = data[0]; return nil }

type (
	embedsLeaf struct {
		Before int
		leafBinary
		After string
	}
	embedsLeafPtr struct {
		*leafBinary
		After string
	}
	embedsTwice struct {
		embedsLeaf
		Deep string
	}
	embedsGeneric[T any] struct {
		leafBinary
		V T
	}
	embedsInterface struct {
		pup.PUPer
		X int
	}
	hidesHalf struct {
		leafBinary
		S string
	}
	keyBinary struct {
		a, b uint16
		s    string
	}
)

// MarshalBinary hides one of two methods.
func (x hidesHalf) MarshalBinary() ([]byte, error) { return []byte(x.S), nil }

func (x keyBinary) MarshalBinary() ([]byte, error) {
	return append(binary.LittleEndian.AppendUint16(nil, x.a), x.s...), nil
}
func (x *keyBinary) UnmarshalBinary(data []byte) error {
	*x = keyBinary{a: binary.LittleEndian.Uint16(data), s: string(data[2:])}
	return nil
}

var _ = pup.Register[embedsLeaf]("test.embedsLeaf")

func TestPromotedLeaves(t *testing.T) {
	for _, v := range []any{
		&embedsLeaf{1, leafBinary{2}, "x"}, &embedsLeafPtr{&leafBinary{3}, "y"}, &embedsLeafPtr{nil, "z"},
		&embedsTwice{embedsLeaf{1, leafBinary{2}, "x"}, "d"}, &embedsGeneric[int]{leafBinary{1}, 2},
		&embedsGeneric[*link]{leafBinary{1}, three()}, &embedsGeneric[embedsGeneric[string]]{leafBinary{1}, embedsGeneric[string]{leafBinary{2}, "s"}},
		&hidesHalf{leafBinary{1}, "s"}, &[]any{embedsLeaf{1, leafBinary{2}, "x"}, &embedsLeaf{}},
		&embedsInterface{nil, 5}, &map[leafBinary]embedsLeaf{{1}: {2, leafBinary{3}, "m"}}, &map[keyBinary]int{{a: 1, s: "x"}: 1, {a: 1, s: "y"}: 2},
	} {
		roundTrip(t, fmt.Sprintf("%T", v), v)
	}
	if err := pup.Check(&map[keyBinary]int{{a: 1, b: 1}: 1, {a: 1, b: 2}: 2}); err == nil || !strings.Contains(err.Error(), "alike") {
		t.Errorf("found %v", err)
	}
}

// alias families: what shares memory in one value.
type aliases struct {
	Array  *[4]int
	First  *int
	Last   *int
	Whole  *embedsLeaf
	Inner  *leafBinary
	Byte   *uint8
	Any    any
	Any2   any
	Slice  []int
	Slices [][]int
	Rows   [][3]int
	Row    *[3]int
	Cell   *int
	M, N   map[string]*int
	Ptr    **int
	Ptr2   **int
	Zero   *noField
	Fn     any
}

func newAliases() *aliases {
	a := &aliases{Array: &[4]int{1, 2, 3, 4}, Whole: &embedsLeaf{1, leafBinary{2}, "x"}, Slice: make([]int, 5, 9), Rows: make([][3]int, 3)}
	a.First, a.Last = &a.Array[0], &a.Array[3]
	a.Inner, a.Byte = &a.Whole.leafBinary, &a.Whole.N
	a.Any, a.Any2 = a.Whole, a.Inner
	a.Any2 = &a.Slice
	a.Slices = [][]int{a.Slice[1:3], a.Slice[2:], a.Slice[:0], nil}
	a.Row, a.Cell = &a.Rows[2], &a.Rows[1][1]
	a.M = map[string]*int{"first": a.First, "cell": a.Cell, "slice": &a.Slice[3]}
	a.N = a.M
	a.Ptr, a.Ptr2 = &a.First, &a.First
	a.Zero = &noField{}
	a.Fn = map[string]any{"n": a.First, "s": a.Slice, "r": a.Row}
	return a
}

var (
	_ = pup.Register[[3]int]("test.row")
	_ = pup.Register[leafBinary]("test.leafBinary")
)

func TestAliases(t *testing.T) {
	v := newAliases()
	data, err := pup.Marshal(v, pup.Graph())
	if err != nil {
		t.Fatal(err)
	}
	if err := pup.Check(v, pup.Graph()); err != nil {
		t.Error(err)
	}
	for _, opts := range [][]pup.Option{nil, {pup.InPlace()}} {
		a := newAliases()
		if opts == nil {
			a = &aliases{}
		}
		if err := pup.Unmarshal(data, a, opts...); err != nil {
			t.Fatal(err)
		}
		same := []bool{a.First == &a.Array[0], a.Last == &a.Array[3], a.Inner == &a.Whole.leafBinary, a.Byte == &a.Whole.N, a.Any == any(a.Whole),
			a.Any2 == any(&a.Slice), &a.Slices[0][0] == &a.Slice[1], &a.Slices[1][0] == &a.Slice[2], a.Row == &a.Rows[2], a.Cell == &a.Rows[1][1],
			a.M["cell"] == a.Cell, a.M["slice"] == &a.Slice[3], reflect.ValueOf(a.M).Pointer() == reflect.ValueOf(a.N).Pointer(),
			a.Ptr == &a.First, a.Ptr2 == a.Ptr, a.Zero != nil, a.Fn.(map[string]any)["n"] == any(a.First), a.Fn.(map[string]any)["r"] == any(a.Row),
			&a.Fn.(map[string]any)["s"].([]int)[0] == &a.Slice[0]}
		for i, ok := range same {
			if !ok {
				t.Errorf("%d options: alias %d is lost", len(opts), i)
			}
		}
		if again, err := pup.Marshal(a, pup.Graph()); err != nil || !bytes.Equal(again, data) {
			t.Errorf("packed again: other bytes (%v)", err)
		}
	}
	if err := pup.Check(v); err == nil || !strings.Contains(err.Error(), "shared") {
		t.Errorf("in a tree: found %v", err)
	}
}

// TestPUPOnValues: Check, and nobody else, can see that a PUP on the value unpacks nothing.
func TestPUPOnValues(t *testing.T) {
	if err := pup.Check(&faulty.OnValue{A: 5}); err == nil {
		t.Error("Check found nothing")
	}
	if err := pup.Check(&faulty.OnValue{}); err == nil {
		t.Error("Check found nothing in a zero value")
	}
}
