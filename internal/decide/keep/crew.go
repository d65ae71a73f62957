package keep

import (
	"fmt"
	"maps"
	"slices"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// node is one that has joined.
type node struct {
	name, group string
	gone        bool
	held        map[uint64]*recovery.Held
}

// crew are the nodes that have joined: what each has of which checkpoints, and what they are asked to do. It owns the numbers of nodes
// and of transfers between them, which are not used twice.
//
// It guarantees that what is found damaged, and what is on a node that is gone, counts as lost; and that all answers to a question are
// heard before anything follows on it.
type crew struct {
	driver    Driver
	stream    holding.Stream
	nodes     []*node
	transfers uint64 // numbers given
}

// Join adds a node with what it has, of this stream and of others, and returns its number: they are counted from 0.
func (c *crew) Join(name, group string, held []recovery.Held) int {
	n := &node{name: name, group: group, held: map[uint64]*recovery.Held{}}
	for i := range held {
		if held[i].Stream == c.stream {
			n.held[held[i].Dataset] = &held[i]
		}
	}
	c.nodes = append(c.nodes, n)
	return len(c.nodes) - 1
}

// Lost: a node is gone, with what it had.
func (c *crew) Lost(node int) { c.nodes[node].gone = true }

// spoil: what a node has of a checkpoint is damaged, and counts as lost. What else it has is as good as any.
func (c *crew) spoil(node int, checkpoint uint64, why string) {
	n := c.nodes[node]
	if n.gone || n.held[checkpoint] == nil {
		return
	}
	what := c.describe(checkpoint)
	delete(n.held, checkpoint)
	c.driver.Say(fmt.Sprintf("%s: what %s has of it is damaged, and counts as lost: %s", what, n.name, why))
}

// Held lists the checkpoints of which any node has something.
func (c *crew) Held() []uint64 {
	all := map[uint64]bool{}
	for _, n := range c.nodes {
		for held := range n.held {
			all[held] = all[held] || !n.gone
		}
	}
	maps.DeleteFunc(all, func(_ uint64, there bool) bool { return !there })
	return slices.Sorted(maps.Keys(all))
}

// Label is what the program calls a dataset of which any node has something.
func (c *crew) Label(checkpoint uint64) holding.Label {
	for _, n := range c.nodes {
		if h := n.held[checkpoint]; h != nil && !n.gone {
			return h.Label
		}
	}
	return holding.Label{}
}

// describe is how a dataset is called in messages.
func (c *crew) describe(n uint64) string {
	if name := c.Label(n).Name; name != "" {
		return fmt.Sprintf("dataset %s", name)
	}
	return fmt.Sprintf("checkpoint %d", n)
}

// Away says whether nodes that have had a part of a checkpoint have not joined, or are gone; or nobody knows who has.
func (c *crew) Away(checkpoint uint64) bool {
	here, sets := map[string]bool{}, map[string]bool{}
	for _, n := range c.nodes {
		if n.gone {
			continue
		}
		here[n.name] = true
		if h := n.held[checkpoint]; h != nil {
			for _, header := range h.Members {
				for _, m := range header.Members {
					sets[m.Node] = true
				}
			}
		}
	}
	for name := range sets {
		if !here[name] {
			return true
		}
	}
	return len(sets) == 0
}

func (c *crew) members(nodes []int, grouped bool) []redset.Member {
	var list []redset.Member
	for i, n := range nodes {
		m := redset.Member{Node: i}
		if grouped {
			m.Group = c.nodes[n].group
		}
		list = append(list, m)
	}
	return list
}

func (c *crew) alive() []int {
	var list []int
	for i, n := range c.nodes {
		if !n.gone {
			list = append(list, i)
		}
	}
	return list
}

// ask gives nodes an order each. Each answer is heard when it comes; all of them, in the order of the nodes, at the end.
func (c *crew) ask(nodes []int, order func(i int) Order, each func(i int, a Answer), then func([]Answer)) {
	answers, left := make([]Answer, len(nodes)), len(nodes)
	if left == 0 {
		then(nil)
		return
	}
	for i, n := range nodes {
		c.driver.Ask(n, order(i), func(a Answer) {
			answers[i] = a
			each(i, a)
			if left--; left == 0 {
				then(answers)
			}
		})
	}
}

func nothing(int, Answer) {}

// abandonOn ends a transfer everywhere when one of its members cannot do its share.
func (c *crew) abandonOn(a Answer, transfer uint64, nodes []int) {
	if a.Err == "" {
		return
	}
	for _, n := range nodes {
		if n >= 0 && !c.nodes[n].gone {
			c.driver.Tell(n, Abandon{transfer})
		}
	}
}

func (c *crew) forget(checkpoint uint64) {
	for _, n := range c.nodes {
		delete(n.held, checkpoint)
	}
}

// remove has all nodes remove something; that one cannot is told, and changes nothing.
func (c *crew) remove(order Order) {
	c.ask(c.alive(), func(int) Order { return order }, nothing, func(answers []Answer) {
		if why := failure(answers); why != "" {
			c.driver.Say(why)
		}
	})
}

// transfer is the number of a new one.
func (c *crew) transfer() uint64 {
	c.transfers++
	return c.transfers
}
