package main

import (
	"fmt"
	"math"
	"time"

	"github.com/byssus-hpc/byssus/amt"
)

// Long messages of the same size: an array, which travels as it lies in memory, and a slice, which is packed.
type (
	array64K  struct{ B [64 << 10]byte }
	array256K struct{ B [256 << 10]byte }
	array1M   struct{ B [1 << 20]byte }
	slice     struct{ B []byte }
)

var (
	arrays64K  amt.Handler[array64K]
	arrays256K amt.Handler[array256K]
	arrays1M   amt.Handler[array1M]
	slices     amt.Handler[slice]

	sent64K, sent256K, sent1M = new(array64K), new(array256K), new(array1M)
)

func init() {
	arrays64K.Is(func(amt.Context, *array64K) {})
	arrays256K.Is(func(amt.Context, *array256K) {})
	arrays1M.Is(func(amt.Context, *array1M) {})
	slices.Is(func(amt.Context, *slice) {})
}

// bursts times long messages in a row: of arrays and of slices by turns, so that both see the same machine.
func bursts(c amt.Context, batches int) error {
	const enough = 64 // messages that a batch of bursts has at least
	for _, of := range []struct {
		name  string
		array func(c amt.Context, to int)
		b     []byte
	}{
		{"64K", func(c amt.Context, to int) { arrays64K.Send(c, to, sent64K) }, sent64K.B[:]},
		{"256K", func(c amt.Context, to int) { arrays256K.Send(c, to, sent256K) }, sent256K.B[:]},
		{"1M", func(c amt.Context, to int) { arrays1M.Send(c, to, sent1M) }, sent1M.B[:]},
	} {
		kinds := []func(c amt.Context, to int){of.array, func(c amt.Context, to int) { slices.Send(c, to, &slice{of.b}) }}
		for _, length := range []int{1, 8, 64} {
			best := []float64{math.Inf(1), math.Inf(1)}
			for batch := range batches + 1 {
				for i, send := range kinds {
					begin := time.Now()
					for range enough / length {
						if err := epoch(c, func(c amt.Context) { burst(c, length, send) }); err != nil {
							return err
						}
					}
					if batch > 0 {
						best[i] = min(best[i], float64(time.Since(begin).Nanoseconds())/enough)
					}
				}
			}
			if c.Rank() == 0 {
				fmt.Printf("tasks Burst%sx%d/array %.0f\ntasks Burst%sx%d/slice %.0f\n", of.name, length, best[0], of.name, length, best[1])
			}
		}
	}
	return nil
}

func burst(c amt.Context, n int, send func(c amt.Context, to int)) {
	for range n {
		send(c, other(c))
	}
}
