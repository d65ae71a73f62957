// Command bfs searches a graph breadth first: closures in the main function, a level in each epoch.
package main

import (
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/amt"
)

const vertices = 1000

type visit struct{ Vertex, Depth int64 }

type part struct {
	depth map[int64]int64
	next  []int64
}

var (
	reach amt.Handler[visit]
	parts amt.Local[part]
	most  amt.Reduction[int64]
)

func init() {
	reach.Is(func(c amt.Context, m *visit) {
		p := parts.Of(c)
		if p.depth == nil {
			p.depth = map[int64]int64{}
		}
		if _, seen := p.depth[m.Vertex]; seen {
			return
		}
		p.depth[m.Vertex] = m.Depth
		p.next = append(p.next, m.Vertex)
	})
	most.Is(func(a, b int64) int64 { return max(a, b) })
}

func neighbours(v int64) []int64 { return []int64{(2*v + 1) % vertices, (3*v + 2) % vertices} }

func main() {
	amt.Main(func(c amt.Context) error {
		home := func(v int64) int { return int(v % int64(c.Ranks())) }
		ask := func(v, depth int64) { reach.Send(c, home(v), &visit{v, depth}) }
		levels := 0
		level := func(body func()) error {
			levels++
			return c.Collective(fmt.Sprint("level ", levels), func(amt.Context) error {
				body()
				return nil
			}).Wait(c)
		}
		err := c.Collective("root", func(c amt.Context) error {
			if c.Rank() == 0 {
				reach.Send(c, home(0), &visit{})
			}
			return nil
		}).Wait(c)
		for depth := int64(1); err == nil; depth++ {
			p := parts.Of(c)
			now := slices.Clone(p.next)
			p.next = p.next[:0]
			slices.SortFunc(now, func(a, b int64) int { return home(a) - home(b) })
			left, failed := most.All(c, int64(len(now)))
			if failed != nil || left == 0 {
				err = failed
				break
			}
			err = c.Collective("step", func(c amt.Context) error {
				for _, v := range now {
					for _, w := range neighbours(v) {
						reach.Send(c, home(w), &visit{w, depth})
					}
				}
				return nil
			}).Wait(c)
		}
		if err != nil {
			return err
		}
		if err := level(func() { ask(1, 99) }); err != nil { // is seen already
			return err
		}
		defer func() { fmt.Printf("rank %d has %d vertices\n", c.Rank(), len(parts.Of(c).depth)) }()
		return nil
	})
}
