package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/adopt"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// index are the verbs that look at the datasets of files of a job, and change what becomes of them.
type index struct {
	*env
	job    string
	prefix string // of what is adopted; empty: the default
	name   string // that it gets; empty: that of its directory
	ranks  int
	output bool
	only   bool // it is no checkpoint
}

func indexVerb(e *env) *cobra.Command {
	x := &index{env: e}
	cmd := &cobra.Command{
		Use:   "index [flags]",
		Short: "Look at and change the datasets that a program has written itself",
		Long: withJSON(`List the datasets of files of a job, by default scr, that of byssus run --plain, and change what becomes of them. Of a job that
runs here its byssus is asked; of one that does not run what its store has is changed.

A dataset is called by the name that its program has given it.`, "a list of objects", jsonEntry),
		Example: `  byssus index
  byssus index current timestep.400
  byssus index drop-after timestep.400
  byssus index add old/timestep.100`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return x.list() },
	}
	cmd.PersistentFlags().StringVar(&x.job, "job", plainJob, "name of the job")
	e.addJSON(cmd)
	list := &cobra.Command{Use: "list [flags]", Short: "List the datasets", Long: withJSON("List the datasets of files of a job, the oldest first.", "a list of objects", jsonEntry),
		Example: "  byssus index list --json", Args: noArgs, RunE: func(*cobra.Command, []string) error { return x.list() }}
	e.addJSON(list)
	cmd.AddCommand(list,
		x.edit(outputs.EditCurrent, "Make a dataset the one to restart from", `Make a dataset the one from which the program restarts next, although there are newer ones; until a new one counts. One that
the program could not read before is offered to it again.`),
		x.edit(outputs.EditDrop, "Forget a dataset", "Forget a dataset. Its files in the prefix stay as they are."),
		x.edit(outputs.EditDropAfter, "Forget all datasets that are newer than one", "Forget all datasets that are newer than one. Their files in the prefix stay as they are."),
		x.edit(outputs.EditDelete, "Remove a dataset with its files", "Remove a dataset with its files in the prefix, and the directories that are empty then."),
		x.add())
	return cmd
}

// edit is a verb that does something with a dataset.
func (x *index) edit(verb, short, long string) *cobra.Command {
	return &cobra.Command{Use: verb + " [flags] NAME", Short: short, Long: long, Example: "  byssus index " + verb + " timestep.400", Args: func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage(fmt.Errorf("index %s: %d arguments, wanted the name of a dataset", verb, len(args)))
		}
		return nil
	}, ValidArgsFunction: x.complete, RunE: func(cmd *cobra.Command, args []string) error {
		job, err := x.env.job(x.job)
		if err == nil {
			_, err = changeOutputs(cmd.Context(), x.env, job, coordsrv.OutputsRequest{Edit: outputs.Edit{Verb: verb, Name: args[0]}})
		}
		return err
	}}
}

// complete offers the names of datasets to the shell.
func (x *index) complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	job, err := x.env.job(x.job)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := datasetsOf(job) // none, if they cannot be listed
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (x *index) list() error {
	job, err := x.env.job(x.job)
	if err != nil {
		return err
	}
	list, err := listFiles(job, nil)
	if err != nil {
		return err
	}
	if x.json {
		entries := []outputs.Entry{}
		for _, l := range list {
			if l.Dataset != nil {
				entries = append(entries, *l.Dataset)
			}
		}
		return x.printJSON(entries)
	}
	return x.printList(list)
}

// changeOutputs changes datasets of a job: through its byssus, if it runs here, else in its store.
func changeOutputs(ctx context.Context, e *env, job *dataset.Job, req coordsrv.OutputsRequest) (coordsrv.OutputsAnswer, error) {
	a, err := dial(job).Outputs(ctx, req)
	if errors.Is(err, coordsrv.ErrNotRunning) {
		if err := job.Lock(); err != nil {
			return a, err
		}
		defer job.Unlock()
		a, err = coordsrv.EditOutputs(job, req, e.say)
	} else if err == nil && a.Err != "" {
		err = errors.New(a.Err)
	}
	if err != nil {
		return a, exitError{ExitNot, fmt.Errorf("cli: index: job %s: %w", job.Meta.Name, err)}
	}
	return a, nil
}

func (x *index) add() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "add [flags] DIR",
		Aliases: []string{"build"},
		Short:   "Adopt a checkpoint that was written without Byssus",
		Long: withJSON(`Adopt the files in a directory below the prefix as a dataset of the job, as if its program had written them under Byssus: from
then on they have checksums, and it counts, as the newest. The files stay where they are. A job that there is not yet is made.

Which rank has written which file is told by the numbers in their paths: of files that are called alike but for numbers, the
number that takes all values from 0, or from 1, without gaps. With --ranks a number counts only if it takes so many values. What
has no such number is of rank 0.

The prefix is $SCR_PREFIX, or the working directory.`, "an object", jsonAdopted),
		Example: `  byssus index add old/timestep.100
  byssus index add old/timestep.100 --name timestep.100 --ranks 64`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || x.ranks < 0 {
				return usage(fmt.Errorf("index add: %d arguments, --ranks %d, wanted one directory, and at least 0 ranks", len(args), x.ranks))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return x.adopt(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&x.name, "name", "", "name of the dataset (default: that of DIR)")
	cmd.Flags().IntVar(&x.ranks, "ranks", 0, "of so many ranks (default: as the files' names tell)")
	cmd.Flags().StringVar(&x.prefix, "prefix", "", "directory below which the program's files have their names (default: $SCR_PREFIX, or here)")
	cmd.Flags().BoolVar(&x.output, "output", false, "it is a result, too")
	cmd.Flags().BoolVar(&x.only, "no-checkpoint", false, "it is only a result: nothing restarts from it")
	x.addJSON(cmd)
	return cmd
}

// adoptedJSON is what add prints.
type adoptedJSON struct {
	Dataset uint64 `json:"dataset"`
	Name    string `json:"name"`
	Ranks   int    `json:"ranks"`
	Files   int    `json:"files"`
}

func (x *index) adopt(ctx context.Context, dir string) error {
	a, found, err := x.adoption(dir)
	if err != nil {
		return exitError{ExitNot, fmt.Errorf("cli: index add %s: %w", dir, err)}
	}
	job, err := x.env.job(x.job)
	if errors.Is(err, dataset.ErrNoJob) {
		job, err = newPlain(x.env, x.job)
	}
	if err != nil {
		return err
	}
	answer, err := changeOutputs(ctx, x.env, job, coordsrv.OutputsRequest{Adopt: a})
	if err != nil {
		return err
	}
	if x.json {
		return x.printJSON(adoptedJSON{answer.Adopted, a.Label.Name, a.Label.Ranks, found})
	}
	fmt.Fprintf(x.out, "dataset %d, %s: %d files of %d ranks\n", answer.Adopted, a.Label.Name, found, a.Label.Ranks)
	return nil
}

// newPlain makes a plain job that has not run yet.
func newPlain(e *env, name string) (*dataset.Job, error) {
	store, err := plainStore(e)
	if err != nil {
		return nil, err
	}
	job, err := takePlain(e, store, name)
	if err != nil {
		return nil, err
	}
	defer job.Unlock()
	job.Meta.State, job.Meta.Ended = dataset.StateStopped, time.Now()
	return job, job.Save()
}

// adoption is what there is in a directory, and whose it is.
func (x *index) adoption(dir string) (*coordsrv.Adoption, int, error) {
	top, err := prefix()
	if x.prefix != "" {
		top, err = filepath.Abs(x.prefix)
	}
	if err == nil {
		top, err = filepath.EvalSymlinks(top)
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, 0, err
	}
	below, err := filepath.Rel(top, dir)
	if err != nil || !filepath.IsLocal(below) {
		return nil, 0, fmt.Errorf("it is not below %s (--prefix)", top)
	}
	found, err := filesBelow(dir)
	if err == nil && len(found) == 0 {
		err = errors.New("there are no files in it")
	}
	if err != nil {
		return nil, 0, err
	}
	split, err := adopt.Split(found, x.ranks)
	if err != nil {
		return nil, 0, err
	}
	for _, list := range split {
		for i, p := range list {
			list[i] = filepath.Join(below, p)
		}
	}
	a := &coordsrv.Adoption{Prefix: top, Paths: split, Label: holding.Label{Name: x.name, Checkpoint: !x.only, Output: x.output || x.only, Ranks: len(split), InPlace: true}}
	if a.Label.Name == "" {
		a.Label.Name = filepath.Base(dir)
	}
	return a, len(found), nil
}

// filesBelow are the regular files in a directory, without what SCR and Byssus have for themselves.
func filesBelow(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".scr":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s: found %s, wanted files and directories", path, d.Type())
		}
		found = append(found, strings.TrimPrefix(path, dir+"/"))
		return nil
	})
	return found, err
}
