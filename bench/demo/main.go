// Command demo shows Byssus at work on a real program: LAMMPS as the distribution ships it, which knows nothing of
// checkpoints, loses a rank three times and still prints the numbers of an undisturbed run.
//
// It runs the same input natively and under Byssus. Under Byssus checkpoints are taken at random moments and a rank
// is killed with SIGKILL: the first time Byssus restarts the job by itself; the second time it has been told to give
// up, and the job is restarted by hand under the other MPI, where it loses a rank once more. The thermo lines of both
// runs, on the terminal and in LAMMPS's own log file, are compared character by character. The exit code is 0 only
// when all are the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/job"
)

func main() {
	exe := flag.String("byssus", "build/bin/byssus", "the byssus `command`")
	input := flag.String("input", "bench/in.melt", "LAMMPS input `file`")
	atLeast := flag.Duration("time", 50*time.Second, "how long the native run shall take")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random moments")
	scratch := flag.String("scratch", "", "`directory` for outputs and images (default: a temporary one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := show(ctx, *exe, *input, *scratch, *atLeast, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// show prepares the directories, makes both runs and compares them.
func show(ctx context.Context, exe, input, scratch string, atLeast time.Duration, seed uint64) error {
	exe, err := filepath.Abs(exe)
	if err != nil {
		return err
	}
	if input, err = filepath.Abs(input); err != nil {
		return err
	}
	if _, err := os.Stat(exe); err != nil {
		return fmt.Errorf("%w (make build)", err)
	}
	dir, err := os.MkdirTemp(scratch, "byssus-demo.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &demo{
		tree:   job.Tree{Exe: exe, Dir: filepath.Join(dir, "checkpoints")},
		input:  input,
		dir:    dir,
		random: rand.New(rand.NewPCG(seed, 0)),
		begin:  time.Now(),
	}
	d.say("LAMMPS melt, 32,000 atoms, 2 ranks; the random moments follow from -seed %d", seed)
	if err := d.calibrate(ctx, atLeast); err != nil {
		return err
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
