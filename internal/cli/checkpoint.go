package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

func (e *env) checkpoint() *cobra.Command {
	var wait, stop bool
	cmd := &cobra.Command{
		Use:   "checkpoint [flags] JOB",
		Short: "Take a checkpoint of a running job",
		Long: withJSON(`Ask a running job for a checkpoint, wait until it is committed, and print its number, its size and how long the
application stood still.`, "an object", jsonResult),
		Example: `  byssus checkpoint melt
  byssus checkpoint melt --stop      # and leave
  byssus checkpoint melt --wait=false`,
		Args:              jobArg,
		ValidArgsFunction: e.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.takeCheckpoint(cmd.Context(), args[0], wait, stop)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until it is committed")
	cmd.Flags().BoolVar(&stop, "stop", false, "the job leaves after it (exit code 123)")
	e.addJSON(cmd)
	return cmd
}

func (e *env) takeCheckpoint(ctx context.Context, name string, wait, stop bool) error {
	job, err := e.job(name)
	if err != nil {
		return err
	}
	client := dial(job)
	progress := ui.Start(os.Stderr, func() string { return taking(client) })
	res, err := client.Checkpoint(ctx, coordsrv.CheckpointRequest{Stop: stop, NoWait: !wait})
	progress.Stop()
	if errors.Is(err, coordsrv.ErrNotRunning) {
		return fmt.Errorf("cli: checkpoint %s: %w", name, notRunning(job, err))
	}
	if err != nil {
		return err
	}
	res.Err = ui.Plain(res.Err)
	if e.json {
		if err := e.printJSON(res); err != nil {
			return err
		}
	}
	switch {
	case res.Err != "":
		return e.noCheckpoint(name, res)
	case !e.json && wait:
		fmt.Fprintln(e.out, took(res))
	}
	return nil
}

// noCheckpoint says why there is none.
func (e *env) noCheckpoint(name string, res coord.Result) error {
	for _, r := range res.Refusals {
		if r != res.Err {
			e.say(r)
		}
	}
	return exitError{ExitNot, fmt.Errorf("no checkpoint of %s: %s", name, res.Err)}
}

// notRunning tells in what state a job is that does not answer.
func notRunning(job *dataset.Job, err error) error {
	if job.Meta.State == dataset.StateRunning {
		if job.Locked() {
			return fmt.Errorf("%w yet, it is just being started, or it is ending", err)
		}
		return fmt.Errorf("%w: its byssus died", err)
	}
	return fmt.Errorf("%w: %s %s", err, job.Meta.State, ui.Ago(job.Meta.Ended, time.Now()))
}

// taking describes a checkpoint under way.
func taking(client *coordsrv.Client) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := client.Status(ctx)
	if err != nil || st.Stage == "" {
		return "waiting for the job"
	}
	text := stage(st)
	var done, total uint64
	for _, r := range st.PerRank {
		done, total = done+r.BytesDone, total+r.BytesTotal
	}
	if st.Stage == "writing" && total > 0 {
		text += fmt.Sprintf(", %d %% of %s", 100*done/total, ui.Bytes(int64(total)))
	}
	return text
}

// stage says how far the checkpoint under way is, or what it waits for and since when.
func stage(st coordsrv.Status) string {
	if st.Detail == "" {
		return fmt.Sprintf("checkpoint %d: %s", st.Number, st.Stage)
	}
	return fmt.Sprintf("checkpoint %d: %s (%d s)", st.Number, st.Detail, int((st.Running - st.StageSince).Seconds()))
}

func (e *env) stop() *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use:   "stop [flags] JOB",
		Short: "End a running job after a checkpoint",
		Long: withJSON(`Take a checkpoint and end the job; byssus restart goes on with it. With --now it ends at once, without a
checkpoint; those that are committed stay.`, "an object, without --now", jsonResult),
		Example:           "  byssus stop melt\n  byssus stop melt --now",
		Args:              jobArg,
		ValidArgsFunction: e.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !now {
				return e.takeCheckpoint(cmd.Context(), args[0], true, true)
			}
			job, err := e.job(args[0])
			if err != nil {
				return err
			}
			if err := dial(job).Kill(cmd.Context()); err != nil {
				return fmt.Errorf("cli: stop %s: %w", args[0], notRunning(job, err))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "at once, without a checkpoint")
	e.addJSON(cmd)
	return cmd
}
