package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// storeNamed says whether the user has named a store.
func storeNamed(e *env) bool { return e.storeDir != "" || os.Getenv("BYSSUS_DIR") != "" }

// stores are where jobs are looked for: the store; if none is named, that of plain jobs too, if there is one.
func stores(e *env) ([]dataset.Store, error) {
	store, err := e.store()
	if err != nil || storeNamed(e) {
		return []dataset.Store{store}, err
	}
	beside, err := plainStore(e)
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(beside.Dir); err != nil || !st.IsDir() || beside.Dir == store.Dir {
		return []dataset.Store{store}, nil
	}
	return []dataset.Store{store, beside}, nil
}

// place is a job's name in the store that has it.
type place struct {
	store dataset.Store
	name  string
}

// jobPlace finds the store that has a job; the first, if none has it.
func jobPlace(e *env, name string) (place, *dataset.Job, error) {
	all, err := stores(e)
	if err != nil {
		return place{}, nil, err
	}
	var first error
	for _, s := range all {
		job, err := s.Open(name)
		if !errors.Is(err, dataset.ErrNoJob) {
			return place{s, name}, job, err
		}
		first = cmpErr(first, err)
	}
	return place{all[0], name}, nil, first
}

func cmpErr(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

// jobPlaces are all jobs.
func jobPlaces(e *env) ([]place, error) {
	all, err := stores(e)
	var list []place
	for _, s := range all {
		names, jerr := s.Jobs()
		if err = errors.Join(err, jerr); errors.Is(jerr, fs.ErrNotExist) {
			continue
		}
		for _, name := range names {
			list = append(list, place{s, name})
		}
	}
	return list, err
}

// mainStream is the job with the stream of datasets from which it goes on.
func mainStream(job *dataset.Job) *dataset.Datasets {
	if job.Meta.Plain {
		return job.Of(agent.Written)
	}
	return job.Checkpoints()
}

// called is how a dataset from which a job goes on is called.
func called(job *dataset.Job, n uint64) string {
	if !job.Meta.Plain {
		return fmt.Sprintf("checkpoint %d", n)
	}
	if m, err := dataset.ReadManifest(mainStream(job).Path(n)); err == nil && m.Label != nil {
		return fmt.Sprintf("dataset %d, %s,", n, m.Label.Name)
	}
	return fmt.Sprintf("dataset %d", n)
}

// chosen is the checkpoint, or dataset, that a user has named; zero: none.
type chosen struct {
	text   string
	number uint64 // 0: it is a name
}

// parseChosen reads what was given with --checkpoint.
func parseChosen(verb, text string) (chosen, error) {
	if text == "" {
		return chosen{}, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err == nil && n == 0 {
		return chosen{}, nil
	}
	if err == nil {
		return chosen{text, n}, nil
	}
	if text[0] == '-' {
		return chosen{}, usage(fmt.Errorf("%s: --checkpoint %q, wanted a number, or the name of a dataset", verb, text))
	}
	return chosen{text: text}, nil
}

// none says whether nothing was chosen.
func (c chosen) none() bool { return c.text == "" }

// in is the number of what was chosen in a job, 0: none was. Names are those of datasets of files.
func (c chosen) in(job *dataset.Job) (uint64, error) {
	switch {
	case c.none():
		return 0, nil
	case !job.Meta.Plain && c.number == 0:
		return 0, usage(fmt.Errorf("job %s: --checkpoint %q, wanted a number", job.Meta.Name, c.text))
	case !job.Meta.Plain:
		return c.number, nil
	}
	list, err := coordsrv.Outputs(job, func(string) {})
	if err != nil {
		return 0, err
	}
	n, err := outputs.Choose(list, c.text, c.number)
	if err != nil && c.number != 0 && slices.ContainsFunc(damagedOf(job), func(n uint64) bool { return n == c.number }) {
		return c.number, nil
	}
	if err != nil {
		return 0, exitError{ExitNot, fmt.Errorf("cli: job %s: %w", job.Meta.Name, err)}
	}
	return n, nil
}

// damagedOf are the numbers of datasets of which the store cannot tell more.
func damagedOf(job *dataset.Job) []uint64 {
	all, _ := mainStream(job).List() // none, if they cannot be listed
	return slices.DeleteFunc(all, func(n uint64) bool {
		_, err := dataset.ReadManifest(mainStream(job).Path(n))
		return err == nil
	})
}
