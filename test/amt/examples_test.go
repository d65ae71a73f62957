package amt

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// always is what a program prints on any number of ranks.
func always(text string) func(int) string { return func(int) string { return text } }

// greetings are what hello prints.
func greetings(ranks int) string {
	var b strings.Builder
	for rank := range ranks {
		fmt.Fprintf(&b, "hello from rank %d of %d\n", rank, ranks)
	}
	return b.String()
}

// TestExamples: examples print what is known beforehand, on goroutines and under every MPI, on ranks that have a processor each
// and on more.
func TestExamples(t *testing.T) {
	dir := t.TempDir()
	for _, example := range []struct {
		name string
		want func(ranks int) string
	}{
		{"hello", greetings},
		{"tree", always("42201 nodes, 33960 of them leaves, depth 130\n")},
		{"chain", always("60 phases of 128 cells, checksum 733fe286e68b7813\n")},
		{"call", always("each rank has looked up 201 words, handed on 20100 times\n")},
		{"beside", always("2 problems of 240 unknowns, 6 steps solved; meanwhile a token made 500 hops\n")},
		{"jacobi", always("heat after 60 steps: 35904.33928762949\n")},
		{"refine", always("1753 squares, integral 0.5856084574064041\n")},
	} {
		t.Run(example.name, func(t *testing.T) {
			program := build(t, dir, "../../amt/examples/"+example.name)
			for _, s := range starts() {
				numbers := []int{1, 2, 4, 9} // of goroutines
				if s.argv != nil {
					n, err := strconv.Atoi(s.argv[2])
					if err != nil {
						t.Fatal(err)
					}
					numbers = []int{n}
				}
				for _, ranks := range numbers {
					out, err := s.run(t, []string{fmt.Sprint("BYSSUS_AMT_RANKS=", ranks)}, program)
					if want := example.want(ranks); err != nil || out != want {
						t.Errorf("%s, %d ranks: %v\n%s\nwant\n%s", s.name, ranks, err, out, want)
					}
				}
			}
		})
	}
}

// TestRestore: what was saved on one transport, and some number of ranks, goes on on all others, as if nothing had been.
func TestRestore(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir, "../../amt/examples/jacobi")
	steps := 10
	store := filepath.Join(dir, "saved")
	for round := range 2 {
		for i, s := range starts() {
			steps += 10
			args := []string{program, "-dir", store, "-steps", strconv.Itoa(steps)}
			out, err := s.run(t, []string{fmt.Sprint("BYSSUS_AMT_RANKS=", 3+round+i)}, args...)
			want, werr := starts()[0].run(t, []string{"BYSSUS_AMT_RANKS=1"}, program, "-steps", strconv.Itoa(steps))
			if steps > 20 {
				want = fmt.Sprintf("goes on after %d steps\n", steps-10) + want
			}
			if err != nil || werr != nil || out != want {
				t.Fatalf("%s, %d steps: %v, %v\n%s\nwant\n%s", s.name, steps, err, werr, out, want)
			}
		}
	}
}
