package keep

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// How says how a checkpoint is protected. The zero value: as all are.
type How struct {
	Scheme redset.Scheme
	Size   int      // of sets, at least; 0: as fits
	Groups []string // what each node of the commit fails together with, where that is other than was said when it joined; empty: as then
	// Increments: where the nodes have one like it already, of the same group, they send each other only what has changed since.
	Increments bool
}

// draft is a checkpoint on its way to its commit.
type draft struct {
	id        holding.ID
	label     holding.Label
	how       How
	nodes     []int            // that have a part of it
	ranks     [][]int          // by node
	files     [][]holding.File // by node
	sets      []redset.Set     // their nodes are places in nodes
	headers   []holding.Header // by node; none without redundancy
	transfers []uint64         // by set
}

// Commit makes a checkpoint count that the ranks of these nodes have written.
func (k *Keeper) Commit(id holding.ID, label holding.Label, how How, nodes []int, ranks [][]int) {
	if how.Scheme == 0 {
		how.Scheme, how.Size = k.cfg.Scheme, k.cfg.Size
	}
	d := &draft{id: id, label: label, how: how, nodes: slices.Clone(nodes), ranks: ranks}
	k.ask(d.nodes, func(i int) Order { return Seal{id.Dataset, ranks[i]} }, nothing, func(answers []Answer) {
		why := failure(answers)
		if why == "" && len(answers) == 0 {
			why = "keep: there is no node left"
		}
		if why != "" {
			k.driver.Committed(id.Dataset, why)
			return
		}
		var paths []holding.Path
		for _, a := range answers {
			d.files, paths = append(d.files, a.Files), append(paths, a.Paths...)
		}
		if a, b, twice := holding.Twice(paths); twice && d.label.Name != "" {
			d.refuse(k, a, b)
			return
		}
		k.protect(d)
	})
}

// refuse gives a dataset up of which two ranks have written the same file: which of the two would be kept?
func (d *draft) refuse(k *Keeper, a, b holding.Path) {
	at := slices.IndexFunc(d.ranks, func(ranks []int) bool { return slices.Contains(ranks, a.Rank) })
	k.ask(d.nodes[at:at+1], func(int) Order { return Name{d.id.Dataset, a} }, nothing, func(answers []Answer) {
		k.driver.Committed(d.id.Dataset, fmt.Sprintf("ranks %d and %d have both written %s: in the caches of nodes these are two files "+
			"(SCR_CACHE_BYPASS=1 has files written in the prefix that ranks share)", a.Rank, b.Rank, answers[0].Text))
	})
}

// protect makes the redundancy of a checkpoint whose parts are sealed, then gives out the record.
func (k *Keeper) protect(d *draft) {
	if err := k.divide(d); err != nil {
		k.driver.Committed(d.id.Dataset, err.Error())
		return
	}
	if len(d.headers) == 0 {
		k.agree(d)
		return
	}
	d.encode(k, d.base(k))
}

// encode makes the redundancy of a checkpoint, as an increment of this one (0: of none). Where what some node has of that is damaged, it is
// made of all bytes after that.
func (d *draft) encode(k *Keeper, base uint64) {
	encode := func(i int) Order {
		h := d.headers[i]
		return Encode{h, d.transfers[h.Set], d.setNodes(h.Set), base}
	}
	each := func(i int, a Answer) {
		set := d.headers[i].Set
		k.abandonOn(a, d.transfers[set], d.setNodes(set))
	}
	k.ask(d.nodes, encode, each, func(answers []Answer) {
		why := failure(answers)
		switch {
		case why == "":
			d.sent(k, base, answers)
			k.agree(d)
		case base != 0 && slices.ContainsFunc(answers, func(a Answer) bool { return a.Damaged }):
			for i, a := range answers {
				if a.Damaged {
					k.spoil(d.nodes[i], base, a.Err)
				}
			}
			for set := range d.transfers {
				d.transfers[set] = k.transfer()
			}
			d.encode(k, 0)
		default:
			k.driver.Committed(d.id.Dataset, why)
		}
	})
}

// triedAgain is after how many commits an increment is tried again, when the last was most of all bytes: comparing them is work for nothing.
const triedAgain = 7

// base is the newest dataset of which this one can be an increment on all nodes; 0: there is none, or it is not worth it.
func (d *draft) base(k *Keeper) uint64 {
	if !d.how.Increments {
		return 0
	}
	group := d.label.Group(d.id.Dataset)
	if k.full[group] > 0 {
		k.full[group]--
		return 0
	}
	like := func(checkpoint uint64) bool {
		if k.Label(checkpoint).Group(checkpoint) != group { // which may drop it meanwhile
			return false
		}
		for i, n := range d.nodes {
			h := k.nodes[n].held[checkpoint]
			if k.nodes[n].gone || h == nil || len(h.Members) != 1 || !h.Members[0].SameShape(&d.headers[i]) {
				return false
			}
		}
		return true
	}
	for _, n := range slices.Backward(k.Held()) {
		if like(n) {
			return n
		}
	}
	return 0
}

// sent takes in what an increment has cost.
func (d *draft) sent(k *Keeper, base uint64, answers []Answer) {
	var all, sent int64
	for i, a := range answers {
		all, sent = all+holding.Member{Files: d.files[i]}.Bytes(), sent+a.Sent
	}
	if base != 0 && sent > all/2 {
		k.full[d.label.Group(d.id.Dataset)] = triedAgain
	}
}

// divide puts the nodes of a checkpoint into sets. Where those that are left cannot protect each other as was asked for, they
// do it as they can, with fewer copies where they are too few, and the user is told.
func (k *Keeper) divide(d *draft) error {
	scheme := d.how.Scheme
	if len(d.nodes) == 1 && scheme != redset.Single {
		k.say(fmt.Sprintf("one node is left, %s: what is in its cache has no redundancy", k.nodes[d.nodes[0]].name))
		scheme = redset.Single
	}
	members := k.members(d.nodes, true)
	for i, group := range d.how.Groups {
		members[i].Group = cmp.Or(group, members[i].Group)
	}
	var err error
	if d.sets, err = redset.Divide(members, scheme, d.how.Size); err != nil {
		first := err
		scheme = scheme.Among(len(d.nodes))
		if d.sets, err = redset.Divide(members, scheme, 0); err != nil {
			d.sets, err = redset.Divide(k.members(d.nodes, false), scheme, 0)
		}
		if err != nil {
			return err
		}
		k.say(fmt.Sprintf("the nodes that are left protect each other less than was asked for: %v", first))
	}
	if scheme == redset.Single {
		return nil
	}
	d.headers, d.transfers = make([]holding.Header, len(d.nodes)), make([]uint64, len(d.sets))
	for i, set := range d.sets {
		d.transfers[i] = k.transfer()
		h := holding.Header{ID: d.id, Scheme: set.Scheme, Set: i, Sets: len(d.sets)}
		for _, m := range set.Members {
			n := k.nodes[d.nodes[m.Node]]
			h.Members = append(h.Members, holding.Member{Node: n.name, Group: n.group, Files: d.files[m.Node]})
		}
		for own, m := range set.Members {
			h.Own = own
			d.headers[m.Node] = h
		}
	}
	return nil
}

// setNodes are the nodes of a set, by member.
func (d *draft) setNodes(set int) []int {
	var list []int
	for _, m := range d.sets[set].Members {
		list = append(list, d.nodes[m.Node])
	}
	return list
}

// agree gives all nodes the record of a checkpoint. A node that has not taken it counts as lost. The checkpoint is committed, and
// somebody is told, only when it can be had without these, and when no loss that its sets survive can take the record.
func (k *Keeper) agree(d *draft) {
	k.ask(d.nodes, func(i int) Order {
		r := Record{ID: d.id, Label: d.label, Files: d.files[i]}
		if len(d.headers) > 0 {
			r.Members = []holding.Header{d.headers[i]}
		}
		return r
	}, nothing, func(answers []Answer) {
		have, missing := map[int]bool{}, map[int]bool{}
		for i, a := range answers {
			if a.Err != "" {
				missing[i] = true
				continue
			}
			have[i] = true
			k.nodes[d.nodes[i]].held[d.id.Dataset] = d.holding(i)
		}
		why := failure(answers)
		for _, set := range d.sets {
			if !set.Survives(missing) || set.Survives(have) {
				k.driver.Committed(d.id.Dataset, why)
				return
			}
		}
		if why != "" {
			k.driver.Say(fmt.Sprintf("%s is committed, but what one node has of it counts as lost: %s", k.describe(d.id.Dataset), why))
		}
		k.commits++
		k.driver.Committed(d.id.Dataset, "")
		k.flushSome(d.id.Dataset)
	})
}

// holding is what a node has of a checkpoint that it has recorded.
func (d *draft) holding(i int) *recovery.Held {
	h := &recovery.Held{ID: d.id, Label: d.label, Ranks: slices.Clone(d.ranks[i])}
	if len(d.headers) > 0 {
		h.Members = []holding.Header{d.headers[i]}
	}
	return h
}
