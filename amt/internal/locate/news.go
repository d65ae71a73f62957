package locate

import "fmt"

// Receive takes what the machine on another rank has told.
func (m *Machine[M]) Receive(from int, n News, out []Order[M]) []Order[M] {
	switch n.Kind {
	case Installed, Destroyed, Create, Ask:
		return m.atHome(from, n, out)
	case Acked:
		if s := m.find(n.Element); s != nil && (s.state == away || s.state == creating) && s.move == n.Move {
			s.acked = true
		}
		return out
	case Told:
		return m.told(n, out)
	}
	s := m.find(n.Element)
	switch {
	case n.Kind == Gone && s != nil && s.state == awaited && n.Move >= s.move:
		s.state = gone
		out = m.release(s, out)
		m.table.remove(n.Element)
	case n.Kind == Granted && s != nil && s.state == creating:
		*s = entry{key: s.key, state: here, move: n.Move, held: s.held}
		out = m.release(s, append(out, Order[M]{Do: Install, Element: n.Element}))
	case n.Kind == Refused:
		out = m.refused(s, append(out, Order[M]{Do: Refuse, Element: n.Element}))
	}
	return out
}

// refused gives up to create an element. What was held for it goes where it went, or is held until home says where that is.
func (m *Machine[M]) refused(s *entry, out []Order[M]) []Order[M] {
	switch {
	case s == nil || s.state != creating: // it has come here
	case s.rank != m.rank:
		s.state, m.left = away, true
		out = m.release(s, out)
	case s.held:
		s.state = awaited
		out = m.ask(s, out)
	default:
		m.table.remove(s.key)
	}
	return out
}

// told takes the place of an element. What is held for it goes there, if it has been here.
func (m *Machine[M]) told(n News, out []Order[M]) []Order[M] {
	if n.Rank == m.rank {
		return out // it is to come
	}
	s := m.find(n.Element)
	if s == nil {
		m.cache.put(n.Element, n.Rank, n.Move)
		return out
	}
	if n.Move <= s.move || s.state != away && s.state != awaited {
		return out
	}
	was := s.state
	s.state, s.rank, s.move, s.acked, s.told = away, n.Rank, n.Move, true, 0
	if was == awaited {
		out = m.release(s, out)
		m.table.remove(n.Element)
		m.cache.put(n.Element, n.Rank, n.Move)
	}
	return out
}

// atHome takes what only the home of an element is told.
func (m *Machine[M]) atHome(from int, n News, out []Order[M]) []Order[M] {
	s := m.find(n.Element)
	switch n.Kind {
	case Installed:
		if s != nil && (n.Move > s.move || n.Move == s.move && s.state == away) {
			m.mustBeElsewhere(s, from, n)
			s.state, s.rank, s.move, s.acked, s.told = away, int32(from), n.Move, true, 0
			out = m.release(s, out)
		}
		if n.Rank == m.rank {
			return out
		}
		return m.tell(out, int(n.Rank), News{Kind: Acked, Element: n.Element, Move: n.Move})
	case Destroyed:
		if s != nil && (n.Move > s.move || n.Move == s.move && s.state == awaited) {
			m.mustBeElsewhere(s, from, n)
			*s = entry{key: s.key, state: gone, move: n.Move, held: s.held}
			m.left = true
			out = m.release(s, out)
		}
		return m.tell(out, from, News{Kind: Acked, Element: n.Element, Move: n.Move})
	case Create:
		if s != nil && s.state != gone {
			return m.tell(out, from, News{Kind: Refused, Element: n.Element})
		}
		s = m.put(n.Element)
		*s = entry{key: n.Element, state: away, rank: int32(from), move: max(s.move, m.floor) + 1, acked: true}
		return m.tell(out, from, News{Kind: Granted, Element: n.Element, Move: s.move})
	}
	return m.asked(s, from, n, out)
}

// asked answers a rank that holds messages for a move, if the element has made more. If it has not, it is on its way to that rank.
func (m *Machine[M]) asked(s *entry, from int, n News, out []Order[M]) []Order[M] {
	answer := News{Kind: Told, Element: n.Element, Rank: m.rank}
	switch {
	case s == nil || s.state == gone:
		answer.Kind, answer.Move = Gone, n.Move
	case s.move <= n.Move:
		return out
	case s.state == away:
		answer.Rank, answer.Move = s.rank, s.move
	default: // it is here, or comes
		answer.Move = s.move
	}
	return m.tell(out, from, answer)
}

// mustBeElsewhere asserts that an element that another rank has is not here.
func (m *Machine[M]) mustBeElsewhere(s *entry, from int, n News) {
	if s.state == here || s.state == leaving || s.state == arriving {
		panic(fmt.Sprintf("locate: rank %d: rank %d tells %+v, but the element is here: %+v", m.rank, from, n, *s))
	}
}
