package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/job"
)

// A demo is one showing.
type demo struct {
	tree   job.Tree
	input  string
	dir    string
	steps  int
	ranks  int
	random *rand.Rand
	begin  time.Time

	perLine time.Duration // between two thermo lines, natively
}

// A record is what one run of LAMMPS left.
type record struct {
	screen      string // all that it printed
	log         string // its own log file
	wall        time.Duration
	checkpoints []job.Checkpoint
	restarts    []restart
}

// A restart is one return of the job.
type restart struct {
	how  string
	took time.Duration // from the kill, or from the command, to the next thermo line
}

const (
	name        = "melt"
	firstMPI    = "openmpi" // the binary's own
	secondMPI   = "mpich"
	thermoEvery = 50 // steps, as in.melt says
	leastSteps  = 2000
)

func (d *demo) say(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", time.Since(d.begin).Seconds(), fmt.Sprintf(format, args...))
}

// lammps is LAMMPS's command line for a run of so many steps, in a new directory of its own.
func (d *demo) lammps(run string, steps int) (dir string, argv []string, err error) {
	dir = filepath.Join(d.dir, run)
	return dir, []string{"lmp", "-in", d.input, "-var", "steps", strconv.Itoa(steps)}, os.Mkdir(dir, 0o700)
}

// calibrate finds how many steps the native run needs to take long enough on this machine.
func (d *demo) calibrate(ctx context.Context, atLeast time.Duration) error {
	const sample = 400
	dir, argv, err := d.lammps("calibration", sample)
	if err != nil {
		return err
	}
	var out job.Output
	p, err := d.onThisMachine(ctx, dir, &out, argv)
	if err != nil {
		return err
	}
	if _, err := p.Wait(); err != nil {
		return err
	}
	loop, err := loopTime(out.String())
	if err != nil {
		return err
	}
	d.steps = max(leastSteps, int(sample*atLeast.Seconds()/loop+99)/100*100)
	d.say("%d steps take about %.0f s natively", d.steps, atLeast.Seconds())
	return nil
}

func (d *demo) native(ctx context.Context) (record, error) {
	dir, argv, err := d.lammps("native", d.steps)
	if err != nil {
		return record{}, err
	}
	d.say("native: mpirun.%s -n %d %s", firstMPI, d.ranks, strings.Join(argv, " "))
	var out job.Output
	p, err := d.onThisMachine(ctx, dir, &out, argv)
	if err != nil {
		return record{}, err
	}
	wall, err := p.Wait()
	if err != nil {
		return record{}, err
	}
	d.say("native: done in %.1f s", wall.Seconds())
	log, err := os.ReadFile(filepath.Join(dir, "log.lammps"))
	return record{screen: out.String(), log: string(log), wall: wall}, err
}

// onThisMachine starts a native run.
func (d *demo) onThisMachine(ctx context.Context, dir string, out *job.Output, argv []string) (*job.Proc, error) {
	return job.Native(ctx, firstMPI, d.ranks, dir, out, append([]string{"--oversubscribe"}, argv...)...)
}

// under makes the run under Byssus in two acts, the second under the other MPI.
func (d *demo) under(ctx context.Context, expected time.Duration) (record, error) {
	dir, argv, err := d.lammps("byssus", d.steps)
	if err != nil {
		return record{}, err
	}
	var r record
	var out job.Output
	d.perLine = expected / time.Duration(d.steps/thermoEvery)
	begin := time.Now()
	if err := d.first(ctx, dir, argv, &out, &r); err != nil {
		return r, err
	}
	if err := d.second(ctx, dir, &out, &r); err != nil {
		return r, err
	}
	r.wall = time.Since(begin)
	d.say("byssus: done in %.1f s", r.wall.Seconds())
	log, err := os.ReadFile(filepath.Join(dir, "log.lammps"))
	r.screen, r.log = out.String(), string(log)
	return r, err
}

// first runs under the binary's own MPI, with one restart allowed: two checkpoints, a kill that Byssus mends, and a
// kill after which it gives up.
func (d *demo) first(ctx context.Context, dir string, argv []string, out *job.Output, r *record) error {
	d.say("byssus run -n 2 --mpi %s --job %s --retries 1 -- %s", firstMPI, name, strings.Join(argv, " "))
	p, err := d.tree.Run(ctx, firstMPI, 2, name, dir, out, []string{"--retries", "1"}, argv...)
	if err != nil {
		return err
	}
	defer p.Stop()
	if err := out.WaitFor(ctx, p, "the first thermo line", func(s string) bool { return len(thermo(s)) > 1 }); err != nil {
		return err
	}
	if err := d.checkpoints(ctx, p, out, r, 2); err != nil {
		return err
	}
	if err := d.killAndSee(ctx, p, out, r, firstMPI); err != nil {
		return err
	}
	if err := d.kill(ctx, p, out); err != nil {
		return err
	}
	d.say("byssus run gave up, as --retries said: exit code %d", p.ExitCode())
	return nil
}

// second goes on under the other MPI: a restart by hand, two checkpoints, a kill that Byssus mends, the end.
func (d *demo) second(ctx context.Context, dir string, out *job.Output, r *record) error {
	d.say("byssus restart %s --mpi %s", name, secondMPI)
	before := len(out.String())
	p, err := d.tree.Restart(ctx, secondMPI, name, dir, out)
	if err != nil {
		return err
	}
	defer p.Stop()
	if err := d.seen(ctx, p, out, r, before, p.Began(), firstMPI+" to "+secondMPI+", by hand"); err != nil {
		return err
	}
	if err := d.checkpoints(ctx, p, out, r, 2); err != nil {
		return err
	}
	if err := d.killAndSee(ctx, p, out, r, secondMPI); err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// checkpoints takes n checkpoints, each at a random moment.
func (d *demo) checkpoints(ctx context.Context, p *job.Proc, out *job.Output, r *record, n int) error {
	for range n {
		if err := d.pause(ctx, p, out); err != nil {
			return err
		}
		c, err := d.tree.Checkpoint(ctx, name)
		if err != nil {
			return err
		}
		r.checkpoints = append(r.checkpoints, c)
		d.say("byssus checkpoint %s: number %d, the application stood still for %.0f ms", name, c.Number, float64(c.StallNS)/1e6)
	}
	return nil
}

// pause lets the job compute for a random while: up to an eighth of all steps, and a part of the time between two
// thermo lines. By steps, so that the job does not end before the last pause, however fast it runs.
func (d *demo) pause(ctx context.Context, p *job.Proc, out *job.Output) error {
	slice := d.steps / 10
	goal := lastStep(out.String()) + slice/4 + d.random.IntN(slice)
	if err := out.WaitFor(ctx, p, fmt.Sprintf("step %d", goal), func(s string) bool { return lastStep(s) >= goal }); err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(d.random.Int64N(int64(d.perLine)))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill ends a random rank as a crash would, at a random moment.
func (d *demo) kill(ctx context.Context, p *job.Proc, out *job.Output) error {
	if err := d.pause(ctx, p, out); err != nil {
		return err
	}
	pids, err := d.tree.Pids(ctx, name)
	if err != nil {
		return err
	}
	if len(pids) != 2 {
		return fmt.Errorf("byssus ps: %d ranks, want 2", len(pids))
	}
	rank := d.random.IntN(2)
	if err := syscall.Kill(pids[rank], syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %d: %w", pids[rank], err)
	}
	d.say("kill -KILL %d: rank %d is dead", pids[rank], rank)
	return nil
}

// killAndSee kills a rank and waits until the job prints again.
func (d *demo) killAndSee(ctx context.Context, p *job.Proc, out *job.Output, r *record, mpi string) error {
	if err := d.kill(ctx, p, out); err != nil {
		return err
	}
	return d.seen(ctx, p, out, r, len(out.String()), time.Now(), mpi+" again, by itself")
}

// seen waits for a thermo line beyond what had been printed and notes how long that took.
func (d *demo) seen(ctx context.Context, p *job.Proc, out *job.Output, r *record, before int, since time.Time, how string) error {
	err := out.WaitFor(ctx, p, "a thermo line after the restart", func(s string) bool { return len(thermo(s[before:])) > 0 })
	if err != nil {
		return err
	}
	took := time.Since(since)
	r.restarts = append(r.restarts, restart{how, took})
	d.say("the job computes again (%s), %.1f s later", how, took.Seconds())
	return nil
}
