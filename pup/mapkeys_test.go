package pup_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/testdata/odd"
)

type keyStruct struct {
	N int
	P *link
}

type visitsPointerKeys struct{ M map[*link]int }

func (x *visitsPointerKeys) PUP(p *pup.Stream) {
	pup.Map(p, &x.M, func(p *pup.Stream, k **link) { pup.Ptr(p, k, pup.Value) }, pup.Number)
}

// TestPointerKeysInATree: a map whose keys have no order is refused however many entries it has, and when it is sized, too.
func TestPointerKeysInATree(t *testing.T) {
	a, b := &link{ID: 1}, &link{ID: 2}
	for name, v := range map[string]any{
		"one":                &map[*link]int{a: 1},
		"two":                &map[*link]int{a: 1, b: 2},
		"with nil":           &map[*link]int{nil: 1, b: 2},
		"structure":          &map[keyStruct]int{{1, a}: 1},
		"array":              &map[[2]*link]int{{nil, a}: 1},
		"interface":          &map[any]int{a: 1},
		"inside interface":   &map[any]int{frontNoCopy{Head: a}: 1},
		"deep":               &[]map[string]map[*link]bool{{"x": {a: true}}},
		"in an interface":    &[]any{pointerKeyed{M: map[*link]int{a: 1}}},
		"visited":            &visitsPointerKeys{map[*link]int{a: 1}},
		"pointer to pointer": &map[**link]int{&a: 1},
	} {
		for what, f := range map[string]func() error{
			"Marshal":  func() error { _, err := pup.Marshal(v); return err },
			"Size":     func() error { _, err := pup.Size(v); return err },
			"ToWriter": func() error { return pup.ToWriter(io.Discard, v) },
			"Check":    func() error { return pup.Check(v) },
		} {
			if err := f(); what != "Check" && !errors.Is(err, pup.ErrType) || err == nil {
				t.Errorf("%s: %s: found %v", name, what, err)
			}
		}
	}
	for _, v := range []any{&map[*link]int{nil: 1}, &map[*link]int{}, &map[any]int{nil: 1}, &map[any]int{1: 1}, &map[keyStruct]int{{N: 1}: 1, {N: 2}: 1},
		&visitsPointerKeys{}, &visitsPointerKeys{map[*link]int{nil: 5}}} {
		roundTrip(t, fmt.Sprintf("%T", v), v)
	}
}

type pointerKeyed struct{ M map[*link]int }

var _ = pup.Register[pointerKeyed]("test.pointerKeyed")

// TestNaNsInKeys keeps entries whose keys are not equal to themselves, wherever the NaN is.
func TestNaNsInKeys(t *testing.T) {
	nan := math.NaN()
	other := math.Float64frombits(math.Float64bits(nan) ^ 1)
	for name, v := range map[string]any{
		"floats":     &map[float64]int{nan: 1, other: 2, 0: 3, math.Copysign(0, -1): 4},
		"complex":    &map[complex64]string{complex(float32(nan), 1): "a", complex(1, float32(nan)): "b"},
		"arrays":     &map[[2]float32]int{{1, float32(nan)}: 1, {float32(nan), 1}: 2},
		"interfaces": &map[any]int{nan: 1, float32(nan): 2, "x": 3},
		"structures": &map[struct {
			S string
			F float64
		}][]int{{"a", nan}: {1}, {"a", other}: {2}},
	} {
		for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
			if err := pup.Check(v, opts...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestMemoryByOrder: whether a map is refused for the memory of its entries must not depend on the order in which it happens
// to be sized. Here the large entry comes first, and what pays for it after it.
func TestMemoryByOrder(t *testing.T) {
	m := map[string][]odd.Scratchy{"a": make([]odd.Scratchy, 8), "b": {{Names: make([]string, 2000)}}}
	for range 50 {
		data, err := pup.Marshal(&m, pup.MaxMemory(1))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := pup.Size(&m, pup.MaxMemory(1)); err != nil || n != uint64(len(data)) {
			t.Fatalf("sized %d, %v, packed %d", n, err, len(data))
		}
	}
}
