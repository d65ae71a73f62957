// Package tree is the tree of ranks over which the runtime adds up, decides and tells: every rank but 0 has a parent, and
// its depth is the logarithm of their number.
package tree

// Fanout is how many children a rank has: a compromise between depth and what one rank receives.
const Fanout = 4

// Parent is the rank above, -1 for the root.
func Parent(rank int) int {
	if rank == 0 {
		return -1
	}
	return (rank - 1) / Fanout
}

// Children are the ranks below one of so many, from first to last-1.
func Children(rank, ranks int) (first, last int) {
	first = min(rank*Fanout+1, ranks)
	return first, min(first+Fanout, ranks)
}

// Depth is how many ranks lie above the last one.
func Depth(ranks int) (depth int) {
	for rank := ranks - 1; rank > 0; rank = Parent(rank) {
		depth++
	}
	return depth
}
