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
		args []string
	}{
		{"hello", greetings, nil},
		{"tree", always("42201 nodes, 33960 of them leaves, depth 130\n"), nil},
		{"chain", always("60 phases of 128 cells, checksum 733fe286e68b7813\n"), nil},
		{"call", always("each rank has looked up 201 words, handed on 20100 times\n"), nil},
		{"beside", always("2 problems of 240 unknowns, 6 steps solved; meanwhile a token made 500 hops\n"), nil},
		{"jacobi", always("heat after 60 steps: 35904.33928762949\n"), nil},
		{"refine", always("1753 squares, integral 0.5856084574064041\n"), nil},
		{"transpose", always("transposition 1 of 256 x 256: right, checksum 4.288453829061276e+09\n" +
			"transposition 2 of 256 x 256: right, checksum 4.461944202402941e+09\n"), []string{"-times", "2"}},
		{"summa", always("row 0 of blocks: right, sum 2.212362e+06\nrow 1 of blocks: right, sum 2.210838e+06\nrow 2 of blocks: right, sum 2.212758e+06\n" +
			"row 3 of blocks: right, sum 2.211402e+06\nrow 4 of blocks: right, sum 2.213294e+06\nrow 5 of blocks: right, sum 2.211812e+06\n"), nil},
		{"shapes", always("after 30 steps: 200 discs, 100 polygons, area 547.6319373287729\n"), nil},
		{"particles", always("after 0 steps: 20000 particles, momentum [1821609507134 1787179845383 1795784300737], at most 2585 in a block, digest 2b66990bb5d50233\n" +
			"after 40 steps: 20000 particles, momentum [1821609507134 1787179845383 1795784300737], at most 360 in a block, digest 59836c80cd70a503\n"), nil},
		{"kmeans", always("10000 points, 8 steps, spread 18863.49870564775\n" +
			"cluster of 1688 points around (0.05684794135623322, 0.026734889977903322)\n" +
			"cluster of 1697 points around (4.007647632798395, -0.029137536709138153)\n" +
			"cluster of 1653 points around (8.03171421949977, -0.01647515459015919)\n" +
			"cluster of 1675 points around (-0.056631872302656344, 5.014227254367609)\n" +
			"cluster of 1618 points around (3.976667999755534, 4.990046433278831)\n" +
			"cluster of 1669 points around (8.01693362558256, 4.996280545849766)\n"), nil},
		{"bfs", always("from 1020: 5 levels, 884 vertices, 16384 edges\n" +
			"from 998: 5 levels, 884 vertices, 16384 edges\n" +
			"from 779: 5 levels, 884 vertices, 16384 edges\n" +
			"from 966: 5 levels, 884 vertices, 16384 edges\n"), []string{"-check"}},
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
					out, err := s.run(t, []string{fmt.Sprint("BYSSUS_AMT_RANKS=", ranks)}, append([]string{program}, example.args...)...)
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

// TestRestoreShapes: so does what is behind interfaces.
func TestRestoreShapes(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir, "../../amt/examples/shapes")
	steps := 0
	for i, s := range starts() {
		steps += 5
		args := []string{program, "-steps", strconv.Itoa(steps)}
		out, err := s.run(t, []string{fmt.Sprint("BYSSUS_AMT_RANKS=", 3+i)}, append(args, "-dir", filepath.Join(dir, "saved"))...)
		want, werr := starts()[0].run(t, []string{"BYSSUS_AMT_RANKS=1"}, args...)
		if err != nil || werr != nil || out != want {
			t.Fatalf("%s, %d steps: %v, %v\n%s\nwant\n%s", s.name, steps, err, werr, out, want)
		}
	}
}
