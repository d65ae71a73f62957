package keep

import (
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// counting answers everything well, and counts.
type counting struct {
	messages  int // orders and answers
	headers   []holding.Header
	bases     []uint64 // of what was encoded
	queue     []func()
	committed int
	files     func(node int) []holding.File
}

func (c *counting) Ask(node int, order Order, then func(Answer)) {
	c.messages += 2
	c.queue = append(c.queue, func() {
		if _, ok := order.(Seal); ok {
			then(Answer{Files: c.files(node)})
			return
		}
		if e, ok := order.(Encode); ok {
			c.headers, c.bases = append(c.headers, e.Header), append(c.bases, e.Base)
		}
		then(Answer{})
	})
}
func (c *counting) Tell(int, Order)                { c.messages++ }
func (c *counting) Store(_ Work, then func(error)) { c.queue = append(c.queue, func() { then(nil) }) }
func (c *counting) Committed(_ uint64, why string) {
	if why == "" {
		c.committed++
	}
}
func (c *counting) Flushed(uint64)                      {}
func (c *counting) Rebuilt(uint64, string, int, int64)  {}
func (c *counting) Repaired(uint64, int, int64, string) {}
func (c *counting) Say(string)                          {}

// TestMessages: what the coordinator sends and hears for a checkpoint in caches is so much for each node, whatever the number of
// nodes and of ranks.
func TestMessages(t *testing.T) {
	for _, nodes := range []int{16, 64, 256, 1024, 4096} {
		for _, perNode := range []int{1, 64} {
			d := &counting{}
			k := New(Config{Job: simJob, Ranks: nodes * perNode, Scheme: redset.XOR}, d, nil)
			var list []int
			ranks := make([][]int, nodes)
			for i := range nodes {
				list = append(list, k.Join(nodeName(i), "", nil))
				for r := range perNode {
					ranks[i] = append(ranks[i], i*perNode+r)
				}
			}
			d.files = func(node int) []holding.File { return filesOf(ranks[node]) }
			k.Commit(holding.ID{Job: simJob, Start: 1, Epoch: 1, Dataset: 1}, holding.Label{}, How{}, list, ranks)
			for len(d.queue) > 0 {
				do := d.queue[0]
				d.queue = d.queue[1:]
				do()
			}
			if d.committed != 1 {
				t.Fatalf("%d nodes: not committed", nodes)
			}
			t.Logf("%4d nodes, %6d ranks: %5d messages, %.1f a node", nodes, nodes*perNode, d.messages, float64(d.messages)/float64(nodes))
			if d.messages != 6*nodes {
				t.Errorf("%d nodes, %d ranks on each: %d messages, wanted 6 for each node", nodes, perNode, d.messages)
			}
		}
	}
}

// TestGroupsOfOne: what nodes fail together with can be said for one dataset: those of a group protect others, not each other.
func TestGroupsOfOne(t *testing.T) {
	for _, groups := range [][]string{{"a", "a", "b", "b"}, {"a", "b", "a", "b"}, {"a", "b", "b", "a"}} {
		d := &counting{files: func(node int) []holding.File { return filesOf([]int{node}) }}
		k := New(Config{Job: simJob, Ranks: len(groups), Scheme: redset.XOR}, d, nil)
		var list []int
		var ranks [][]int
		group := map[string]string{}
		for i := range groups {
			list, ranks = append(list, k.Join(nodeName(i), "", nil)), append(ranks, []int{i})
			group[nodeName(i)] = groups[i]
		}
		k.Commit(holding.ID{Job: simJob, Start: 1, Epoch: 1, Dataset: 1}, holding.Label{}, How{Scheme: redset.XOR, Size: 2, Groups: groups}, list, ranks)
		for len(d.queue) > 0 {
			do := d.queue[0]
			d.queue = d.queue[1:]
			do()
		}
		for _, h := range d.headers {
			if len(h.Members) != 2 || group[h.Members[0].Node] == group[h.Members[1].Node] {
				t.Errorf("groups %v: %s protects %s", groups, h.Members[0].Node, h.Members[len(h.Members)-1].Node)
			}
		}
		if d.committed != 1 || len(d.headers) != len(groups) {
			t.Errorf("groups %v: committed %d, %d headers", groups, d.committed, len(d.headers))
		}
	}
}

// TestFewerCopies: where fewer nodes are left than the copies need, there are as many as they can hold.
func TestFewerCopies(t *testing.T) {
	for nodes, want := range map[int]redset.Scheme{5: redset.PartnerOf(3), 4: redset.PartnerOf(3), 3: redset.PartnerOf(2), 2: redset.Partner, 1: 0} {
		d := &counting{files: func(node int) []holding.File { return filesOf([]int{node}) }}
		k := New(Config{Job: simJob, Ranks: nodes, Scheme: redset.PartnerOf(3), Size: 4}, d, nil)
		var list []int
		var ranks [][]int
		for i := range nodes {
			list, ranks = append(list, k.Join(nodeName(i), "", nil)), append(ranks, []int{i})
		}
		k.Commit(holding.ID{Job: simJob, Start: 1, Epoch: 1, Dataset: 1}, holding.Label{}, How{}, list, ranks)
		for len(d.queue) > 0 {
			do := d.queue[0]
			d.queue = d.queue[1:]
			do()
		}
		if d.committed != 1 || want == 0 && len(d.headers) > 0 || want != 0 && len(d.headers) != nodes {
			t.Errorf("%d nodes: committed %d, %d headers", nodes, d.committed, len(d.headers))
		}
		for _, h := range d.headers {
			if h.Scheme != want || len(h.Members) != nodes {
				t.Errorf("%d nodes: found %v among %d, wanted %v", nodes, h.Scheme, len(h.Members), want)
			}
		}
	}
}

// TestIncrementsOfGroups: a snapshot is an increment of the newest one of its group, though another group has a newer one of its shape; of what
// nodes have the newest of each group is copied when a job leaves.
func TestIncrementsOfGroups(t *testing.T) {
	d := &counting{files: func(node int) []holding.File { return filesOf([]int{node}) }}
	k := New(Config{Job: simJob, Ranks: 2, Scheme: redset.XOR}, d, nil)
	list := []int{k.Join(nodeName(0), "", nil), k.Join(nodeName(1), "", nil)}
	run := func() {
		for len(d.queue) > 0 {
			do := d.queue[0]
			d.queue = d.queue[1:]
			do()
		}
	}
	commit := func(n uint64, name string) uint64 {
		k.Commit(holding.ID{Job: simJob, Start: 1, Epoch: n, Dataset: n}, holding.Label{Name: name, Checkpoint: true, Ranks: 2}, How{Increments: true}, list, [][]int{{0}, {1}})
		run()
		return d.bases[len(d.bases)-1]
	}
	for i, c := range []struct {
		name string
		base uint64
	}{{"a.1", 0}, {"b.2", 0}, {"b.3", 2}, {"a.4", 1}, {"a.5", 4}, {"b.6", 3}} {
		if base := commit(uint64(i+1), c.name); base != c.base {
			t.Errorf("%s is made of %d, wanted %d", c.name, base, c.base)
		}
	}
	for _, n := range []uint64{1, 2, 3, 4} {
		k.Drop(n)
	}
	k.Scavenge(func(copied uint64, errs []error) {
		if copied != 6 || len(errs) > 0 {
			t.Errorf("copied is %d: %v", copied, errs)
		}
	})
	run()
	if !k.Stored(5) || !k.Stored(6) {
		t.Errorf("stored are a.5: %v, b.6: %v", k.Stored(5), k.Stored(6))
	}
}
