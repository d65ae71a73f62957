package coordsrv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/files"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// Users look at the index of the datasets of files that a job has, and change it: of a job that runs through its control socket, else in
// its store, where it must be locked.

// OutputsRequest is the body of POST /v1/outputs: one of its two is to be done.
type OutputsRequest struct {
	outputs.Edit
	Adopt *Adoption `json:"adopt,omitempty"`
}

// Adoption is a checkpoint, or a result, that somebody else has written below the prefix.
type Adoption struct {
	Label  holding.Label `json:"label"` // of so many ranks as there are paths
	Prefix string        `json:"prefix"`
	Paths  [][]string    `json:"paths"` // below it, by rank
}

// OutputsAnswer is what was done.
type OutputsAnswer struct {
	Err      string          `json:"error,omitempty"`
	Adopted  uint64          `json:"adopted,omitempty"` // its number
	Datasets []outputs.Entry `json:"datasets"`
}

// Outputs are the datasets of files of a job that are in its store, as they are offered to its program. What cannot be read is said.
func Outputs(job *dataset.Job, say func(string)) ([]outputs.Entry, error) {
	sh, err := newShelf(job, say)
	if err != nil {
		return nil, err
	}
	return sh.book.Entries(), nil
}

// EditOutputs does what is asked for with datasets of files of a job that does not run, and is locked.
func EditOutputs(job *dataset.Job, req OutputsRequest, say func(string)) (OutputsAnswer, error) {
	sh, err := newShelf(job, say)
	if err != nil {
		return OutputsAnswer{}, err
	}
	log := timeline.Open(job.Dir, job.Term, say)
	defer log.Close()
	sh.log = log
	var a OutputsAnswer
	if req.Adopt != nil {
		a.Adopted = outputs.Reserve(sh.book.Book)
		if err = storeAdopted(context.Background(), sh.of, a.Adopted, req.Adopt); err == nil {
			outputs.Adopt(sh.book.Book, a.Adopted, req.Adopt.Label)
			log.Add(adopted(a.Adopted, req.Adopt))
		}
	} else {
		err = sh.book.Apply(req.Edit)
	}
	a.Datasets = sh.book.Entries()
	return a, errors.Join(err, sh.failed)
}

// adopted tells the log.
func adopted(n uint64, a *Adoption) timeline.Event {
	return timeline.Event{Kind: timeline.Adopted, Dataset: n, Name: a.Label.Name, Ranks: a.Label.Ranks}
}

// shelf carries out what is decided of the datasets of a job that does not run: those in its store.
type shelf struct {
	job    *dataset.Job
	of     *dataset.Datasets // its stream of datasets of files
	book   *outputs.Library
	names  map[uint64]string
	log    *timeline.Writer
	failed error
}

func newShelf(job *dataset.Job, say func(string)) (*shelf, error) {
	sh := &shelf{job: job, of: job.Of(agent.Written), names: map[uint64]string{}}
	known, last, err := storedOutputs(job, say)
	if err != nil {
		return nil, err
	}
	for _, d := range known {
		sh.names[d.Number] = d.Name
	}
	sh.book = outputs.NewLibrary(sh, known, last, job.Meta.Outputs)
	return sh, nil
}

// Forget is outputs'.
func (sh *shelf) Forget(n uint64, withFiles bool) {
	var err error
	if withFiles {
		err = removeFiles(sh.of.Path(n))
	}
	if err = errors.Join(err, sh.of.Drop(n)); err != nil {
		sh.failed = errors.Join(sh.failed, err)
	}
	sh.log.Add(timeline.Event{Kind: timeline.Dropped, Dataset: n, Name: sh.names[n]})
}

// Changed is outputs'. That a program could not read what only caches have stays known.
func (sh *shelf) Changed() {
	m, old := sh.book.Memory(), sh.job.Meta.Outputs
	for _, n := range old.Bad {
		if _, here := sh.names[n]; !here {
			m.Bad = append(m.Bad, n)
		}
	}
	sh.job.Meta.Outputs = m
	if err := sh.job.Save(); err != nil {
		sh.failed = errors.Join(sh.failed, err)
	}
}

// The rest is for programs, of which there is none.

// Answer is outputs'.
func (sh *shelf) Answer(outputs.Ask, outputs.Answer) {}

// Place is outputs'.
func (sh *shelf) Place(uint64, bool, []int, func(string, error)) (string, bool) { return "", false }

// Commit is outputs'.
func (sh *shelf) Commit(uint64, holding.Label, settings.Pick, []int, func(string)) {}

// Discard is outputs'.
func (sh *shelf) Discard(uint64, bool) {}

// Flush is outputs'.
func (sh *shelf) Flush(uint64, func(error)) {}

// Evict is outputs'.
func (sh *shelf) Evict(uint64) {}

// Restore is outputs'.
func (sh *shelf) Restore(outputs.Dataset, []int, bool, func(bool, error)) {}

// Counts is outputs'.
func (sh *shelf) Counts(uint64, bool) {}

// Heeded is outputs'.
func (sh *shelf) Heeded() {}

// Await is outputs'.
func (sh *shelf) Await(outputs.Ask) {}

// Say is outputs'.
func (sh *shelf) Say(string) {}

// Now is outputs'.
func (sh *shelf) Now() time.Duration { return 0 }

// storeAdopted makes the indexes of files that lie below the prefix, each rank's, and commits them as a dataset of job.
func storeAdopted(ctx context.Context, job *dataset.Datasets, n uint64, a *Adoption) error {
	if a.Label.Ranks != len(a.Paths) || a.Label.Ranks < 1 || a.Label.Name == "" || len(a.Label.Name) >= client.MaxName {
		return fmt.Errorf("coordsrv: adopted dataset %.40q of %d ranks, found paths of %d", a.Label.Name, a.Label.Ranks, len(a.Paths))
	}
	dir, err := job.Prepare(n)
	var indexes []*files.Index
	for rank, paths := range a.Paths {
		var x *files.Index
		if err == nil {
			x, err = files.MakeInPlace(ctx, dir, a.Prefix, rank, paths, job.Meta.Fsync, func(int64) {})
			indexes = append(indexes, x)
		}
	}
	if err == nil {
		p := dataset.FilesPart(indexes...)
		if err = job.SyncPart(n, p); err == nil {
			l := a.Label
			l.InPlace = true
			err = job.Commit(n, job.Manifest(n, p).Labelled(l))
		}
	}
	if err != nil {
		return errors.Join(err, job.Discard(n))
	}
	return nil
}

// mostAdopted bounds a request: the paths of a million files.
const mostAdopted = 256 << 20

// serveOutputs answers POST /v1/outputs.
func serveOutputs(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req OutputsRequest
		if err := json.NewDecoder(io.LimitReader(r.Body, mostAdopted)).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var a OutputsAnswer
		err := errors.New("the job is over")
		if req.Adopt != nil {
			a.Adopted, err = adoptRunning(r.Context(), s, req.Adopt)
		} else {
			askBook(s, &err, func(b *outputs.Library) error { return b.Apply(req.Edit) })
		}
		if err != nil {
			a.Err = err.Error()
		}
		askBook(s, &err, func(b *outputs.Library) error {
			a.Datasets = b.Entries()
			return nil
		})
		writeJSON(w, a)
	}
}

// askBook asks the book of a job that runs, on the loop's goroutine; err stays when the job is over.
func askBook(s *Server, err *error, what func(*outputs.Library) error) {
	s.ask(func() {
		if s.written == nil || s.written.book == nil {
			*err = errors.New("the job is just being started")
			return
		}
		*err = what(s.written.book)
	})
}

// adoptRunning adopts a dataset while the job runs; what takes time does not hold the loop up.
func adoptRunning(ctx context.Context, s *Server, a *Adoption) (uint64, error) {
	var n uint64
	err := errors.New("the job is over")
	askBook(s, &err, func(b *outputs.Library) error {
		n = outputs.Reserve(b.Book)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := storeAdopted(ctx, s.opt.Job.Of(agent.Written), n, a); err != nil {
		return 0, err
	}
	err = errors.New("the job is over")
	askBook(s, &err, func(b *outputs.Library) error {
		outputs.Adopt(b.Book, n, a.Label)
		s.story.log.Add(adopted(n, a))
		return nil
	})
	return n, err
}

// Outputs changes the index of the job's datasets of files, and returns it.
func (c *Client) Outputs(ctx context.Context, req OutputsRequest) (OutputsAnswer, error) {
	var a OutputsAnswer
	err := c.call(ctx, "POST", "/v1/outputs", req, &a)
	return a, err
}

// choose makes a plain job restart from the dataset that was asked for, by its number or its name; else no newer one counts than the one
// that was made the current.
func choose(s *Server, start *coord.Start) error {
	if !s.opt.Plain {
		return nil
	}
	b := s.written.book
	if s.opt.Only != 0 || s.opt.Called != "" {
		n, err := outputs.Choose(b.Entries(), s.opt.Called, s.opt.Only)
		if err == nil {
			err = b.Insist(n)
		}
		if err != nil {
			return fmt.Errorf("coordsrv: job %s: %w: %w", s.opt.Job.Meta.Name, ErrNoCheckpoint, err)
		}
		s.opt.Only, start.Only = n, n
		s.written.Changed()
	}
	start.Images = b.Offered()
	s.written.offered = start.Images
	return nil
}

// CountFiles completes what is known of datasets by what their records in the store say: how many files they have, and how large these
// are.
func CountFiles(job *dataset.Job, list []outputs.Entry) {
	of := job.Of(agent.Written)
	for i := range list {
		if !list[i].Stored {
			continue
		}
		dir := of.Path(list[i].Dataset)
		m, err := dataset.ReadManifest(dir)
		if err != nil {
			continue // that is said elsewhere
		}
		list[i].Bytes, list[i].Files = 0, 0
		for _, f := range m.Files {
			if f.Name == files.ContentName(f.Rank) {
				list[i].Bytes += uint64(f.Size)
			} else if n, err := files.Count(dir, f.Rank); err == nil && f.Name == files.IndexName(f.Rank) {
				list[i].Files += n
			}
		}
	}
}
