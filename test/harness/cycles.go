package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Plan is one job with its random checkpoints and kills.
type Plan struct {
	Program Program // without iterations
	Face    string  // the MPI that the program was built for
	Driver  string  // the MPI under which it starts
	Restart string  // the MPI of the second life; the lives take turns between the two
	Ranks   int
	Cycles  int
	Seed    uint64
	Iters   int // 0: as many as take a while that suits the cycles
}

// A Report is what became of a Plan.
type Report struct {
	Plan   Plan
	Cycles int // completed: checkpoint, kill, restart, progress
	Took   time.Duration
	Err    error
}

// cycler carries out a Plan.
type cycler struct {
	plan   Plan
	job    *Job
	random *rand.Rand
	span   int // iterations between two events
	driver string
	auto   bool // the present life restarts by itself
	done   int
}

// Do carries out a plan in dir. Where the number of iterations is not given, and the job is over before all cycles, it is done again
// with more, twice: what a job prints may come late, natively too, when its threads take all processors.
func (r *References) Do(ctx context.Context, plan Plan, dir string) Report {
	begin := time.Now()
	report := Report{Plan: plan}
	tries := 1
	if plan.Iters == 0 {
		tries = 3
		about := time.Duration(plan.Cycles+1) * 500 * time.Millisecond
		plan.Iters, report.Err = r.Iterations(ctx, plan.Program, plan.Face, plan.Ranks, dir, about)
	}
	for try := 0; try < tries && report.Err == nil && report.Cycles < plan.Cycles; try++ {
		report = r.once(ctx, plan, filepath.Join(dir, fmt.Sprint("try", try)))
		plan.Iters *= 2
	}
	if tries > 1 && report.Err == nil && report.Cycles == 0 {
		report.Err = fmt.Errorf("harness: the job of %d iterations was over before the first of %d cycles", report.Plan.Iters, plan.Cycles)
	}
	report.Took = time.Since(begin)
	return report
}

// once carries out a plan in dir, which it makes.
func (r *References) once(ctx context.Context, plan Plan, dir string) Report {
	report := Report{Plan: plan}
	if report.Err = os.Mkdir(dir, 0o700); report.Err != nil {
		return report
	}
	args := append([]string{"--iters", fmt.Sprint(plan.Iters), "--seed", fmt.Sprint(plan.Seed)}, plan.Program.Args...)
	program := Program{Name: plan.Program.Name, Args: args}
	quick := Program{Name: program.Name, Args: append(slices.Clone(args), "--pace", "0")} // results do not depend on it
	want, err := r.Get(ctx, quick, plan.Face, plan.Ranks, dir)
	if err != nil {
		report.Err = err
		return report
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+time.Duration(plan.Cycles)*15*time.Second)
	defer cancel()
	c := &cycler{plan: plan, job: r.site.NewJob("matrix", dir), driver: plan.Driver}
	c.random = rand.New(rand.NewPCG(plan.Seed, uint64(plan.Ranks)))
	c.span = max(plan.Iters/(plan.Cycles+2), 2)
	report.Err = c.all(ctx, r.site.Command(program, plan.Face), want)
	report.Cycles = c.done
	if report.Err != nil {
		report.Err = fmt.Errorf("%w\n%s", report.Err, c.job.Story())
	}
	c.job.Close()
	return report
}

// all runs the job with its cycles to its end and compares the results.
func (c *cycler) all(ctx context.Context, argv []string, want Results) error {
	if err := c.job.Run(ctx, c.driver, c.plan.Ranks, c.flags(), argv...); err != nil {
		return err
	}
	for i := range c.plan.Cycles {
		err := c.cycle(ctx)
		if errors.Is(err, errOver) {
			break // the job was quicker than the plan
		}
		if err != nil {
			return fmt.Errorf("cycle %d: %w", i+1, err)
		}
		c.done++
	}
	found, err := c.job.Finish(ctx)
	if err != nil {
		return err
	}
	if fails := c.job.Failures(); len(fails) > 0 {
		return fmt.Errorf("harness: the program says: %s", fails[0])
	}
	if err := found.Compare(want); err != nil {
		return err
	}
	if left := c.job.Orphans(); len(left) > 0 {
		return fmt.Errorf("harness: %d processes left behind, the first has pid %d", len(left), left[0].Pid)
	}
	return nil
}

// errOver means that the job has come to its regular end.
var errOver = errors.New("the job has finished")

// flags chooses how the life that begins saves and restores, and whether it restarts by itself after a kill.
func (c *cycler) flags() []string {
	flags := []string{"--retries", "0"}
	c.auto = c.plan.Restart == c.plan.Driver && c.random.IntN(2) == 0
	if c.auto {
		flags[1] = "5"
	}
	if c.random.IntN(4) == 0 {
		flags = append(flags, "--lazy")
	}
	if c.random.IntN(4) == 0 {
		flags = append(flags, "--writers", "2")
	}
	return flags
}

// cycle lets the job work for a random while, takes a checkpoint, lets it work on, kills, and brings it back.
func (c *cycler) cycle(ctx context.Context) error {
	if err := c.work(ctx, c.span); err != nil {
		return err
	}
	if err := c.checkpoint(ctx); err != nil {
		if strings.Contains(err.Error(), "is ending") {
			select {
			case <-c.job.Proc().Done():
			case <-ctx.Done():
			}
		}
		if !c.job.Proc().Running() && c.job.Proc().ExitCode() == 0 {
			return errOver
		}
		return err
	}
	if c.random.IntN(3) == 0 {
		if err := c.job.Verify(ctx); err != nil {
			return err
		}
	}
	if err := c.work(ctx, max(c.span/2, 1)); err != nil {
		return err
	}
	return c.killAndRestart(ctx)
}

// checkpoint takes a checkpoint.
func (c *cycler) checkpoint(ctx context.Context) error {
	_, err := c.job.Checkpoint(ctx)
	return err
}

// work lets the job print up to n progress lines, and then go on for a random part of an iteration.
func (c *cycler) work(ctx context.Context, n int) error {
	p := c.job.Proc()
	goal := progress(p.Stdout.String()) + 1 + c.random.IntN(n)
	moment := time.Duration(c.random.IntN(30000)) * time.Microsecond
	err := p.Until(ctx, fmt.Sprintf("%d progress lines", goal), func(text string) bool { return progress(text) >= goal })
	if errors.Is(err, ErrEnded) && p.ExitCode() == 0 {
		return errOver
	}
	if err != nil {
		return err
	}
	select { // a random moment
	case <-time.After(moment):
	case <-ctx.Done():
	}
	return nil
}

// killAndRestart ends a random rank, or now and then all of them, and waits until the job makes progress again.
func (c *cycler) killAndRestart(ctx context.Context) error {
	p := c.job.Proc()
	ranks := Ranks(p.Pid())
	before := progress(p.Stdout.String())
	victims := ranks
	if len(ranks) == 0 {
		if !p.Running() && p.ExitCode() == 0 {
			return errOver
		}
		return fmt.Errorf("harness: no rank process below pid %d", p.Pid())
	}
	if c.random.IntN(4) != 0 {
		victims = ranks[c.random.IntN(len(ranks)):][:1]
	}
	for _, v := range victims {
		v.kill()
	}
	if c.auto {
		return c.goesOn(ctx, before)
	}
	return c.restart(ctx)
}

// goesOn waits until a job that restarts by itself makes progress.
func (c *cycler) goesOn(ctx context.Context, before int) error {
	return c.progresses(ctx, before, "progress after the job's own restart")
}

// restart waits for the end of the killed life and starts the next one under the other MPI of the plan.
func (c *cycler) restart(ctx context.Context) error {
	p := c.job.Proc()
	select {
	case <-p.Done():
	case <-ctx.Done():
		return fmt.Errorf("harness: waiting for byssus run to end after the kill: %w", ctx.Err())
	}
	if p.ExitCode() == 0 {
		return errOver // the kill came after the program's end
	}
	if left := c.job.Orphans(); len(left) > 0 {
		return fmt.Errorf("harness: %d processes left behind after the kill, the first has pid %d", len(left), left[0].Pid)
	}
	if c.driver == c.plan.Driver {
		c.driver = c.plan.Restart
	} else {
		c.driver = c.plan.Driver
	}
	if err := c.job.Restart(ctx, c.driver, c.flags()...); err != nil {
		return err
	}
	return c.progresses(ctx, 0, "progress after the restart under "+c.driver)
}

// progresses waits for a progress line beyond so many; a regular end is progress too.
func (c *cycler) progresses(ctx context.Context, before int, what string) error {
	p := c.job.Proc()
	err := p.Until(ctx, what, func(text string) bool { return progress(text) > before })
	if errors.Is(err, ErrEnded) && p.ExitCode() == 0 {
		return nil
	}
	return err
}
