package house

import (
	"strings"
	"testing"
)

// columns is how wide a line of C that runs in other people's processes may be, with tabs of eight.
const columns = 110

// TestColumns measures the lines of rank/ and client/ that were written by hand.
func TestColumns(t *testing.T) {
	for _, file := range files(t, ".c", ".h", ".S") {
		src := read(t, file)
		if !strings.HasPrefix(file, "rank/") && !strings.HasPrefix(file, "client/") || generated(src) {
			continue
		}
		for i, line := range strings.Split(string(src), "\n") {
			if n := width(line); n > columns {
				t.Errorf("%s:%d: %d columns, at most %d", file, i+1, n, columns)
			}
		}
	}
}

// width is the column behind the last character.
func width(line string) int {
	n := 0
	for _, c := range line {
		n++
		if c == '\t' {
			n += 7 - (n-1)%8
		}
	}
	return n
}
