// Command demo shows Byssus at work on a real program: LAMMPS as the distribution ships it, which knows nothing of
// checkpoints, loses a rank three times and still prints the numbers of an undisturbed run.
//
// It runs the same input natively and under Byssus. Under Byssus checkpoints are taken at random moments and a rank
// is killed with SIGKILL: the first time Byssus restarts the job by itself; the second time it has been told to give
// up, and the job is restarted by hand under the other MPI, where it loses a rank once more. The thermo lines of both
// runs, on the terminal and in LAMMPS's own log file, are compared character by character. The exit code is 0 only
// when all are the same.
//
// With -nodes it shows the loss of a node instead: four nodes and a spare in a sandbox, checkpoints in the memory of the nodes with
// parity, and one node that falls silent in mid-run, under both MPIs.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/job"
)

// options are the command's.
type options struct {
	exe, input, scratch   string
	atLeast               time.Duration
	seed                  uint64
	nodes, memory         bool
	sources, picture, mpi string
}

func main() {
	var o options
	flag.StringVar(&o.exe, "byssus", "build/bin/byssus", "the byssus `command`")
	flag.StringVar(&o.input, "input", "bench/in.melt", "LAMMPS input `file`")
	flag.DurationVar(&o.atLeast, "time", 50*time.Second, "how long the native run shall take")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the random moments")
	flag.StringVar(&o.scratch, "scratch", "", "`directory` for outputs and images (default: a temporary one)")
	flag.BoolVar(&o.nodes, "nodes", false, "show the loss of a node")
	flag.BoolVar(&o.memory, "memory", false, "show snapshots of memory, and the loss of a node")
	flag.StringVar(&o.sources, "sources", "bench", "`directory` with the programs of -memory")
	flag.StringVar(&o.picture, "picture", "build/wave.png", "`file` for the picture of -memory")
	flag.StringVar(&o.mpi, "mpi", "", "`MPI` of -memory: mpich or openmpi (default: the first whose mpicc is there)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := show(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// show prepares the directories, makes the runs and compares them.
func show(ctx context.Context, o options) error {
	exe, err := filepath.Abs(o.exe)
	if err != nil {
		return err
	}
	input, err := filepath.Abs(o.input)
	if err != nil {
		return err
	}
	if _, err := os.Stat(exe); err != nil {
		return fmt.Errorf("%w (make build)", err)
	}
	dir, err := os.MkdirTemp(o.scratch, "byssus-demo.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &demo{
		tree:   job.Tree{Exe: exe, Dir: filepath.Join(dir, "checkpoints")},
		input:  input,
		dir:    dir,
		ranks:  2,
		random: rand.New(rand.NewPCG(o.seed, 0)),
		begin:  time.Now(),
	}
	if o.nodes || o.memory {
		d.ranks = nodes
	}
	if o.memory {
		return d.remembers(ctx, o)
	}
	d.say("LAMMPS melt, 32,000 atoms, %d ranks; the random moments follow from -seed %d", d.ranks, o.seed)
	if err := d.calibrate(ctx, o.atLeast); err != nil {
		return err
	}
	if o.nodes {
		return d.onNodes(ctx)
	}
	native, err := d.native(ctx)
	if err != nil {
		return err
	}
	under, err := d.under(ctx, native.wall)
	if err != nil {
		return err
	}
	if err := d.compare(native, under); err != nil {
		return err
	}
	d.table(native, under)
	return nil
}
