package pup

// Claims are bytes of memory that were filled in place, a bit for each. They tell when memory is filled twice, which can
// keep only one of both contents.
type claims struct {
	pages  pageTable[claimed]
	number uintptr // of the page that was used last
	last   *claimed
	twice  bool
}

// claimed is the claims in a page of memory.
type claimed [1 << pageBits / 64]uint64

// claim notes that bytes are filled.
func (c *claims) claim(base, size uintptr) {
	for size > 0 {
		number, at := base>>pageBits, base%(1<<pageBits)
		n := min(size, 1<<pageBits-at)
		if c.last == nil || c.number != number {
			c.number, c.last = number, c.pages.get(number, true)
		}
		c.mark(at, n)
		base, size = base+n, size-n
	}
}

// mark sets n bits of the last page.
func (c *claims) mark(at, n uintptr) {
	for n > 0 {
		word, bit := at/64, at%64
		k := min(n, 64-bit)
		mask := ^uint64(0) >> (64 - k) << bit
		c.twice = c.twice || c.last[word]&mask != 0
		c.last[word] |= mask
		at, n = at+k, n-k
	}
}
