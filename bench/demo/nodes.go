package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/job"
)

const (
	nodes    = 4 // of the sandbox, each with one rank; and a spare
	lostNode = "node2"
)

// onNodes shows the loss of a node: four nodes and a spare on this machine, checkpoints in their memory with parity, and one node
// that falls silent in mid-run; under both MPIs.
func (d *demo) onNodes(ctx context.Context) error {
	cluster := fmt.Sprintf("demo-%d", os.Getpid())
	if err := d.sandbox(ctx, "create", cluster, "--nodes", strconv.Itoa(nodes), "--spares", "1", "--prefix", d.dir); err != nil {
		return err
	}
	defer func() {
		if err := d.sandbox(context.WithoutCancel(ctx), "destroy", cluster); err != nil {
			d.say("%v", err)
		}
	}()
	text, err := os.ReadFile(d.input)
	if err == nil {
		d.input = filepath.Join(d.dir, filepath.Base(d.input)) // nodes have a home directory of their own
		err = os.WriteFile(d.input, text, 0o600)
	}
	if err != nil {
		return err
	}
	native, err := d.native(ctx)
	if err != nil {
		return err
	}
	for _, mpi := range []string{firstMPI, secondMPI} {
		under, err := d.loses(ctx, mpi, cluster)
		if err == nil {
			err = d.compare(native, under)
		}
		if err != nil {
			return fmt.Errorf("under %s: %w", mpi, err)
		}
		fmt.Printf("\n  wall time: %.1f s natively, %.1f s under Byssus on %d nodes with %s, of which one was lost; %d steps were computed again\n\n",
			native.wall.Seconds(), under.wall.Seconds(), nodes, mpi, again(under.screen))
		if err := d.sandbox(ctx, "start", cluster+"/"+lostNode); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) sandbox(ctx context.Context, args ...string) error {
	d.say("byssus sandbox %s", strings.Join(args, " "))
	if out, err := exec.CommandContext(ctx, d.tree.Exe, append([]string{"sandbox"}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("byssus sandbox %s: %w: %s", args[0], err, out)
	}
	return nil
}

// loses makes a run of which a node is lost at a random moment, when there has been time for checkpoints.
func (d *demo) loses(ctx context.Context, mpi, cluster string) (record, error) {
	dir, argv, err := d.lammps(mpi, d.steps)
	if err != nil {
		return record{}, err
	}
	flags := []string{"--sandbox", cluster, "--every", "2s", "--cache", "/run/byssus/cache", "--redundancy", "xor"}
	d.say("byssus run -n %d --mpi %s %s -- %s", nodes, mpi, strings.Join(flags, " "), strings.Join(argv, " "))
	var out job.Output
	p, err := d.tree.Run(ctx, mpi, nodes, name+"-"+mpi, dir, &out, flags, argv...)
	if err != nil {
		return record{}, err
	}
	defer p.Stop()
	goal := d.steps/2 + d.random.IntN(d.steps/10)
	if err := out.WaitFor(ctx, p, fmt.Sprintf("step %d", goal), func(s string) bool { return lastStep(s) >= goal }); err != nil {
		return record{}, err
	}
	begin := time.Now()
	if err := d.sandbox(ctx, "crash", cluster+"/"+lostNode); err != nil {
		return record{}, err
	}
	before := len(out.String())
	if err := out.WaitFor(ctx, p, "a thermo line after it", func(s string) bool { return len(thermo(s[before:])) > 0 }); err != nil {
		return record{}, err
	}
	d.say("the job prints again, %.1f s after the node fell silent", time.Since(begin).Seconds())
	wall, err := p.Wait()
	if err != nil {
		return record{}, err
	}
	said := slices.DeleteFunc(strings.Split(p.Stderr(), "\n"), func(l string) bool { return !strings.HasPrefix(l, "byssus: ") })
	if !slices.ContainsFunc(said, func(l string) bool { return strings.Contains(l, "recovered from the loss of "+lostNode) }) {
		return record{}, errors.New("the job has not lost a node: " + strings.Join(said, "; "))
	}
	fmt.Printf("\n  %s\n\n", strings.Join(said, "\n  "))
	log, err := os.ReadFile(filepath.Join(dir, "log.lammps"))
	return record{screen: out.String(), log: string(log), wall: wall}, err
}

// again is how many steps were computed twice, as far as thermo lines tell.
func again(screen string) int {
	seen, twice := map[string]bool{}, 0
	for _, line := range thermo(screen) {
		step := strings.Fields(line)[0]
		if seen[step] {
			twice += thermoEvery
		}
		seen[step] = true
	}
	return twice
}
