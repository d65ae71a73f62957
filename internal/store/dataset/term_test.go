package dataset

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestTerms: each time that a job is taken it has a new term, and of many who begin one at the same moment, without a lock,
// no two get the same.
func TestTerms(t *testing.T) {
	j := newJob(t, 1)
	if j.Term != 1 {
		t.Errorf("first term %d", j.Term)
	}
	j.Unlock()
	if err := j.Lock(); err != nil || j.Term != 2 {
		t.Errorf("second term %d, %v", j.Term, err)
	}
	const many = 20
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint64]bool{}
	for range many {
		wg.Go(func() {
			term, _, err := j.terms().begin()
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[term] {
				t.Errorf("term %d twice", term)
			}
			seen[term] = true
		})
	}
	wg.Wait()
	if len(seen) != many {
		t.Errorf("%d terms", len(seen))
	}
	left, err := filepath.Glob(filepath.Join(j.Dir, ownerPrefix+"*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("left: %v, %v", left, err)
	}
	newest, err := j.terms().now()
	if highest := slices.Max(slices.Collect(maps.Keys(seen))); err != nil || newest < highest || highest < many+2 {
		t.Errorf("left: %v, %v; highest %d", left, err, highest)
	}
}

// TestLateTerm: who has looked long ago does not get a term that somebody has had since, whatever it was then.
func TestLateTerm(t *testing.T) {
	for name, late := range map[string]struct {
		now   uint64
		files []string // meanwhile
	}{
		"there was none":                      {0, []string{"owner.000003"}},
		"the next is somebody's":              {1, []string{"owner.000001", "owner.000002"}},
		"the next was somebody's":             {1, []string{"owner.000001", "owner.000003"}},
		"the next is somebody's, this is not": {1, []string{"owner.000002"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := terms{dir: t.TempDir()}
			for _, f := range late.files {
				if err := all.makeEmpty(filepath.Join(all.dir, f)); err != nil {
					t.Fatal(err)
				}
			}
			err := all.advance(late.now, late.now+1)
			if err == nil {
				err = all.newest(late.now + 1)
			}
			if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("term %d: %v", late.now+1, err)
			}
			newest, err := all.now()
			if want := late.files[len(late.files)-1]; err != nil || ownerName(newest) != want {
				t.Errorf("newest %d, %v, wanted %s", newest, err, want)
			}
		})
	}
}

// TestFirstTerm: of many who begin with a job that never had a term no two get the same.
func TestFirstTerm(t *testing.T) {
	for range 400 {
		all := terms{dir: t.TempDir()}
		const many = 8
		begun := make([]uint64, many)
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() {
				var err error
				if begun[i], _, err = all.begin(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		slices.Sort(begun)
		if slices.Contains(begun, 0) || len(slices.Compact(begun)) != many {
			t.Fatalf("terms %v", begun)
		}
	}
}
