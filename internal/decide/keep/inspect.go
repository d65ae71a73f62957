package keep

import (
	"slices"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
)

// inspections look through what nodes have, and have repaired what is damaged.
//
// They guarantee that one checkpoint is looked through by one inspection at a time, whose end all hear that wanted one.
type inspections struct {
	*crew
	running map[uint64][]func() // checkpoints that are looked through, and who waits for that
}

// Inspect has the nodes look through all that they have of a checkpoint, which the ranks of one of them could not read. What is damaged
// is repaired, where that can be; else all that the node has of it counts as lost from then on, so that Resume has it made again.
func (x *inspections) Inspect(checkpoint uint64, then func()) {
	waiting, begun := x.running[checkpoint]
	x.running[checkpoint] = append(waiting, then)
	if begun {
		return // what one has found another would repair a second time, or give up
	}
	over := func() {
		all := x.running[checkpoint]
		delete(x.running, checkpoint)
		for _, then := range all {
			then()
		}
	}
	nodes := slices.DeleteFunc(x.alive(), func(n int) bool { return x.nodes[n].held[checkpoint] == nil })
	x.ask(nodes, func(int) Order { return Inspect{checkpoint} }, nothing, func(answers []Answer) {
		var found []finding
		for i, a := range answers {
			switch {
			case a.Err == "":
			case len(a.Damage) == 0:
				x.spoil(nodes[i], checkpoint, a.Err)
			default:
				for _, d := range a.Damage {
					found = append(found, finding{nodes[i], d, a.Err})
				}
			}
		}
		x.repair(checkpoint, found, over)
	})
}

// finding is what is damaged on a node.
type finding struct {
	node int
	holding.Damage
	why string
}

// repair repairs what is damaged, one after the other: who gives needs what lies in the same stripes, and may be damaged elsewhere.
func (x *inspections) repair(checkpoint uint64, found []finding, then func()) {
	if len(found) == 0 {
		then()
		return
	}
	f := found[0]
	next := func() { x.repair(checkpoint, found[1:], then) }
	members := x.membersOf(checkpoint, f.Header)
	if members == nil || members[f.Header.Own] != f.node {
		x.spoil(f.node, checkpoint, f.why)
		next()
		return
	}
	x.transfers++
	transfer := x.transfers
	repair := func(i int) Order {
		h := f.Header
		h.Own = i
		return Repair{h, f.Header.Own, f.Ranges, transfer, members}
	}
	x.ask(members, repair, func(_ int, a Answer) { x.abandonOn(a, transfer, members) }, func(answers []Answer) {
		if answers[f.Header.Own].Err != "" { // who has given may have died after that
			x.spoil(f.node, checkpoint, f.why)
		} else {
			x.repaired(f, checkpoint)
		}
		next()
	})
}

// repaired tells of what was repaired.
func (x *inspections) repaired(f finding, checkpoint uint64) {
	var bytes int64
	for _, r := range f.Ranges {
		bytes += r.To - r.From
	}
	x.driver.Repaired(checkpoint, f.node, bytes, f.why)
}

// membersOf are the nodes that are the members of a set, by number; nil: some of them are not there.
func (x *inspections) membersOf(checkpoint uint64, h holding.Header) []int {
	list := make([]int, len(h.Members))
	for m := range list {
		list[m] = -1
	}
	for _, n := range x.alive() {
		held := x.nodes[n].held[checkpoint]
		if held == nil || held.ID != h.ID {
			continue
		}
		for _, own := range held.Members {
			if own.Set == h.Set && own.Own < len(list) && list[own.Own] < 0 {
				list[own.Own] = n
			}
		}
	}
	if slices.Contains(list, -1) {
		return nil
	}
	return list
}
