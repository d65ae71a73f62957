package nodes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestShapes: jobs of all kinds on clusters of all shapes lose nodes, are killed or leave, and go on under either MPI, on these nodes,
// on others, or on one machine. They end with the last values of a native run.
func TestShapes(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	random(t, 2, func(t *testing.T, _ int, rng *rand.Rand) {
		s := draw(rng)
		t.Log(s)
		s.live(t)
	})
}

// shape is a job and the nodes that it is on.
type shape struct {
	rng                  *rand.Rand
	nodes, spares, ranks int
	face                 string // the MPI that the program was built for
	work                 harness.Program
	flags                []string
}

func (s *shape) String() string {
	return fmt.Sprintf("%d nodes, %d spares, %d ranks, %s's %v, %v", s.nodes, s.spares, s.ranks, s.face, s.work, s.flags)
}

// kinds are the programs of the matrix that nodes can have: without those whose ranks share memory, which must be on one, and those whose
// files are gone when they have ended once.
func kinds() []string {
	return []string{
		"p2p_storm", "coll_storm", "nbcoll", "types", "comm_churn", "comm_free", "threads", "straggler", "memory", "children", "sparse_exchange",
		"shared_files", "in_place", "descriptors", "cxx_except", "omp", "completions", "persistent", "sendmodes", "cart", "stencil", "cg", "fft_transpose",
		"particles", "heartbeat", "signal_storm", "neighbors", "nbcoll_storm", "thread_colls", "large",
	}
}

func draw(rng *rand.Rand) *shape {
	s := &shape{rng: rng, nodes: 2 + rng.IntN(4), spares: 1 + rng.IntN(2)}
	s.ranks = min(s.nodes+rng.IntN(s.nodes+2), 8)
	s.face = harness.MPIs()[rng.IntN(2)]
	s.work = harness.Program{Name: kinds()[rng.IntN(len(kinds()))], Args: []string{"--iters", "150", "--pace", "20000", "--seed", fmt.Sprint(rng.IntN(1000))}}
	if s.work.Name == "fft_transpose" { // whose ranks must divide the size of its grid
		s.ranks = 4 << (s.nodes / 5)
	}
	scheme := []string{"xor", "xor", "partner", "single", "store"}[rng.IntN(5)]
	if scheme == "store" { // no caches
		return s
	}
	flush := 1 + rng.IntN(3)
	if scheme == "single" {
		flush = 1
	}
	s.flags = []string{"--cache", cache, "--redundancy", scheme, "--flush", fmt.Sprint(flush), "--keep", fmt.Sprint(1 + rng.IntN(3))}
	if scheme != "single" && rng.IntN(2) == 0 {
		s.flags = append(s.flags, "--set-size", fmt.Sprint(2+rng.IntN(s.nodes-1)))
	}
	return s
}

// course is a job of a shape in its present life.
type course struct {
	*shape
	*cluster
	j     *harness.Job
	box   string // the sandbox that it is on; empty: this machine
	up    []int  // its nodes, without spares, that have not been lost
	moves int
	boxes []*box // all that it has been on
}

func (s *shape) live(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	c := &course{shape: s, cluster: newCluster(t, "--nodes", fmt.Sprint(s.nodes), "--spares", fmt.Sprint(s.spares)), box: "nodes", up: s.rng.Perm(s.nodes)}
	c.onBox(t)
	var err error
	if c.want, err = native(c.site, s.face, s.ranks, s.work); err != nil {
		t.Fatal(err)
	}
	c.j = c.place(t, "shape", nil)
	defer c.j.Close()
	flags := append([]string{"-v", "--every", "1s", "--sandbox", c.box}, s.flags...)
	if err := c.j.Run(ctx, harness.MPIs()[s.rng.IntN(2)], s.ranks, flags, c.site.Command(s.work, s.face)...); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if !reach(ctx, c.j, strings.Count(c.j.Proc().Stderr.String(), "committed after")+1) {
			break
		}
		pause(ctx, time.Duration(s.rng.IntN(1200))*time.Millisecond)
		if !c.j.Proc().Running() {
			break
		}
		if c.happens(ctx, t) {
			return
		}
	}
	c.ends(ctx, t, c.j)
	if said := harness.Failures(c.j.Proc().Stderr.String()); len(said) > 0 {
		t.Errorf("it says %s\n%s", said[0], c.j.Story())
	}
	c.nothingLeft(t)
}

// killed kills byssus, and the job goes on where it was.
func (c *course) killed(ctx context.Context, t *testing.T) (over bool) {
	c.j.Proc().Kill()
	return c.restart(ctx, t)
}

// leaves has the job leave with a checkpoint, and goes on with it elsewhere.
func (c *course) leaves(ctx context.Context, t *testing.T) (over bool) {
	t.Helper()
	said, errs, code := c.j.Command(ctx, "stop", c.j.Name)
	select {
	case <-c.j.Proc().Done():
	case <-ctx.Done():
		t.Fatalf("it does not leave: %s%s\n%s", said, errs, c.j.Story())
	}
	if left := c.j.Proc().ExitCode(); left == 0 {
		return false
	} else if code != 0 || left != 123 {
		t.Fatalf("stop: exit code %d, %s%s; the job's is %d\n%s", code, said, errs, left, c.j.Story())
	}
	if c.rng.IntN(3) == 0 {
		c.box = ""
		return c.restart(ctx, t)
	}
	c.moves++
	c.box, c.nodes = fmt.Sprint("nodes", c.moves), 1+c.rng.IntN(5)
	c.up = c.rng.Perm(c.nodes)
	c.create(t, c.box, "--nodes", fmt.Sprint(c.nodes), "--spares", fmt.Sprint(c.spares))
	c.onBox(t)
	switch {
	case len(c.flags) == 0:
		return c.restart(ctx, t)
	case c.nodes == 1:
		return c.restart(ctx, t, "--redundancy", "single")
	}
	return c.restart(ctx, t, "--set-size", "2")
}

func (c *course) restart(ctx context.Context, t *testing.T, flags ...string) (over bool) {
	t.Helper()
	over = slices.Equal(last(c.j.Proc().Stdout.String()), c.want)
	mpi := harness.MPIs()[c.rng.IntN(2)]
	flags = append(flags, "-v", "--every", "1s")
	if c.box != "" {
		flags = append(flags, "--sandbox", c.box)
	}
	t.Log("restart", mpi, flags, c.nodes)
	if err := c.j.Restart(ctx, mpi, flags...); err != nil {
		t.Fatal(err)
	}
	if over {
		finished(ctx, t, c.j)
	}
	return over
}
