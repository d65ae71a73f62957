package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// melt is the input of LAMMPS: a Lennard-Jones melt of 32,000 atoms.
//
//go:embed in.melt
var melt []byte

// lammps compares the loop time that LAMMPS prints. The binary is Open MPI's; under Byssus it also runs over MPICH.
func (b *bench) lammps(ctx context.Context) error {
	input := filepath.Join(b.dir, "in.melt")
	if err := os.WriteFile(input, melt, 0o644); err != nil {
		return fmt.Errorf("bench: lammps: %w", err)
	}
	argv := []string{"lmp", "-in", input, "-var", "steps", "800", "-log", "none"}
	samples := make([]sample, len(b.mpis))
	for i, mpi := range b.mpis {
		samples[i] = sample{name: "LAMMPS/loop/" + mpi, unit: "s", limit: "1.02 (native is Open MPI)"}
	}
	for range b.rounds {
		native, err := b.native(ctx, "openmpi", argv...)
		if err != nil {
			return err
		}
		n, err := loopTime(native.text)
		if err != nil {
			return err
		}
		for i, mpi := range b.mpis {
			under, err := b.under(ctx, mpi, argv...)
			if err != nil {
				return err
			}
			u, err := loopTime(under.text)
			if err != nil {
				return err
			}
			samples[i].native = append(samples[i].native, n)
			samples[i].byssus = append(samples[i].byssus, u)
		}
	}
	for _, s := range samples {
		s.print(b.out)
	}
	return nil
}

// loopTime finds "Loop time of SECONDS on ..." in what LAMMPS printed.
func loopTime(text string) (float64, error) {
	for line := range strings.Lines(text) {
		var s float64
		if n, _ := fmt.Sscanf(line, "Loop time of %f", &s); n == 1 {
			return s, nil
		}
	}
	return 0, fmt.Errorf("bench: lammps: no loop time in its output")
}
