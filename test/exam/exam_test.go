// Package exam examines Byssus with programs and libraries of the distribution that `make deps` does not install: each
// is run natively, then under Byssus through checkpoints at random moments, a kill -9 of a random rank and a restart,
// with the MPIs by turns; its result lines must be those of the native run, character by character. It is run by hand:
//
//	BYSSUS_TEST_EXAM=1 go test ./test/exam -v -timeout 0 -run 'TestExam/petsc'
//	-seed N -cycles K
//
// What a program needs and the machine has not is named, and the program is skipped.
package exam

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

var (
	seed   = flag.Uint64("seed", 0, "of the random decisions; 0: from the clock")
	cycles = flag.Int("cycles", 3, "checkpoint, kill, restart cycles of each job")
)

const ranks = 2

// A program is one of the distribution, or a driver for one of its libraries, of which rank 0 prints lines `result KEY VALUES`.
type program struct {
	name  string
	debs  string   // packages
	needs []string // files that tell whether they are there
	build string   // target of test/apps/exam's Makefile; "": nothing to build
	argv  []string // files that exist in test/apps/exam are meant there
}

func programs() []program {
	python := "/usr/bin/python3"
	return []program{
		{"petsc", "libpetsc-real-dev", []string{"/usr/lib/petsc/include/petsc.h"}, "petsc", []string{"petsc", "900", "100"}},
		{"hypre", "libhypre-dev", []string{"/usr/include/hypre/HYPRE.h"}, "hypre", []string{"hypre", "300", "60"}},
		{"sundials", "libsundials-dev", []string{"/usr/include/cvode/cvode.h"}, "sundials", []string{"sundials", "200", "1000"}},
		{"boost", "libboost-mpi-dev libboost-serialization-dev", []string{"/usr/include/boost/mpi.hpp"}, "boost", []string{"boost", "600", "2000"}},
		{"gpaw", "gpaw gpaw-data", []string{"/usr/bin/gpaw"}, "", []string{python, "/usr/bin/gpaw", "python", "gpaw_h2o.py", "2"}},
		{"dolfinx", "python3-dolfinx", []string{"/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real/lib/python3/dist-packages/dolfinx"}, "", []string{python, "dolfinx_heat.py", "300", "40"}},
		{"rmpi", "r-cran-rmpi", []string{"/usr/lib/R/site-library/Rmpi"}, "", []string{"Rscript", "rmpi.R", "30", "60"}},
	}
}

// argvOf is the program's command line in a source tree.
func argvOf(site harness.Site, p program) []string {
	argv := append([]string{}, p.argv...)
	if p.build != "" {
		argv[0] = filepath.Join(site.Root, "build/test/exam", p.build)
	}
	for i, a := range argv {
		if path := filepath.Join(site.Root, "test/apps/exam", a); p.build == "" && strings.Contains(a, ".") {
			if _, err := os.Stat(path); err == nil {
				argv[i] = path
			}
		}
	}
	return argv
}

// results adds the whole result lines of an output by key; two different lines of one key are an error.
func results(into map[string]string, stdout string) error {
	for line := range strings.Lines(stdout) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "result" || !strings.HasSuffix(line, "\n") {
			continue
		}
		line = strings.Join(f, " ")
		if before, ok := into[f[1]]; ok && before != line {
			return fmt.Errorf("result %s: found %q and %q", f[1], before, line)
		}
		into[f[1]] = line
	}
	return nil
}

// count counts the result lines of an output.
func count(stdout string) int { return strings.Count("\n"+stdout, "\nresult ") }

// native runs the program without Byssus.
func native(ctx context.Context, t *testing.T, site harness.Site, argv []string) (map[string]string, time.Duration) {
	p, err := harness.Start(ctx, t.TempDir(), environment(), site.NativeCommand("openmpi", ranks, argv)...)
	if err != nil {
		t.Fatal(err)
	}
	if code := p.ExitCode(); code != 0 {
		t.Fatalf("native run: exit code %d: %s", code, harness.Tail(p.Stderr.String()))
	}
	want := map[string]string{}
	if err := results(want, p.Stdout.String()); err != nil || len(want) == 0 {
		t.Fatalf("native run: %d results: %v", len(want), err)
	}
	return want, p.Took()
}

// environment keeps numerical libraries from starting threads on processors that the other rank has.
func environment() []string {
	return harness.Environment("OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
}

func TestExam(t *testing.T) {
	if os.Getenv("BYSSUS_TEST_EXAM") == "" {
		t.Skip("SKIP: run by hand: BYSSUS_TEST_EXAM=1")
	}
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	t.Logf("-seed %d", *seed)
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) {
			ready(t, site, p)
			argv := argvOf(site, p)
			want, took := native(t.Context(), t, site, argv)
			t.Logf("native run: %d results in %.1f s", len(want), took.Seconds())
			for _, first := range harness.MPIs() {
				t.Run(first, func(t *testing.T) { examine(t, site, argv, want, first) })
			}
		})
	}
}

// ready skips a program whose packages are not installed, and builds its driver.
func ready(t *testing.T, site harness.Site, p program) {
	for _, file := range p.needs {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("SKIP: %v (apt-get install %s)", err, p.debs)
		}
	}
	if p.build == "" {
		return
	}
	out, err := exec.Command("make", "-C", filepath.Join(site.Root, "test/apps/exam"), "TOP="+site.Root, filepath.Join(site.Root, "build/test/exam", p.build)).CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
}

// examine takes a job through its lives, the first one under mpi, and compares what they printed.
func examine(t *testing.T, site harness.Site, argv []string, want map[string]string, mpi string) {
	random := rand.New(rand.NewPCG(*seed, uint64(len(mpi))))
	job := site.NewJob("exam", t.TempDir(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	defer job.Close()
	found := map[string]string{}
	done, err := live(t.Context(), job, found, argv, mpi, random, len(want))
	if err != nil {
		t.Fatalf("after %d cycles: %v\n%s", done, err, job.Story())
	}
	for key, line := range want {
		if found[key] != line {
			t.Errorf("result %s: found %q, want %q", key, found[key], line)
		}
	}
	for key, line := range found {
		if _, ok := want[key]; !ok {
			t.Errorf("result %s: found %q, which the native run never printed", key, line)
		}
	}
	if done < *cycles {
		t.Errorf("the job ended after %d cycles, want %d", done, *cycles)
	}
	t.Logf("%d cycles, %d results the same", done, len(found))
}

// live carries out the cycles, then waits for the end. Each life works for a random part of its share of the results.
func live(ctx context.Context, job *harness.Job, found map[string]string, argv []string, mpi string, random *rand.Rand, total int) (int, error) {
	if err := job.Run(ctx, mpi, ranks, []string{"--retries", "0"}, argv...); err != nil {
		return 0, err
	}
	share := max(total/(*cycles+1)-1, 1)
	for n := range *cycles {
		if err := cycle(ctx, job, random, share); err != nil {
			return n, err
		}
		if err := results(found, job.Proc().Stdout.String()); err != nil {
			return n, err
		}
		mpi = harness.Other(mpi)
		if err := job.Restart(ctx, mpi, "--retries", "0"); err != nil {
			return n, err
		}
	}
	if code := job.Proc().ExitCode(); code != 0 {
		return *cycles, fmt.Errorf("the last life ended with code %d", code)
	}
	return *cycles, results(found, job.Proc().Stdout.String())
}

// cycle lets a life print some results, takes a checkpoint at a random moment after the last of them, and kills a rank.
func cycle(ctx context.Context, job *harness.Job, random *rand.Rand, share int) error {
	goal, moment := 1+random.IntN(share), time.Duration(random.IntN(300))*time.Millisecond
	p := job.Proc()
	err := p.Until(ctx, "results", func(s string) bool { return count(s) >= goal })
	if errors.Is(err, harness.ErrEnded) {
		return fmt.Errorf("ended before its time: %w", err)
	}
	if err != nil {
		return err
	}
	time.Sleep(moment) // chooses a random moment, waits for nothing
	if _, err := job.Checkpoint(ctx); err != nil {
		return err
	}
	if err := job.KillRank(random.IntN(ranks)); err != nil {
		return err
	}
	if p.ExitCode() == 0 {
		return errors.New("a killed job ended with code 0")
	}
	return nil
}
