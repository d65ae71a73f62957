package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/haltrule"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// Scripts that were written for SCR call its commands. The same executable is started by their names: options, output and exit codes are
// SCR's where that makes sense; what cannot be as it was is refused with a sentence that names what there is instead.

// scr are SCR's commands; they work on the plain job of a prefix directory.
type scr struct {
	*env
	verbose bool
}

// scrCommands are the commands by name.
func scrCommands(e *env) map[string]*cobra.Command {
	s := &scr{env: e}
	all := map[string]*cobra.Command{}
	for _, c := range []*cobra.Command{s.index(), s.halt(), s.print(), s.downNodes(), s.shouldExit(), s.prerun(), s.postrun(), s.run()} {
		name, _, _ := strings.Cut(c.Use, " ")
		c.SilenceErrors, c.SilenceUsage = true, true
		all[name] = c
	}
	return all
}

// Codes of SCR's commands.
const (
	scrFailed = 1
	scrUsage  = 2 // as scr_should_exit has, whose 1 means something else
)

// Called runs the command line of a process that was started by some name: one of SCR's commands, or byssus.
func Called(args []string, out, errw io.Writer) int {
	e := &env{out: ui.NewOutput(out), err: ui.NewOutput(errw)}
	cmd := scrCommands(e)[filepath.Base(args[0])]
	if cmd == nil {
		return Main(args[1:], out, errw)
	}
	cmd.SetArgs(args[1:])
	cmd.SetOut(e.out)
	cmd.SetErr(e.err)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitError{scrUsage, err} })
	err := cmd.Execute()
	var ee exitError
	switch {
	case err == nil:
		return 0
	case cmd.Name() == "scr_run": // the program's own, or byssus's
		return e.exitCode(err)
	case errors.As(err, &ee) && ee.err == nil:
		return ee.code
	}
	fmt.Fprintf(e.err, "%s: %s\n", cmd.Name(), ui.Line(words(err)))
	if errors.As(err, &ee) && (ee.code == scrUsage || ee.code == ExitUsage) {
		return scrUsage
	}
	return scrFailed
}

// scrJob is the job of a prefix, empty: that of the environment, or the working directory. With make it is made, if it is not there.
func (s *scr) scrJob(dir string, create bool) (*dataset.Job, error) {
	if dir != "" {
		top, err := filepath.Abs(dir)
		if err == nil {
			err = os.Setenv("SCR_PREFIX", top)
		}
		if err != nil {
			return nil, err
		}
		s.storeDir = filepath.Join(top, ".scr")
	}
	store, err := plainStore(s.env)
	if err != nil {
		return nil, err
	}
	s.storeDir = store.Dir // where all that follows looks
	job, err := store.Open(plainJob)
	if errors.Is(err, dataset.ErrNoJob) && create {
		return newPlain(s.env, plainJob)
	}
	return job, err
}

func (s *scr) index() *cobra.Command {
	var list bool
	var build, add, drop, dropAfter, current, dir string
	cmd := &cobra.Command{
		Use:   "scr_index [flags]",
		Short: "As SCR's: the datasets of a prefix directory (byssus index does more)",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, err := s.scrJob(dir, add != "")
			if err != nil {
				return err
			}
			edit := func(verb, name string) error {
				_, err := changeOutputs(cmd.Context(), s.env, job, coordsrv.OutputsRequest{Edit: outputs.Edit{Verb: verb, Name: name}})
				return err
			}
			switch {
			case build != "":
				return s.whole(job, build)
			case add != "":
				return s.addNamed(cmd, job, add)
			case drop != "":
				return edit(outputs.EditDrop, drop)
			case dropAfter != "":
				return edit(outputs.EditDropAfter, dropAfter)
			case current != "":
				return edit(outputs.EditCurrent, current)
			}
			return s.listIndex(job)
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&list, "list", "l", false, "list the checkpoints (the default)")
	fl.StringVarP(&build, "build", "b", "", "look whether the dataset of this number is whole")
	fl.StringVarP(&add, "add", "a", "", "adopt the directory of this name in the prefix")
	fl.StringVarP(&drop, "drop", "d", "", "forget the dataset of this name; its files stay")
	fl.StringVar(&dropAfter, "drop-after", "", "forget all datasets that are newer than the one of this name")
	fl.StringVarP(&current, "current", "c", "", "restart from the dataset of this name")
	fl.StringVarP(&dir, "prefix", "p", "", "prefix directory (default $SCR_PREFIX, or here)")
	return cmd
}

// listIndex prints the checkpoints as SCR does, the newest first.
func (s *scr) listIndex(job *dataset.Job) error {
	list, err := listFiles(job, nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, "DSET VALID FLUSHED             CUR NAME")
	for _, l := range slices.Backward(list) {
		d := l.Dataset
		if d == nil || !d.Checkpoint || d.State != outputs.Counts {
			continue
		}
		valid, flushed, star := "YES", "", ""
		if d.Bad || l.Err != "" {
			valid = "NO"
		}
		if d.Stored && l.Manifest != nil {
			flushed = l.Manifest.Time.Local().Format("2006-01-02T15:04:05")
		}
		if d.Current {
			star = "*"
		}
		fmt.Fprintf(s.out, "%4d %-5s %-19s %3s %s\n", d.Dataset, valid, flushed, star, d.Name)
	}
	return nil
}

// whole says whether the dataset of a number is.
func (s *scr) whole(job *dataset.Job, number string) error {
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n == 0 {
		return exitError{scrUsage, fmt.Errorf("--build %q, wanted the number of a dataset", number)}
	}
	list, err := datasetsOf(job)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(d outputs.Entry) bool { return d.Dataset == n }) {
		return fmt.Errorf("there is no dataset %d: what the caches of nodes have of one is put together by the next run, and byssus index add DIR adopts a directory", n)
	}
	return s.verifyJob(plainJob, chosen{number, n})
}

// addNamed adopts the directory of a name in the prefix, unless there is such a dataset.
func (s *scr) addNamed(cmd *cobra.Command, job *dataset.Job, name string) error {
	list, err := datasetsOf(job)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(d outputs.Entry) bool { return d.Name == name }) {
		return nil
	}
	top, err := prefix()
	if err != nil {
		return err
	}
	x := &index{env: s.env, job: plainJob, name: name}
	return x.adopt(cmd.Context(), filepath.Join(top, name))
}

func (s *scr) halt() *cobra.Command {
	var f haltFlags
	cmd := &cobra.Command{
		Use:   "scr_halt [flags] [DIR...]",
		Short: "As SCR's: when the jobs of prefix directories are to end early (byssus halt does more)",
		RunE: func(cmd *cobra.Command, dirs []string) error {
			var ch haltrule.Change
			if !f.list { // which goes before all else, as SCR has it
				var err error
				if ch, err = f.change(cmd); err != nil {
					return exitError{scrUsage, err}
				}
			}
			if len(dirs) == 0 {
				dirs = []string{""}
			}
			for _, dir := range dirs {
				if err := s.haltIn(cmd, dir, ch, f.now); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&s.verbose, "verbose", "v", false, "say more")
	return cmd
}

func (s *scr) haltIn(cmd *cobra.Command, dir string, ch haltrule.Change, now bool) error {
	job, err := s.scrJob(dir, !ch.Nothing() && !ch.Remove)
	if errors.Is(err, dataset.ErrNoJob) && (ch.Remove || ch.Nothing()) {
		fmt.Fprintf(s.out, "Halt file settings for %s:\n  None\n", dir)
		return nil
	}
	if err != nil {
		return err
	}
	c, err := setHalt(cmd, job, ch, now)
	if err != nil || ch.Remove {
		return err
	}
	at := func(t time.Time) string { return t.Local().Format("Mon Jan _2 15:04:05 2006") }
	lines := []string{}
	if c.Reason != "" {
		lines = append(lines, "ExitReason:      "+c.Reason)
	}
	if c.Checkpoints != nil {
		lines = append(lines, fmt.Sprintf("CheckpointsLeft: %d", *c.Checkpoints))
	}
	if !c.After.IsZero() {
		lines = append(lines, "ExitAfter:       "+at(c.After))
	}
	if !c.Before.IsZero() {
		lines = append(lines, "ExitBefore:      "+at(c.Before))
	}
	if c.Seconds > 0 {
		lines = append(lines, fmt.Sprintf("HaltSeconds:     %d", c.Seconds))
	}
	if c.Seconds > 0 && !c.Before.IsZero() {
		lines = append(lines, "ExitBefore - HaltSeconds: "+at(c.Before.Add(-time.Duration(c.Seconds)*time.Second)))
	}
	if len(lines) == 0 {
		lines = []string{"None"}
	}
	fmt.Fprintf(s.out, "Halt file settings for %s:\n", filepath.Join(job.Dir, "halt.json"))
	for _, l := range lines {
		fmt.Fprintln(s.out, "  "+l)
	}
	return nil
}

func (s *scr) print() *cobra.Command {
	cmd := &cobra.Command{Use: "scr_print [flags] FILE", Short: "Refused: Byssus has no files of SCR's kind",
		RunE: func(*cobra.Command, []string) error {
			return errors.New("no file here is in SCR's format: byssus show and byssus index tell, with --json, what is known of a job and its datasets")
		}}
	cmd.Flags().StringP("mode", "m", "", "ignored")
	return cmd
}

func (s *scr) prerun() *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "scr_prerun [flags]", Short: "As SCR's: makes ready a prefix directory", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if os.Getenv("SCR_ENABLE") == "0" {
				return nil
			}
			job, err := s.scrJob(dir, true)
			if err == nil && s.verbose {
				s.say(fmt.Sprintf("scr_prerun: job %s in %s", job.Meta.Name, job.Dir))
			}
			return err
		}}
	cmd.Flags().StringVarP(&dir, "prefix", "p", "", "prefix directory (default $SCR_PREFIX, or here)")
	cmd.Flags().BoolVarP(&s.verbose, "verbose", "v", false, "say more")
	return cmd
}

func (s *scr) postrun() *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "scr_postrun [flags]", Short: "As SCR's: puts together what the caches of nodes have copied when a run was over", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if os.Getenv("SCR_ENABLE") == "0" {
				return nil
			}
			job, err := s.scrJob(dir, false)
			if errors.Is(err, dataset.ErrNoJob) {
				return nil // nothing has run
			}
			if err == nil && job.Locked() {
				err = errors.New("the job runs: byssus copies what its caches have by itself when it ends")
			}
			if err != nil {
				return err
			}
			if job, err = takePlain(s.env, dataset.Store{Dir: filepath.Dir(job.Dir)}, plainJob); err != nil {
				return err
			}
			defer job.Unlock()
			list, err := datasetsOf(job)
			for _, d := range list {
				if d.Current && s.verbose {
					s.say(fmt.Sprintf("scr_postrun: the newest checkpoint in the prefix is dataset %d, %s", d.Dataset, d.Name))
				}
			}
			return err
		}}
	cmd.Flags().StringP("joblauncher", "j", "", "ignored: byssus starts the ranks itself")
	cmd.Flags().StringVarP(&dir, "prefix", "p", "", "prefix directory (default $SCR_PREFIX, or here)")
	cmd.Flags().BoolVarP(&s.verbose, "verbose", "v", false, "say more")
	return cmd
}
