package amt_test

import (
	"flag"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/internal/random"
)

var (
	seed     = flag.Uint64("seed", 1, "of the first random program")
	programs = flag.Int("programs", 1000, "how many")
)

func TestRandomPrograms(t *testing.T) {
	t.Logf("seed %d, %d programs", *seed, *programs)
	for n := *seed; n < *seed+uint64(*programs); n++ {
		ranks := 1 + int(n%5)
		if err := amt.RunLocal(ranks, random.Program(n, ranks)); err != nil {
			t.Fatalf("program %d on %d ranks: %v", n, ranks, err)
		}
	}
}

// TestRandomTrials: they are right also when what has come is taken in random orders, and keep no message.
func TestRandomTrials(t *testing.T) {
	t.Logf("seed %d, %d programs", *seed, *programs/4)
	for n := *seed; n < *seed+uint64(*programs/4); n++ {
		ranks := 2 + int(n%4)
		if err := (amt.Trial{Seed: n, Poison: true}).RunLocal(ranks, random.Program(n, ranks)); err != nil {
			t.Fatalf("program %d on %d ranks: %v", n, ranks, err)
		}
	}
}
