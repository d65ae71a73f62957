package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

func (e *env) ps() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "List the jobs of this user that run on this machine",
		Long: withJSON(`List the jobs of this user that run on this machine. Of the nodes of a job it says how many compute, stand by as spares, or
are lost; byssus show says which.`, "a list of objects", jsonStatus),
		Example: "  byssus ps\n  byssus ps --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := stores(e)
			if err != nil {
				return err
			}
			jobs := []coordsrv.Status{}
			for _, dir := range runningIn(all) {
				ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
				st, err := coordsrv.Dial(dir).Status(ctx)
				cancel()
				switch {
				case err == nil:
					jobs = append(jobs, st)
				case !errors.Is(err, coordsrv.ErrNotRunning):
					e.say(fmt.Sprintf("ps: %s: %v", dir, err))
				}
			}
			if e.json {
				return e.printJSON(jobs)
			}
			rows := [][]string{{"JOB", "PID", "RANKS", "MPI", "STATE", "RUNNING", "CHECKPOINT", "NODES", "PROGRAM"}}
			for _, st := range jobs {
				rows = append(rows, psRow(st))
			}
			ui.Table(e.out, rows)
			return nil
		},
	}
	e.addJSON(cmd)
	return cmd
}

func psRow(st coordsrv.Status) []string {
	last, state := "-", st.Phase
	if n := len(st.Images); n > 0 {
		last = fmt.Sprint(st.Images[n-1])
	}
	if st.Stage != "" {
		state = stage(st)
	}
	return []string{st.Job, fmt.Sprint(st.PID), fmt.Sprintf("%d/%d", st.Connected, st.Ranks), st.MPI.Name, state,
		ui.Duration(st.Running.Round(time.Second)), last, countNodes(st.Nodes), filepath.Base(strings.Join(st.App[:min(len(st.App), 1)], ""))}
}

// listed is a checkpoint as list shows it.
type listed struct {
	Job        string            `json:"job"`
	State      string            `json:"state"`
	Checkpoint uint64            `json:"checkpoint,omitempty"`
	Path       string            `json:"path"`
	Manifest   *dataset.Manifest `json:"manifest,omitempty"`
	Err        string            `json:"error,omitempty"`
	JobErr     string            `json:"job_error,omitempty"`
	Aside      bool              `json:"left_aside,omitempty"`
	Earlier    bool              `json:"of_an_earlier_job,omitempty"`
	Cached     uint64            `json:"newest_in_caches,omitempty"`
	Dataset    *outputs.Entry    `json:"dataset,omitempty"` // of files; nil: a checkpoint of processes
	plain      bool
}

func (e *env) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [flags] [JOB]",
		Short: "List jobs and their checkpoints",
		Long: withJSON(`List all jobs of the store, or one, and their checkpoints. What is damaged, or cannot be used, is listed with the reason;
the exit code is 122 then. When the name of a job that has finished is given to another one, the checkpoints of the
first stay until the second has its own: they are "of an earlier job", and the second does not go on from them.

Datasets of files that a program writes itself (byssus run --plain) are listed below the others, with the names that it gives
them, and where they are: in the prefix, that is below the directory of the program's files, in the caches of nodes, which only
a job that runs here can tell, or being copied. A restart goes on from the one that is current.

Jobs are looked for in the store; when neither --dir nor $BYSSUS_DIR names one, as for all verbs, in .scr below $SCR_PREFIX or the
working directory, too, where those of byssus run --plain are.`, "a list with an object for each checkpoint, and for each job without any", jsonListed),
		Example: "  byssus list\n  byssus list melt --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("list: %d arguments, wanted the name of a job or none", len(args)))
			}
			return nil
		},
		ValidArgsFunction: e.completeJobs,
		RunE:              func(_ *cobra.Command, args []string) error { return e.listJobs(args) },
	}
	e.addJSON(cmd)
	return cmd
}

func (e *env) listJobs(names []string) error {
	asked := len(names) > 0
	var places []place
	var err error
	if asked {
		p, _, _ := jobPlace(e, names[0]) // listNamed says what is wrong
		places = []place{p}
	} else if places, err = jobPlaces(e); err != nil {
		return err
	}
	all, damaged := []listed{}, 0
	for _, p := range places {
		these, err := e.listNamed(p.store, p.name)
		if err != nil && asked {
			return err
		}
		all = append(all, these...)
	}
	for _, l := range all {
		if l.Err != "" || l.JobErr != "" {
			damaged++
		}
	}
	if err := e.printList(all); err != nil || damaged == 0 {
		return err
	}
	return exitError{ExitNot, fmt.Errorf("cli: list: %d of %d entries are damaged or cannot be used", damaged, len(all))}
}

// listNamed lists a job; one that has just been removed has no entries.
func (e *env) listNamed(store dataset.Store, name string) ([]listed, error) {
	job, err := store.Open(name)
	if errors.Is(err, dataset.ErrNoJob) {
		return nil, err
	}
	if err != nil {
		e.say(err.Error())
		return []listed{{Job: name, State: stateUnusable, Path: filepath.Join(store.Dir, name), JobErr: words(err)}}, err
	}
	if job.Damage != nil {
		e.say(fmt.Sprintf("job %s: %v", name, job.Damage))
	}
	these, err := listJob(job)
	if err == nil {
		these, err = listFiles(job, these)
	}
	if errors.Is(err, dataset.ErrNoJob) || err != nil && job.Vanished() {
		return nil, fmt.Errorf("cli: list %s: %w", name, dataset.ErrNoJob)
	}
	if err != nil {
		e.say(err.Error())
		return []listed{{Job: name, State: stateUnusable, Path: job.Dir, JobErr: words(err)}}, err
	}
	return these, nil
}

func (e *env) printList(all []listed) error {
	if e.json {
		return e.printJSON(all)
	}
	rows, written := [][]string{{"JOB", "STATE", "CHECKPOINT", "AGE", "RANKS", "SIZE", "MPI"}}, [][]string{fileColumns()}
	for _, l := range all {
		if l.plain {
			written = append(written, fileRow(l))
			continue
		}
		row := []string{l.Job, l.State, "-", "-", "-", "-", "-"}
		if l.Checkpoint != 0 {
			row[2] = fmt.Sprint(l.Checkpoint)
		}
		if l.Cached > 0 {
			row[2] = fmt.Sprintf("%d (in caches)", l.Cached)
		}
		if l.Aside {
			row[2] += " (left aside)"
		}
		if l.Earlier {
			row[2] += " (of an earlier job)"
		}
		if m := l.Manifest; m != nil {
			row = []string{l.Job, l.State, row[2], ui.Ago(m.Time, time.Now()), fmt.Sprint(m.Ranks), ui.Bytes(m.Bytes), mpiVersion(m.MPI)}
		}
		if l.Err != "" {
			row[6] = l.Err
		}
		rows = append(rows, row)
	}
	if len(rows) > 1 || len(written) == 1 {
		ui.Table(e.out, rows)
	}
	if len(rows) > 1 && len(written) > 1 {
		fmt.Fprintln(e.out)
	}
	if len(written) > 1 {
		ui.Table(e.out, written)
	}
	return nil
}

// mpiVersion is name and version out of what a library says about itself: "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2".
// Of one that says neither, its first words up to a comma.
func mpiVersion(says string) string {
	line, _, _ := strings.Cut(says, "\n")
	line, _, _ = strings.Cut(line, ",")
	var name []string
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return unicode.IsSpace(r) || r == ':' }) {
		number := strings.TrimLeft(word, "vV")
		if len(name) > 0 && number != "" && unicode.IsDigit(rune(number[0])) {
			return strings.Join(append(name, number), " ")
		}
		if !strings.EqualFold(word, "version") {
			name = append(name, word)
		}
	}
	return strings.Join(name, " ")
}

// States that are seen from outside only.
const (
	stateLost     = "lost"     // its byssus died
	stateUnusable = "unusable" // of another user, a link, or not to be read
)

// stateOf is the state of a job, seen from outside.
func stateOf(job *dataset.Job) string {
	if job.Meta.State == dataset.StateRunning && !job.Locked() {
		return stateLost
	}
	return job.Meta.State
}

func listJob(job *dataset.Job) ([]listed, error) {
	if job.Meta.Plain {
		return nil, nil
	}
	checkpoints := job.Checkpoints()
	images, err := checkpoints.List()
	if err != nil {
		return nil, err
	}
	whole := listed{Job: job.Meta.Name, State: stateOf(job), Path: job.Dir}
	if job.Damage != nil {
		whole.JobErr = words(job.Damage)
	}
	var out []listed
	for _, n := range images {
		l := whole
		l.Checkpoint, l.Path, l.Aside = n, checkpoints.Path(n), slices.Contains(job.Meta.Aside, n)
		if l.Manifest, err = dataset.ReadManifest(l.Path); err != nil {
			if checkpoints.Gone(n) {
				continue
			}
			l.Err = words(err)
		} else {
			l.Earlier = l.Manifest.ID != job.Meta.ID
		}
		out = append(out, l)
	}
	if last := len(out) - 1; job.Meta.State != dataset.StateFinished && (last < 0 || out[last].Earlier || out[last].Checkpoint < job.Meta.Cached) {
		whole.Cached = job.Meta.Cached
	}
	if len(out) == 0 || whole.Cached > 0 {
		out = append(out, whole)
	}
	return out, nil
}

// pick returns the checkpoints of a job, or the one asked for.
func pick(job *dataset.Job, only uint64) ([]uint64, error) {
	images, err := mainStream(job).List()
	if err != nil || only == 0 {
		return images, err
	}
	for _, n := range images {
		if n == only {
			return []uint64{n}, nil
		}
	}
	return nil, exitError{ExitNot, fmt.Errorf("cli: job %s: no %s: found %v", job.Meta.Name, kindOf(job, only), images)}
}

// pickOwn is pick without the checkpoints of an earlier job of this name, unless one of these is asked for; they are the second result.
func pickOwn(job *dataset.Job, only uint64) (own, earlier []uint64, err error) {
	all, err := pick(job, only)
	if err != nil {
		return nil, nil, err
	}
	if own, err = mainStream(job).Own(); err != nil {
		return nil, nil, err
	}
	earlier = slices.DeleteFunc(slices.Clone(all), func(n uint64) bool { return slices.Contains(own, n) })
	if only != 0 {
		return all, earlier, nil
	}
	return own, earlier, nil
}

// numberList is a list of numbers in words.
func numberList(list []uint64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}
