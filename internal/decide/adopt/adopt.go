// Package adopt decides which rank has written which of the files of a checkpoint that was made without Byssus.
//
// It guarantees: each file belongs to one rank; ranks are numbered from 0 without gaps; the same paths give the same answer, in whatever
// order they come.
package adopt

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

var digits = regexp.MustCompile(`[0-9]+`)

// mostRanks bounds what a number in a name can mean.
const mostRanks = 1 << 24

// Split gives files to ranks, by the numbers in their paths: of paths that differ in nothing but numbers, the number that takes all values
// from 0, or from 1, without gaps is the rank; if there are several such numbers, that with most values, of these the first. What has no
// such number is of rank 0. With ranks, if that is not 0, only a number that takes so many values counts.
func Split(paths []string, ranks int) ([][]string, error) {
	families := map[string][]string{}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		family := digits.ReplaceAllString(p, "#")
		families[family] = append(families[family], p)
	}
	of, most := map[string]int{}, max(ranks, 1)
	for _, list := range families {
		column, first, values := rankColumn(list, ranks)
		for _, p := range list {
			if values > 0 {
				of[p] = number(p, column) - first
			}
		}
		most = max(most, values)
	}
	if ranks > 0 && most > ranks {
		return nil, fmt.Errorf("adopt: found files of %d ranks, wanted %d", most, ranks)
	}
	split := make([][]string, most)
	for _, list := range families {
		for _, p := range list {
			split[of[p]] = append(split[of[p]], p)
		}
	}
	for _, list := range split {
		slices.Sort(list)
	}
	return split, nil
}

// rankColumn finds which of the numbers in paths of one family is the rank: the number's place, its first value, and how many it takes;
// 0: none is.
func rankColumn(family []string, ranks int) (column, first, values int) {
	columns := len(digits.FindAllString(family[0], -1))
	for c := range columns {
		from, n := consecutive(family, c)
		if n > values && (ranks == 0 && n > 1 || n == ranks) {
			column, first, values = c, from, n
		}
	}
	return column, first, values
}

// consecutive says from where a number counts, and how many values it takes; 0: it has gaps.
func consecutive(family []string, column int) (first, values int) {
	seen := map[int]bool{}
	for _, p := range family {
		seen[number(p, column)] = true
	}
	for _, first := range []int{0, 1} {
		n := 0
		for seen[first+n] {
			n++
		}
		if n == len(seen) {
			return first, n
		}
	}
	return 0, 0
}

// number is that at a place of a path, -1: it is too large for a rank.
func number(path string, column int) int {
	n, err := strconv.Atoi(digits.FindAllString(path, -1)[column])
	if err != nil || n >= mostRanks {
		return -1
	}
	return n
}
