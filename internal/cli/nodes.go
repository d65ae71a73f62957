package cli

import (
	"fmt"
	"strings"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
)

// countNodes says how many nodes of a job are in which state: "3 computing, 1 lost, 1 spare".
func countNodes(nodes []coordsrv.NodeStatus) string {
	if len(nodes) == 0 {
		return "-"
	}
	var words []string
	for _, state := range coordsrv.NodeStates() {
		n := 0
		for _, node := range nodes {
			if node.State == state {
				n++
			}
		}
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(words, ", ")
}

// nodeRows tell of each node what it does, a row for each state: of a node that computes which ranks it has, of one that is lost why.
func nodeRows(nodes []coordsrv.NodeStatus) [][]string {
	var rows [][]string
	for _, state := range coordsrv.NodeStates() {
		var words []string
		for _, node := range nodes {
			if node.State == state {
				words = append(words, node.Name+about(node))
			}
		}
		if len(words) > 0 {
			rows = append(rows, []string{"nodes " + state, strings.Join(words, ", ")})
		}
	}
	return rows
}

func about(node coordsrv.NodeStatus) string {
	switch {
	case node.Reason != "":
		return fmt.Sprintf(" (%s)", node.Reason)
	case len(node.Ranks) > 0:
		return fmt.Sprintf(" (%s)", ranksOf(node.Ranks))
	}
	return ""
}

// ranksOf is an ascending list of ranks in words: "rank 3", "ranks 0-3, 8".
func ranksOf(ranks []int) string {
	var words []string
	for first := 0; first < len(ranks); {
		last := first
		for last+1 < len(ranks) && ranks[last+1] == ranks[last]+1 {
			last++
		}
		word := fmt.Sprint(ranks[first])
		if last > first {
			word += fmt.Sprintf("-%d", ranks[last])
		}
		words, first = append(words, word), last+1
	}
	if len(ranks) == 1 {
		return "rank " + words[0]
	}
	return "ranks " + strings.Join(words, ", ")
}
