package recovery_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

var job = [16]byte{1, 2, 3}

// cluster is what nodes hold of a checkpoint, and the sets that they form.
type cluster struct {
	nodes []recovery.Node
	sets  []redset.Set
	ranks int
}

// newCluster spreads ranks over nodes in blocks, as a job does.
func newCluster(t *testing.T, nodes, ranks int, scheme redset.Scheme, size int) *cluster {
	t.Helper()
	c := &cluster{ranks: ranks}
	var members []redset.Member
	var parts []holding.Member
	for i := range nodes {
		m := holding.Member{Node: fmt.Sprintf("n%d", i)}
		for r := i * ranks / nodes; r < (i+1)*ranks/nodes; r++ {
			m.Files = append(m.Files, holding.File{Name: fmt.Sprintf("rank-%05d.0.img", r), Size: int64(100 + r), Digest: uint64(r), Rank: r})
		}
		parts, members = append(parts, m), append(members, redset.Member{Node: i})
		c.nodes = append(c.nodes, recovery.Node{Name: m.Node, Held: &recovery.Held{
			ID: holding.ID{Job: job, Start: 3, Epoch: 4, Dataset: 7}, Ranks: m.Ranks()}})
	}
	var err error
	if c.sets, err = redset.Divide(members, scheme, size); err != nil {
		t.Fatal(err)
	}
	if scheme == redset.Single {
		return c
	}
	for i, set := range c.sets {
		h := holding.Header{ID: c.nodes[0].Held.ID, Scheme: scheme, Set: i, Sets: len(c.sets)}
		for _, m := range set.Members {
			h.Members = append(h.Members, parts[m.Node])
		}
		for own, m := range set.Members {
			h.Own = own
			c.nodes[m.Node].Held.Members = []holding.Header{h}
		}
	}
	return c
}

// survives says whether all sets do.
func (c *cluster) survives(lost map[int]bool) bool {
	return !slices.ContainsFunc(c.sets, func(s redset.Set) bool { return !s.Survives(lost) })
}

// left are the nodes without those that are lost, and with spares.
func (c *cluster) left(lost map[int]bool, spares int) []recovery.Node {
	var list []recovery.Node
	for i, n := range c.nodes {
		if !lost[i] {
			list = append(list, n)
		}
	}
	for i := range spares {
		list = append(list, recovery.Node{Name: fmt.Sprintf("spare%d", i)})
	}
	return list
}

// TestRandom: whatever is lost, ranks go on once each, where their images are or are made again; or it is said that they cannot.
func TestRandom(t *testing.T) {
	const seed = 20261123
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	outcomes := map[bool]int{}
	for range 3000 {
		scheme := []redset.Scheme{redset.Single, redset.Partner, redset.PartnerOf(2 + rng.IntN(2)), redset.XOR}[rng.IntN(4)]
		nodes := max(2, scheme.Members()) + rng.IntN(9)
		size := min([]int{0, 2, 3, 4}[rng.IntN(4)], nodes)
		if size > 0 {
			size = max(size, scheme.Members())
		}
		c := newCluster(t, nodes, nodes+rng.IntN(10), scheme, size)
		lost := map[int]bool{}
		for range rng.IntN(4) {
			lost[rng.IntN(nodes)] = true
		}
		left := c.left(lost, rng.IntN(3))
		plan, err := recovery.Decide(job, 7, c.ranks, left)
		if want := c.survives(lost) && len(lost) < nodes; (err == nil) != want {
			t.Fatalf("%v, %d nodes, lost %v: %v, wanted it to be possible: %v", scheme, nodes, lost, err, want)
		}
		outcomes[err == nil]++
		if err != nil {
			if !errors.Is(err, holding.ErrLost) {
				t.Fatal(err)
			}
			continue
		}
		c.check(t, plan, left)
	}
	if outcomes[true] < 500 || outcomes[false] < 500 {
		t.Errorf("outcomes %v, wanted both often", outcomes)
	}
}

// check: each rank goes on once, at a node that has its images or becomes the member that has them, and nobody else is asked.
func (c *cluster) check(t *testing.T, plan *recovery.Plan, left []recovery.Node) {
	t.Helper()
	has := make([]map[int]bool, len(left))
	for i, n := range left {
		has[i] = map[int]bool{}
		if n.Held != nil {
			for _, r := range n.Held.Ranks {
				has[i][r] = true
			}
		}
	}
	for _, r := range plan.Rebuild {
		if r.Members[r.Header.Own] != r.To {
			t.Fatalf("rebuild %+v: who becomes the member is not it", r)
		}
		for _, rank := range r.Header.Members[r.Header.Own].Ranks() {
			if has[r.To][rank] {
				t.Fatalf("rank %d is made again on %s, which has it", rank, left[r.To].Name)
			}
			has[r.To][rank] = true
		}
	}
	given := map[int]int{}
	for i, ranks := range plan.Ranks {
		if !slices.IsSorted(ranks) {
			t.Fatalf("ranks %v of %s: not in order", ranks, left[i].Name)
		}
		for _, r := range ranks {
			given[r]++
			if !has[i][r] {
				t.Fatalf("rank %d goes on at %s, which has no image of it", r, left[i].Name)
			}
		}
	}
	for r := range c.ranks {
		if given[r] != 1 {
			t.Fatalf("rank %d goes on %d times", r, given[r])
		}
	}
}

// TestPlacement: a spare first; without one the node with the fewest ranks that is not of the set, where there is one.
func TestPlacement(t *testing.T) {
	c := newCluster(t, 4, 8, redset.XOR, 4)
	plan, err := recovery.Decide(job, 7, 8, c.left(map[int]bool{1: true}, 1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]int{{0, 1}, {4, 5}, {6, 7}, {2, 3}}, plan.Ranks); diff != "" {
		t.Errorf("with a spare:\n%s", diff)
	}
	c = newCluster(t, 4, 8, redset.Partner, 2) // nodes 0 and 2, 1 and 3
	if plan, err = recovery.Decide(job, 7, 8, c.left(map[int]bool{2: true}, 0)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]int{{0, 1}, {2, 3, 4, 5}, {6, 7}}, plan.Ranks); diff != "" {
		t.Errorf("without one:\n%s", diff)
	}
}

// TestStale: what a node brings back from a time that the job has gone back behind does not count, and keeps nothing from
// being used; nor do members whose images are not all there.
func TestStale(t *testing.T) {
	c := newCluster(t, 3, 3, redset.XOR, 3)
	old := *c.nodes[1].Held
	old.Start = 2
	c.nodes[1].Held = &old
	plan, err := recovery.Decide(job, 7, 3, c.nodes)
	if err != nil || len(plan.Rebuild) != 1 || plan.Rebuild[0].To != 1 {
		t.Fatalf("an old part: %+v, %v, wanted it made again on its node", plan, err)
	}
	c = newCluster(t, 3, 3, redset.XOR, 3)
	c.nodes[2].Held.Ranks = nil
	plan, err = recovery.Decide(job, 7, 3, c.nodes)
	if err != nil || len(plan.Rebuild) != 1 || plan.Rebuild[0].To != 2 {
		t.Fatalf("images are missing: %+v, %v, wanted them made again", plan, err)
	}
	other := *c.nodes[0].Held
	other.Dataset = 8
	if _, err := recovery.Decide(job, 7, 3, []recovery.Node{{Name: "a", Held: &other}}); !errors.Is(err, holding.ErrLost) {
		t.Errorf("another checkpoint: %v, wanted %v", err, holding.ErrLost)
	}
}
