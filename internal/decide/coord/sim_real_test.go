package coord

import "fmt"

// This file is the real MPI of the simulation: it knows nothing of checkpoints. It matches collectives as MPI does, the
// n-th that one member has started with the n-th of every other, and so finds members that do different things.

const maxRanks = 6

// collKind is who waits for whom in a collective.
type collKind uint8

const (
	everyone collKind = iota // nobody is out before all are in: barrier, allreduce, and their like
	fromRoot                 // the root is out at once, the others when the root is in: bcast, scatter
	toRoot                   // the root is out when all are in, the others at once: gather, reduce
)

// part is what a collective is there for.
type part uint8

const (
	asked    part = iota // by the program
	arrival              // the arrival wait in front of it
	offer                // the exchange of measurements that takes the place of the arrival wait
	exchange             // the exchange of measurements in front of a call without arrival wait
	word                 // what a root sends in front of a call in which the others wait for it
	nParts
)

// sameCall is what all members of a collective must agree on.
type sameCall struct {
	uid    int // of the operation in the program
	part   part
	number uint64
}

// realColl is a collective that at least one member is in.
type realColl struct {
	sameCall
	kind   collKind
	root   int
	in     [maxRanks]bool
	n      int
	values [maxRanks]pair
}

// pair is what a member contributes; a program's operation uses the first of them only.
type pair [2]int64

// realComm is a communicator of the real MPI in one life of the job.
type realComm struct {
	size    int
	colls   []realColl
	started [maxRanks]int // by each member
}

// start takes a member in, and returns which collective of this life it is.
func (c *realComm) start(rank int, call sameCall, kind collKind, root int, value pair) (int, error) {
	i := c.started[rank]
	c.started[rank]++
	if i == len(c.colls) {
		c.colls = append(c.colls, realColl{sameCall: call, kind: kind, root: root})
	}
	x := &c.colls[i]
	if x.sameCall != call {
		return 0, fmt.Errorf("rank %d starts %+v where another member has started %+v", rank, call, x.sameCall)
	}
	x.in[rank], x.values[rank] = true, value
	x.n++
	return i, nil
}

// never is a collective that nobody has started.
const never = -1

// complete says whether a member may leave.
func (c *realComm) complete(i, rank int) bool {
	if i == never {
		return false
	}
	x := &c.colls[i]
	switch {
	case x.kind == fromRoot:
		return rank == x.root || x.in[x.root]
	case x.kind == toRoot && rank != x.root:
		return true
	}
	return x.n == c.size
}

// result is what a member gets: a sum, the root's value, or the least of the measurements.
func (c *realComm) result(i, rank int) pair {
	x := &c.colls[i]
	switch {
	case x.kind == fromRoot:
		return x.values[x.root]
	case x.kind == toRoot && rank != x.root:
		return pair{}
	}
	var out pair
	first := true
	for r, in := range x.in {
		for k, v := range x.values[r] {
			switch {
			case !in:
			case x.part == asked:
				out[k] += v
			case first || v < out[k]:
				out[k] = v
			}
		}
		first = first && !in
	}
	return out
}
