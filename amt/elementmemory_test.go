package amt_test

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/byssus-hpc/byssus/amt"
)

// Collections of many elements: without and with reductions, in blocks and by a mapping that scatters them.
var (
	crowd        amt.Collection[amt.Index1, cell]
	summedUp     amt.Collection[amt.Index1, cell]
	summedUpBy   amt.ElementReduction[amt.Index1, cell, uint64]
	strewn       amt.Collection[amt.Index1, cell]
	crowdedAmong amt.Collection[amt.Index2, [6]uint64]
)

func init() {
	crowd.Is("crowd")
	summedUp.Is("summed up")
	summedUpBy.Is(&summedUp, func(a, b uint64) uint64 { return a + b })
	strewn.Is("scattered", amt.MappedBy(func(i, _ amt.Index1, ranks int) int { return i.X % ranks }))
	crowdedAmong.Is("crowded among")
}

// heapLeft is the heap without what nothing refers to; what pools keep is given up by the second collection.
func heapLeft() uint64 {
	for range 3 {
		runtime.GC()
	}
	return heapNow()
}

// TestElementMemory: an element of a dense collection takes 64 bytes at most beside its state and its index, with tables and what the
// allocator rounds up.
func TestElementMemory(t *testing.T) {
	const n = 1 << 17
	one := func(c amt.Context) error {
		return crowd.Create(c, amt.Index1{X: n}, func(amt.Index1) (cell, error) { return cell{}, nil })
	}
	for _, test := range []struct {
		name        string
		ranks, most int
		plain       uintptr // state and index
		create      func(c amt.Context) error
	}{
		{"one rank", 1, 64, unsafe.Sizeof(cell{}) + unsafe.Sizeof(amt.Index1{}), one},
		{"four ranks", 4, 64, unsafe.Sizeof(cell{}) + unsafe.Sizeof(amt.Index1{}), one},
		{"with a reduction", 2, 72, unsafe.Sizeof(cell{}) + unsafe.Sizeof(amt.Index1{}), func(c amt.Context) error {
			return summedUp.Create(c, amt.Index1{X: n}, func(amt.Index1) (cell, error) { return cell{}, nil })
		}},
		{"strewn over two ranks", 2, 72, unsafe.Sizeof(cell{}) + unsafe.Sizeof(amt.Index1{}), func(c amt.Context) error {
			return strewn.Create(c, amt.Index1{X: n}, func(amt.Index1) (cell, error) { return cell{}, nil })
		}},
		{"other state", 1, 64, unsafe.Sizeof([6]uint64{}) + unsafe.Sizeof(amt.Index2{}), func(c amt.Context) error {
			return crowdedAmong.Create(c, amt.Index2{X: n / 256, Y: 256}, func(amt.Index2) (v [6]uint64, err error) { return v, nil })
		}},
	} {
		var took int64
		err := amt.RunLocal(test.ranks, func(c amt.Context) error {
			empty := func(amt.Context) error { return nil }
			if err := c.Collective("before", empty).Wait(c); err != nil {
				return err
			}
			var before uint64
			if c.Rank() == 0 {
				before = heapLeft()
			}
			err := c.Collective("now", empty).Wait(c)
			if err == nil {
				err = test.create(c)
			}
			if err == nil {
				err = c.Collective("after", empty).Wait(c)
			}
			if c.Rank() == 0 {
				took = int64(heapLeft() - before)
			}
			return errors.Join(err, c.Collective("end", empty).Wait(c))
		})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		each := float64(took)/n - float64(test.plain)
		t.Logf("%s: %.1f bytes an element", test.name, each)
		if each > float64(test.most)+1 {
			t.Errorf("%s: an element takes %.1f bytes beside its state and index, at most %d", test.name, each, test.most)
		}
	}
}
