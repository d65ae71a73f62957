package locate

// settled are the elements of a range that were made on this rank, their home, and have never left it: a bit for each, in place of an entry
// (here, since move 1). Most are so; one of which anything else is to be known gets its entry.
type settled struct {
	first uint64
	bits  []uint64 // none: there is no range
}

func (s *settled) init(first, n uint64) {
	s.first, s.bits = first, make([]uint64, (n+63)/64)
}

func (s *settled) covers(e uint64) bool { return (e-s.first)/64 < uint64(len(s.bits)) }

func (s *settled) has(e uint64) bool {
	at := e - s.first
	return at/64 < uint64(len(s.bits)) && s.bits[at/64]>>(at%64)&1 != 0
}

// flip adds an element that is not there, or takes out one that is.
func (s *settled) flip(e uint64) { s.bits[(e-s.first)/64] ^= 1 << ((e - s.first) % 64) }

// Expect says that elements with so many numbers, from one on, are made on this rank: those that stay take a bit each. It comes before all
// else.
func (m *Machine[M]) Expect(first, n uint64) { m.settled.init(first, n) }

// known is the entry of an element, or what it would be; nil: there is none.
func (m *Machine[M]) known(e uint64) *entry {
	if m.settled.has(e) {
		return &entry{key: e, state: here, move: 1}
	}
	return m.table.find(e)
}

// find returns the entry of an element, which it gets if it had none because it has never left; nil: there is none.
func (m *Machine[M]) find(e uint64) *entry {
	if !m.settled.has(e) {
		return m.table.find(e)
	}
	m.settled.flip(e)
	s := m.table.put(e)
	s.state, s.move = here, 1
	return s
}

// put is find, but that there is an entry afterwards, which is absent if there was none.
func (m *Machine[M]) put(e uint64) *entry {
	if s := m.find(e); s != nil {
		return s
	}
	return m.table.put(e)
}
