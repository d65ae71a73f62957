package pup_test

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/testdata/faulty"
)

// TestAssumptions asks the self-tests whether this Go release is as package pup assumes.
func TestAssumptions(t *testing.T) {
	for _, name := range pup.Assumptions() {
		if small := name == "image" && strconv.IntSize == 32; pup.Holds(name) == small {
			t.Errorf("%s: %s: found %v, want %v", runtime.Version(), name, small, !small)
		}
	}
}

// TestAssumptionsRefused lets each assumption be false without which nothing can be packed.
func TestAssumptionsRefused(t *testing.T) {
	data, err := pup.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	var e everything
	for _, name := range []string{"words", "slices", "functions", "maps", "numbers"} {
		t.Run(name, func(t *testing.T) {
			defer pup.Deny(name)()
			for what, f := range map[string]func() error{
				"Marshal":   func() error { _, err := pup.Marshal(full()); return err },
				"Graph":     func() error { _, err := pup.Marshal(full(), pup.Graph()); return err },
				"Size":      func() error { _, err := pup.Size(full()); return err },
				"ToWriter":  func() error { return pup.ToWriter(&bytes.Buffer{}, full()) },
				"Unmarshal": func() error { return pup.Unmarshal(data, &e) },
				"Reader":    func() error { return pup.FromReader(bytes.NewReader(data), &e) },
				"Check":     func() error { return pup.Check(full()) },
				"Footprint": func() error { _, err := pup.Footprint(full()); return err },
			} {
				err := f()
				if !errors.Is(err, pup.ErrRuntime) || !strings.Contains(err.Error(), runtime.Version()) || !strings.HasPrefix(err.Error(), "pup: ") {
					t.Errorf("%s: found %v", what, err)
				}
			}
		})
	}
	if !reflect.DeepEqual(e, everything{}) {
		t.Error("something was unpacked")
	}
	roundTrip(t, "afterwards", &[]any{frontFunc{Head: three()}})
}

// embedsHidden has a PUP of its own, and embeds one.
type embedsHidden struct {
	faulty.Missed
	C int
}

func (x *embedsHidden) PUP(p *pup.Stream) {
	pup.Number(p, &x.A)
	pup.Number(p, &x.B)
	pup.Number(p, &x.C)
}

// TestAssumptionsFallBack lets those be false for which there is another way.
func TestAssumptionsFallBack(t *testing.T) {
	t.Run("wrappers", func(t *testing.T) {
		roundTrip(t, "hidden", &embedsHidden{faulty.Missed{A: 1, B: 2}, 3})
		defer pup.Deny("wrappers")()
		for _, v := range []any{&faulty.Embedding{}, &embedsHidden{}, &promotedTime{}, &[]any{1, &struct{ faulty.Missed }{}}} {
			_, err := pup.Marshal(v)
			if !errors.Is(err, pup.ErrType) || !errors.Is(err, pup.ErrRuntime) && !strings.Contains(err.Error(), "registered") {
				t.Errorf("%T: found %v", v, err)
			}
		}
		roundTrip(t, "methods without doubt", &mesh{}) // its own, and nothing embedded
		if c := pup.ClassOf[counted](); c != pup.HandwrittenClass {
			t.Errorf("found %v", c)
		}
	})
	t.Run("buffers", func(t *testing.T) {
		defer pup.Deny("buffers")()
		for _, n := range []int{1, 9, 1 << 16, 1<<16 + 3} {
			roundTrip(t, "bytes", &[][]byte{bytes.Repeat([]byte{7}, n)})
			roundTrip(t, "numbers", &[][]uint32{make([]uint32, n)})
		}
	})
	for _, name := range []string{"tables", "image"} {
		t.Run(name, func(t *testing.T) {
			v := &weighed{Name: strings.Repeat("x", 100), Table: map[string]int{}}
			for i := range 1000 {
				v.Table[strings.Repeat("k", i)] = i
			}
			want, err := pup.Footprint(v)
			defer pup.Deny(name)()
			found, err2 := pup.Footprint(v)
			if err != nil || err2 != nil || found < want*9/10 || found > want*11/10 {
				t.Errorf("found %d, %v, want about %d, %v", found, err2, want, err)
			}
		})
	}
}
