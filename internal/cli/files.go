package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// askPatience is how long a job that runs may take to say what it knows.
const askPatience = 5 * time.Second

// datasetsOf are the datasets of files that a job has: as it says, if it runs here, else as its store says.
func datasetsOf(job *dataset.Job) ([]outputs.Entry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	var list []outputs.Entry
	var err error
	if st, serr := dial(job).Status(ctx); serr == nil {
		list = st.Datasets
	} else {
		list, err = coordsrv.Outputs(job, func(string) {})
	}
	coordsrv.CountFiles(job, list)
	return list, err
}

// listFiles adds the datasets of files that a job has to what is listed of it.
func listFiles(job *dataset.Job, list []listed) ([]listed, error) {
	of := job.Of(agent.Written)
	stored, err := of.List()
	if err != nil || len(stored) == 0 && !job.Meta.Plain && !job.Locked() {
		return list, err
	}
	entries, err := datasetsOf(job)
	if err != nil {
		return list, err
	}
	whole := listed{Job: job.Meta.Name, State: stateOf(job), Path: job.Dir, plain: true}
	if job.Damage != nil {
		whole.JobErr = words(job.Damage)
	}
	began := len(list)
	for _, n := range numbersOf(stored, entries) {
		l := whole
		l.Checkpoint = n
		if i := slices.IndexFunc(entries, func(e outputs.Entry) bool { return e.Dataset == n }); i >= 0 {
			l.Dataset = &entries[i]
		}
		if slices.Contains(stored, n) {
			l.Path = of.Path(n)
			if l.Manifest, err = dataset.ReadManifest(l.Path); err != nil {
				if of.Gone(n) {
					continue
				}
				l.Err = words(err)
			} else {
				l.Earlier = l.Manifest.ID != job.Meta.ID
			}
		}
		list = append(list, l)
	}
	if !job.Meta.Plain {
		return list, nil
	}
	if n := job.Meta.Cached; job.Meta.State != dataset.StateFinished && !slices.Contains(numbersOf(stored, entries), n) {
		whole.Cached = n
	}
	if len(list) == began || whole.Cached > 0 {
		list = append(list, whole)
	}
	return list, nil
}

// numbersOf are those of datasets in the store, and of those that are known, ascending.
func numbersOf(stored []uint64, entries []outputs.Entry) []uint64 {
	all := slices.Clone(stored)
	for _, e := range entries {
		all = append(all, e.Dataset)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func fileColumns() []string {
	return []string{"JOB", "STATE", "DATASET", "NAME", "KIND", "AGE", "RANKS", "FILES", "SIZE", "WHERE"}
}

// fileRow tells of a dataset of files, or of a job that has none.
func fileRow(l listed) []string {
	row := []string{l.Job, l.State, "-", "-", "-", "-", "-", "-", "-", "-"}
	if l.Checkpoint != 0 {
		row[2] = fmt.Sprint(l.Checkpoint)
	}
	if l.Cached != 0 {
		row[2], row[9] = fmt.Sprint(l.Cached), "caches, of its nodes"
	}
	if m := l.Manifest; m != nil {
		row[5] = ui.Ago(m.Time, time.Now())
	}
	if d := l.Dataset; d != nil {
		row[3], row[4], row[6], row[9] = d.Name, kindWords(*d), fmt.Sprint(d.Ranks), whereWords(*d)
		if d.Files > 0 || d.Stored {
			row[7], row[8] = fmt.Sprint(d.Files), ui.Bytes(int64(d.Bytes))
		}
	}
	if l.Earlier {
		row[9] = "of an earlier job"
	}
	if l.Err != "" {
		row[9] = l.Err
	}
	return row
}

// kindWords says what a dataset is for.
func kindWords(d outputs.Entry) string {
	switch {
	case d.Checkpoint && d.Output:
		return "checkpoint, output"
	case d.Checkpoint:
		return "checkpoint"
	case d.Output:
		return "output"
	}
	return "-"
}

// whereWords says where a dataset is, and what it is good for.
func whereWords(d outputs.Entry) string {
	var list []string
	for _, w := range []struct {
		is   bool
		word string
	}{
		{d.State == outputs.Writing, "being written"}, {d.State == outputs.Storing, "being stored"},
		{d.Stored, "prefix"}, {d.Cached, "caches"}, {d.Copying, "being copied to the prefix"}, {d.Stuck, "not to be copied to the prefix"},
		{d.Bad, "not readable by the program"}, {d.Current, "current"},
	} {
		if w.is {
			list = append(list, w.word)
		}
	}
	return strings.Join(list, ", ")
}
