package resman

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostExpanded bounds what a list of nodes may mean.
const mostExpanded = 1 << 20

// Expand returns the names that a list of nodes means, as resource managers write it: "login,node[1-3,07-09]"; each once, in their order.
func Expand(list string) ([]string, error) {
	var all []string
	for list = strings.TrimSpace(list); list != ""; {
		word, rest := firstWord(list)
		names, err := expandWord(word)
		if err == nil && len(all)+len(names) > mostExpanded {
			err = fmt.Errorf("more than %d", mostExpanded)
		}
		if err != nil {
			return nil, fmt.Errorf("resman: nodes %.60q: %w", word, err)
		}
		for _, n := range names {
			if n != "" && !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
		list = rest
	}
	return all, nil
}

// firstWord splits a list at its first comma, or space, that is not between brackets.
func firstWord(list string) (word, rest string) {
	depth := 0
	for i, r := range list {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case (r == ',' || r == ' ') && depth <= 0:
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}

// expandWord returns the names that one word means.
func expandWord(word string) ([]string, error) {
	before, rest, there := strings.Cut(word, "[")
	if !there {
		if strings.Contains(word, "]") {
			return nil, fmt.Errorf("a ] without a [")
		}
		return []string{word}, nil
	}
	inside, after, closed := strings.Cut(rest, "]")
	if !closed {
		return nil, fmt.Errorf("a [ without a ]")
	}
	tails, err := expandWord(after)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, piece := range strings.Split(inside, ",") {
		numbers, err := numbersIn(piece)
		if err != nil {
			return nil, err
		}
		for _, n := range numbers {
			for _, tail := range tails {
				if all = append(all, before+n+tail); len(all) > mostExpanded {
					return nil, fmt.Errorf("more than %d", mostExpanded)
				}
			}
		}
	}
	return all, nil
}

// numbersIn are those of a piece, as 7 or 07-09, with as many zeros before them as the first has.
func numbersIn(piece string) ([]string, error) {
	from, to, through := strings.Cut(piece, "-")
	if !through {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no number", from)
	}
	last, err := strconv.ParseUint(to, 10, 32)
	if err != nil || last < first || last-first >= mostExpanded {
		return nil, fmt.Errorf("%q is no range of numbers", piece)
	}
	var all []string
	for n := first; n <= last; n++ {
		all = append(all, fmt.Sprintf("%0*d", len(from), n))
	}
	return all, nil
}
