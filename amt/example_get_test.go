package amt_test

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

type basin struct{ Levels []float64 }

// A stretch is some levels of a basin, to be read, or to be written if there are any here.
type stretch struct {
	Of        amt.Index1
	Offset, N int
	Levels    []float64
	Reply     amt.Callback[[]float64]
}

var (
	basins  amt.Collection[amt.Index1, basin]
	access  amt.Method[amt.Index1, basin, stretch]
	levels  amt.Call[stretch, []float64]
	drifts  amt.Method[amt.Index1, basin, vote]
	noticed amt.Method[amt.Index1, basin, amt.Reply[[]float64]]
)

func init() {
	basins.Is("basins")
	access.Is(&basins, func(c amt.At[amt.Index1], b *basin, m *stretch) {
		part := b.Levels[m.Offset : m.Offset+m.N]
		copy(part, m.Levels)
		m.Reply.Send(c.Context, &part)
	})
	levels.Is(func(c amt.Context, q *stretch, reply amt.Callback[[]float64]) {
		q.Reply = reply
		access.Send(c, q.Of, q)
	})
	drifts.Is(&basins, func(c amt.At[amt.Index1], _ *basin, _ *vote) { c.MoveTo((c.Rank() + 1) % c.Ranks()) })
	noticed.Is(&basins, func(_ amt.At[amt.Index1], b *basin, m *amt.Reply[[]float64]) { b.Levels = m.Value })
}

// Part of a slice that an element has is read, and written, wherever the element is: a method replies. A main function, or a task, waits for
// the reply by a Call to its own rank; an element has it come to a method of its own (CallbackToElement).
func ExampleCall_element() {
	err := amt.RunLocal(3, func(c amt.Context) error {
		err := basins.Create(c, amt.Index1{X: 2}, func(amt.Index1) (basin, error) { return basin{make([]float64, 8)}, nil })
		if err != nil || c.Rank() != 0 {
			return err
		}
		put, err := levels.Wait(c, c.Rank(), &stretch{Of: amt.Index1{X: 1}, Offset: 2, N: 3, Levels: []float64{1, 2, 3}})
		if err != nil {
			return err
		}
		moved := c.Rooted("drift", func(c amt.Context) error { drifts.Send(c, amt.Index1{X: 1}, &vote{}); return nil })
		got, err := levels.Wait(c, c.Rank(), &stretch{Of: amt.Index1{X: 1}, Offset: 3, N: 4})
		fmt.Println(put, got)
		if err != nil {
			return err
		}
		err = c.Rooted("to an element", func(c amt.Context) error {
			one, other := amt.Index1{X: 1}, amt.Index1{X: 0}
			access.Send(c, one, &stretch{Offset: 2, N: 2, Reply: amt.CallbackToElement(c, &noticed, other, 0)})
			return moved.Wait(c)
		}).Wait(c)
		if err != nil {
			return err
		}
		got, err = levels.Wait(c, c.Rank(), &stretch{Of: amt.Index1{X: 0}, N: 2})
		fmt.Println(got)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// [1 2 3] [2 3 0 0]
	// [1 2]
}
