package amt

import (
	"math/rand/v2"
	"testing"
)

// TestHashed: what was put is found, and what was removed is not, for keys of many forms; and none is far from where it is looked for.
func TestHashed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for name, key := range map[string]func(n uint64) uint64{
		"in a row":      func(n uint64) uint64 { return n },
		"rows":          func(n uint64) uint64 { return n << 33 },
		"at random":     func(n uint64) uint64 { return n * 0xd1342543de82ef95 },
		"golden ratio":  func(n uint64) uint64 { return n * 0x9e3779b97f4a7c15 >> 16 },
		"a tree's ways": func(n uint64) uint64 { return n<<(n%32) | 1<<(n%32) },
	} {
		var h hashed[uint64]
		want := map[uint64]*uint64{}
		for range 20_000 {
			k := key(r.Uint64N(4096))
			of := h.find(k)
			if of != want[k] {
				t.Fatalf("%s: key %#x: found %p, wanted %p", name, k, of, want[k])
			}
			if of != nil {
				h.remove(k)
				delete(want, k)
			} else {
				of = new(uint64)
				h.put(k, of)
				want[k] = of
			}
			if h.used != len(want) || len(h.slots) > max(fewestSlots, 8*h.used+8) {
				t.Fatalf("%s: %d in %d slots, wanted %d", name, h.used, len(h.slots), len(want))
			}
		}
		far, mask := uint64(0), uint64(len(h.slots))-1
		for i, s := range h.slots {
			if s.of != nil {
				far += (uint64(i) - h.first(s.key)) & mask
			}
		}
		if mean := float64(far) / float64(h.used); mean > 4 {
			t.Errorf("%s: they are %.1f slots from where they are looked for", name, mean)
		}
	}
}
