package campaign

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// operation is something that happens to a running job.
type operation struct {
	name string
	do   func(c *campaign, ctx context.Context) error
}

var operations = []operation{
	{"checkpoint", (*campaign).checkpoint},
	{"checkpoint", (*campaign).checkpoint},
	{"SIGUSR1", func(c *campaign, _ context.Context) error { return c.job.Proc().Signal(syscall.SIGUSR1) }},
	{"commands at the same time", (*campaign).commands},
	{"stop", (*campaign).stop},
	{"stop --now", (*campaign).stopNow},
	{"SIGTERM", func(c *campaign, ctx context.Context) error { return c.terminate(ctx, c.byssus) }},
	{"SIGTERM to all processes", func(c *campaign, ctx context.Context) error { return c.terminate(ctx, c.everybody) }},
	{"SIGTERM during a checkpoint", (*campaign).terminateWhileTaking},
	{"SIGTERM twice", (*campaign).terminateTwice},
	{"SIGINT", (*campaign).interrupt},
	{"SIGKILL of a rank", func(c *campaign, ctx context.Context) error { return c.killOne(ctx, harness.Ranks(c.job.Proc().Pid())) }},
	{"SIGKILL of a rank while a checkpoint is taken", (*campaign).killWhileTaking},
	{"SIGKILL of any process", func(c *campaign, ctx context.Context) error {
		return c.killOne(ctx, harness.Descendants(c.job.Proc().Pid()))
	}},
	{"SIGKILL of byssus", (*campaign).killByssus},
	{"full store", (*campaign).fullStore},
	{"restart of a running job", (*campaign).restartRunning},
}

// smallDisk makes the store lie on a file system that can be filled.
func smallDisk(t *testing.T, dir string) error {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	if os.Getuid() != 0 {
		return nil // full stores are left out: room() and fullStore() say so
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=192m,mode=0700"); err != nil {
		return fmt.Errorf("campaign: mount a small file system on %s: %w", dir, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return nil
}

// checkpoint asks for one, which must be had.
func (c *campaign) checkpoint(ctx context.Context) error {
	if !c.job.Proc().Running() {
		return nil
	}
	_, err := c.job.Checkpoint(ctx)
	if err != nil && !c.job.Proc().Running() {
		return nil // a life that was ended at the same time
	}
	return err
}

// commands runs several at once; each answers with one of its documented codes.
func (c *campaign) commands(ctx context.Context) error {
	all := [][]string{{"checkpoint", "campaign"}, {"checkpoint", "campaign"}, {"ps"}, {"list"}, {"list", "campaign"}, {"show", "campaign"}, {"verify", "campaign"}}
	said := make([]string, len(all))
	var done sync.WaitGroup
	for i, args := range all {
		done.Go(func() {
			out, errs, code := c.job.Command(ctx, args...)
			if code != 0 && code != 122 {
				said[i] = fmt.Sprintf("%v: exit code %d: %s%s", args, code, errs, out)
			}
		})
	}
	done.Wait()
	said = slices.DeleteFunc(said, func(s string) bool { return s == "" })
	if len(said) > 0 {
		return fmt.Errorf("%s", strings.Join(said, "\n"))
	}
	return nil
}

// gone waits until the job has ended and nothing of it is left.
func (c *campaign) gone(ctx context.Context) error {
	select {
	case <-c.job.Proc().Done():
		return c.nothingLeft(ctx)
	case <-ctx.Done():
		return fmt.Errorf("the job has not ended: %w", ctx.Err())
	}
}

// left waits for the end of a job that was told to leave, which it does with one of these codes.
func (c *campaign) left(ctx context.Context, codes ...int) error {
	if err := c.gone(ctx); err != nil {
		return err
	}
	if code := c.job.Proc().ExitCode(); !slices.Contains(codes, code) {
		return fmt.Errorf("exit code %d, want one of %v", code, codes)
	}
	return nil
}

// nothingLeft waits until no process of a job that has ended is there.
func (c *campaign) nothingLeft(ctx context.Context) error {
	return harness.Poll(ctx, "all processes of the job to end", func() bool { return len(c.job.Orphans()) == 0 })
}

func (c *campaign) stop(ctx context.Context) error {
	if _, errs, code := c.job.Command(ctx, "stop", "campaign"); code != 0 {
		return fmt.Errorf("stop: exit code %d: %s", code, errs)
	}
	return c.left(ctx, 123)
}

func (c *campaign) stopNow(ctx context.Context) error {
	if _, errs, code := c.job.Command(ctx, "stop", "campaign", "--now"); code != 0 {
		return fmt.Errorf("stop --now: exit code %d: %s", code, errs)
	}
	return c.left(ctx, 130)
}

// byssus is the command alone.
func (c *campaign) byssus() []int { return []int{c.job.Proc().Pid()} }

// everybody is the command and all that descends from it, as a batch system signals.
func (c *campaign) everybody() []int {
	pids := c.byssus()
	for _, p := range harness.Descendants(c.job.Proc().Pid()) {
		pids = append(pids, p.Pid)
	}
	return pids
}

func (c *campaign) terminate(ctx context.Context, whom func() []int) error {
	for _, pid := range whom() {
		_ = syscall.Kill(pid, syscall.SIGTERM) // one may have ended by the signal to another
	}
	return c.left(ctx, 123, 143)
}

func (c *campaign) terminateWhileTaking(ctx context.Context) error {
	taken := make(chan error, 1)
	go func() { taken <- c.checkpoint(ctx) }()
	c.moment()
	err := c.terminate(ctx, c.byssus)
	<-taken // it may have been refused, since the job is leaving
	return err
}

func (c *campaign) terminateTwice(ctx context.Context) error {
	if err := c.job.Proc().Signal(syscall.SIGTERM); err != nil {
		return err
	}
	c.moment()
	return c.terminate(ctx, c.everybody)
}

func (c *campaign) interrupt(ctx context.Context) error {
	if err := c.job.Proc().Signal(syscall.SIGINT); err != nil {
		return err
	}
	return c.left(ctx, 130)
}

// killOne ends one process by SIGKILL. The job goes on from its newest checkpoint, or ends.
func (c *campaign) killOne(ctx context.Context, of []harness.Process) error {
	if len(of) == 0 {
		return nil
	}
	p := c.job.Proc()
	before := strings.Count(p.Stdout.String(), "iter ")
	killed := of[c.random.IntN(len(of))]
	_ = syscall.Kill(killed.Pid, syscall.SIGKILL) // it may have ended by itself: a child of a launcher
	err := p.Until(ctx, "progress or the end", func(out string) bool { return strings.Count(out, "iter ") > before+2 })
	if err != nil && p.Running() {
		return err
	}
	// Lines may have been on their way when it was killed.
	noticed := func() bool { return !p.Running() || c.job.WorksWithout(ctx, killed) }
	if err := harness.Poll(ctx, fmt.Sprintf("the loss of process %d", killed.Pid), noticed); err != nil {
		return err
	}
	if !p.Running() {
		return c.gone(ctx)
	}
	return nil
}

func (c *campaign) killWhileTaking(ctx context.Context) error {
	taken := make(chan error, 1)
	go func() { taken <- c.checkpoint(ctx) }()
	c.moment()
	err := c.killOne(ctx, harness.Ranks(c.job.Proc().Pid()))
	<-taken // it may have failed
	return err
}

func (c *campaign) killByssus(ctx context.Context) error {
	if err := c.job.Proc().Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return c.gone(ctx)
}

// moment lets a random short time pass.
func (c *campaign) moment() {
	time.Sleep(time.Duration(c.random.IntN(200)) * time.Millisecond) // which moment it is, is what is random
}

// fullStore takes the store's room: the checkpoint fails with a reason, and the job goes on.
func (c *campaign) fullStore(ctx context.Context) error {
	if os.Getuid() != 0 {
		c.t.Logf("no full store: it needs root")
		return nil
	}
	c.full = filepath.Join(c.job.Dir, "full")
	f, err := os.Create(c.full)
	if err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(block)
	}
	before := strings.Count(c.job.Proc().Stdout.String(), "iter ")
	_, errs, code := c.job.Command(ctx, "checkpoint", "campaign")
	if c.job.Proc().Running() && (code == 0 || !strings.Contains(strings.ToLower(errs), "no space left")) {
		return fmt.Errorf("checkpoint into a full store: exit code %d: %s", code, errs)
	}
	if !c.job.Proc().Running() {
		return nil // a life that another event has ended
	}
	return c.works(ctx, before, 0)
}

// room gives the store its room back.
func (c *campaign) room() error {
	if c.full == "" {
		return nil
	}
	err := os.Remove(c.full)
	c.full = ""
	return err
}

// restartRunning asks for a second life beside the first.
func (c *campaign) restartRunning(ctx context.Context) error {
	_, errs, code := c.job.Command(ctx, "restart", "campaign")
	if code != 122 {
		return fmt.Errorf("restart of a running job: exit code %d: %s", code, errs)
	}
	return nil
}
