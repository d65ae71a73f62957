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
	random *rand.Rand
	begin  time.Time
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
	name      = "melt"
	firstMPI  = "openmpi" // the binary's own
	secondMPI = "mpich"
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
	p, err := job.Native(ctx, firstMPI, 2, dir, &out, argv...)
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
	d.steps = int(sample*atLeast.Seconds()/loop+99) / 100 * 100
	d.say("%d steps take about %.0f s natively", d.steps, atLeast.Seconds())
	return nil
}

func (d *demo) native(ctx context.Context) (record, error) {
	dir, argv, err := d.lammps("native", d.steps)
	if err != nil {
		return record{}, err
	}
	d.say("native: mpirun.%s -n 2 %s", firstMPI, strings.Join(argv, " "))
	var out job.Output
	p, err := job.Native(ctx, firstMPI, 2, dir, &out, argv...)
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

// under makes the run under Byssus: two checkpoints and a kill, which Byssus mends; two more and a kill, which it has
// been told not to mend; a restart under the other MPI, one more checkpoint there, and the end.
func (d *demo) under(ctx context.Context, expected time.Duration) (record, error) {
	dir, argv, err := d.lammps("byssus", d.steps)
	if err != nil {
		return record{}, err
	}
	d.say("byssus run -n 2 --mpi %s --job %s --retries 1 -- %s", firstMPI, name, strings.Join(argv, " "))
	var out job.Output
	begin := time.Now()
	p, err := d.tree.Run(ctx, firstMPI, 2, name, dir, &out, []string{"--retries", "1"}, argv...)
	if err != nil {
		return record{}, err
	}
	defer func() { p.Stop() }()
	var r record
	slice := expected / 8
	if err := out.WaitFor(ctx, p, "the first thermo line", func(s string) bool { return len(thermo(s)) > 1 }); err != nil {
		return r, err
	}
	if err := d.checkpoints(ctx, p, &r, 2, slice); err != nil {
		return r, err
	}
	if err := d.killAndSee(ctx, p, &out, &r, slice); err != nil {
		return r, err
	}
	if err := d.checkpoints(ctx, p, &r, 2, slice); err != nil {
		return r, err
	}
	if err := d.kill(ctx, p, slice); err != nil {
		return r, err
	}
	code := p.ExitCode()
	d.say("byssus run gave up, as it was told to: exit code %d", code)
	d.say("byssus restart %s --mpi %s", name, secondMPI)
	before := len(out.String())
	if p, err = d.tree.Restart(ctx, secondMPI, name, dir, &out); err != nil {
		return r, err
	}
	if err := d.seen(ctx, p, &out, &r, before, p.Began(), firstMPI+" to "+secondMPI+", by hand"); err != nil {
		return r, err
	}
	if err := d.checkpoints(ctx, p, &r, 1, slice/2); err != nil {
		return r, err
	}
	if _, err := p.Wait(); err != nil {
		return r, err
	}
	r.wall = time.Since(begin)
	d.say("byssus: done in %.1f s", r.wall.Seconds())
	log, err := os.ReadFile(filepath.Join(dir, "log.lammps"))
	r.screen, r.log = out.String(), string(log)
	return r, err
}

// checkpoints takes n checkpoints, each at a random moment of a slice of time.
func (d *demo) checkpoints(ctx context.Context, p *job.Proc, r *record, n int, slice time.Duration) error {
	for range n {
		if err := d.pause(ctx, p, slice); err != nil {
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

// pause lets a random part of a slice of time pass while the job computes.
func (d *demo) pause(ctx context.Context, p *job.Proc, slice time.Duration) error {
	select {
	case <-time.After(slice/4 + time.Duration(d.random.Int64N(int64(slice)))):
		return nil
	case <-p.Done():
		_, err := p.Wait()
		return fmt.Errorf("the job ended before its time: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill ends a random rank as a crash would, at a random moment.
func (d *demo) kill(ctx context.Context, p *job.Proc, slice time.Duration) error {
	if err := d.pause(ctx, p, slice); err != nil {
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
func (d *demo) killAndSee(ctx context.Context, p *job.Proc, out *job.Output, r *record, slice time.Duration) error {
	if err := d.kill(ctx, p, slice); err != nil {
		return err
	}
	return d.seen(ctx, p, out, r, len(out.String()), time.Now(), firstMPI+" again, by itself")
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
