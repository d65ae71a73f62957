// Command tree walks a random tree over all ranks, of which nobody knows beforehand how large it is, and tells how large it was. A
// node follows from the hash that identifies it: how many children it has, and on which rank each is. The tree is the same on any
// number of ranks. It runs on goroutines, or under the mpirun of MPICH or of Open MPI:
//
//	go run ./amt/examples/tree
//	go build -o tree ./amt/examples/tree && mpirun -n 2 ./tree
package main

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

const (
	seed     = 42
	first    = 1000 // children of the root
	children = 5    // of any other node, if it has any
	odds     = 195  // of 1000 nodes, how many have some: below one child each, so that the tree ends
)

// A node is a message: who handles it visits it.
type node struct {
	Hash  uint64
	Depth int64
}

// A tally is what was seen of the tree.
type tally struct{ Nodes, Leaves, Depth int64 }

var (
	visit amt.Handler[node]
	seen  amt.Local[tally]
	all   amt.Reduction[tally]
)

func init() {
	visit.Is(func(c amt.Context, m *node) {
		n := m.children()
		s := seen.Of(c)
		s.Nodes++
		s.Depth = max(s.Depth, m.Depth)
		if n == 0 {
			s.Leaves++
		}
		for i := range n {
			child := node{mix(m.Hash + i + 1), m.Depth + 1}
			visit.Send(c, int(child.Hash%uint64(c.Ranks())), &child)
		}
	})
	all.Is(func(a, b tally) tally { return tally{a.Nodes + b.Nodes, a.Leaves + b.Leaves, max(a.Depth, b.Depth)} })
}

// children is how many a node has.
func (m *node) children() uint64 {
	switch {
	case m.Depth == 0:
		return first
	case mix(m.Hash)%1000 < odds:
		return children
	}
	return 0
}

// mix is a step of splitmix64: a number that looks random and follows from another.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func main() {
	amt.Main(func(c amt.Context) error {
		err := c.Collective("tree", func(c amt.Context) error {
			if c.Rank() == 0 {
				visit.Send(c, 0, &node{Hash: mix(seed)})
			}
			return nil
		}).Wait(c) // every node has been visited: no rank has more to add
		if err != nil {
			return err
		}
		t, err := all.All(c, *seen.Of(c))
		if err == nil && c.Rank() == 0 {
			fmt.Printf("%d nodes, %d of them leaves, depth %d\n", t.Nodes, t.Leaves, t.Depth)
		}
		return err
	})
}
