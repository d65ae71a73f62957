// Package files tests what programs are linked to in order to hand files to be kept (client/), against an agent that is played: the calls
// of SCR from C, Fortran and Python, natively under both MPIs. The library is one for both.
package files

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/files/standin"
	"github.com/byssus-hpc/byssus/test/harness"
)

// limit is how long a job may take on a busy machine.
const limit = 2 * time.Minute

// here is the tree, and where its libraries are.
func here(t testing.TB) (root, scr string) {
	t.Helper()
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	scr = filepath.Join(filepath.Dir(filepath.Dir(site.Byssus)), "lib/byssus/scr")
	if _, err := os.Stat(filepath.Join(scr, "libscr.so")); err != nil {
		t.Fatalf("%v (make build)", err)
	}
	return site.Root, scr
}

// compile runs a compiler, linking with libscr.
func compile(t testing.TB, lib string, argv ...string) {
	t.Helper()
	argv = append(argv, "-I"+lib, "-L"+lib, "-lscr", "-Wl,-rpath,"+lib)
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// calls is the program that makes calls by name, for an MPI.
func calls(t testing.TB, mpi string) string {
	t.Helper()
	root, lib := here(t)
	exe := filepath.Join(t.TempDir(), "calls")
	compile(t, lib, "mpicc."+mpi, "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", exe, filepath.Join(root, "test/files/programs/calls.c"))
	return exe
}

// bothCalls is the program for each of the MPIs.
func bothCalls(t testing.TB) (exes []string) {
	for _, mpi := range harness.MPIs() {
		exes = append(exes, calls(t, mpi))
	}
	return exes
}

// A place is a directory where jobs run, with an agent.
type place struct {
	*standin.Agent
	mpi    string
	dir    string   // where the jobs run
	env    []string // further variables
	launch func(n int, argv []string) []string
}

// newPlace starts an agent. Its path is short, since it is that of a socket.
func newPlace(t testing.TB, mpi string) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "scr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &place{mpi: mpi, dir: filepath.Join(dir, "work"), launch: func(n int, argv []string) []string {
		return harness.Site{}.NativeCommand(mpi, n, argv)
	}}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if p.Agent, err = standin.Start(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// A result is what a job printed: its lines in order, sorted so that they do not depend on who was first.
type result struct {
	code  int
	lines []string
	err   string
}

// run runs a job to its end.
func (p *place) run(t testing.TB, n int, argv ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	env := append(harness.Environment("BYSSUS_CLIENTS="+p.Socket), p.env...)
	proc, err := harness.Start(ctx, p.dir, env, p.launch(n, argv)...)
	if err != nil {
		t.Fatal(err)
	}
	r := result{code: proc.ExitCode()}
	if ctx.Err() != nil {
		t.Fatalf("%s did not end in %v:\n%s%s", strings.Join(argv, " "), limit, proc.Stdout.String(), proc.Stderr.String())
	}
	r.lines = strings.Split(strings.TrimSpace(proc.Stdout.String()), "\n")
	slices.SortStableFunc(r.lines, func(a, b string) int { return strings.Compare(rankOf(a), rankOf(b)) })
	r.err = proc.Stderr.String()
	return r
}

func rankOf(line string) string {
	rank, _, _ := strings.Cut(line, " ")
	return rank
}

// of returns what each rank got for a word, in the order of ranks.
func (r result) of(word string) []string {
	var got []string
	for _, l := range r.lines {
		if _, rest, _ := strings.Cut(l, " "); strings.HasPrefix(rest, word+" -> ") {
			got = append(got, strings.TrimPrefix(rest, word+" -> "))
		}
	}
	return got
}

// says is one libscr sentence of the job's.
func (r result) says() []string {
	var list []string
	for l := range strings.Lines(r.err) {
		if strings.HasPrefix(l, "libscr: ") {
			list = append(list, strings.TrimSpace(l))
		}
	}
	return list
}

// want compares what every rank got for a word; # stands for the rank.
func (r result) want(t testing.TB, word string, ranks int, wanted string) {
	t.Helper()
	got := r.of(word)
	if len(got) != ranks {
		t.Errorf("%s: %d ranks say something, wanted %d\n%s\n%s", word, len(got), ranks, strings.Join(r.lines, "\n"), r.err)
		return
	}
	for i, g := range got {
		if w := strings.ReplaceAll(wanted, "#", fmt.Sprint(i)); g != w {
			t.Errorf("%s: rank %d: found %q, wanted %q\n%s", word, i, g, w, r.err)
		}
	}
}

// well asks that a job has ended well, and that libscr had nothing to say.
func (r result) well(t testing.TB) {
	t.Helper()
	if r.code != 0 || len(r.says()) > 0 {
		t.Fatalf("exit code %d, wanted 0:\n%s\n%s", r.code, strings.Join(r.lines, "\n"), r.err)
	}
}

// eachMPI runs a test under both.
func eachMPI(t *testing.T, run func(t *testing.T, mpi string)) {
	harness.Share(t, harness.Spinning)
	for _, mpi := range harness.MPIs() {
		t.Run(mpi, func(t *testing.T) { run(t, mpi) })
	}
}
