package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// wrongLines says what is wrong with a test, a line for each driver.
func (t *test) wrongLines() string {
	var b strings.Builder
	for _, driver := range slices.Sorted(maps.Keys(t.Under)) {
		if r := t.Under[driver]; r.Verdict == isWrong {
			fmt.Fprintf(&b, "wrong: %s, compiled with %s, on %d ranks, driver %s: exit code %d%s: %s\n", strings.Join(append([]string{t.name()}, t.Args...), " "), t.Face,
				t.Ranks, driver, r.Code, map[bool]string{true: ", ended when its time was over"}[r.Late], r.Kept)
		}
	}
	return b.String()
}

// A count is a line of the table.
type count struct {
	lines, unbuilt, skipped, native, nativeWrong int
	under                                        map[string]map[verdict]int
}

func (c *count) add(t *test) {
	c.lines++
	switch {
	case t.Unbuilt != "":
		c.unbuilt++
	case t.Native == nil:
		c.skipped++
	case t.Native.Right:
		c.native++
	default:
		c.nativeWrong++
	}
	for driver, r := range t.Under {
		if c.under[driver] == nil {
			c.under[driver] = map[verdict]int{}
		}
		c.under[driver][r.Verdict]++
	}
}

// table counts the tests by directory, and all of them.
func table(tests []*test, drivers []string) string {
	counts := map[string]*count{}
	total := &count{under: map[string]map[verdict]int{}}
	for _, t := range tests {
		if counts[t.Dir] == nil {
			counts[t.Dir] = &count{under: map[string]map[verdict]int{}}
		}
		counts[t.Dir].add(t)
		total.add(t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %6s %9s %8s %8s %8s", "directory", "tests", "not built", "not run", "native", "failing")
	for _, driver := range drivers {
		fmt.Fprintf(&b, "  %34s", driver+": right/refused/known/wrong")
	}
	b.WriteByte('\n')
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		counts[dir].line(&b, dir, drivers)
	}
	total.line(&b, "all", drivers)
	return b.String()
}

// line writes one line of the table.
func (c *count) line(b *strings.Builder, dir string, drivers []string) {
	fmt.Fprintf(b, "%-24s %6d %9d %8d %8d %8d", dir, c.lines, c.unbuilt, c.skipped, c.native, c.nativeWrong)
	for _, driver := range drivers {
		u := c.under[driver]
		fmt.Fprintf(b, "  %34s", fmt.Sprintf("%d / %d / %d / %d", u[isRight], u[isRefused], u[isKnown], u[isWrong]))
	}
	b.WriteByte('\n')
}
