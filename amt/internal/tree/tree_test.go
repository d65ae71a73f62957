package tree

import "testing"

// TestGrowth prints how the cost of a broadcast and of a reduction grows with the number of ranks, whatever rank is the root:
// messages that one rank sends and receives, and rounds.
func TestGrowth(t *testing.T) {
	for ranks := 2; ranks <= 16384; ranks *= 2 {
		told, sends, reached := make([]int, ranks), 0, 1
		told[0] = 1
		rounds := 0
		for at := []int{0}; reached < ranks; rounds++ {
			var next []int
			for _, rank := range at {
				first, last := Children(rank, ranks)
				sends = max(sends, last-first)
				for child := first; child < last; child++ {
					if Parent(child) != rank {
						t.Fatalf("%d ranks: the parent of %d is %d, not %d", ranks, child, Parent(child), rank)
					}
					told[child]++
					reached++
					next = append(next, child)
				}
			}
			at = next
		}
		for rank, n := range told {
			if n != 1 {
				t.Fatalf("%d ranks: rank %d is told %d times", ranks, rank, n)
			}
		}
		t.Logf("%5d ranks: a broadcast takes %d rounds, a rank sends at most %d messages and receives 1; a reduction the reverse and a broadcast", ranks, rounds, sends)
		if rounds != Depth(ranks) || sends > Fanout {
			t.Errorf("%d ranks: %d rounds, %d messages from a rank; the depth is %d", ranks, rounds, sends, Depth(ranks))
		}
	}
}
