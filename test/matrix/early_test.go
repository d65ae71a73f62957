package matrix

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/byssus-hpc/byssus/internal/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

// TestEarly lets a rank stop where it learns that all have drained their messages, until another has written its image, has gone
// on, and has sent messages for receives that the first has posted. They are sent again in the next life, so no image may have them.
func TestEarly(t *testing.T) {
	site, refs := ready(t)
	for _, mpi := range harness.MPIs() {
		t.Run(mpi, func(t *testing.T) {
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
	var stopped harness.Process
	err := harness.Poll(ctx, "rank 1 to stop", func() bool {
		ranks := harness.Ranks(job.Proc().Pid())
		i := slices.IndexFunc(ranks, func(p harness.Process) bool { return p.Stopped })
		if i >= 0 {
			stopped = ranks[i]
		}
		return i >= 0
	})
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
		err = syscall.Kill(stopped.Pid, syscall.SIGCONT)
	}
	if err != nil {
		return err
	}
	return <-done
}
