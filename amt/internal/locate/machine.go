package locate

import "fmt"

// A Machine is what one rank knows of a collection. It belongs to one goroutine. M is a message, as the caller knows it.
type Machine[M any] struct {
	rank    int32
	home    func(element uint64) int
	table   table // what is here, was here in this phase, has its home here, or has messages that are held
	settled settled
	cache   cache
	waiting waiting[M]
	left    bool   // some entries may go when the phase is over
	floor   uint32 // elements that are made have larger moves: those that were destroyed and are forgotten had not
}

// New makes the machine of a rank, which remembers the places of so many elements of others: a power of two.
func New[M any](rank int, home func(element uint64) int, remembered int) *Machine[M] {
	if remembered < 1 || remembered&(remembered-1) != 0 {
		panic(fmt.Sprintf("locate: %d places to be remembered, want a power of two", remembered))
	}
	return &Machine[M]{rank: int32(rank), home: home, cache: cache{size: remembered}}
}

// Here tells whether an element is on this rank, to be run, and since which move.
func (m *Machine[M]) Here(e uint64) (move uint32, ok bool) {
	if s := m.known(e); s != nil && s.state == here {
		return s.move, true
	}
	return 0, false
}

// Held calls a function with each message that is held and its element, in no order, for who wants to say why nothing goes on.
func (m *Machine[M]) Held(each func(element uint64, message M)) {
	for e, q := range m.waiting.queues {
		for at := q.first; at >= 0; at = m.waiting.all[at].next {
			each(e, m.waiting.all[at].message)
		}
	}
}

func (m *Machine[M]) isHome(e uint64) bool { return m.home(e) == int(m.rank) }

// Send takes a message from this rank.
func (m *Machine[M]) Send(e uint64, message M) Step {
	s := m.table.find(e)
	if s != nil && s.state == here || s == nil && m.settled.has(e) {
		return Step{Do: Run}
	}
	if s == nil {
		return m.elsewhere(e)
	}
	switch s.state {
	case away:
		return Step{Do: Forward, To: s.rank, Move: s.move, ByHome: m.isHome(e)}
	case gone:
		return Step{Do: Fail}
	}
	m.waiting.hold(s, Stamp{Origin: m.rank}, message)
	return Step{Do: Hold}
}

// elsewhere is where a message goes whose element has no entry here.
func (m *Machine[M]) elsewhere(e uint64) Step {
	if c := m.cache.find(e); c != nil {
		return Step{Do: Forward, To: c.rank, Move: c.move}
	}
	home := m.home(e)
	if home == int(m.rank) {
		return Step{Do: Fail}
	}
	return Step{Do: Forward, To: int32(home)}
}

// Deliver takes a message from another rank: that which sent it last, not its origin.
func (m *Machine[M]) Deliver(e uint64, stamp Stamp, from int, message M, out []Order[M]) (Step, []Order[M]) {
	s := m.table.find(e)
	if s != nil && s.state == here || s == nil && m.settled.has(e) {
		return Step{Do: Run}, out
	}
	ask := false
	switch {
	case s == nil && m.isHome(e) || s != nil && s.state == gone:
		return Step{Do: Fail}, out
	case s == nil:
		if c := m.cache.find(e); c != nil && c.move > stamp.Move {
			return m.forward(c, stamp, from, out)
		}
		s = m.table.put(e)
		s.state, s.move, s.rank, ask = awaited, stamp.Move, m.rank, true
	case s.state == away && stamp.Move <= s.move:
		return m.forward(s, stamp, from, out)
	case s.state == away: // it comes back, and has not been here since: the move would be larger
		s.state, s.move, s.rank = awaited, stamp.Move, m.rank
	case s.state == creating && stamp.Move > s.move:
		s.move, s.rank = stamp.Move, m.rank
	case s.state == awaited && stamp.Move > s.move:
		s.move, ask = stamp.Move, !m.isHome(e)
	}
	m.waiting.hold(s, stamp, message)
	if ask {
		out = m.ask(s, out)
	}
	return Step{Do: Hold}, out
}

// ask asks home whether what is awaited is still to come.
func (m *Machine[M]) ask(s *entry, out []Order[M]) []Order[M] {
	return m.tell(out, m.home(s.key), News{Kind: Ask, Element: s.key, Move: s.move})
}

// forward is what becomes of a message whose element is on another rank. One that was sent on before, by old news and not by home, is
// sent to home, if that knows of the move: there may have been many since.
func (m *Machine[M]) forward(s *entry, stamp Stamp, from int, out []Order[M]) (Step, []Order[M]) {
	home := int32(m.home(s.key))
	if home != m.rank && s.acked && int32(from) != stamp.Origin && !stamp.ByHome {
		return Step{Do: Forward, To: home, Move: s.move}, out
	}
	return Step{Do: Forward, To: s.rank, Move: s.move, ByHome: stamp.ByHome || home == m.rank}, m.hint(s, home, stamp.Origin, out)
}

// hint tells the origin of a message of the place, if it wants to know: with the first of some in a row, and then now and then, because
// it may have forgotten.
func (m *Machine[M]) hint(s *entry, home, origin int32, out []Order[M]) []Order[M] {
	const nowAndThen = 16
	if !s.acked || origin == m.rank || origin == home || origin == s.rank {
		return out
	}
	if s.told == origin+1 {
		if s.again++; s.again%nowAndThen != 0 {
			return out
		}
	}
	s.told = origin + 1
	return m.tell(out, int(origin), News{Kind: Told, Element: s.key, Move: s.move, Rank: s.rank})
}

func (m *Machine[M]) tell(out []Order[M], to int, n News) []Order[M] {
	return append(out, Order[M]{Do: Tell, To: int32(to), Element: n.Element, News: n})
}

// Create makes an element on this rank. It is to be installed, or refused because there is one, now or when home has answered.
func (m *Machine[M]) Create(e uint64, out []Order[M]) []Order[M] {
	home := m.home(e)
	if m.settled.has(e) {
		return append(out, Order[M]{Do: Refuse, Element: e})
	}
	if home == int(m.rank) && m.floor == 0 && m.settled.covers(e) && m.table.find(e) == nil {
		m.settled.flip(e)
		return append(out, Order[M]{Do: Install, Element: e})
	}
	s := m.table.put(e)
	switch {
	case home == int(m.rank) && (s.state == absent || s.state == gone):
		*s = entry{key: e, state: here, move: max(s.move, m.floor) + 1}
		return append(out, Order[M]{Do: Install, Element: e})
	case home == int(m.rank) || s.state != absent && s.state != away && s.state != awaited:
		return append(out, Order[M]{Do: Refuse, Element: e})
	case s.state == absent:
		s.rank = m.rank
	}
	s.state = creating
	return m.tell(out, home, News{Kind: Create, Element: e})
}

// Destroy ends an element that is here; ok is false if it isn't.
func (m *Machine[M]) Destroy(e uint64, out []Order[M]) (_ []Order[M], ok bool) {
	s := m.find(e)
	if s == nil || s.state != here {
		return out, false
	}
	home := m.home(e)
	m.left = true
	if home == int(m.rank) {
		*s = entry{key: e, state: gone, move: s.move + 1}
		return out, true
	}
	*s = entry{key: e, state: away, move: s.move + 1, rank: int32(home)}
	return m.tell(out, home, News{Kind: Destroyed, Element: e, Move: s.move}), true
}

// Migrate begins to send an element that is here to another rank, with the move that it returns; ok is false if it isn't here or
// stays. It runs no message any more.
func (m *Machine[M]) Migrate(e uint64, to int) (move uint32, ok bool) {
	s := m.find(e)
	if s == nil || s.state != here || to == int(m.rank) {
		return 0, false
	}
	s.state, s.rank = leaving, int32(to)
	return s.move + 1, true
}

// Left says that the state of an element is sent, or is next to be sent.
func (m *Machine[M]) Left(e uint64, out []Order[M]) []Order[M] {
	s := m.find(e)
	if s == nil || s.state != leaving {
		panic(fmt.Sprintf("locate: rank %d: element %d has left that was not leaving: %+v", m.rank, e, s))
	}
	m.left = true
	s.state, s.move, s.acked, s.told = away, s.move+1, false, 0
	return m.release(s, out)
}

// Arrive says that the state of an element comes from another rank, with a move, and is not installed yet.
func (m *Machine[M]) Arrive(e uint64, move uint32, from int) {
	s := m.put(e)
	if s.state == here || s.state == leaving || s.state == arriving || s.move > move || s.move == move && s.rank != m.rank {
		panic(fmt.Sprintf("locate: rank %d: element %d arrives with move %d from rank %d, but is known: %+v", m.rank, e, move, from, *s))
	}
	s.state, s.move, s.rank = arriving, move, int32(from)
}

// Installed says that the element is here.
func (m *Machine[M]) Installed(e uint64, out []Order[M]) []Order[M] {
	s := m.find(e)
	if s == nil || s.state != arriving {
		panic(fmt.Sprintf("locate: rank %d: element %d is installed that was not arriving: %+v", m.rank, e, s))
	}
	s.state = here
	if home := m.home(e); home != int(m.rank) {
		out = m.tell(out, home, News{Kind: Installed, Element: e, Move: s.move, Rank: s.rank})
	} else {
		out = m.tell(out, int(s.rank), News{Kind: Acked, Element: e, Move: s.move})
	}
	return m.release(s, out)
}

// release does what is due with the messages of an element that were held.
func (m *Machine[M]) release(s *entry, out []Order[M]) []Order[M] {
	home := int32(m.home(s.key))
	for h := range m.waiting.take(s) {
		o := Order[M]{Do: Run, Element: s.key, Stamp: h.stamp, Message: h.message}
		switch s.state {
		case here:
		case gone:
			o.Do = Fail
		default:
			o.Do, o.To, o.Stamp.Move, o.Stamp.ByHome = Forward, s.rank, s.move, h.stamp.ByHome || home == m.rank
			out = m.hint(s, home, h.stamp.Origin, out)
		}
		out = append(out, o)
	}
	return out
}

// PhaseOver forgets where elements went of which home knows that they have left, and those that were destroyed. Where they went is put
// into the cache, which costs nothing.
func (m *Machine[M]) PhaseOver() {
	if !m.left {
		return
	}
	m.left = false
	for i := 0; i < len(m.table.slots); {
		s := &m.table.slots[i]
		switch {
		case s.state == gone:
			m.floor = max(m.floor, s.move)
		case s.state == away && s.acked && !m.isHome(s.key):
			m.cache.put(s.key, s.rank, s.move)
		default:
			m.left = m.left || s.state == away && !s.acked
			i++
			continue
		}
		m.table.remove(s.key) // another may be there now
	}
	m.table.shrink()
}

// Forget empties the cache. Who has moved many elements does so: a message goes by home then, which takes a hop less than old news.
func (m *Machine[M]) Forget() { clear(m.cache.slots) }
