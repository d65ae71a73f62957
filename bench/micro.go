package main

import (
	"cmp"
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

// fortranLimits are those of the same in Fortran. Above MPICH's face the program's own library of Fortran runs, which costs natively
// what it costs: it is held against C under Byssus.
var fortranLimits = map[string]map[string]string{
	"openmpi": {"FortranPingPong8B": "1.05", "FortranSendrecv8B": "1.05", "FortranAllreduce8B": "1.05", "FortranWave8x8B": "1.05"},
	"mpich":   {"FortranPingPong8B": "C + 3 %", "FortranSendrecv8B": "C + 3 %", "FortranAllreduce8B": "C + 3 %", "FortranWave8x8B": "C + 3 %"},
}

// both is what the C and the Fortran program print, each run by run.
func (b *bench) both(ctx context.Context, mpi string, run func(ctx context.Context, mpi string, argv ...string) (result, error)) (string, error) {
	text := ""
	for _, name := range []string{"micro", "micro_fortran"} {
		r, err := run(ctx, mpi, b.program(name, mpi))
		if err != nil {
			return "", err
		}
		text += r.text
	}
	return text, nil
}

// micro times single MPI operations, native and under Byssus by turns.
func (b *bench) micro(ctx context.Context) error {
	for _, mpi := range b.mpis {
		var order []string
		samples := map[string]*sample{}
		for range b.rounds {
			native, err := b.both(ctx, mpi, b.native)
			if err != nil {
				return err
			}
			under, err := b.both(ctx, mpi, b.under)
			if err != nil {
				return err
			}
			for _, side := range []struct {
				text string
				into func(*sample, float64)
			}{
				{native, func(s *sample, v float64) { s.native = append(s.native, v) }},
				{under, func(s *sample, v float64) { s.byssus = append(s.byssus, v) }},
			} {
				for line := range strings.Lines(side.text) {
					var name string
					var best, median float64
					if n, _ := fmt.Sscanf(line, "micro %s %f %f", &name, &best, &median); n != 3 {
						continue
					}
					if samples[name] == nil {
						samples[name] = &sample{name: "Micro/" + name + "/" + mpi, unit: "ns/op", limit: cmp.Or(limits[name], fortranLimits[mpi][name])}
						order = append(order, name)
					}
					side.into(samples[name], best)
				}
			}
		}
		if len(order) != len(limits)+3+len(fortranLimits[mpi]) || !slices.Contains(order, "CommRank") {
			return fmt.Errorf("bench: micro under %s: measured %v, wanted %d operations, two of them polled, Iallreduce, and %d in Fortran", mpi, order, len(limits), len(fortranLimits[mpi]))
		}
		for _, name := range order {
			s := samples[name]
			if base, ok := strings.CutSuffix(name, "Polled"); ok {
				// Not a measurement of Byssus: what polling alone costs natively.
				s.native, s.byssus, s.other = samples[base].native, s.native, "polled"
			}
			if base, ok := strings.CutPrefix(name, "Fortran"); ok && mpi == "mpich" {
				s.print(b.out)
				s.name, s.native, s.other, s.limit = s.name+"/of-C", samples[base].byssus, "fortran", ""
			}
			s.print(b.out)
		}
	}
	return nil
}
