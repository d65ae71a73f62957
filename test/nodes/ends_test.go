package nodes

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestEnds: jobs on four nodes end by themselves when their program has, each time: MPICH's ranks, left to themselves, may wait for
// each other's connections without end. BYSSUS_TEST_LONG=1: 200 jobs of MPICH, 50 of Open MPI.
func TestEnds(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	many := map[string]int{"mpich": 5, "openmpi": 2}
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		many = map[string]int{"mpich": 200, "openmpi": 50}
	}
	c := newCluster(t)
	short := harness.Program{Name: program.Name, Args: []string{"--iters", "3", "--pace", "1000"}}
	var want []string
	for _, mpi := range harness.MPIs() {
		for n := range many[mpi] {
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			name := fmt.Sprint(mpi, n)
			j := c.place(t, name, nil)
			err := j.Run(ctx, mpi, ranks, []string{"-v", "--sandbox", "nodes"}, c.site.Command(short, mpi)...)
			if err == nil {
				err = harness.Poll(ctx, "the end", func() bool { return !j.Proc().Running() })
			}
			found := last(j.Proc().Stdout.String())
			if want == nil {
				want = found
			}
			if err != nil || j.Proc().ExitCode() != 0 || len(found) != ranks || !slices.Equal(found, want) {
				t.Fatalf("job %d of %s: %v, exit code %d, %v\n%s", n, mpi, err, j.Proc().ExitCode(), found, j.Story())
			}
			j.Close()
			cancel()
		}
	}
}
