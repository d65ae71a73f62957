package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/haltrule"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// haltFlags are the options of halt, as scr_halt has them.
type haltFlags struct {
	checkpoints, seconds int
	before, after        string
	unset                haltrule.Unset
	remove, list, now    bool
}

func (f *haltFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVarP(&f.checkpoints, "checkpoints", "c", 0, "end after so many more checkpoints that succeed")
	fl.StringVarP(&f.before, "before", "b", "", "end early enough to be over at this time: --seconds before")
	fl.StringVarP(&f.after, "after", "a", "", "end at the first checkpoint after this time")
	fl.IntVarP(&f.seconds, "seconds", "s", 0, "how long before the end of the allocation, or before --before, to end")
	fl.BoolVarP(&f.now, "immediate", "i", false, "end now, without a checkpoint")
	fl.BoolVarP(&f.list, "list", "l", false, "show the conditions")
	fl.BoolVar(&f.unset.Checkpoints, "unset-checkpoints", false, "take --checkpoints back")
	fl.BoolVar(&f.unset.Before, "unset-before", false, "take --before back")
	fl.BoolVar(&f.unset.After, "unset-after", false, "take --after back")
	fl.BoolVar(&f.unset.Seconds, "unset-seconds", false, "take --seconds back")
	fl.BoolVar(&f.unset.Reason, "unset-reason", false, "take back that it ends at its next checkpoint")
	fl.BoolVarP(&f.remove, "remove", "r", false, "take all conditions back")
}

// change is what the options say; without any that change something, the job ends at its next checkpoint.
func (f *haltFlags) change(cmd *cobra.Command) (haltrule.Change, error) {
	ch := haltrule.Change{Unset: f.unset, Remove: f.remove}
	if cmd.Flags().Changed("checkpoints") {
		ch.Set.Checkpoints = &f.checkpoints
	}
	ch.Set.Seconds = f.seconds
	var err error
	for text, to := range map[*string]*time.Time{&f.before: &ch.Set.Before, &f.after: &ch.Set.After} {
		if *text != "" {
			var perr error
			*to, perr = haltrule.ParseTime(*text, time.Local)
			err = errors.Join(err, perr)
		}
	}
	if err == nil {
		err = ch.Check()
	}
	if cmd.Flags().Changed("seconds") && f.seconds == 0 {
		ch.Unset.Seconds = true
	}
	if f.now || ch.Nothing() && !f.list {
		ch.Set.Reason = haltrule.OnRequest
	}
	if err == nil && f.list && !ch.Nothing() {
		err = errors.New("halt: --list changes nothing, and goes with no other option")
	}
	if err != nil {
		return ch, usage(err)
	}
	return ch, nil
}

func haltVerb(e *env) *cobra.Command {
	var f haltFlags
	cmd := &cobra.Command{
		Use:   "halt [flags] [JOB]",
		Short: "Say when a job is to end early",
		Long: withJSON(`Say under which conditions a job ends early, after a checkpoint; without any option, after the next. The job, by default
scr, that of byssus run --plain, need not run: conditions are kept in its directory until they are taken back, a job that is
run under one that holds ends at its next checkpoint, and one that runs on another machine reads them there within a second or
two.

TIME is YYYY-MM-DDTHH:MM:SS, here, or with a zone: 2026-11-28T21:00:00Z. A program that writes its checkpoints itself is told
when it asks (SCR_Should_exit), others leave after a checkpoint that is taken then, with exit code 123. --immediate ends a job
that runs here at once, as byssus stop --now does, and keeps it from being started again.

The conditions are printed as they are then.`, "an object", jsonHalt),
		Example: `  byssus halt
  byssus halt melt --checkpoints 10
  byssus halt --before 2026-11-28T21:00:00 --seconds 600
  byssus halt melt --list
  byssus halt melt --remove`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("halt: %d arguments, wanted the name of a job or none", len(args)))
			}
			return nil
		},
		ValidArgsFunction: e.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := plainJob
			if len(args) > 0 {
				name = args[0]
			}
			ch, err := f.change(cmd)
			if err != nil {
				return err
			}
			job, err := e.job(name)
			if err != nil {
				return err
			}
			c, err := setHalt(cmd, job, ch, f.now)
			if err != nil {
				return err
			}
			return printHalt(e, c)
		},
	}
	f.add(cmd)
	e.addJSON(cmd)
	return cmd
}

// setHalt changes the conditions of a job, and ends it if that is wanted now.
func setHalt(cmd *cobra.Command, job *dataset.Job, ch haltrule.Change, now bool) (haltrule.Conditions, error) {
	if ch.Nothing() {
		return job.Halt()
	}
	if ch.Remove { // also what cannot be read
		return haltrule.Conditions{}, job.SetHalt(haltrule.Conditions{})
	}
	c, err := dataset.EditHalt(job, ch.Apply)
	if err != nil || !now {
		return c, err
	}
	err = dial(job).Kill(cmd.Context())
	switch {
	case errors.Is(err, coordsrv.ErrNotRunning) && job.Locked():
		err = exitError{ExitNot, fmt.Errorf("cli: halt %s: it cannot be reached from this machine, and ends at its next checkpoint: %w", job.Meta.Name, err)}
	case errors.Is(err, coordsrv.ErrNotRunning): // then it has ended
		err = nil
	}
	return c, err
}

func printHalt(e *env, c haltrule.Conditions) error {
	if e.json {
		return e.printJSON(c)
	}
	lines := haltLines(c)
	if len(lines) == 0 {
		lines = []string{"no conditions"}
	}
	for _, l := range lines {
		fmt.Fprintln(e.out, l)
	}
	return nil
}

// haltLines are conditions in words.
func haltLines(c haltrule.Conditions) []string {
	var lines []string
	add := func(is bool, format string, args ...any) {
		if is {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	add(c.Reason != "", "at its next checkpoint: %s", c.Reason)
	if c.Checkpoints != nil {
		add(true, "after %d more checkpoints", *c.Checkpoints)
	}
	at := func(t time.Time) string { return t.Local().Format(time.DateTime) }
	add(!c.Before.IsZero(), "before %s", at(c.Before))
	add(!c.After.IsZero(), "after %s", at(c.After))
	add(c.Seconds > 0, "%d s before the end of its allocation, or before that time", c.Seconds)
	return lines
}
