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
