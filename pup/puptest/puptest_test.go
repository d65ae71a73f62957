package puptest_test

import (
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/puptest"
)

type cached struct {
	A int
	//pup:skip made again on demand
	cache     map[int]int
	mu        sync.Mutex //pup:skip of the process
	B         int        //pup:skip
	sync.Once            //pup:skip of the process
}

func (c *cached) PUP(p *pup.Stream) { pup.Number(p, &c.A) }

func TestSkipsOfTheSource(t *testing.T) {
	c := &cached{A: 1, cache: map[int]int{1: 1}, B: 2}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Do(func() {})
	faults := puptest.Faults(t, c)
	if len(faults) != 1 || faults[0].Path != "cached.B" {
		t.Errorf("found %v, want only B, whose directive has no reason", faults)
	}
	c.B = 0
	c.A = 5
}

func TestCheckIsSilent(t *testing.T) {
	puptest.Check(t, &struct{ A []string }{[]string{"a"}})
}
