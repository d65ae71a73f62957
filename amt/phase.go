package amt

import (
	"fmt"
	"math/rand/v2"
)

// A Balancer says on which rank the element with a number is to be: it is on a rank now. It is the same on all ranks.
type Balancer func(collection string, n uint64, rank, ranks int) int

// Rotate has each element go to the next rank.
func Rotate(_ string, _ uint64, rank, ranks int) int { return (rank + 1) % ranks }

// Random has elements go anywhere; the same seed has them go to the same ranks.
func Random(seed uint64) Balancer {
	return func(collection string, n uint64, _, ranks int) int {
		h := seed
		for _, b := range []byte(collection) {
			h = h*0x100000001b3 ^ uint64(b)
		}
		return rand.New(rand.NewPCG(h, n)).IntN(ranks)
	}
}

// Given has elements of one collection go where a list says, by their numbers; those of others stay.
func Given(name string, to []int) Balancer {
	return func(collection string, n uint64, rank, _ int) int {
		if collection != name || n >= uint64(len(to)) {
			return rank
		}
		return to[n]
	}
}

// Phase ends a phase of the program: all main functions call it, when what they have begun is over. The elements of all collections go where
// a balancer says; without one they stay. Where elements have been by then is forgotten.
func (c Context) Phase(to ...Balancer) error {
	f := c.own()
	r := f.r
	var failed error
	if f.task == nil && !f.onLoop() { // else it is an error
		failed = c.endPhase()
	}
	err := c.Collective(fmt.Sprintf("the end of phase %d", r.phase), func(c Context) error {
		if failed != nil {
			return failed
		}
		for _, part := range r.collections {
			for _, balancer := range to {
				if part != nil {
					part.rebalance(c.f.ep, balancer)
				}
			}
		}
		return nil
	}).Wait(c)
	if err != nil {
		return err
	}
	if r.tracer != nil {
		r.tracer.phaseOver(r.phase)
	}
	r.phase++
	for _, part := range r.collections {
		if part != nil {
			part.phaseOver()
		}
	}
	return nil
}

// PhaseNumber is how many phases are over.
func (c Context) PhaseNumber() int { return c.live().r.phase }
