// Package recovery decides where the ranks of a job go on from a checkpoint that lies in the caches of its nodes, and what of it
// has to be made again on whom.
//
// It guarantees: what it decides needs only what nodes have said that they hold; every rank goes on at one node, that has its
// images, or gets them rebuilt before; what cannot be had is an error that names it (holding.ErrLost). The same reports give
// the same decision, in whatever order they come.
package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
)

// Held is what a node holds of a checkpoint: whole, as far as its manifest and the headers of its files say.
type Held struct {
	holding.ID
	Label   holding.Label    // of a dataset that a program has written itself
	Ranks   []int            // whose images are there
	Members []holding.Header // of redundancy sets: which members it is, and what it keeps for others is there
}

// Node is a node that can be used.
type Node struct {
	Name string
	Held *Held // of the checkpoint in question; nil: nothing
}

// Rebuild is a member of a set that has to be made again.
type Rebuild struct {
	Header  holding.Header // of its set; Own is the member that is lost
	To      int            // node that becomes this member
	Members []int          // nodes that are the members, by number; that of the lost one is To, -1: it is lost, too
}

// Plan is how a job goes on.
type Plan struct {
	Ranks   [][]int // by node, ascending
	Rebuild []Rebuild
}

// place is a member of a set.
type place struct{ set, member int }

// Decide says how the ranks of a job go on from a checkpoint. Nodes that have nothing of it take the place of those that are
// lost, in their order; then those that have the fewest ranks.
func Decide(job [16]byte, checkpoint uint64, ranks int, nodes []Node) (*Plan, error) {
	id, headers, at, err := gather(job, checkpoint, nodes)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Ranks: make([][]int, len(nodes))}
	if len(headers) == 0 {
		plan.asTheyLie(id, nodes)
		return plan, plan.complete(ranks, checkpoint)
	}
	report, err := holding.Recoverable(*id, headers)
	if err != nil {
		return nil, err
	}
	for set, h := range report.Sets {
		for member := range h.Members {
			if node, ok := at[place{set, member}]; ok {
				plan.give(node, h.Members[member])
			}
		}
	}
	for _, l := range report.Lost {
		plan.replace(l, report.Sets[l.Set], at)
	}
	for _, ns := range plan.Ranks {
		slices.Sort(ns)
	}
	return plan, plan.complete(ranks, checkpoint)
}

// gather collects what all nodes have of the checkpoint, and at which node each member is: the first that has it.
func gather(job [16]byte, checkpoint uint64, nodes []Node) (*holding.ID, []holding.Header, map[place]int, error) {
	id := newest(job, checkpoint, nodes)
	if id == nil {
		return nil, nil, nil, fmt.Errorf("recovery: checkpoint %d: no node has anything of it: %w", checkpoint, holding.ErrLost)
	}
	var headers []holding.Header
	at := map[place]int{}
	for i, n := range nodes {
		if n.Held == nil || n.Held.ID != *id {
			continue
		}
		for _, h := range n.Held.Members {
			p := place{h.Set, h.Own}
			if _, twice := at[p]; !twice && n.Held.has(h.Members[h.Own]) {
				at[p], headers = i, append(headers, h)
			}
		}
	}
	return id, headers, at, nil
}

// newest is what the last start has written that made a checkpoint of that number: a node that was away may come back with
// another, of a time that the job has gone back behind.
func newest(job [16]byte, checkpoint uint64, nodes []Node) *holding.ID {
	var id *holding.ID
	for i, n := range nodes {
		if n.Held == nil || n.Held.Job != job || n.Held.Dataset != checkpoint {
			continue
		}
		if id == nil || cmp.Or(cmp.Compare(n.Held.Start, id.Start), cmp.Compare(n.Held.Epoch, id.Epoch)) > 0 {
			id = &nodes[i].Held.ID
		}
	}
	return id
}

// has says whether the images of a member are there.
func (h *Held) has(m holding.Member) bool {
	return !slices.ContainsFunc(m.Ranks(), func(r int) bool { return !slices.Contains(h.Ranks, r) })
}

// asTheyLie: without redundancy each rank goes on at the first node that has its images.
func (p *Plan) asTheyLie(id *holding.ID, nodes []Node) {
	given := map[int]bool{}
	for i, n := range nodes {
		if n.Held == nil || n.Held.ID != *id {
			continue
		}
		for _, r := range n.Held.Ranks {
			if !given[r] {
				given[r] = true
				p.Ranks[i] = append(p.Ranks[i], r)
			}
		}
	}
	for _, ns := range p.Ranks {
		slices.Sort(ns)
	}
}

func (p *Plan) give(node int, m holding.Member) { p.Ranks[node] = append(p.Ranks[node], m.Ranks()...) }

// replace finds a node for a member that is lost: not one of its set, where that can be.
func (p *Plan) replace(l holding.Loss, h holding.Header, at map[place]int) {
	members := make([]int, len(h.Members))
	of := map[int]bool{}
	for m := range members {
		node, ok := at[place{l.Set, m}]
		if !ok {
			members[m] = -1
			continue
		}
		members[m], of[node] = node, true
	}
	all := make([]int, len(p.Ranks))
	for i := range all {
		all[i] = i
	}
	to := slices.MinFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(of[a]), rank(of[b])), cmp.Compare(len(p.Ranks[a]), len(p.Ranks[b])), cmp.Compare(a, b))
	})
	h.Own, members[l.Member] = l.Member, to
	at[place{l.Set, l.Member}] = to
	p.give(to, h.Members[l.Member])
	p.Rebuild = append(p.Rebuild, Rebuild{Header: h, To: to, Members: members})
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// complete says which ranks go on nowhere.
func (p *Plan) complete(ranks int, checkpoint uint64) error {
	found := map[int]bool{}
	for _, list := range p.Ranks {
		for _, r := range list {
			if found[r] || r >= ranks {
				return fmt.Errorf("recovery: checkpoint %d: rank %d of %d is there twice or too high", checkpoint, r, ranks)
			}
			found[r] = true
		}
	}
	var missing []string
	for r := range ranks {
		if !found[r] {
			missing = append(missing, fmt.Sprint(r))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("recovery: checkpoint %d: the images of ranks %s: %w", checkpoint, strings.Join(missing, ", "), holding.ErrLost)
	}
	return nil
}
