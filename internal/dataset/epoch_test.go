package dataset

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestEpochs: each time that a job is taken it has a new epoch, and of many who claim one at the same moment, without a lock,
// no two get the same.
func TestEpochs(t *testing.T) {
	j := newJob(t, 1)
	if j.Epoch != 1 {
		t.Errorf("first epoch %d", j.Epoch)
	}
	j.Unlock()
	if err := j.Lock(); err != nil || j.Epoch != 2 {
		t.Errorf("second epoch %d, %v", j.Epoch, err)
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
			if seen[c.Epoch] {
				t.Errorf("epoch %d twice", c.Epoch)
			}
			seen[c.Epoch] = true
		})
	}
	wg.Wait()
	if len(seen) != many {
		t.Errorf("%d epochs", len(seen))
	}
	if left, err := filepath.Glob(filepath.Join(j.Dir, ownerPrefix+"*")); err != nil || len(left) != 1 || filepath.Base(left[0]) != ownerName(many+2) {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestFirstEpoch: of many who begin with a job that never had an epoch no two get the same.
func TestFirstEpoch(t *testing.T) {
	for range 200 {
		j := &Job{Dir: t.TempDir()}
		const many = 8
		epochs := make([]uint64, many)
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() {
				c := &Job{Dir: j.Dir}
				if err := c.claim(); err != nil {
					t.Error(err)
				}
				epochs[i] = c.Epoch
			})
		}
		wg.Wait()
		slices.Sort(epochs)
		if slices.Contains(epochs, 0) || len(slices.Compact(epochs)) != many {
			t.Fatalf("epochs %v", epochs)
		}
	}
}
