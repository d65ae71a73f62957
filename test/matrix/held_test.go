package matrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestHeld takes a checkpoint that holds a rank in front of the completion of a collective, while the rank for which it waits
// needs the work of that rank's MPI.
func TestHeld(t *testing.T) {
	site, refs := ready(t)
	for i, how := range completions() {
		for k, mpi := range harness.MPIs() {
			if !long() && (i+k)%3 != 0 {
				continue
			}
			t.Run(how+"/"+mpi, func(t *testing.T) {
				t.Parallel()
				harness.Share(t, harness.Light)
				if err := held(t.Context(), site, refs, how, mpi, scratch(t)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func held(ctx context.Context, site harness.Site, refs *harness.References, how, mpi, dir string) error {
	program := harness.Program{Name: "held_progress", Args: []string{"--seed", fmt.Sprint(*seed), "--completion", how}}
	return twoLives(ctx, site, refs, program, mpi, dir, nil, heldCheckpoint)
}

// twoLives runs a program of two ranks up to its moment, has a checkpoint taken there, kills the job, and lets the other MPI bring it
// to its end, with the results of a native run.
func twoLives(ctx context.Context, site harness.Site, refs *harness.References, program harness.Program, mpi, dir string, env []string,
	take func(ctx context.Context, job *harness.Job, until string) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	ref, err := refs.Get(ctx, program, mpi, 2, dir)
	if err != nil {
		return err
	}
	until := filepath.Join(dir, "go")
	job := site.NewJob(program.Name, dir, env...)
	defer job.Close()
	program.Args = append(slices.Clone(program.Args), "--until", until)
	if err := job.Run(ctx, mpi, 2, []string{"--retries", "0"}, site.Command(program, mpi)...); err != nil {
		return err
	}
	if err = take(ctx, job, until); err == nil {
		err = nextLife(ctx, job, harness.Other(mpi))
	}
	if err == nil {
		err = os.WriteFile(until+".end", nil, 0o600)
	}
	if err == nil {
		var found harness.Results
		if found, err = job.Finish(ctx); err == nil {
			err = found.Compare(ref)
		}
	}
	if err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, strings.Join(job.Failures(), "\n"), job.Story())
	}
	return nil
}

// heldCheckpoint lets the ranks go on when the checkpoint waits for rank 1.
func heldCheckpoint(ctx context.Context, job *harness.Job, until string) error {
	if err := allReady(ctx, job.Proc(), until, 2); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := job.Checkpoint(ctx)
		done <- err
	}()
	err := harness.Poll(ctx, "the checkpoint to wait for rank 1", func() bool {
		ranks, _ := job.WaitsFor(ctx)
		return slices.Equal(ranks, []int{1})
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(until, nil, 0o600); err != nil {
		return err
	}
	return <-done
}
