// Package tree is the trees of ranks over which the runtime adds up, decides and tells: every rank but 0 has a parent, and
// their depth is the logarithm of the number of ranks.
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

// Ordered returns the rank above, -1 for the root, and those below in another tree, of the same depth: that of each rank's subtree are
// ranks one after the other, from itself on, so that what is combined on the way to the root is combined in the order of the ranks.
func Ordered(rank, ranks int) (parent int, children []int) {
	parent, at := -1, 0
	for from, to := 1, ranks; ; { // the ranks below at
		each := max(1, (to-from+Fanout-1)/Fanout)
		if rank == at {
			for ; from < to; from += each {
				children = append(children, from)
			}
			return parent, children
		}
		parent, at = at, rank-(rank-from)%each
		from, to = at+1, min(at+each, to)
	}
}
