package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// limits are what the microbenchmarks are held against.
var limits = map[string]string{
	"CommRank":     "native + 6 ns",
	"TypeSize":     "native + 6 ns",
	"PingPong8B":   "1.05",
	"Sendrecv8B":   "1.05",
	"Allreduce8B":  "1.05",
	"Barrier":      "1.05",
	"Wave8x8B":     "1.15",
	"PingPong1MiB": "1.02",
}

// micro times single MPI operations, native and under Byssus by turns.
func (b *bench) micro(ctx context.Context) error {
	for _, mpi := range b.mpis {
		var order []string
		samples := map[string]*sample{}
		for range b.rounds {
			native, err := b.native(ctx, mpi, b.program("micro", mpi))
			if err != nil {
				return err
			}
			under, err := b.under(ctx, mpi, b.program("micro", mpi))
			if err != nil {
				return err
			}
			for _, side := range []struct {
				text string
				into func(*sample, float64)
			}{
				{native.text, func(s *sample, v float64) { s.native = append(s.native, v) }},
				{under.text, func(s *sample, v float64) { s.byssus = append(s.byssus, v) }},
			} {
				for line := range strings.Lines(side.text) {
					var name string
					var best, median float64
					if n, _ := fmt.Sscanf(line, "micro %s %f %f", &name, &best, &median); n != 3 {
						continue
					}
					if samples[name] == nil {
						samples[name] = &sample{name: "Micro/" + name + "/" + mpi, unit: "ns/op", limit: limits[name]}
						order = append(order, name)
					}
					side.into(samples[name], best)
				}
			}
		}
		if len(order) != len(limits)+3 || !slices.Contains(order, "CommRank") {
			return fmt.Errorf("bench: micro under %s: measured %v, wanted %d operations, two of them polled, and Iallreduce", mpi, order, len(limits))
		}
		for _, name := range order {
			s := samples[name]
			if base, ok := strings.CutSuffix(name, "Polled"); ok {
				// Not a measurement of Byssus: what polling alone costs natively.
				s.native, s.byssus, s.other = samples[base].native, s.native, "polled"
			}
			s.print(b.out)
		}
	}
	return nil
}
