package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// TestClear: what a cache has of a job that goes on without its node is removed when the store has it, or newer ones.
func TestClear(t *testing.T) {
	for name, k := range map[string]struct {
		here, there uint64 // newest checkpoints in the cache, in the store; 0: none
		state       string
		back        bool // an agent of a later term has come
		stays       bool
	}{
		"copied":       {here: 3, there: 3},
		"newer":        {here: 3, there: 7},
		"empty":        {},
		"not copied":   {here: 4, there: 3, stays: true},
		"nothing else": {here: 1, stays: true},
		"finished":     {here: 4, there: 3, state: dataset.StateFinished},
		"agent here":   {here: 3, there: 3, back: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			store, caches := dataset.Store{Dir: t.TempDir()}, dataset.Store{Dir: t.TempDir()}
			meta := dataset.Meta{Name: "melt", ID: "0123456789abcdef0123456789abcdef", Ranks: 1, State: dataset.StateRunning}
			job, err := store.Create(meta)
			if err != nil {
				t.Fatal(err)
			}
			defer job.Unlock()
			cache, err := caches.Cache(meta, job.Term, job.Dir)
			if err != nil {
				t.Fatal(err)
			}
			have(t, cache, k.here)
			have(t, job, k.there)
			cache.Unlock()
			if k.back {
				later, err := caches.Cache(meta, job.Term+1, job.Dir)
				if err != nil {
					t.Fatal(err)
				}
				defer later.Unlock()
			}
			if k.state != "" {
				job.Meta.State = k.state
			}
			if err := job.Save(); err != nil {
				t.Fatal(err)
			}
			w := &Ward{Job: meta, Dir: job.Dir, Cache: caches.Dir, Term: job.Term, Node: "node1"}
			if err := w.clear(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(cache.Dir); errors.Is(err, os.ErrNotExist) == k.stays {
				t.Errorf("found %v, stays: %v", err, k.stays)
			}
		})
	}
}

func have(t *testing.T, j *dataset.Job, n uint64) {
	t.Helper()
	if n == 0 {
		return
	}
	if err := os.Mkdir(filepath.Join(j.Dir, fmt.Sprintf("ckpt.%06d", n)), 0o700); err != nil {
		t.Fatal(err)
	}
}
