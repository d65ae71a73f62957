package nodes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// wrong is something that goes wrong with a plain job on one machine, and what is said then.
type wrong struct {
	what  string
	env   []string
	ranks int
	words string   // for test/files/programs/calls.c, after MPI_Init and SCR_Init
	says  []string // regular expressions; DIR is the directory of the job
	code  int
}

func wrongs() []wrong {
	return []wrong{
		{what: "a file that is routed outside keeps its name", ranks: 1, words: "route:out finalize", says: []string{`^0 route:out -> out$`}},
		{what: "a file that is not written", ranks: 2, words: "output:a:1 0@write:a/f:1 1@route:a/never written:1 finalize", says: []string{
			`^libscr: rank 1: SCR_Complete_output: DIR/a/never: No such file or directory$`,
			`^byssus: dataset a does not count: rank 1 says that its part is not valid$`}},
		{what: "a rank says that its part is not valid", ranks: 3, words: "output:b:1 write:b/f.#:1 0@written:1 1@written:0 2@written:0 finalize", says: []string{
			`^byssus: dataset b does not count: rank 1, and 1 more of 3, says that its part is not valid$`}},
		{what: "an unknown parameter", env: []string{"SCR_FLUHS=3"}, ranks: 1, words: "finalize", says: []string{
			`^byssus: SCR_FLUHS \(environment\) is no parameter of SCR: did you mean SCR_FLUSH\?$`}},
		{what: "a parameter that is not understood", env: []string{"SCR_FLUSH=often"}, ranks: 1, words: "finalize", says: []string{
			`^byssus: SCR_FLUSH=often \(environment\): wanted a whole number of at least 0; 10 is used instead \(built-in\)$`}},
		{what: "what cannot be had", env: []string{"SCR_COPY_TYPE=RS"}, ranks: 1, words: "finalize", says: []string{
			`^libscr: rank 0: SCR_Init: SCR_COPY_TYPE=RS \(environment\): Byssus has no Reed-Solomon code: XOR survives`}},
		{what: "a prefix that is a file", env: []string{"SCR_PREFIX=DIR/file"}, ranks: 1, words: "finalize", code: 120, says: []string{
			`^byssus: run --plain: prefix DIR/file \(SCR_PREFIX, else the working directory\): found a file, wanted a directory that user [0-9]+ can write$`}},
		{what: "a prefix that cannot be written", env: []string{"SCR_PREFIX=/sys"}, ranks: 1, words: "finalize", code: 120, says: []string{
			`^byssus: (run --plain: prefix|store) /sys`}},
		{what: "no end of an allocation", env: []string{"SCR_HALT_SECONDS=60"}, ranks: 1, words: "finalize", says: []string{
			`^byssus: SCR_HALT_SECONDS=60 has no effect: nobody knows when the allocation ends \(SCR_END_TIME, \$SLURM_JOB_END_TIME\)$`}},
		{what: "the end of an allocation", env: []string{"SCR_HALT_SECONDS=60", "SCR_END_TIME=9", "SCR_HALT_EXIT=1"}, ranks: 1, words: "exit finalize", says: []string{
			`^libscr: rank 0: SCR_Init: SCR_HALT_EXIT=1: the program ends here: the allocation ends at 1970-01-01 .*, and 60 seconds before that are wanted \(halt --seconds, SCR_HALT_SECONDS\)$`}, code: 123},
		{what: "no caches", env: []string{"SCR_CACHE_BYPASS=0"}, ranks: 1, words: "finalize", says: []string{
			`^byssus: SCR_CACHE_BYPASS=0: there are no caches \(byssus run --cache\): files are written in the prefix$`}},
	}
}

// TestWrittenWrong: what goes wrong with datasets of files is told in a sentence: what, where, what was found, and what was wanted.
func TestWrittenWrong(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	g := prepare(t)
	exes := map[string]string{}
	for _, mpi := range harness.MPIs() {
		exes[mpi] = callsFor(t, g.site, mpi, t.TempDir())
	}
	for i, row := range wrongs() {
		t.Run(row.what, func(t *testing.T) {
			dir, mpi := t.TempDir(), harness.MPIs()[i%2]
			put(t, filepath.Join(dir, "file"))
			code, said := calls(t, g.site, dir, mpi, exes[mpi], row)
			hears(t, dir, code, row.code, said, row.says)
		})
	}
	t.Run("another number of ranks", func(t *testing.T) {
		dir := t.TempDir()
		if code, said := calls(t, g.site, dir, "mpich", exes["mpich"], wrong{ranks: 2, words: "output:d:1 write:d/f.#:1 written:1 finalize"}); code != 0 {
			t.Fatalf("exit code %d\n%s", code, said)
		}
		code, said := calls(t, g.site, dir, "openmpi", exes["openmpi"], wrong{ranks: 3, words: "have restart read:d/f.# 2@restarted:0 2!restarted:1 finalize"})
		hears(t, dir, code, 0, said, []string{`^libscr: rank 2: SCR_Route_file: d/f\.2: found no such file of this rank in dataset d$`,
			`^byssus: dataset d, of 2 ranks, could not be read by a program of 3$`})
	})
	t.Run("two programs", func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first, err := harness.Start(ctx, dir, harness.Environment(), g.site.Byssus, "run", "--plain", "-n", "1", "--mpi", "mpich", "--", "sleep", "60")
		if err != nil {
			t.Fatal(err)
		}
		defer first.Kill()
		if err := harness.Poll(ctx, "the first", func() bool { _, err := os.Stat(filepath.Join(dir, ".scr/scr/job.json")); return err == nil }); err != nil {
			t.Fatal(err)
		}
		code, said := calls(t, g.site, dir, "mpich", exes["mpich"], wrong{ranks: 1, words: "finalize"})
		hears(t, dir, code, 122, said, []string{`^byssus: job scr: the job is running \(process [0-9]+ on .*\): found its lock in DIR/.scr/scr, wanted one program at a time for a prefix \(--job names another job\)$`})
	})
}

// TestWrittenFull: a node's cache is full: the dataset that has no room does not count, which and where is said, and the program goes on.
func TestWrittenFull(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t, "--disk", "8M")
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	w := c.plain(ctx, t, "full", "mpich", 2, nil, []string{"--cache", cache}, "size=3200000")
	w.ends(ctx, t)
	hears(t, c.dir, 0, 0, w.proc.Stderr.String(), []string{`^byssus: dataset ckpt\.[12] does not count: node node\d: its cache, ` + cache + `/scr\.[0-9a-f]+, is full, ` +
		`wanted room for what its ranks write and for the redundancy of that: write ` + cache + `/.*: no space left on device$`})
}

// callsFor is the program that makes calls by name, for an MPI.
func callsFor(t *testing.T, site harness.Site, mpi, dir string) string {
	t.Helper()
	exe, lib := filepath.Join(dir, "calls"), filepath.Join(filepath.Dir(filepath.Dir(site.Byssus)), "lib/byssus/scr")
	argv := []string{"mpicc." + mpi, "-std=gnu11", "-o", exe, filepath.Join(site.Root, "test/files/programs/calls.c"), "-I" + lib, "-L" + lib, "-lscr", "-Wl,-rpath," + lib}
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return exe
}

// calls runs it as a plain job, and returns all that is said.
func calls(t *testing.T, site harness.Site, dir, mpi, exe string, row wrong) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	argv := []string{site.Byssus, "run", "--plain", "-n", fmt.Sprint(row.ranks), "--mpi", mpi, "--", exe, "mpi", "init"}
	env := append([]string{"SCR_CONFIG_FILE=/dev/null"}, row.env...)
	for i := range env {
		env[i] = strings.ReplaceAll(env[i], "DIR", dir)
	}
	p, err := harness.Start(ctx, dir, harness.Environment(env...), append(append(argv, strings.Fields(row.words)...), "end")...)
	if err != nil {
		t.Fatal(err)
	}
	p.Took()
	return p.ExitCode(), p.Stdout.String() + p.Stderr.String()
}

// hears compares an exit code, and looks for lines.
func hears(t *testing.T, dir string, code, wanted int, said string, lines []string) {
	t.Helper()
	if code != wanted {
		t.Errorf("exit code %d, wanted %d\n%s", code, wanted, said)
	}
	for _, line := range lines {
		if !regexp.MustCompile("(?m)" + strings.ReplaceAll(line, "DIR", regexp.QuoteMeta(dir))).MatchString(said) {
			t.Errorf("it does not say %q:\n%s", line, said)
		}
	}
}

func put(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
