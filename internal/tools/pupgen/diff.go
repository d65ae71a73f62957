package pupgen

import (
	"fmt"
	"strings"
)

// context is how many equal lines stand around a difference.
const context = 3

// diff lists the lines that must go from a text and come to it to make another one.
func diff(from, to string) string {
	a, b := strings.SplitAfter(from, "\n"), strings.SplitAfter(to, "\n")
	var w writer
	last, skipped := -1, false
	edits := script(a, b)
	near := func(i int) bool {
		for k := max(0, i-context); k <= min(len(edits)-1, i+context); k++ {
			if edits[k].sign != ' ' {
				return true
			}
		}
		return false
	}
	for i, e := range edits {
		if !near(i) {
			skipped = true
			continue
		}
		if skipped || last < 0 {
			w.f("@@ -%d +%d @@", e.a+1, e.b+1)
		}
		last, skipped = i, false
		fmt.Fprintf(&w, "%c%s", e.sign, e.text)
		if !strings.HasSuffix(e.text, "\n") {
			w.WriteByte('\n')
		}
	}
	return w.String()
}

// An edit is a line that stays (' '), goes ('-') or comes ('+'), and where it is in both texts.
type edit struct {
	sign byte
	text string
	a, b int
}

// script finds the shortest list of edits by the longest common subsequence of the lines.
func script(a, b []string) []edit {
	common := make([][]int, len(a)+1) // common[i][j]: of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var list []edit
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			list = append(list, edit{' ', a[i], i, j})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			list = append(list, edit{'-', a[i], i, j})
			i++
		default:
			list = append(list, edit{'+', b[j], i, j})
			j++
		}
	}
	return list
}
