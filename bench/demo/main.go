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

func main() {
	exe := flag.String("byssus", "build/bin/byssus", "the byssus `command`")
	input := flag.String("input", "bench/in.melt", "LAMMPS input `file`")
	atLeast := flag.Duration("time", 50*time.Second, "how long the native run shall take")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random moments")
	scratch := flag.String("scratch", "", "`directory` for outputs and images (default: a temporary one)")
	nodes := flag.Bool("nodes", false, "show the loss of a node")
	memory := flag.Bool("memory", false, "show snapshots of memory, and the loss of a node")
	sources := flag.String("sources", "bench", "`directory` with the programs of -memory")
	picture := flag.String("picture", "build/wave.png", "`file` for the picture of -memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *memory {
		if err := remembers(ctx, *exe, *sources, *scratch, *picture, *seed); err != nil {
			fmt.Fprintln(os.Stderr, "demo:", err)
			os.Exit(1)
		}
		return
	}
	if err := show(ctx, *exe, *input, *scratch, *atLeast, *seed, *nodes); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// show prepares the directories, makes both runs and compares them.
func show(ctx context.Context, exe, input, scratch string, atLeast time.Duration, seed uint64, several bool) error {
	d, err := begin(exe, scratch, seed)
	if err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	if d.input, err = filepath.Abs(input); err != nil {
		return err
	}
	d.ranks = 2
	if several {
		d.ranks = nodes
	}
	d.say("LAMMPS melt, 32,000 atoms, %d ranks; the random moments follow from -seed %d", d.ranks, seed)
	if err := d.calibrate(ctx, atLeast); err != nil {
		return err
	}
	if several {
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

// begin makes a showing, and a directory for it.
func begin(exe, scratch string, seed uint64) (*demo, error) {
	exe, err := filepath.Abs(exe)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(exe); err != nil {
		return nil, fmt.Errorf("%w (make build)", err)
	}
	dir, err := os.MkdirTemp(scratch, "byssus-demo.")
	if err != nil {
		return nil, err
	}
	return &demo{
		tree:   job.Tree{Exe: exe, Dir: filepath.Join(dir, "checkpoints")},
		dir:    dir,
		random: rand.New(rand.NewPCG(seed, 0)),
		begin:  time.Now(),
	}, nil
}
