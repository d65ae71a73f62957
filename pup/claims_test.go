package pup

import (
	"math/rand/v2"
	"testing"
)

// TestClaims holds claims against a set of bytes: of words and of parts of words, in pages and across them, in turns over
// more pages than are kept at hand.
func TestClaims(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	sizes := []uintptr{0, 1, 3, 8, 16, 24, 40, 512, 520, 4096, bytesOfPage, 3*bytesOfPage + 8}
	for round := range 400 {
		var c claims
		filled, twice := map[uintptr]bool{}, false
		align := []uintptr{1, 8, 8, 8}[round%4]
		for range 1 + r.IntN(40) {
			base := 1<<30 + uintptr(r.IntN(40*bytesOfPage))/align*align
			size := sizes[r.IntN(len(sizes))]
			if r.IntN(3) > 0 {
				size = min(size, 64)
			}
			c.claim(base, size)
			for k := range size {
				twice = twice || filled[base+k]
				filled[base+k] = true
			}
			if c.twice() != twice {
				t.Fatalf("round %d: %d bytes at %#x: found twice %v, want %v", round, size, base, c.twice(), twice)
			}
			if twice {
				break
			}
		}
	}
}
