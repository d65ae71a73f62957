package matrix

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

// TestEarly lets a rank stop where it learns that all have drained their messages, until another has written its image, has gone
// on, and has sent messages for receives that the first has posted. They are sent again in the next life, so no image may have them.
func TestEarly(t *testing.T) {
	site, refs := ready(t)
	for _, mpi := range harness.MPIs() {
		t.Run(mpi, func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Light)
			program := harness.Program{Name: "early", Args: []string{"--seed", fmt.Sprint(*seed)}}
			env := []string{"BYSSUS_FAULT=" + faults.Outcome + "@1"}
			if err := twoLives(t.Context(), site, refs, program, mpi, scratch(t), env, earlyCheckpoint); err != nil {
				t.Error(err)
			}
		})
	}
}

// earlyCheckpoint takes one in which rank 1 stops, and continues it when rank 0 has sent its messages.
func earlyCheckpoint(ctx context.Context, job *harness.Job, until string) error {
	if err := allReady(ctx, job.Proc(), until, 2); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := job.Checkpoint(ctx)
		done <- err
	}()
	stopped, err := stoppedRank(ctx, job)
	if err != nil {
		return err
	}
	if err := os.WriteFile(until, nil, 0o600); err != nil { // nobody sees it before going on after the image
		return err
	}
	err = harness.Poll(ctx, "rank 0 to send", func() bool {
		_, err := os.Stat(until + ".sent.0")
		return err == nil
	})
	if err == nil {
		err = syscall.Kill(stopped, syscall.SIGCONT)
	}
	if err != nil {
		return err
	}
	return <-done
}

// stoppedRank waits for the rank that its crash point stops, and returns its pid.
func stoppedRank(ctx context.Context, job *harness.Job) (pid int, err error) {
	err = harness.Poll(ctx, "a rank to stop", func() bool {
		ranks := harness.Ranks(job.Proc().Pid())
		i := slices.IndexFunc(ranks, func(p harness.Process) bool { return p.Stopped })
		if i >= 0 {
			pid = ranks[i].Pid
		}
		return i >= 0
	})
	return pid, err
}

// TestArrived takes a checkpoint between a collective and the wait in front of it: one rank knows that all have come, the other
// has not seen it yet, and learns it from what the checkpoint has completed.
func TestArrived(t *testing.T) {
	site, refs := ready(t)
	for _, mpi := range harness.MPIs() {
		t.Run(mpi, func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Light)
			program := harness.Program{Name: "arrived", Args: []string{"--seed", fmt.Sprint(*seed)}}
			env := []string{"BYSSUS_FAULT=" + faults.Arrived}
			if err := twoLives(t.Context(), site, refs, program, mpi, scratch(t), env, arrivedCheckpoint); err != nil {
				t.Error(err)
			}
		})
	}
}

// arrivedCheckpoint takes one when the rank that has come last is stopped, and lets it go on.
func arrivedCheckpoint(ctx context.Context, job *harness.Job, until string) error {
	err := allReady(ctx, job.Proc(), until, 2)
	if err == nil {
		err = os.WriteFile(until, nil, 0o600)
	}
	if err != nil {
		return err
	}
	stopped, err := stoppedRank(ctx, job)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := job.Checkpoint(ctx)
		done <- err
	}()
	if err := syscall.Kill(stopped, syscall.SIGCONT); err != nil {
		return err
	}
	return <-done
}
