// Command exam examines Byssus with programs and libraries of the distribution that `make deps` does not install: each
// is run natively, then under Byssus through checkpoints at random moments, a kill -9 of a random rank and a restart,
// with the MPIs by turns; its result lines must be those of the native run, character by character.
//
//	go run ./test/exam                                  every program that is installed
//	go run ./test/exam -seed 7 -cycles 5 petsc hypre    these
//
// It is run by hand, after `make build`. The exit code is 0 when at least one program was examined and all were right; a
// program that is asked for by name and not installed is an error, otherwise it is only named, with what to install.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
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
func (x exam) native(ctx context.Context, argv []string) (map[string]string, time.Duration, error) {
	dir, err := os.MkdirTemp(x.dir, "native.")
	if err != nil {
		return nil, 0, err
	}
	p, err := harness.Start(ctx, dir, environment(), x.site.NativeCommand("openmpi", ranks, argv)...)
	if err != nil {
		return nil, 0, err
	}
	if code := p.ExitCode(); code != 0 {
		return nil, 0, fmt.Errorf("exit code %d: %s", code, harness.Tail(p.Stderr.String()))
	}
	want := map[string]string{}
	if err := results(want, p.Stdout.String()); err != nil {
		return nil, 0, err
	}
	if len(want) == 0 {
		return nil, 0, errors.New("no results")
	}
	return want, p.Took(), nil
}

// environment keeps numerical libraries from starting threads on processors that the other rank has.
func environment() []string {
	return harness.Environment("OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
}

// An exam is what all programs have in common.
type exam struct {
	site   harness.Site
	dir    string // for what programs leave
	seed   uint64 // of the random decisions
	cycles int    // checkpoint, kill, restart cycles of each job
}

func main() {
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano())%1_000_000, "of the random decisions")
	cycles := flag.Int("cycles", 3, "checkpoint, kill, restart cycles of each job")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := all(ctx, *seed, *cycles, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "exam:", err)
		stop()
		os.Exit(1)
	}
}

// all examines the named programs, or every one that is installed.
func all(ctx context.Context, seed uint64, cycles int, names []string) error {
	site, err := harness.Here()
	if err != nil {
		return err
	}
	chosen, err := choose(programs(), names)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "byssus-exam.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("the random moments follow from -seed %d\n", seed)
	x := exam{site, dir, seed, cycles}
	examined, failed := 0, 0
	for _, p := range chosen {
		if missing := p.missing(); missing != "" && len(names) == 0 {
			fmt.Printf("%-10s not examined: %s is missing (apt-get install %s)\n", p.name, missing, p.debs)
			continue
		}
		examined++
		if err := x.program(ctx, p); err != nil {
			failed++
			fmt.Printf("%-10s %v\n", p.name, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if failed > 0 || examined == 0 {
		return fmt.Errorf("%d of %d programs failed", failed, examined)
	}
	return nil
}

// choose are the programs with these names, or all without any.
func choose(from []program, names []string) ([]program, error) {
	if len(names) == 0 {
		return from, nil
	}
	var chosen []program
	for _, name := range names {
		i := slices.IndexFunc(from, func(p program) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no program %q", name)
		}
		chosen = append(chosen, from[i])
	}
	return chosen, nil
}

// missing is the first file of the program's packages that is not there.
func (p program) missing() string {
	for _, file := range p.needs {
		if _, err := os.Stat(file); err != nil {
			return file
		}
	}
	return ""
}

// program builds a program, runs it natively and examines it from either MPI on.
func (x exam) program(ctx context.Context, p program) error {
	if missing := p.missing(); missing != "" {
		return fmt.Errorf("%s is missing (apt-get install %s)", missing, p.debs)
	}
	if p.build != "" {
		out, err := exec.CommandContext(ctx, "make", "-C", filepath.Join(x.site.Root, "test/apps/exam"), "TOP="+x.site.Root,
			filepath.Join(x.site.Root, "build/test/exam", p.build)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	argv := argvOf(x.site, p)
	want, took, err := x.native(ctx, argv)
	if err != nil {
		return fmt.Errorf("native run: %w", err)
	}
	fmt.Printf("%-10s natively %d results in %.1f s\n", p.name, len(want), took.Seconds())
	var wrong []error
	for _, first := range harness.MPIs() {
		done, err := x.examine(ctx, argv, want, first)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("first under %s: %w", first, err))
			continue
		}
		fmt.Printf("%-10s first under %s: %d cycles, %d results the same\n", p.name, first, done, len(want))
	}
	return errors.Join(wrong...)
}

// examine takes a job through its lives, the first one under mpi, and compares what they printed. The result is the number
// of cycles.
func (x exam) examine(ctx context.Context, argv []string, want map[string]string, mpi string) (int, error) {
	dir, err := os.MkdirTemp(x.dir, mpi+".")
	if err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(x.seed, uint64(len(mpi))))
	job := x.site.NewJob("exam", dir, "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	defer job.Close()
	found := map[string]string{}
	done, err := x.live(ctx, job, found, argv, mpi, random, len(want))
	if err != nil {
		return done, fmt.Errorf("after %d cycles: %w\n%s", done, err, job.Story())
	}
	return done, compare(found, want)
}

// compare names the results that are not those of the native run.
func compare(found, want map[string]string) error {
	var wrong []error
	for key, line := range want {
		if found[key] != line {
			wrong = append(wrong, fmt.Errorf("result %s: found %q, want %q", key, found[key], line))
		}
	}
	for key, line := range found {
		if _, ok := want[key]; !ok {
			wrong = append(wrong, fmt.Errorf("result %s: found %q, which the native run never printed", key, line))
		}
	}
	return errors.Join(wrong...)
}

// live carries out the cycles, then waits for the end. Each life works for a random part of its share of the results.
func (x exam) live(ctx context.Context, job *harness.Job, found map[string]string, argv []string, mpi string, random *rand.Rand, total int) (int, error) {
	if err := job.Run(ctx, mpi, ranks, []string{"--retries", "0"}, argv...); err != nil {
		return 0, err
	}
	share := max(total/(x.cycles+1)-1, 1)
	for n := range x.cycles {
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
		return x.cycles, fmt.Errorf("the last life ended with code %d", code)
	}
	return x.cycles, results(found, job.Proc().Stdout.String())
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
