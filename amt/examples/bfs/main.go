// Command bfs searches a graph breadth first, by the rules of Graph500: a Kronecker graph with 16 edges for each vertex, whose vertices
// have been given new numbers at random, searched from vertices at random that have neighbours. The vertices lie in blocks, which are
// elements of a collection; after each search they go to other ranks.
//
//	bfs [-scale 10] [-blocks 24] [-roots 4] [-seed 1] [-check]
//
// With -check, the levels of all vertices are compared with those of a serial search.
package main

import (
	"flag"
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

const edgeFactor = 16

// An Edge goes from a vertex to another.
type Edge struct{ From, To uint32 }

// A Block is every so-many-th vertex, and its edges.
type Block struct {
	To    [][]uint32
	Level []int32     // -1: it was not reached
	Front [2][]uint32 // those of a level, by its last bit
}

// An Ask begins a search from a root, or goes on with it.
type Ask struct {
	Root   uint32
	Level  int32
	Number uint64 // of the reduction
}

// A Reach is vertices that are reached, and which level they have if they have none.
type Reach struct {
	Level    int32
	Vertices []uint32
}

// A Found is what is on a level: so many vertices with so many ends of edges.
type Found struct{ Vertices, Ends int }

var (
	graph  amt.Collection[amt.Index1, Block]
	add    amt.Method[amt.Index1, Block, []Edge]
	begin  amt.Method[amt.Index1, Block, Ask]
	expand amt.Method[amt.Index1, Block, Ask]
	reach  amt.Method[amt.Index1, Block, Reach]
	found  amt.ElementReduction[amt.Index1, Block, Found]

	scale  = flag.Int("scale", 10, "the power of two that is the number of vertices")
	blocks = flag.Int("blocks", 24, "of vertices")
	roots  = flag.Int("roots", 4, "searches")
	seed   = flag.Uint64("seed", 1, "of the graph")
	check  = flag.Bool("check", false, "compare with a serial search")
)

func init() {
	graph.Is("graph")
	add.Is(&graph, func(_ amt.At[amt.Index1], b *Block, m *[]Edge) {
		for _, e := range *m {
			b.To[place(e.From)] = append(b.To[place(e.From)], e.To)
		}
	})
	begin.Is(&graph, func(c amt.At[amt.Index1], b *Block, m *Ask) {
		for i := range b.Level {
			b.Level[i] = -1
		}
		b.Front = [2][]uint32{}
		if block(m.Root) == c.Index().X {
			b.reach(m.Root, 0)
		}
	})
	expand.Is(&graph, func(c amt.At[amt.Index1], b *Block, m *Ask) {
		front := b.Front[m.Level%2]
		b.Front[m.Level%2] = nil
		f := Found{Vertices: len(front)}
		next := make([][]uint32, *blocks)
		for _, v := range front {
			for _, to := range b.To[place(v)] {
				next[block(to)] = append(next[block(to)], to)
				f.Ends++
			}
		}
		for x, list := range next {
			if len(list) > 0 {
				reach.Send(c.Context, amt.Index1{X: x}, &Reach{m.Level + 1, list})
			}
		}
		found.Give(c, m.Number, f)
	})
	reach.Is(&graph, func(_ amt.At[amt.Index1], b *Block, m *Reach) {
		for _, v := range m.Vertices {
			b.reach(v, m.Level)
		}
	})
	found.Is(&graph, func(a, b Found) Found { return Found{a.Vertices + b.Vertices, a.Ends + b.Ends} })
}

// block and place are where a vertex is.
func block(v uint32) int { return int(v) % *blocks }
func place(v uint32) int { return int(v) / *blocks }

func (b *Block) reach(v uint32, level int32) {
	if b.Level[place(v)] < 0 {
		b.Level[place(v)] = level
		b.Front[level%2] = append(b.Front[level%2], v)
	}
}

func main() {
	flag.Parse()
	amt.Main(program)
}

func program(c amt.Context) error {
	err := graph.Create(c, amt.Index1{X: *blocks}, func(amt.Index1) (Block, error) {
		n := place(1<<*scale) + 1
		return Block{To: make([][]uint32, n), Level: make([]int32, n)}, nil
	})
	if err != nil {
		return err
	}
	if err := c.Collective("build", build).Wait(c); err != nil {
		return err
	}
	number := uint64(0)
	for _, root := range searched() {
		if err := search(c, root, &number); err != nil {
			return err
		}
		if *check {
			if err := compare(c, root); err != nil {
				return err
			}
		}
		if err := c.Phase(amt.Random(uint64(root))); err != nil {
			return err
		}
	}
	return nil
}

// build has each rank send its share of the edges to the blocks at both ends.
func build(c amt.Context) error {
	to := make([][]Edge, *blocks)
	for n := c.Rank(); n < edgeFactor<<*scale; n += c.Ranks() {
		e := edge(n)
		to[block(e.From)] = append(to[block(e.From)], e)
		to[block(e.To)] = append(to[block(e.To)], Edge{e.To, e.From})
	}
	for x := range to {
		add.Send(c, amt.Index1{X: x}, &to[x])
	}
	return nil
}

// search goes from level to level, until there is nobody on one.
func search(c amt.Context, root uint32, number *uint64) error {
	ask := Ask{Root: root}
	err := all(c, &begin, &ask)
	var total Found
	for ; err == nil; ask.Level++ {
		ask.Number = *number
		*number++
		if err := all(c, &expand, &ask); err != nil {
			return err
		}
		f, err := found.Wait(c, ask.Number)
		if err != nil {
			return err
		}
		if f.Vertices == 0 {
			break
		}
		total = Found{total.Vertices + f.Vertices, total.Ends + f.Ends}
	}
	if err == nil && c.Rank() == 0 {
		fmt.Printf("from %d: %d levels, %d vertices, %d edges\n", root, ask.Level, total.Vertices, total.Ends/2)
	}
	return err
}

// all has all blocks run a method, and waits until that, and what follows from it, is done.
func all(c amt.Context, m *amt.Method[amt.Index1, Block, Ask], ask *Ask) error {
	return c.Collective("blocks", func(c amt.Context) error {
		if c.Rank() == 0 {
			m.Broadcast(c, ask)
		}
		return nil
	}).Wait(c)
}

// compare compares the levels of the vertices that are on this rank with those of a serial search.
func compare(c amt.Context, root uint32) (err error) {
	want := serial(root)
	graph.Each(c, func(i amt.Index1, b *Block) {
		for v := i.X; v < len(want); v += *blocks {
			if got := b.Level[place(uint32(v))]; got != want[v] && err == nil {
				err = fmt.Errorf("from %d: vertex %d is on level %d, not %d", root, v, got, want[v])
			}
		}
	})
	return err
}
