package pmi

import (
	"fmt"
	"slices"
	"strings"
)

// maxMapping is the longest value that every MPICH reads whole: 4.0 cuts values at 673 bytes without a word.
const maxMapping = 640

// block is a run of ranks: size on each of count nodes from start on.
type block struct{ start, count, size int }

// Mapping is the value of the key PMI_process_mapping for ranks on these nodes, by rank: (vector,(START,COUNT,SIZE),...). MPICH
// takes from it which ranks share a machine. It wants nodes numbered from 0 without gaps; here they are in the order of
// their first ranks, so the numbers that come in mean nothing but "the same". Blocks that repeat are written once: when
// ranks are left, MPICH begins again at the first block that starts with node 0, which the first of all does.
//
// It is empty where ranks lie so wildly that the value would be too long for MPICH. A Node does not have the key then, and
// the ranks compare their host names instead.
func Mapping(nodes []int) string {
	blocks := period(merge(runs(nodes)))
	var b strings.Builder
	b.WriteString("(vector")
	for _, x := range blocks {
		fmt.Fprintf(&b, ",(%d,%d,%d)", x.start, x.count, x.size)
	}
	b.WriteString(")")
	if b.Len() > maxMapping {
		return ""
	}
	return b.String()
}

// runs are the neighbouring ranks of one node.
func runs(nodes []int) []block {
	number := map[int]int{}
	var list []block
	for _, node := range nodes {
		if _, ok := number[node]; !ok {
			number[node] = len(number)
		}
		if last := len(list) - 1; last >= 0 && list[last].start == number[node] {
			list[last].size++
		} else {
			list = append(list, block{number[node], 1, 1})
		}
	}
	return list
}

// merge joins runs of one size on nodes that follow each other.
func merge(list []block) []block {
	var out []block
	for _, x := range list {
		if last := len(out) - 1; last >= 0 && out[last].start+out[last].count == x.start && out[last].size == x.size {
			out[last].count++
		} else {
			out = append(out, x)
		}
	}
	return out
}

// period is the shortest list that gives this one when it is repeated.
func period(list []block) []block {
	for n := 1; n <= len(list)/2; n++ {
		if len(list)%n == 0 && slices.Equal(list[n:], list[:len(list)-n]) {
			return list[:n]
		}
	}
	return list
}
