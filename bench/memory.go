package main

import (
	"context"
	"fmt"
	"strings"
)

// memory states what Byssus adds to a rank, and whether long use makes a rank grow.
func (b *bench) memory(ctx context.Context) error {
	for _, mpi := range b.mpis {
		resident := sample{name: "Memory/resident/" + mpi, unit: "KiB", limit: "native + 16 MiB"}
		for range b.rounds {
			native, err := b.native(ctx, mpi, b.program("grow", mpi))
			if err != nil {
				return err
			}
			under, err := b.under(ctx, mpi, b.program("grow", mpi))
			if err != nil {
				return err
			}
			resident.native = append(resident.native, largest(native.text, "resident %d"))
			resident.byssus = append(resident.byssus, largest(under.text, "resident %d"))
		}
		resident.print(b.out)
		if err := b.growth(ctx, mpi); err != nil {
			return err
		}
	}
	return nil
}

// growth runs each kind of long use once on both sides and prints by how much the larger rank grew.
func (b *bench) growth(ctx context.Context, mpi string) error {
	for _, w := range []struct{ name, count string }{{"mmap", "1000000"}, {"request", "10000000"}, {"comm", "1000000"}} {
		native, err := b.native(ctx, mpi, b.program("grow", mpi), w.name, w.count)
		if err != nil {
			return err
		}
		under, err := b.under(ctx, mpi, b.program("grow", mpi), w.name, w.count)
		if err != nil {
			return err
		}
		format := "grown %d " + w.name
		fmt.Fprintf(b.out, "BenchmarkGrowth/%s/%s-2\t%s\t%.0f native-KiB\t%.0f byssus-KiB\t%.1f native-s\t%.1f byssus-s\t# limit 0, give or take pages\n",
			w.name, mpi, w.count, largest(native.text, format), largest(under.text, format), native.took.Seconds(), under.took.Seconds())
	}
	return nil
}

// largest returns the largest first number after a prefix that holds the rank, over the lines that have it.
func largest(text, prefix string) float64 {
	var most float64
	for line := range strings.Lines(text) {
		var rank int
		var kib float64
		if n, _ := fmt.Sscanf(line, prefix+" %f", &rank, &kib); n == 2 {
			most = max(most, kib)
		}
	}
	return most
}
