package matrix

import (
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestGo runs a Go program that calls MPI through cgo, position-independent and at a fixed address, through five
// generations of checkpoint, kill and restart under each MPI. BYSSUS_TEST_LONG=1: and through both MPIs in turn.
func TestGo(t *testing.T) {
	_, refs := ready(t)
	for _, name := range []string{"go_jacobi", "go_jacobi_fixed"} {
		for _, face := range harness.MPIs() {
			for _, restart := range harness.MPIs() {
				if restart != face && !long() {
					continue
				}
				plan := harness.Plan{Program: harness.Program{Name: name}, Face: face, Driver: face, Restart: restart, Ranks: 2, Cycles: 5}
				plan.Seed, plan.Iters = *seed, *iters
				if *cycles > 0 {
					plan.Cycles = *cycles
				}
				t.Run(plan.Name(), func(t *testing.T) {
					t.Parallel()
					harness.Share(t, harness.Light)
					report := refs.Do(t.Context(), plan, scratch(t))
					if report.Err != nil {
						t.Errorf("%s\n%v", report.Plan.Reproduce(), report.Err)
					} else if report.Cycles < plan.Cycles {
						t.Errorf("%s\nonly %d cycles: the program ended before", report.Plan.Reproduce(), report.Cycles)
					}
				})
			}
		}
	}
}
