// Command bench compares Byssus with the native MPI library and with plain writes and reads.
//
// It prints Go's benchmark format. Every comparison is made in rounds that take turns (native, Byssus, native,
// Byssus, ...) in the same minutes of the same machine, and gives the ratio of the best and the median of the rounds'
// ratios. It measures; it decides nothing: its exit code is 0 unless something could not be measured.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/job"
	"github.com/byssus-hpc/byssus/bench/internal/report"
)

// A bench is one run of the benchmarks.
type bench struct {
	tree   job.Tree
	mpis   []string
	rounds int
	dir    string // scratch, in memory: programs, outputs, images
	out    io.Writer
	jobs   int // Byssus jobs started so far, for their names

	sources string // directory of the C programs
}

func main() {
	exe := flag.String("byssus", "build/bin/byssus", "the byssus `command`")
	sources := flag.String("sources", "bench/c", "`directory` of the programs that are measured")
	scratch := flag.String("scratch", "/dev/shm", "`directory` in memory for programs and images")
	mpis := flag.String("mpi", "mpich,openmpi", "MPIs to measure, with commas")
	rounds := flag.Int("rounds", 5, "rounds of each comparison")
	only := flag.String("only", "micro,lammps,stall,memory,nodes,files,snapshots,tasks", "what to measure, with commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, *exe, *sources, *scratch, strings.Split(*mpis, ","), *rounds, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measure prepares a scratch directory, runs the chosen parts, and goes on with the next when one fails.
func measure(ctx context.Context, exe, sources, scratch string, mpis []string, rounds int, only []string) error {
	exe, err := filepath.Abs(exe)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	dir, err := os.MkdirTemp(scratch, "byssus-bench.")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &bench{tree: job.Tree{Exe: exe, Dir: filepath.Join(dir, "store")}, mpis: mpis, rounds: rounds, dir: dir, out: os.Stdout, sources: sources}
	if err := b.compile(ctx, sources); err != nil {
		return err
	}
	parts := map[string]func(context.Context) error{"micro": b.micro, "lammps": b.lammps, "stall": b.stall, "memory": b.memory, "nodes": b.nodes, "files": b.files, "snapshots": b.snapshots, "tasks": b.tasks}
	report.Header(b.out, "github.com/byssus-hpc/byssus/bench")
	var errs []error
	for _, name := range only {
		part, ok := parts[name]
		if !ok {
			return fmt.Errorf("bench: no part is named %q", name)
		}
		if err := part(ctx); err != nil {
			errs = append(errs, err)
		}
		report.Load(b.out)
	}
	return errors.Join(errs...)
}

// compile builds the programs, those that use MPI once for each MPI.
func (b *bench) compile(ctx context.Context, sources string) error {
	flags := []string{"-O2", "-Wall", "-Wextra", "-Werror"}
	ofC := append([]string{"-std=gnu11", "-Wno-stringop-overflow"}, flags...)
	compiler := func(cc, out, source string, flags []string, libs ...string) error {
		cmd := exec.CommandContext(ctx, cc, append(append(flags, "-o", out, filepath.Join(sources, source)), libs...)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("bench: %s %s: %w: %s", cc, source, err, text)
		}
		return nil
	}
	build := func(cc, out, name string) error { return compiler(cc, out, name+".c", ofC) }
	for _, mpi := range b.mpis {
		for _, name := range []string{"micro", "hold", "grow", "tasks"} {
			if err := build("mpicc."+mpi, b.program(name, mpi), name); err != nil {
				return err
			}
		}
		for name, lib := range map[string]string{"files": "scr", "snapshots": "byssus"} {
			dir := b.libraries(lib)
			with := append(append([]string(nil), ofC...), "-I"+dir)
			if err := compiler("mpicc."+mpi, b.program(name, mpi), name+".c", with, "-L"+dir, "-l"+lib, "-Wl,-rpath,"+dir); err != nil {
				return err
			}
		}
		if err := compiler("mpifort."+mpi, b.program("micro_fortran", mpi), "micro_fortran.f90", append(flags, "-Wno-unused-parameter")); err != nil {
			return err
		}
	}
	return build("gcc", b.program("plain", "none"), "plain")
}

// program is the path of a compiled C program.
func (b *bench) program(name, mpi string) string { return filepath.Join(b.dir, name+"."+mpi) }

// A result is what a finished program left.
type result struct {
	text string // standard output
	took time.Duration
}

// native runs argv on 2 ranks without Byssus.
func (b *bench) native(ctx context.Context, mpi string, argv ...string) (result, error) {
	return b.nativeOn(ctx, mpi, 2, argv...)
}

// nativeOn runs argv on n ranks without Byssus.
func (b *bench) nativeOn(ctx context.Context, mpi string, n int, argv ...string) (result, error) {
	var out bytes.Buffer
	if mpi == "openmpi" && n > runtime.NumCPU() {
		argv = append([]string{"--oversubscribe"}, argv...)
	}
	p, err := job.Native(ctx, mpi, n, b.dir, &out, argv...)
	if err != nil {
		return result{}, err
	}
	took, err := p.Wait()
	return result{out.String(), took}, err
}

// under runs argv on 2 ranks under Byssus.
func (b *bench) under(ctx context.Context, mpi string, argv ...string) (result, error) {
	var out bytes.Buffer
	p, err := b.tree.Run(ctx, mpi, 2, b.newJob(), b.dir, &out, nil, argv...)
	if err != nil {
		return result{}, err
	}
	took, err := p.Wait()
	return result{out.String(), took}, err
}

// newJob makes up a job's name.
func (b *bench) newJob() string {
	b.jobs++
	return fmt.Sprintf("bench%d", b.jobs)
}
