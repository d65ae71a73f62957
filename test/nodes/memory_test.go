package nodes

import (
	"context"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestMemoryLimit: where a node's memory has a limit, caches in it count. A checkpoint for which not enough is left is refused with
// the sum, and the job goes on: the kernel has nothing to kill.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	g := prepare(t)
	for i, r := range []struct{ mib, fits, say string }{
		{"40", "the first", `no checkpoint: cache .* on node node[1-4]: too small: wanted 3 x \(.*\) = .*, found .* free \+ .* held \(.* of the memory that /.* allows`},
		{"140", "none", `no checkpoint: cache .* on node node[1-4]: too small: wanted 1 x \(.*\) = .*, found .* free \+ .* held \(`},
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
			j := c.job(ctx, t, "memory", harness.MPIs()[i%2], nil)
			defer j.Close()
			c.until(ctx, t, j, r.say)
			c.release(t, "memory")
			c.ends(ctx, t, j)
			if said := j.Proc().Stderr.String(); strings.Contains(said, "going back") || strings.Contains(said, "committed after") != (r.fits == "the first") {
				t.Errorf("it went back, or did not commit %s\n%s", r.fits, j.Story())
			}
		})
	}
}
