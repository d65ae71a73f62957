package amt

// A hashed finds what has a number: open addressing, in which what was removed leaves no mark. It takes 16 bytes a slot, of which at most
// three quarters are used.
type hashed[E any] struct {
	slots []slot[E] // none, or a power of two
	used  int
	shift uint8
}

type slot[E any] struct {
	key uint64
	of  *E // nil: it is empty
}

const fewestSlots = 8

// first is where a key is looked for first: both of its halves count, whatever indices it is made of.
func (h *hashed[E]) first(key uint64) uint64 {
	return (key ^ key>>29) * 0xbf58476d1ce4e5b9 >> (h.shift & 63)
}

// find returns what has the key; nil: nothing.
func (h *hashed[E]) find(key uint64) *E {
	mask := uint64(len(h.slots)) - 1
	if mask >= uint64(len(h.slots)) {
		return nil
	}
	for i := h.first(key); ; i++ {
		if s := &h.slots[i&mask]; s.key == key || s.of == nil {
			return s.of
		}
	}
}

// put adds what has a key that nothing has.
func (h *hashed[E]) put(key uint64, of *E) {
	if h.used >= len(h.slots)/4*3 {
		h.resize(max(fewestSlots, 2*len(h.slots)))
	}
	h.used++
	h.place(slot[E]{key, of})
}

func (h *hashed[E]) place(s slot[E]) {
	mask := uint64(len(h.slots)) - 1
	i := h.first(s.key)
	for h.slots[i&mask].of != nil {
		i++
	}
	h.slots[i&mask] = s
}

func (h *hashed[E]) resize(size int) {
	old := h.slots
	h.slots = make([]slot[E], size)
	for h.shift = 64; size > 1; size /= 2 {
		h.shift--
	}
	for _, s := range old {
		if s.of != nil {
			h.place(s)
		}
	}
}

// remove removes what has a key, and moves what follows it to where it is found.
func (h *hashed[E]) remove(key uint64) {
	mask := uint64(len(h.slots)) - 1
	hole := h.first(key) & mask
	for h.slots[hole].key != key {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; h.slots[i].of != nil; i = (i + 1) & mask {
		if first := h.first(h.slots[i].key); (i-first)&mask >= (i-hole)&mask {
			h.slots[hole] = h.slots[i]
			hole = i
		}
	}
	h.slots[hole] = slot[E]{}
	if h.used--; h.used < len(h.slots)/8 && len(h.slots) > fewestSlots {
		h.resize(len(h.slots) / 2)
	}
}
