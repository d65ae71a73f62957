// Command exam examines Byssus with programs and libraries of the distribution that `make deps` does not install: each
// is run natively, then under Byssus through checkpoints at random moments, a kill -9 of a random rank and a restart,
// with the MPIs by turns; its result lines, or all that it prints but times, must be those of the native run, character by character.
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

// native runs the program without Byssus.
func (x exam) native(ctx context.Context, p program, argv []string) (output, time.Duration, error) {
	dir, err := x.directory("native.", p)
	if err != nil {
		return nil, 0, err
	}
	proc, err := harness.Start(ctx, dir, environment(), x.site.NativeCommand("openmpi", p.ranks, argv)...)
	if err != nil {
		return nil, 0, err
	}
	if code := proc.ExitCode(); code != 0 {
		return nil, 0, fmt.Errorf("exit code %d: %s", code, harness.Tail(proc.Stderr.String()))
	}
	out, err := outputOf(p, dir, proc.Stdout.String())
	return out, proc.Took(), err
}

// directory makes one in which the program can be run.
func (x exam) directory(name string, p program) (string, error) {
	dir, err := os.MkdirTemp(x.dir, name)
	if err != nil {
		return "", err
	}
	for _, file := range p.inputs {
		text, err := os.ReadFile(filepath.Join(x.site.Root, "test/apps/exam", file))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
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
	want, took, err := x.native(ctx, p, argv)
	if err != nil {
		return fmt.Errorf("native run: %w", err)
	}
	fmt.Printf("%-10s natively %d results in %.1f s\n", p.name, want.total(), took.Seconds())
	var wrong []error
	for _, first := range harness.MPIs() {
		done, err := x.examine(ctx, p, argv, want, first)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("first under %s: %w", first, err))
			continue
		}
		fmt.Printf("%-10s first under %s: %d cycles, %d results the same\n", p.name, first, done, want.total())
	}
	return errors.Join(wrong...)
}

// examine takes a job through its lives, the first one under mpi, and compares what they printed. The result is the number
// of cycles.
func (x exam) examine(ctx context.Context, p program, argv []string, want output, mpi string) (int, error) {
	dir, err := x.directory(mpi+".", p)
	if err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(x.seed, uint64(len(mpi))))
	l := lives{
		program: p,
		out:     want.anew(dir),
		job:     x.site.NewJob("exam", dir, "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"),
		random:  random,
	}
	defer l.job.Close()
	done, err := l.live(ctx, argv, mpi, x.cycles)
	if err == nil {
		err = l.out.whole()
	}
	if err != nil {
		return done, fmt.Errorf("after %d cycles: %w\n%s", done, err, l.job.Story())
	}
	return done, nil
}

// The lives of a job.
type lives struct {
	program program
	out     output
	job     *harness.Job
	random  *rand.Rand
}

// live carries out the cycles, then waits for the end. Each life works for a random part of its share of the results.
func (l lives) live(ctx context.Context, argv []string, mpi string, cycles int) (int, error) {
	if err := l.job.Run(ctx, mpi, l.program.ranks, []string{"--retries", "0"}, argv...); err != nil {
		return 0, err
	}
	share := max(l.out.total()/(cycles+1)-1, 1)
	for n := range cycles {
		if err := l.cycle(ctx, share); err != nil {
			return n, err
		}
		if err := l.out.add(l.job.Proc().Stdout.String()); err != nil {
			return n, err
		}
		mpi = harness.Other(mpi)
		if err := l.job.Restart(ctx, mpi, "--retries", "0"); err != nil {
			return n, err
		}
	}
	if code := l.job.Proc().ExitCode(); code != 0 {
		return cycles, fmt.Errorf("the last life ended with code %d", code)
	}
	return cycles, l.out.add(l.job.Proc().Stdout.String())
}

// cycle lets a life print some results, takes a checkpoint at a random moment after the last of them, and kills a rank.
func (l lives) cycle(ctx context.Context, share int) error {
	goal, moment := 1+l.random.IntN(share), time.Duration(l.random.IntN(300))*time.Millisecond
	p := l.job.Proc()
	err := l.out.until(ctx, p, goal)
	if errors.Is(err, harness.ErrEnded) {
		return fmt.Errorf("ended before its time: %w", err)
	}
	if err != nil {
		return err
	}
	time.Sleep(moment) // chooses a random moment, waits for nothing
	if _, err := l.job.Checkpoint(ctx); err != nil {
		return err
	}
	if err := l.job.KillRank(l.random.IntN(l.program.ranks)); err != nil {
		return err
	}
	if p.ExitCode() == 0 {
		return errors.New("a killed job ended with code 0")
	}
	return nil
}
