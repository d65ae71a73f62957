package coordsrv

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/internal/act/control"
)

// death is that of a member; its process may have been more of them.
type death struct {
	*circle
	member int
}

// left: the process of a member has ended.
func (m *memory) left(node int, l control.RankLeft) {
	m.spares.left(node, l.Number)
	for _, c := range m.all() {
		if b, ok := c.begun[l.Rank]; ok && b.node == node && b.number == l.Number {
			m.died(c, l.Rank, b.process)
			return
		}
	}
}

// lost: a node is gone, and with it what runs there.
func (m *memory) lost(node int) {
	m.spares.lost(node)
	for _, c := range m.all() {
		for member := range c.members {
			if b, ok := c.begun[member]; ok && b.node == node {
				m.died(c, member, b.process)
			}
		}
	}
}

// died: a process has, which was a member, and maybe one of other groups as well. In all of them an epoch ends, and in those that are
// connected with them by processes of both.
func (m *memory) died(of *circle, member int, p process) {
	list := m.members(of, member, p)
	for _, d := range list {
		delete(d.begun, d.member)
		if d.group != nil { // the death of another may have ended it
			d.book.Left(d.run, d.member)
			d.group.Died(d.member)
		}
	}
	m.bonds.Look(m.bound(), nil, fmt.Sprintf("member %d of group %s has died", member, of.name))
	if sp := m.w.s.ranks.now.spread; m.ended && sp != nil {
		m.shrunk(len(sp.left))
	}
	m.spares.replace(list)
	if m.finished() && !slices.ContainsFunc(m.all(), func(c *circle) bool { return len(c.begun) > 0 }) {
		m.spares.end()
	}
	for _, d := range list {
		if h, ok := d.held[d.member]; ok {
			delete(d.held, d.member)
			h.then()
		} else if d.group != nil && !m.keeps() && !d.group.Lives() { // all have ended, whether they said so or not
			d.reset()
		}
	}
}

// members are those that a process is, this one among them.
func (m *memory) members(of *circle, member int, p process) []death {
	list := []death{{of, member}}
	for _, c := range m.all() {
		for other, b := range c.begun {
			if b.process == p && p.pid != 0 && !(c == of && other == member) {
				list = append(list, death{c, other})
			}
		}
	}
	slices.SortFunc(list, func(x, y death) int { return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.member, y.member)) })
	return list
}
