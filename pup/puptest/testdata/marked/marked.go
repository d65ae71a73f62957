// Package marked has a type whose fields are skipped by directives, one of them without a reason. It lies in testdata
// because that one is a fault.
package marked

import (
	"sync"

	"github.com/byssus-hpc/byssus/pup"
)

// Cached is visited by hand.
type Cached struct {
	A int
	//pup:skip made again on demand
	Cache     map[int]int
	Mu        sync.Mutex //pup:skip of the process
	B         int        //pup:skip
	sync.Once            //pup:skip of the process
}

// PUP visits what is not skipped.
func (c *Cached) PUP(p *pup.Stream) { pup.Number(p, &c.A) }
