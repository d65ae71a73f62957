package matrix

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// wrapper is a command line around a program: what job scripts have in front of it. In its words PROG stands for the program with
// its arguments, in one word or alone; DIR for where the test's files are.
type wrapper struct {
	name    string
	words   []string
	code    int    // of the program
	exit    int    // of the command, which is that of a native run
	program string // if it is not steps
	lacks   string // a command that may not be there
}

var wrappers = []wrapper{
	{name: "time", words: []string{"/usr/bin/time", "-o", "/dev/null", "PROG"}, code: 5, exit: 5, lacks: "/usr/bin/time"},
	{name: "timeout", words: []string{"timeout", "600", "PROG"}, code: 4, exit: 4},
	{name: "nice", words: []string{"nice", "-n", "1", "PROG"}},
	{name: "strace", words: []string{"strace", "-f", "-o", "/dev/null", "PROG"}, code: 3, exit: 3, lacks: "strace"},
	{name: "perf", words: []string{"perf", "stat", "-o", "/dev/null", "--", "PROG"}, lacks: "perf"},
	{name: "numactl", words: []string{"numactl", "--localalloc", "PROG"}, lacks: "numactl"},
	{name: "taskset", words: []string{"taskset", "1", "PROG"}},
	{name: "env", words: []string{"env", "A=B", "PROG"}, code: 7, exit: 7},
	{name: "shell", words: []string{"bash", "-c", "PROG"}, code: 7, exit: 7},
	{name: "shell and more", words: []string{"bash", "-c", "PROG; code=$?; exit $code"}, code: 7, exit: 7},
	{name: "shell that hides", words: []string{"bash", "-c", "PROG; true"}, code: 7},
	{name: "script", words: []string{"DIR/script.sh", "PROG"}},
	{name: "script that executes", words: []string{"DIR/activate.sh", "PROG"}, code: 7, exit: 7},
	{name: "pipe", words: []string{"sh", "-c", "PROG | tee DIR/log"}},
	{name: "python", words: []string{"/usr/bin/python3", "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:], close_fds=False))", "PROG"}, code: 7, exit: 7},
	{name: "mpi4py", words: []string{"bash", "-c", "/usr/bin/python3 PROG; true"}, program: "steps.py"},
	{name: "setsid", words: []string{"setsid", "-w", "PROG"}, code: 7, exit: 7},
	{name: "xargs", words: []string{"sh", "-c", "echo PROG | xargs env"}},
	{name: "stdbuf", words: []string{"stdbuf", "-oL", "PROG"}, code: 7, exit: 7},
	{name: "fork", words: []string{"DIR/wrapper", "fork", "PROG"}, code: 7, exit: 7},
	{name: "posix_spawn", words: []string{"DIR/wrapper", "spawn", "PROG"}, code: 7, exit: 7},
	{name: "vfork", words: []string{"DIR/wrapper", "vfork", "PROG"}, code: 7, exit: 7},
	{name: "system", words: []string{"DIR/wrapper", "system", "PROG"}, code: 7, exit: 7},
	{name: "three deep", words: []string{"timeout", "600", "bash", "-c", "nice PROG; exit $?"}, code: 7, exit: 7},
}

// TestWrappers runs a program below what job scripts have in front of it: natively, then under Byssus with a checkpoint, a killed
// rank, and a restart under the other MPI. BYSSUS_TEST_LONG=1: all of them.
func TestWrappers(t *testing.T) {
	harness.Share(t, harness.Light)
	site, dir := wrapperSite(t)
	for i, w := range wrappers {
		if !long() && !slices.Contains([]string{"timeout", "shell that hides"}, w.name) {
			continue
		}
		t.Run(strings.ReplaceAll(w.name, " ", "_"), func(t *testing.T) {
			if w.lacks != "" {
				if _, err := exec.LookPath(w.lacks); err != nil {
					t.Skipf("SKIP: no %s here", w.lacks)
				}
			}
			face := harness.MPIs()[i%2]
			argv := w.command(dir, face)
			if err := w.natively(t.Context(), site, dir, face, argv); err != nil {
				t.Fatal(err)
			}
			if err := w.lives(t.Context(), site, dir, harness.MPIs()[i/2%2], argv); err != nil {
				t.Error(err)
			}
		})
	}
}

// wrapperSite compiles what the tests of wrappers need.
func wrapperSite(t *testing.T) (harness.Site, string) {
	t.Helper()
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	dir, src := scratch(t), filepath.Join(site.Root, "test/matrix/testdata/wrappers")
	for _, c := range [][]string{
		{"gcc", "-O1", "-Wall", "-Werror", "-o", "wrapper", src + "/wrapper.c"},
		{"gcc", "-static", "-O1", "-Wall", "-Werror", "-o", "wrapper.static", src + "/wrapper.c"},
		{"mpicc.mpich", "-O1", "-Wall", "-o", "steps.mpich", src + "/steps.c"},
		{"mpicc.openmpi", "-O1", "-Wall", "-o", "steps.openmpi", src + "/steps.c"},
		{"mpicc.mpich", "-O1", "-Wall", "-o", "forked.mpich", src + "/forked.c"},
		{"cp", src + "/steps.py", "."},
	} {
		cmd := exec.Command(c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(c, " "), err, out)
		}
	}
	for name, text := range map[string]string{
		"script.sh":   "#!/bin/bash\n\"$@\"\necho \"exit code $?\"\n",
		"activate.sh": "#!/bin/sh\nPATH=/opt/nothing:$PATH\nCONDA_PREFIX=/opt/nothing\nexport PATH CONDA_PREFIX\nexec \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return site, dir
}

// command is the command line, with a program that was built for an MPI.
func (w wrapper) command(dir, face string) []string {
	program := filepath.Join(dir, "steps."+face)
	if w.program != "" {
		program = filepath.Join(dir, w.program)
	}
	prog := []string{program, filepath.Join(dir, "over"), fmt.Sprint(w.code)}
	var argv []string
	for i, word := range w.words {
		if word == "PROG" && (i == 0 || w.words[i-1] != "-c") { // what follows -c is one word
			argv = append(argv, prog...)
			continue
		}
		word = strings.ReplaceAll(word, "PROG", strings.Join(prog, " "))
		argv = append(argv, strings.ReplaceAll(word, "DIR", dir))
	}
	return argv
}

const wrapped = "2 ranks, sum right\n"

// natively runs it without Byssus: what it prints and ends with is what the rest of the test wants.
func (w wrapper) natively(ctx context.Context, site harness.Site, dir, face string, argv []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := os.WriteFile(filepath.Join(dir, "over"), nil, 0o600); err != nil {
		return err
	}
	p, err := harness.Start(ctx, dir, harness.Environment(), site.NativeCommand(face, 2, argv)...)
	if err != nil {
		return err
	}
	if code := p.ExitCode(); code != w.exit || !strings.Contains(p.Stdout.String(), wrapped) {
		return fmt.Errorf("natively: exit code %d, wanted %d; %s%s", code, w.exit, p.Stdout.String(), p.Stderr.String())
	}
	return os.Remove(filepath.Join(dir, "over"))
}

// lives is the job under Byssus, with a restart by itself and one under the other MPI.
func (w wrapper) lives(ctx context.Context, site harness.Site, dir, mpi string, argv []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	store, err := os.MkdirTemp(dir, "job-")
	if err != nil {
		return err
	}
	job := site.NewJob("wrapped", store)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, job.Story())
		}
		job.Close()
	}()
	if err := job.Run(ctx, mpi, 2, nil, argv...); err != nil {
		return err
	}
	if err := steps(ctx, job, 20); err != nil {
		return err
	}
	if _, err := job.Checkpoint(ctx); err != nil {
		return err
	}
	if err := killed(ctx, job); err != nil {
		return err
	}
	if out, errs, code := job.Command(ctx, "stop", job.Name); code != 0 || job.Proc().ExitCode() != 123 {
		return fmt.Errorf("stop: %d, run: %d; %s%s", code, job.Proc().ExitCode(), out, errs)
	}
	if err := job.Restart(ctx, harness.Other(mpi)); err != nil {
		return err
	}
	if err := steps(ctx, job, 10); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "over"), nil, 0o600); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(dir, "over"))
	if code := job.Proc().ExitCode(); code != w.exit || !strings.Contains(job.Proc().Stdout.String(), wrapped) {
		return fmt.Errorf("exit code %d, wanted %d; %s", code, w.exit, job.Proc().Stdout.String())
	}
	if left := job.Orphans(); len(left) > 0 {
		return fmt.Errorf("%d processes left behind, the first has pid %d", len(left), left[0].Pid)
	}
	return nil
}

// steps waits until the job has printed so many lines of steps in this life.
func steps(ctx context.Context, job *harness.Job, n int) error {
	return job.Proc().Until(ctx, fmt.Sprintf("%d lines of steps", n/10), func(text string) bool { return strings.Count(text, "step ") >= n/10 })
}

// killed kills rank 1 and waits until the job has gone back by itself, and has made a step.
func killed(ctx context.Context, job *harness.Job) error {
	before := job.RankPIDs(ctx)
	if len(before) != 2 {
		return fmt.Errorf("ranks %v, wanted 2", before)
	}
	if err := syscall.Kill(before[1], syscall.SIGKILL); err != nil {
		return err
	}
	err := harness.Poll(ctx, "the job to go back by itself", func() bool {
		now := job.RankPIDs(ctx)
		return !job.Proc().Running() || len(now) == 2 && !slices.Contains(now, before[0]) && !slices.Contains(now, before[1])
	})
	if err != nil {
		return err
	}
	printed := strings.Count(job.Proc().Stdout.String(), "step ")
	return steps(ctx, job, 10*(printed+1))
}

// TestWrappersRefused starts what cannot be: it is refused by name before it computes, and never runs beside the job.
func TestWrappersRefused(t *testing.T) {
	harness.Share(t, harness.Light)
	site, dir := wrapperSite(t)
	if err := os.WriteFile(filepath.Join(dir, "over"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name, says string
		words      []string
	}{
		{"two", "this place has its rank already", []string{"bash", "-c", "PROG; PROG; true"}},
		{"beside", "this place has its rank already", []string{"bash", "-c", "PROG & PROG & wait; true"}},
		{"again", "this place has its rank already", []string{"bash", "-c", "PROG; until PROG; do :; done"}},
		{"forked", "made by fork", []string{"DIR/forked.mpich"}},
		{"emptied", "wanted rank [01] of 2", []string{"env", "-i", "PROG"}},
		{"static in a shell", "calls MPI, and is started below .*/wrapper.static", []string{"bash", "-c", "DIR/wrapper.static system PROG; exit $?"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			argv := wrapper{words: c.words}.command(dir, harness.MPIs()[i%2])
			job := site.NewJob("refused", t.TempDir())
			defer job.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if err := job.Run(ctx, harness.MPIs()[i/2%2], 2, nil, argv...); err != nil {
				t.Fatal(err)
			}
			if code := job.Proc().ExitCode(); code != 125 || !regexp.MustCompile(c.says).MatchString(job.Proc().Stderr.String()) {
				t.Errorf("exit code %d, wanted 125 and %q\n%s", code, c.says, job.Story())
			}
		})
	}
}
