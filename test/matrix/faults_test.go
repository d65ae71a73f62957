package matrix

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

// TestFaults lets a process crash at each named point: in the second checkpoint, or in the restart after a kill. The
// job must go on (by itself, or restarted when its byssus crashed), nothing committed may be lost, and the results must
// be those of the native run.
func TestFaults(t *testing.T) {
	site, refs := ready(t)
	for i, point := range faults.All {
		if slices.Contains([]string{faults.Memory, faults.Drain, faults.Outcome, faults.Arrived}, point.Name) || point.Side == faults.Agent {
			continue // nothing crashes: test/core, TestEarly, TestArrived; there are no caches: test/nodes
		}
		t.Run(point.Name, func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Light)
			f := &fault{point: point, mpi: harness.MPIs()[i%2], program: "stencil"}
			f.test(t, site, refs)
		})
	}
}

// TestSharedFaults lets a rank of a program whose ranks share memory crash where others wait for it.
func TestSharedFaults(t *testing.T) {
	site, refs := ready(t)
	for i, point := range faults.All {
		if !slices.Contains([]string{"rank-stopped", "rank-drained", "rank-image", "rank-mapped", "rank-rebuilt"}, point.Name) {
			continue
		}
		t.Run(point.Name, func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Light)
			f := &fault{point: point, mpi: harness.MPIs()[i%2], program: "shared_memory"}
			f.test(t, site, refs)
		})
	}
}

// fault is a job with one crash point armed.
type fault struct {
	point   faults.Point
	mpi     string
	program string
	job     *harness.Job
}

func (f *fault) test(t *testing.T, site harness.Site, refs *harness.References) {
	dir := scratch(t)
	f.job = site.NewJob("fault", dir, "BYSSUS_FAULT="+f.setting())
	defer f.job.Close()
	if err := f.run(t.Context(), site, refs, dir); err != nil {
		t.Errorf("BYSSUS_FAULT=%s: %v\n%s", f.setting(), err, f.job.Story())
	}
}

// setting arms the point so that the first checkpoint goes through.
func (f *fault) setting() string {
	switch {
	case f.point.Restart:
		return f.point.Name + "@1"
	case f.point.Name == "rank-chunk":
		return f.point.Name + ":50@1" // an image of the program has about 33 chunks
	case f.point.Side == faults.Rank:
		return f.point.Name + ":2@1"
	case f.point.Name == faults.RetentionDrop:
		return f.point.Name
	default:
		return f.point.Name + ":2"
	}
}

func (f *fault) run(ctx context.Context, site harness.Site, refs *harness.References, dir string) error {
	const ranks = 2
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	program := harness.Program{Name: f.program, Args: []string{"--iters", "120", "--pace", "20000", "--seed", fmt.Sprint(*seed)}}
	ref, err := refs.Get(ctx, program, f.mpi, ranks, dir)
	if err != nil {
		return err
	}
	if err := f.job.Run(ctx, f.mpi, ranks, []string{"--retries", "3"}, site.Command(program, f.mpi)...); err != nil {
		return err
	}
	if err := f.crash(ctx); err != nil {
		return err
	}
	found, err := f.job.Finish(ctx)
	if err != nil {
		return err
	}
	if fails := f.job.Failures(); len(fails) > 0 {
		return fmt.Errorf("the program says: %s", strings.Join(fails, "; "))
	}
	return found.Compare(ref)
}

// crash takes checkpoints until the point has been reached, and sees to it that the job lives again.
func (f *fault) crash(ctx context.Context) error {
	p := f.job.Proc()
	if err := f.iterate(ctx, p, 5); err != nil {
		return err
	}
	before := harness.Ranks(p.Pid())
	if _, err := f.job.Checkpoint(ctx); err != nil {
		return err
	}
	if f.point.Restart {
		if err := f.job.KillRank(0); err != nil {
			return err
		}
	}
	for range 3 {
		if f.reached(before) {
			break
		}
		if err := f.iterate(ctx, p, harness.LastIteration(p.Stdout.String())+2); err != nil {
			break // it has ended: reached tells
		}
		_, _ = f.job.Checkpoint(ctx) // fails where the crash is in it
	}
	if err := harness.Poll(ctx, "the crash", func() bool { return f.reached(before) }); err != nil {
		return err
	}
	if f.point.Side == faults.Coord {
		<-p.Done()
		if err := harness.Poll(ctx, "the end of the ranks", func() bool { return len(f.job.Orphans()) == 0 }); err != nil {
			return err
		}
		if err := f.job.Verify(ctx); err != nil {
			return err
		}
		return f.job.Restart(ctx, f.mpi, "--retries", "3")
	}
	return nil
}

// reached says whether no rank of the first start is left.
func (f *fault) reached(before []harness.Process) bool {
	if !f.job.Proc().Running() {
		return true
	}
	for _, now := range harness.Ranks(f.job.Proc().Pid()) {
		if slices.Contains(before, now) {
			return false
		}
	}
	return true
}

func (f *fault) iterate(ctx context.Context, p *harness.Proc, to int) error {
	return p.Until(ctx, fmt.Sprintf("iteration %d", to), func(s string) bool { return harness.LastIteration(s) >= to })
}
