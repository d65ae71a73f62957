package pup

// A pageTable finds what is kept for a page of memory by the page's number, its address >> pageBits. It hashes numbers
// of pages, which are few, so that nothing depends on how addresses within them lie.
type pageTable[T any] struct {
	dir    []pageEntry[T]
	used   int
	recent [recentPages]pageEntry[T] // at hand: pages by the lowest bits of their numbers
}

type pageEntry[T any] struct {
	number uintptr
	of     *T // nil: the entry is free
}

const (
	pageBits    = 13
	recentPages = 16 // things of different sizes lie in different pages and take turns
)

// get returns what is kept for a page; for a new page, a new one or nil.
func (t *pageTable[T]) get(number uintptr, fresh bool) *T {
	r := &t.recent[number%recentPages]
	if r.number != number || r.of == nil {
		*r = pageEntry[T]{number, t.lookUp(number, fresh)}
	}
	return r.of
}

func (t *pageTable[T]) lookUp(number uintptr, fresh bool) *T {
	if fresh {
		t.room(1)
	}
	if len(t.dir) == 0 {
		return nil
	}
	at := t.find(number)
	if at.of == nil && fresh {
		t.used++
		*at = pageEntry[T]{number, new(T)}
	}
	return at.of
}

// put keeps something for a page, unless something is kept already; it returns that.
func (t *pageTable[T]) put(number uintptr, of *T) *T {
	t.room(1)
	at := t.find(number)
	if at.of != nil {
		return at.of
	}
	t.used++
	*at = pageEntry[T]{number, of}
	return nil
}

// find returns the entry of a page, or the free one that it would have. The hash is the multiplicative one of Knuth, The Art
// of Computer Programming, volume 3, section 6.4.
func (t *pageTable[T]) find(number uintptr) *pageEntry[T] {
	mask := uintptr(len(t.dir) - 1)
	for h := uintptr(uint64(number)*0x9E3779B97F4A7C15>>32) & mask; ; h = (h + 1) & mask {
		if e := &t.dir[h]; e.of == nil || e.number == number {
			return e
		}
	}
}

// room makes room for n more pages; half of the entries stay free.
func (t *pageTable[T]) room(n int) {
	if 2*(t.used+n) <= len(t.dir) {
		return
	}
	old, size := t.dir, max(64, 2*len(t.dir))
	for size < 2*(t.used+n) {
		size *= 2
	}
	t.dir = make([]pageEntry[T], size)
	for _, e := range old {
		if e.of != nil {
			*t.find(e.number) = e
		}
	}
}
