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

// TestOrdered: subtrees are ranks one after the other, and as deep as those of the other tree.
func TestOrdered(t *testing.T) {
	var below func(rank, ranks, depth int) (next, deepest int)
	below = func(rank, ranks, depth int) (int, int) {
		next, deepest := rank+1, depth
		_, children := Ordered(rank, ranks)
		if len(children) > Fanout {
			t.Fatalf("%d ranks: rank %d has the children %v", ranks, rank, children)
		}
		for _, child := range children {
			if parent, _ := Ordered(child, ranks); parent != rank || child != next {
				t.Fatalf("%d ranks: rank %d has the parent %d, and is the child of %d, after %d", ranks, child, parent, rank, next-1)
			}
			var d int
			next, d = below(child, ranks, depth+1)
			deepest = max(deepest, d)
		}
		return next, deepest
	}
	for _, ranks := range []int{1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 63, 64, 65, 100, 341, 342, 1000, 4096, 16384} {
		next, deepest := below(0, ranks, 0)
		if next != ranks || deepest > Depth(ranks) {
			t.Errorf("%d ranks: the tree has %d, of depth %d; the other's is %d", ranks, next, deepest, Depth(ranks))
		}
	}
}
