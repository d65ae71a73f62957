package matrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// moments are programs that wait, by computing, at the very place where other checkpointers fail. In some of them one rank
// alone computes, and others are in a collective or have posted it.
func moments() []string {
	return []string{
		"proc_null", "inflight_status_ignore", "inflight_strided", "waiting_irecv_status", "iprobe_after_drain", "pending_ibarrier",
		"pending_ibcast", "send_4mib_inflight", "cart_topology", "errors_return", "pending_ibarrier_late", "pending_ibcast_late",
		"pending_ineighbor_late", "sendrecv_truncated", "straggler25", "answers",
	}
}

// TestPending takes checkpoints of the tables of pending operations, of which one goes on in the same process, the others
// through one restart and through three: what is pending must be so for any number of generations. A sample has all pairs of program,
// MPI and lives.
func TestPending(t *testing.T) {
	site, refs := ready(t)
	for i, name := range []string{"pending_ops", "pending_lanes", "pending_receives", "pending_threads"} {
		for k, mpi := range harness.MPIs() {
			other := harness.Other(mpi)
			for m, lives := range [][]string{{}, {mpi}, {other}, {other, mpi, other}} {
				if !sampled(i + k + m) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/restarts=%s", name, mpi, strings.Join(lives, ",")), func(t *testing.T) {
					t.Parallel()
					harness.Share(t, harness.Light)
					if err := moment(t.Context(), site, refs, name, mpi, lives, scratch(t)); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// TestMoments takes a checkpoint of each program exactly at its moment, kills it, and restarts it under the same and
// under the other MPI. A sample has all pairs of program and MPI, before and after.
func TestMoments(t *testing.T) {
	site, refs := ready(t)
	for i, name := range moments() {
		for k, mpi := range harness.MPIs() {
			for m, restart := range harness.MPIs() {
				if !sampled(i + k + m) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/restart=%s", name, mpi, restart), func(t *testing.T) {
					t.Parallel()
					harness.Share(t, harness.Light)
					dir := scratch(t)
					if err := moment(t.Context(), site, refs, name, mpi, []string{restart}, dir); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

const ranks = 2

// moment takes a program to its moment and there through a life after the other, each under the MPI that is named.
func moment(ctx context.Context, site harness.Site, refs *harness.References, name, mpi string, lives []string, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	args := []string{"--seed", fmt.Sprint(*seed), "--seconds", "1"}
	ref, err := refs.Get(ctx, harness.Program{Name: name, Args: args}, mpi, ranks, dir)
	if err != nil {
		return err
	}
	until := filepath.Join(dir, "go")
	job := site.NewJob("moment", dir)
	defer job.Close()
	argv := site.Command(harness.Program{Name: name, Args: append(args, "--until", until)}, mpi)
	if err := job.Run(ctx, mpi, ranks, []string{"--retries", "0"}, argv...); err != nil {
		return err
	}
	err = throughMoment(ctx, job, lives, until)
	if err == nil {
		var found harness.Results
		if found, err = job.Finish(ctx); err == nil {
			err = found.Compare(ref)
		}
	}
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, strings.Join(job.Failures(), "\n"), job.Story())
	}
	return nil
}

// throughMoment waits for the moment, and then takes a checkpoint, kills the job in it and restarts it, for each life; a last
// checkpoint is followed by no death where there was none before. The moment ends only in the last life.
func throughMoment(ctx context.Context, job *harness.Job, lives []string, until string) error {
	if err := allReady(ctx, job.Proc(), until, ranks); err != nil {
		return err
	}
	for _, mpi := range lives {
		if err := momentCheckpoint(ctx, job); err != nil {
			return err
		}
		if err := nextLife(ctx, job, mpi); err != nil {
			return err
		}
	}
	if len(lives) != 1 {
		if err := momentCheckpoint(ctx, job); err != nil {
			return err
		}
	}
	return os.WriteFile(until, nil, 0o600)
}

// momentCheckpoint takes a checkpoint; a job that has just come to life may have to be asked again.
func momentCheckpoint(ctx context.Context, job *harness.Job) error {
	err := harness.Poll(ctx, "the job to take a checkpoint", func() bool {
		_, err := job.Checkpoint(ctx)
		return err == nil
	})
	if err != nil {
		return err
	}
	return job.Verify(ctx)
}

// nextLife kills a rank, waits for the end of the job, and restarts it.
func nextLife(ctx context.Context, job *harness.Job, mpi string) error {
	proc := job.Proc()
	if err := job.KillRank(0); err != nil {
		return err
	}
	select {
	case <-proc.Done():
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of the killed job: %w", ctx.Err())
	}
	if proc.ExitCode() == 0 {
		return fmt.Errorf("byssus run of a killed job ended with code 0")
	}
	return job.Restart(ctx, mpi, "--retries", "0")
}

// allReady waits until every rank has come to the moment.
func allReady(ctx context.Context, p *harness.Proc, until string, ranks int) error {
	ready, ended := false, false
	err := harness.Poll(ctx, "all ranks to be at the moment", func() bool {
		select {
		case <-p.Done():
			ended = true
		default:
		}
		files, _ := filepath.Glob(until + ".ready.*") // the pattern is right
		ready = len(files) == ranks
		return ready || ended
	})
	if err == nil && !ready {
		err = fmt.Errorf("waiting for all ranks to be at the moment: the program ended with code %d", p.ExitCode())
	}
	return err
}
