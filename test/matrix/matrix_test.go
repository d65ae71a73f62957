// Package matrix holds the test programs against Byssus: each program, built for each MPI, is started under either MPI,
// checkpointed at random moments, killed, and restarted under either MPI, until its output is complete; the output
// must be that of a native run. It decides nothing by time, and prints the seed of every failure.
//
//	go test ./test/matrix                          a selection (part of make test)
//	BYSSUS_TEST_LONG=1 go test ./test/matrix       programs x face x driver x restart x 2, 4, 8 ranks
//	-seed N -cycles K -iters I -run PATTERN        one of them again
package matrix

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

var (
	seed   = flag.Uint64("seed", 0, "of the random decisions; 0: from the clock")
	cycles = flag.Int("cycles", 0, "checkpoint, kill, restart cycles of each job; 0: as the selection says")
	iters  = flag.Int("iters", 0, "iterations of the programs; 0: by a short native run")
)

// ready prepares what all tests here need.
func ready(t *testing.T) (harness.Site, *harness.References) {
	t.Helper()
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Build(); err != nil {
		t.Fatal(err)
	}
	if *seed == 0 {
		*seed = harness.Seed()
	}
	t.Logf("-seed %d", *seed)
	return site, harness.NewReferences(site)
}

// scratch is a directory whose jobs' images are removed when the test has passed and kept when it has failed.
func scratch(t *testing.T) string {
	t.Helper()
	base := os.Getenv("BYSSUS_TEST_DIR")
	dir, err := os.MkdirTemp(base, "byssus-matrix.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && base != "" {
			t.Logf("kept: %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}

func TestMatrix(t *testing.T) {
	site, refs := ready(t)
	var mu sync.Mutex
	var reports []harness.Report
	t.Cleanup(func() { // after the jobs, which run beside each other
		table := harness.Table(reports)
		t.Logf("\n%s", table)
		if err := os.WriteFile(filepath.Join(site.Root, "build/test/matrix.txt"), []byte(table), 0o666); err != nil {
			t.Error(err)
		}
	})
	for _, plan := range plans(*seed) {
		plan.Seed, plan.Iters = *seed, *iters
		if *cycles > 0 {
			plan.Cycles = *cycles
		}
		t.Run(plan.Name(), func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Weight(min(plan.Ranks, int(harness.Spinning))))
			if plan.Ranks > 4*runtime.NumCPU() {
				t.Skipf("SKIP: %d ranks on %d processors", plan.Ranks, runtime.NumCPU())
			}
			report := refs.Do(t.Context(), plan, scratch(t))
			mu.Lock()
			reports = append(reports, report)
			mu.Unlock()
			if report.Err != nil {
				t.Errorf("%s\n%v", report.Plan.Reproduce(), report.Err)
			}
			fmt.Printf("# %s: %d cycles in %.1f s\n", plan.Name(), report.Cycles, report.Took.Seconds())
		})
	}
}
