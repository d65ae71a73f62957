package nodes

import (
	"context"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestMemoryLimit: where a node's memory has a limit, caches in it count. A checkpoint for which not enough is left is refused with
// the sum, and the job goes on: the kernel has nothing to kill. No checkpoint is taken while the program still fills its memory.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	g := prepare(t)
	for i, r := range []struct {
		mib, fits, say string
		fit            int
	}{
		{"40", "the first", `no checkpoint: cache .* on node node[1-4]: too small: wanted 3 x \(.*\) = .*, found .* free \+ .* held \(.* of the memory that /.* allows`, 1},
		{"140", "none", `no checkpoint: cache .* on node node[1-4]: too small: wanted 1 x \(.*\) = .*, found .* free \+ .* held \(`, 0},
	} {
		t.Run(r.fits, func(t *testing.T) {
			c := newCluster(t, "--memory", "224M", "--disk", "1G")
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			defer cancel()
			c.program = harness.Program{Name: "large", Args: []string{"--mib", r.mib, "--iters", "60", "--pace", "20000"}}
			var err error
			if c.want, err = native(g.site, "mpich", ranks, c.program); err != nil {
				t.Fatal(err)
			}
			j := c.job(ctx, t, "memory", harness.MPIs()[i%2], nil, "--every", "1h")
			defer j.Close()
			filled := func() bool { return !j.Proc().Running() || harness.LastIteration(j.Proc().Stdout.String()) > 0 }
			if err := harness.Poll(ctx, "the program's memory is full", filled); err != nil {
				t.Fatalf("%v\n%s", err, j.Story())
			}
			for range r.fit {
				if _, err := j.Checkpoint(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if _, errs, code := j.Command(ctx, "checkpoint", "memory"); code == 0 {
				t.Errorf("a checkpoint too many: %s", errs)
			}
			c.until(ctx, t, j, r.say)
			c.release(t, "memory")
			c.ends(ctx, t, j)
			if said := j.Proc().Stderr.String(); strings.Contains(said, "going back") || strings.Count(said, "committed after") != r.fit {
				t.Errorf("it went back, or did not commit %s\n%s", r.fits, j.Story())
			}
		})
	}
}
