package matrix

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// fortranFamilies are the programs in Fortran beside everyday.F90, of which each is there in three ways.
func fortranFamilies() []string {
	return []string{"coll_", "p2p_", "attr_", "types_", "comms_", "sections_"}
}

// fortranPrograms are the programs of a family, "" that of everyday.F90: with mpif.h, use mpi and use mpi_f08.
func fortranPrograms(family string) []string {
	var names []string
	for _, way := range []string{"f77", "mod", "f08"} {
		names = append(names, "fortran_"+family+way)
	}
	return names
}

// fortranPlans are all combinations of a family: program x face x driver x restart driver, with 2 to 4 ranks.
func fortranPlans(family string, random *rand.Rand) []harness.Plan {
	var all []harness.Plan
	for _, name := range fortranPrograms(family) {
		for _, face := range harness.MPIs() {
			for _, driver := range harness.MPIs() {
				for _, restart := range harness.MPIs() {
					all = append(all, harness.Plan{Program: program(name), Face: face, Driver: driver, Restart: restart,
						Ranks: 2 + random.IntN(3), Cycles: 2})
				}
			}
		}
	}
	return all
}

// TestFortran takes the programs in Fortran through two cycles of checkpoint, kill and restart: one combination of each of some
// families, which the seed says. BYSSUS_TEST_LONG=1: all.
func TestFortran(t *testing.T) {
	site, refs := ready(t)
	var mu sync.Mutex
	var reports []harness.Report
	t.Cleanup(func() { t.Logf("\n%s", harness.Table(reports)) })
	random := rand.New(rand.NewPCG(*seed, 2))
	for f, family := range fortranFamilies() {
		if !harness.Chosen(f) {
			continue
		}
		plans := fortranPlans(family, random)
		chosen := random.IntN(len(plans))
		for i, plan := range plans {
			if i != chosen && !long() {
				continue
			}
			if err := site.BuildProgram(plan.Face, plan.Program.Name); err != nil {
				t.Fatal(err)
			}
			plan.Seed, plan.Iters = *seed, *iters
			if *cycles > 0 {
				plan.Cycles = *cycles
			}
			t.Run(plan.Name(), func(t *testing.T) {
				t.Parallel()
				harness.Share(t, harness.Weight(min(plan.Ranks, int(harness.Spinning))))
				report := refs.Do(t.Context(), plan, scratch(t))
				mu.Lock()
				reports = append(reports, report)
				mu.Unlock()
				if report.Err != nil {
					t.Errorf("-seed %d -run 'TestFortran/%s$'\n%v", plan.Seed, plan.Name(), report.Err)
				}
				fmt.Printf("# %s: %d cycles in %.1f s\n", plan.Name(), report.Cycles, report.Took.Seconds())
			})
		}
	}
}
