package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/byssus-hpc/byssus/amt"
)

// A stone is an element that messages come to, a crate one that is moved.
type (
	stone struct{ Hits uint64 }
	crate struct{ B []byte }
)

const (
	stones    = 4096 // four times as many as a rank remembers the places of, so that it has forgotten each when its turn comes
	crates    = 1000
	crateSize = 64 << 10
)

var (
	direct, moved       amt.Collection[amt.Index1, stone]
	hitDirect, hitMoved amt.Method[amt.Index1, stone, word]
	load                amt.Collection[amt.Index1, crate]
)

func init() {
	direct.Is("direct", amt.MappedBy(func(_, _ amt.Index1, ranks int) int { return ranks - 1 }))
	moved.Is("moved", amt.MappedBy(func(_, _ amt.Index1, _ int) int { return 1 }))
	hitDirect.Is(&direct, func(_ amt.At[amt.Index1], s *stone, _ *word) { s.Hits++ })
	hitMoved.Is(&moved, func(_ amt.At[amt.Index1], s *stone, _ *word) { s.Hits++ })
	load.Is("load", amt.MappedBy(func(_, _ amt.Index1, _ int) int { return 0 }))
}

// turns times kinds of one thing by turns, so that they see the same machine, and prints the best time of each for one of n operations.
func turns(c amt.Context, batches, n int, names []string, kinds []func() error) error {
	best := make([]float64, len(kinds))
	for i := range best {
		best[i] = math.Inf(1)
	}
	for batch := range batches + 1 {
		for i, do := range kinds {
			begin := time.Now()
			if err := do(); err != nil {
				return err
			}
			if batch > 0 {
				best[i] = min(best[i], float64(time.Since(begin).Nanoseconds())/float64(n))
			}
		}
	}
	for i, ns := range best {
		if c.Rank() == 0 {
			fmt.Printf("tasks %s %.1f\n", names[i], ns)
		}
	}
	return nil
}

// forwards times messages from rank 0 to elements on the last rank: straight there, and by a home between, that tells rank 0 of the place
// each time.
func forwards(c amt.Context, batches int) error {
	if c.Ranks() < 3 {
		return nil
	}
	nothing := func(amt.Index1) (stone, error) { return stone{}, nil }
	to := make([]int, stones)
	for i := range to {
		to[i] = c.Ranks() - 1
	}
	if err := errors.Join(direct.Create(c, amt.Index1{X: stones}, nothing), moved.Create(c, amt.Index1{X: stones}, nothing), c.Phase(amt.Given("moved", to))); err != nil {
		return err
	}
	throw := func(m *amt.Method[amt.Index1, stone, word]) func() error {
		return func() error {
			return epoch(c, func(c amt.Context) {
				for i := range stones {
					m.Send(c, amt.Index1{X: i}, &word{uint64(i)})
				}
			})
		}
	}
	return turns(c, batches, stones, []string{"Forward/direct", "Forward/home"}, []func() error{throw(&hitDirect), throw(&hitMoved)})
}

// migrations times elements that go to the other rank, and as many messages of as many bytes, from as much memory.
func migrations(c amt.Context, batches int) error {
	err := load.Create(c, amt.Index1{X: crates}, func(amt.Index1) (crate, error) { return crate{make([]byte, crateSize)}, nil })
	if err != nil {
		return err
	}
	from := make([]slice, crates)
	for i := range from {
		from[i].B = bytes.Repeat([]byte{1}, crateSize) // memory that was never written to is one page, in fact
	}
	messages := func() error {
		return epoch(c, func(c amt.Context) {
			for i := range from {
				slices.Send(c, other(c), &from[i])
			}
		})
	}
	side := 0
	elements := func() error {
		side = 1 - side
		to := make([]int, crates)
		for i := range to {
			to[i] = side % c.Ranks()
		}
		return c.Phase(amt.Given("load", to))
	}
	return turns(c, batches, crates, []string{"Migrate64K/slice", "Migrate64K/element"}, []func() error{messages, elements})
}
