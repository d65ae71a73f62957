package main

import "math/rand/v2"

// edge is one of the graph: in each quarter of its matrix, and of that again, edges fall to the quarters at these odds.
func edge(n int) Edge {
	const a, b, c = 0.57, 0.19, 0.19
	random := rand.New(rand.NewPCG(*seed, uint64(n)))
	var e Edge
	for range *scale {
		e.From, e.To = e.From<<1, e.To<<1
		switch x := random.Float64(); {
		case x < a:
		case x < a+b:
			e.To |= 1
		case x < a+b+c:
			e.From |= 1
		default:
			e.From, e.To = e.From|1, e.To|1
		}
	}
	return Edge{renumbered(e.From), renumbered(e.To)}
}

// renumbered gives a vertex another number, and no two the same.
func renumbered(v uint32) uint32 {
	mask := uint32(1)<<*scale - 1
	for round := range uint32(3) {
		v = (v*0x9e3779b1 + round + uint32(*seed)) & mask
		v ^= v >> (*scale/2 + 1)
	}
	return v
}

// searched are the roots: vertices at random that have an edge to another.
func searched() (list []uint32) {
	alone := make([]bool, 1<<*scale)
	for v := range alone {
		alone[v] = true
	}
	for n := range edgeFactor << *scale {
		if e := edge(n); e.From != e.To {
			alone[e.From], alone[e.To] = false, false
		}
	}
	for _, v := range rand.New(rand.NewPCG(*seed, 1<<63)).Perm(len(alone)) {
		if !alone[v] && len(list) < *roots {
			list = append(list, uint32(v))
		}
	}
	return list
}

// serial searches without ranks, and returns the levels of all vertices.
func serial(root uint32) []int32 {
	to := make([][]uint32, 1<<*scale)
	for n := range edgeFactor << *scale {
		e := edge(n)
		to[e.From] = append(to[e.From], e.To)
		to[e.To] = append(to[e.To], e.From)
	}
	levels := make([]int32, len(to))
	for v := range levels {
		levels[v] = -1
	}
	levels[root] = 0
	for queue := []uint32{root}; len(queue) > 0; queue = queue[1:] {
		for _, v := range to[queue[0]] {
			if levels[v] < 0 {
				levels[v] = levels[queue[0]] + 1
				queue = append(queue, v)
			}
		}
	}
	return levels
}
