package locate

// A state is what a rank has to do with an element.
type state uint8

const (
	absent   state = iota // nothing; a slot is empty
	here                  // it is here, since the move
	leaving               // the same, but it is being sent to the rank
	arriving              // from the rank it comes, with the move
	creating              // home was asked; rank and move are as if away or awaited
	awaited               // it comes with the move, or came and is forgotten; the rank is this one
	away                  // it is on the rank, since the move
	gone                  // at home only: it was destroyed by the move
)

// An entry is what a rank knows of an element: 24 bytes, so that with the slots that are empty, an element costs 64 at most, and 96 where
// others have gone.
type entry struct {
	key   uint64
	move  uint32
	rank  int32
	told  int32 // 1 more than the rank that was last told
	state state
	acked bool  // home knows of the move
	again uint8 // messages of that rank since
	held  bool  // there are messages
}

// A table has entries by key: open addressing, in which what was removed leaves no mark. Between two puts or removals, an entry stays
// where it is.
type table struct {
	slots []entry // none, or a power of two, of which at most three quarters are used
	used  int
	shift uint8
}

const fewest = 8 // slots

// slot is where an entry is looked for first.
func (t *table) slot(key uint64) uint64 { return mixed(key) >> (t.shift & 63) }

// mixed spreads keys, so that both halves of one count, whatever indices it is made of.
func mixed(key uint64) uint64 { return (key ^ key>>29) * 0xbf58476d1ce4e5b9 }

// find returns the entry of a key, nil if there is none.
func (t *table) find(key uint64) *entry {
	mask := uint64(len(t.slots)) - 1
	if mask >= uint64(len(t.slots)) {
		return nil
	}
	for i := t.slot(key); ; i++ {
		s := &t.slots[i&mask]
		if s.key == key && s.state != absent {
			return s
		}
		if s.state == absent {
			return nil
		}
	}
}

// put returns the entry of a key, which is absent if there was none: the caller gives it a state.
func (t *table) put(key uint64) *entry {
	if s := t.find(key); s != nil {
		return s
	}
	if t.used >= len(t.slots)/4*3 {
		t.resize(max(fewest, 2*len(t.slots)))
	}
	t.used++
	s := t.free(key)
	*s = entry{key: key}
	return s
}

// free returns the slot for a key that is not there.
func (t *table) free(key uint64) *entry {
	mask := uint64(len(t.slots)) - 1
	for i := t.slot(key); ; i++ {
		if s := &t.slots[i&mask]; s.state == absent {
			return s
		}
	}
}

// resize gives the table another number of slots.
func (t *table) resize(size int) {
	old := t.slots
	t.slots = make([]entry, size)
	for t.shift = 64; size > 1; size /= 2 {
		t.shift--
	}
	for i := range old {
		if old[i].state != absent {
			*t.free(old[i].key) = old[i]
		}
	}
}

// shrink gives up memory if the table is used by less than a quarter.
func (t *table) shrink() {
	size := len(t.slots)
	for size > fewest && t.used < size/4 {
		size /= 2
	}
	if size < len(t.slots) {
		t.resize(size)
	}
}

// remove removes an entry, and moves those that follow it to where they are found.
func (t *table) remove(key uint64) {
	mask := uint64(len(t.slots)) - 1
	hole := t.slot(key) & mask
	for t.slots[hole].key != key {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; t.slots[i].state != absent; i = (i + 1) & mask {
		if first := t.slot(t.slots[i].key); (i-first)&mask >= (i-hole)&mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = entry{}
	t.used--
}

// A cache has the last places that a rank was told, each in the one slot that its key may have.
type cache struct {
	slots []entry // none before the first
	size  int     // a power of two
}

func (c *cache) slot(key uint64) *entry {
	return &c.slots[mixed(key)>>32&uint64(len(c.slots)-1)]
}

// find returns the entry of a key, nil if there is none.
func (c *cache) find(key uint64) *entry {
	if len(c.slots) == 0 {
		return nil
	}
	if s := c.slot(key); s.key == key && s.state == away {
		return s
	}
	return nil
}

// put takes a place that is known at home, in place of what was there, unless that was a later one of the same element.
func (c *cache) put(key uint64, rank int32, move uint32) {
	if len(c.slots) == 0 {
		c.slots = make([]entry, c.size)
	}
	if s := c.slot(key); s.state == absent || s.key != key || s.move < move {
		*s = entry{key: key, rank: rank, move: move, state: away, acked: true}
	}
}
