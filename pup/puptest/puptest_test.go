package puptest_test

import (
	"testing"

	"github.com/byssus-hpc/byssus/pup/puptest"
	"github.com/byssus-hpc/byssus/pup/puptest/testdata/marked"
)

func TestSkipsOfTheSource(t *testing.T) {
	c := &marked.Cached{A: 1, Cache: map[int]int{1: 1}, B: 2}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Do(func() {})
	faults := puptest.Faults(t, c)
	if len(faults) != 1 || faults[0].Path != "Cached.B" {
		t.Errorf("found %v, want only B, whose directive has no reason", faults)
	}
}

func TestCheckIsSilent(t *testing.T) {
	puptest.Check(t, &struct{ A []string }{[]string{"a"}})
}
