package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/job"
)

const interval = 50 // steps between snapshots

// A shot is a program that computes waves, as bench/c/wave.c says.
type shot struct {
	*demo
	cluster string
	mpi     string
	program string
	args    []string
	steps   int
}

// remembers shows snapshots of memory, and the loss of a node.
func (d *demo) remembers(ctx context.Context, o options) error {
	mpi := o.mpi
	if mpi == "" {
		mpi = secondMPI
		if _, err := exec.LookPath("mpicc." + mpi); err != nil {
			mpi = firstMPI
		}
	}
	ofC := &shot{demo: d, mpi: mpi, program: filepath.Join(d.dir, "wave"), args: []string{"size=384x176x176"}, steps: 400}
	ofGo := &shot{demo: d, mpi: mpi, program: filepath.Join(d.dir, "wave-go"), args: []string{"size=256x128x128"}, steps: 300}
	if err := compile(ctx, o.sources, ofC, ofGo); err != nil {
		return err
	}
	cluster := fmt.Sprintf("demo-%d", os.Getpid())
	if err := d.sandbox(ctx, "create", cluster, "--nodes", strconv.Itoa(nodes), "--spares", "1", "--prefix", d.dir); err != nil {
		return err
	}
	defer func() {
		if err := d.sandbox(context.WithoutCancel(ctx), "destroy", cluster); err != nil {
			d.say("%v", err)
		}
	}()
	ofC.cluster, ofGo.cluster = cluster, cluster
	d.say("acoustic waves in 384 x 176 x 176 cells, %d ranks, in C with MPI (%s)", nodes, mpi)
	if err := ofC.cost(ctx, o.picture); err != nil {
		return err
	}
	if err := d.sandbox(ctx, "start", cluster+"/"+lostNode); err != nil {
		return err
	}
	d.say("the same in Go, made of tasks, in 256 x 128 x 128 cells")
	undisturbed, err := ofGo.onNodes(ctx, "go-undisturbed", 0)
	if err != nil {
		return err
	}
	return ofGo.lose(ctx, "go-lost", undisturbed)
}

// compile makes the programs of their sources.
func compile(ctx context.Context, sources string, c, golang *shot) error {
	memory := filepath.Join(filepath.Dir(filepath.Dir(c.tree.Exe)), "lib/byssus/memory")
	for _, argv := range [][]string{
		{"mpicc." + c.mpi, "-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow", "-I" + memory,
			"-o", c.program, filepath.Join(sources, "c/wave.c"), "-L" + memory, "-lbyssus", "-Wl,-rpath," + memory, "-lm"},
		{"env", "CGO_ENABLED=1", "go", "build", "-o", golang.program, "./" + filepath.Join(sources, "wave")},
	} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", cmd, err, text)
		}
	}
	return nil
}

// cost runs it without and with snapshots by turns, then with the loss of a node, and compares what all of them come to.
func (s *shot) cost(ctx context.Context, picture string) error {
	native, err := s.natively(ctx)
	if err != nil {
		return err
	}
	if err := draw(native.slice, picture); err != nil {
		return err
	}
	s.say("natively: a step of %.1f ms; the field is %s; %s shows a slice of it", native.perStep(), native.field, picture)
	var without, with []ended
	for i := range 4 { // by turns
		every, into := 0, &without
		if i%2 == 1 {
			every, into = interval, &with
		}
		e, err := s.onNodes(ctx, fmt.Sprint("turn", i), every)
		if err == nil {
			err = e.same(native)
		}
		if err != nil {
			return err
		}
		*into = append(*into, e)
	}
	costs(native, without, with)
	return s.lose(ctx, "lost", native)
}

// lives is a run's directory and arguments.
func (s *shot) lives(name string, every int) (dir string, argv []string, err error) {
	dir = filepath.Join(s.dir, name)
	argv = append([]string{s.program}, s.args...)
	argv = append(argv, fmt.Sprintf("steps=%d", s.steps), fmt.Sprintf("every=%d", every), "out="+filepath.Join(dir, "slice"))
	return dir, argv, os.Mkdir(dir, 0o700)
}

// natively runs it without Byssus, on this machine.
func (s *shot) natively(ctx context.Context) (ended, error) {
	dir, argv, err := s.lives("native", 0)
	if err != nil {
		return ended{}, err
	}
	if s.mpi == firstMPI {
		argv = append([]string{"--oversubscribe"}, argv...)
	}
	var out job.Output
	p, err := job.Native(ctx, s.mpi, s.ranks, dir, &out, argv...)
	if err != nil {
		return ended{}, err
	}
	return s.end(p, &out, dir)
}

// onNodes runs it on the nodes: as it is, or with snapshots.
func (s *shot) onNodes(ctx context.Context, name string, every int) (ended, error) {
	p, out, err := s.start(ctx, name, every)
	if err != nil {
		return ended{}, err
	}
	defer p.Stop()
	return s.end(p, out, filepath.Join(s.dir, name))
}

func (s *shot) start(ctx context.Context, name string, every int) (*job.Proc, *job.Output, error) {
	dir, argv, err := s.lives(name, every)
	if err != nil {
		return nil, nil, err
	}
	flags := []string{"--plain", "--sandbox", s.cluster}
	if every > 0 {
		flags = append(flags, "--cache", "/run/byssus/cache", "--redundancy", "xor")
	}
	out := new(job.Output)
	p, err := s.tree.Run(ctx, s.mpi, s.ranks, name, dir, out, flags, argv...)
	return p, out, err
}

// end waits for its end, and takes what it has left.
func (s *shot) end(p *job.Proc, out *job.Output, dir string) (ended, error) {
	if _, err := p.Wait(); err != nil {
		return ended{}, err
	}
	e, err := parse(out.String())
	if err == nil && e.last != s.steps {
		err = fmt.Errorf("it ends at step %d, wanted %d", e.last, s.steps)
	}
	if err != nil {
		return e, fmt.Errorf("%s: %w", filepath.Base(dir), err)
	}
	e.slice, err = os.ReadFile(filepath.Join(dir, "slice"))
	return e, err
}

// same compares what two runs have come to.
func (e ended) same(other ended) error {
	if e.field != other.field {
		return fmt.Errorf("found the field %s, wanted that of the undisturbed run, %s", e.field, other.field)
	}
	if !bytes.Equal(e.slice, other.slice) {
		return errors.New("the pictures differ")
	}
	return nil
}

// lose makes a run of which a node is lost at a random moment, and tells what it took.
func (s *shot) lose(ctx context.Context, name string, undisturbed ended) error {
	p, out, err := s.start(ctx, name, interval)
	if err != nil {
		return err
	}
	defer p.Stop()
	goal := s.steps/2 + s.random.IntN(s.steps/4)
	err = out.WaitFor(ctx, p, fmt.Sprintf("step %d", goal), func(text string) bool { return lastLine(text).step >= goal })
	if err != nil {
		return err
	}
	crash := time.Now()
	if err := s.sandbox(ctx, "crash", s.cluster+"/"+lostNode); err != nil {
		return err
	}
	e, err := s.end(p, out, filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	events, err := s.tree.Timeline(ctx, name)
	if err != nil {
		return err
	}
	back, err := timesOf(crash, events, out.String())
	if err != nil {
		return fmt.Errorf("%w: %s%s", err, out.String(), p.Stderr())
	}
	back.print()
	if err := e.same(undisturbed); err != nil {
		return err
	}
	fmt.Printf("  the field of %d steps is the same, bit by bit, as of the run that lost nothing: %s\n\n", s.steps, e.field)
	return nil
}
