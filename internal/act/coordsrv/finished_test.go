package coordsrv

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// TestFinished: that a job has finished is recorded while the record of its last checkpoint is still being written, and stays.
func TestFinished(t *testing.T) {
	store := dataset.Store{Dir: filepath.Join(t.TempDir(), "store")}
	job, err := store.Create(dataset.Meta{Name: "melt", ID: "000102030405060708090a0b0c0d0e0f", Ranks: 1, State: dataset.StateRunning})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Unlock()
	var mu sync.Mutex
	var said []string
	s := newServer(Options{Job: job, Say: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, text)
	}})
	s.caches = &caches{}
	for n := range uint64(100) {
		job.Meta.Cached = n
		s.record.save()
		recorded := s.finished()
		s.wg.Wait()
		read, err := store.Open("melt")
		if err != nil || !recorded || len(said) > 0 {
			t.Fatalf("checkpoint %d: recorded %v, said %q, then %v", n, recorded, said, err)
		}
		if read.Meta.State != dataset.StateFinished || read.Meta.Cached != n {
			t.Fatalf("found state %s, checkpoint %d, wanted %s, %d", read.Meta.State, read.Meta.Cached, dataset.StateFinished, n)
		}
	}
}
