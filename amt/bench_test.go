package amt_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

type number struct{ X uint64 }

var (
	sink  amt.Handler[number]
	chain amt.Handler[number]
)

func init() {
	sink.Is(func(_ amt.Context, m *number) { m.X++ })
	chain.Is(func(c amt.Context, m *number) {
		if m.X > 0 {
			chain.Send(c, (c.Rank()+1)%c.Ranks(), &number{m.X - 1})
		}
	})
}

// one runs a benchmark on rank 0 of n.
func one(b *testing.B, n int, body func(c amt.Context) error) {
	err := amt.RunLocal(n, func(c amt.Context) error {
		if c.Rank() == 0 {
			b.ResetTimer()
		}
		err := c.Collective("bench", func(c amt.Context) error {
			if c.Rank() == 0 {
				return body(c)
			}
			return nil
		}).Wait(c)
		if c.Rank() == 0 {
			b.StopTimer()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkLocal(b *testing.B) {
	one(b, 1, func(c amt.Context) error {
		for i := range b.N {
			sink.Send(c, 0, &number{uint64(i)})
		}
		return nil
	})
}

func BenchmarkLocalChain(b *testing.B) {
	one(b, 1, func(c amt.Context) error { chain.Send(c, 0, &number{uint64(b.N)}); return nil })
}

func BenchmarkRemote(b *testing.B) {
	one(b, 2, func(c amt.Context) error {
		for i := range b.N {
			sink.Send(c, 1, &number{uint64(i)})
		}
		return nil
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	one(b, 2, func(c amt.Context) error { chain.Send(c, 1, &number{uint64(2 * b.N)}); return nil })
}

func BenchmarkRooted(b *testing.B) {
	one(b, 1, func(c amt.Context) error {
		for range b.N {
			if err := c.Rooted("empty", func(amt.Context) error { return nil }).Wait(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkCollective(b *testing.B) {
	err := amt.RunLocal(2, func(c amt.Context) error {
		for range b.N {
			if err := c.Collective("empty", func(amt.Context) error { return nil }).Wait(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// A cell is an element of benchmarks.
type cell struct{ Sum uint64 }

// wide is a message as long as one for an element with its stamp.
type wide struct{ X, Key, Stamp uint64 }

var (
	cells    amt.Collection[amt.Index1, cell]
	cellSink amt.Method[amt.Index1, cell, number]
	wideSink amt.Handler[wide]

	cellChain amt.Method[amt.Index1, cell, number]
	sparse    amt.Collection[amt.Index1, cell]
	sparsely  amt.Method[amt.Index1, cell, number]
	wideChain amt.Handler[wide]
)

func init() {
	cells.Is("cells")
	cellSink.Is(&cells, func(_ amt.At[amt.Index1], e *cell, m *number) { e.Sum += m.X })
	wideSink.Is(func(_ amt.Context, m *wide) { m.X++ })
	cellChain.Is(&cells, func(c amt.At[amt.Index1], e *cell, m *number) {
		if e.Sum++; m.X > 0 {
			cellChain.Send(c.Context, amt.Index1{X: int(m.X % 4096)}, &number{m.X - 1})
		}
	})
	sparse.Is("sparse cells")
	sparsely.Is(&sparse, func(c amt.At[amt.Index1], e *cell, m *number) {
		if e.Sum++; m.X > 0 {
			sparsely.Send(c.Context, far(m.X%4096), &number{m.X - 1})
		}
	})
	wideChain.Is(func(c amt.Context, m *wide) {
		if m.X > 0 {
			wideChain.Send(c, 0, &wide{X: m.X - 1})
		}
	})
}

// far is one of few indices of very many.
func far(n uint64) amt.Index1 { return amt.Index1{X: int(n * 0x9e3779b97f4a7c15 >> 16)} }

// onCells runs a benchmark on rank 0 of n, with elements.
func onCells(b *testing.B, n int, body func(c amt.Context) error) {
	b.ReportAllocs()
	if err := withCells(n, body, b.ResetTimer); err != nil {
		b.Fatal(err)
	}
}

// withCells runs a body on rank 0 of n, with elements, of which begin is told.
func withCells(n int, body func(c amt.Context) error, begin func()) error {
	return amt.RunLocal(n, func(c amt.Context) error {
		if err := cells.Create(c, amt.Index1{X: 4096}, func(amt.Index1) (cell, error) { return cell{}, nil }); err != nil {
			return err
		}
		if err := sparse.CreateEmpty(c, amt.Index1{X: 1 << 48}); err != nil {
			return err
		}
		err := c.Modify("sparse", func(c amt.Context) error {
			for k := uint64(0); k < 4096 && c.Rank() == 0; k++ {
				sparse.Insert(c, far(k), cell{})
			}
			return nil
		})
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			begin()
		}
		return c.Collective("bench", func(c amt.Context) error {
			if c.Rank() == 0 {
				return body(c)
			}
			return nil
		}).Wait(c)
	})
}

func BenchmarkWideLocal(b *testing.B) {
	onCells(b, 1, func(c amt.Context) error { wideChain.Send(c, 0, &wide{X: uint64(b.N)}); return nil })
}

func BenchmarkElementLocal(b *testing.B) {
	onCells(b, 1, func(c amt.Context) error { cellChain.Send(c, amt.Index1{}, &number{uint64(b.N)}); return nil })
}

func BenchmarkElementSparse(b *testing.B) {
	onCells(b, 1, func(c amt.Context) error { sparsely.Send(c, far(0), &number{uint64(b.N)}); return nil })
}

func BenchmarkWideRemote(b *testing.B) {
	onCells(b, 2, func(c amt.Context) error {
		sendWide(c, b.N)
		return nil
	})
}

func BenchmarkElementRemote(b *testing.B) {
	onCells(b, 2, func(c amt.Context) error {
		sendCells(c, b.N)
		return nil
	})
}

// TestNoAllocation: a message without pointers allocates nothing, to a handler or an element, here or on another rank.
func TestNoAllocation(t *testing.T) {
	const messages = 20_000
	for name, body := range map[string]func(c amt.Context){
		"to a handler here":   func(c amt.Context) { wideChain.Send(c, 0, &wide{X: messages}) },
		"to an element here":  func(c amt.Context) { cellChain.Send(c, amt.Index1{}, &number{messages}) },
		"to one of few":       func(c amt.Context) { sparsely.Send(c, far(0), &number{messages}) },
		"to a handler there":  func(c amt.Context) { sendWide(c, messages) },
		"to an element there": func(c amt.Context) { sendCells(c, messages) },
	} {
		var before, after runtime.MemStats
		err := withCells(2, func(c amt.Context) error {
			runtime.ReadMemStats(&before)
			body(c)
			return nil
		}, func() {})
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if n := after.Mallocs - before.Mallocs; n > messages/10 {
			t.Errorf("a message %s: %d allocations for %d", name, n, messages)
		}
	}
}

func sendWide(c amt.Context, n int) {
	for i := range n {
		wideSink.Send(c, 1, &wide{X: uint64(i)})
	}
}

func sendCells(c amt.Context, n int) {
	for i := range n {
		cellSink.Send(c, amt.Index1{X: 2048 + i%2048}, &number{uint64(i)})
	}
}

// BenchmarkSection has 64 of some elements run a broadcast.
func BenchmarkSection(b *testing.B) {
	const members = 64
	for _, n := range []int{members, 64 * members} {
		b.Run(fmt.Sprint("of", n), func(b *testing.B) {
			err := amt.RunLocal(1, func(c amt.Context) error {
				err := cells.Create(c, amt.Index1{X: n}, func(amt.Index1) (cell, error) { return cell{}, nil })
				if err != nil {
					return err
				}
				s, err := cells.Section(c, "some", func(i amt.Index1) bool { return i.X%(n/members) == 0 })
				if err != nil {
					return err
				}
				b.ResetTimer()
				return c.Collective("bench", func(c amt.Context) error {
					for range b.N {
						cellSink.BroadcastTo(c, s, &number{1})
					}
					return nil
				}).Wait(c)
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
