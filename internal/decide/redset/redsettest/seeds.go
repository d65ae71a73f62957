package redsettest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seeds runs f with the seeds from 1 to count, or with that of BYSSUS_TEST_SEED, and names the first with which it fails.
func Seeds(t *testing.T, count uint64, f func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	first := uint64(1)
	if v := os.Getenv("BYSSUS_TEST_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, count = n, 1
	}
	for seed := first; seed < first+count; seed++ {
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 11))) }) {
			t.Fatalf("again with BYSSUS_TEST_SEED=%d", seed)
		}
	}
}
