package dataset

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestTerms: each time that a job is taken it has a new term, and of many who claim one at the same moment, without a lock,
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
			c := &Job{Dir: j.Dir, Meta: j.Meta}
			if err := c.claim(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[c.Term] {
				t.Errorf("term %d twice", c.Term)
			}
			seen[c.Term] = true
		})
	}
	wg.Wait()
	if len(seen) != many {
		t.Errorf("%d terms", len(seen))
	}
	if left, err := filepath.Glob(filepath.Join(j.Dir, ownerPrefix+"*")); err != nil || len(left) != 1 || filepath.Base(left[0]) != ownerName(many+2) {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestFirstTerm: of many who begin with a job that never had a term no two get the same.
func TestFirstTerm(t *testing.T) {
	for range 200 {
		j := &Job{Dir: t.TempDir()}
		const many = 8
		terms := make([]uint64, many)
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() {
				c := &Job{Dir: j.Dir}
				if err := c.claim(); err != nil {
					t.Error(err)
				}
				terms[i] = c.Term
			})
		}
		wg.Wait()
		slices.Sort(terms)
		if slices.Contains(terms, 0) || len(slices.Compact(terms)) != many {
			t.Fatalf("terms %v", terms)
		}
	}
}
