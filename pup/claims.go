package pup

// Claims are bytes of memory that were filled in place. They tell when memory is filled twice, which can keep only one of
// both contents.
type claims struct {
	pages pageTable[claimed]
	full  *claimed // what all pages have that were claimed whole at once
	clash uint64   // bits that were set when they were to be set
}

// claimed is the claims in a page of memory: a bit for each word of 8 bytes as long as only whole words were claimed, from
// then on one for each byte.
type claimed struct {
	words [wordsOfPage / 64]uint64
	bytes *[bytesOfPage / 64]uint64
}

const (
	bytesOfPage = 1 << pageBits
	wordsOfPage = bytesOfPage / 8
)

// claim notes that bytes are filled. The quick way stands first: some words whose bits lie together.
func (c *claims) claim(base, size uintptr) {
	p := c.pages.get(base>>pageBits, true)
	if bit, n := base/8%64, size/8; (base|size)%8 == 0 && bit+n <= 64 && p.bytes == nil {
		word, mask := &p.words[base%bytesOfPage/512], uint64(1<<n-1)<<bit
		c.clash |= *word & mask
		*word |= mask
		return
	}
	c.claimMore(base, size)
}

func (c *claims) claimMore(base, size uintptr) {
	c.pages.room(int(size >> pageBits))
	for size > 0 {
		number, at := base>>pageBits, base%bytesOfPage
		n := min(size, bytesOfPage-at)
		base, size = base+n, size-n
		if n == bytesOfPage && c.pages.put(number, c.fullPage()) == nil {
			continue
		}
		c.clash |= c.pages.get(number, true).claim(at, n)
	}
}

// fullPage is a page all of which is claimed.
func (c *claims) fullPage() *claimed {
	if c.full == nil {
		c.full = &claimed{}
		mark(c.full.words[:], 0, wordsOfPage)
	}
	return c.full
}

// twice tells whether any byte was filled twice.
func (c *claims) twice() bool { return c.clash != 0 }

// claim notes that n bytes of the page are filled, and returns bits of those that were before.
func (p *claimed) claim(at, n uintptr) (clash uint64) {
	if p.bytes == nil {
		if (at|n)%8 == 0 {
			return mark(p.words[:], at/8, n/8)
		}
		p.split()
	}
	return mark(p.bytes[:], at, n)
}

// split goes over to a bit for each byte.
func (p *claimed) split() {
	p.bytes = new([bytesOfPage / 64]uint64)
	for k := range uintptr(wordsOfPage) {
		if p.words[k/64]>>(k%64)&1 != 0 {
			p.bytes[k/8] |= 0xff << (k % 8 * 8)
		}
	}
}

// mark sets n bits, and returns some that were set, if any.
func mark(bits []uint64, at, n uintptr) (clash uint64) {
	for n > 0 {
		word, bit := at/64, at%64
		k := min(n, 64-bit)
		mask := ^uint64(0) >> (64 - k) << bit
		clash |= bits[word] & mask
		bits[word] |= mask
		at, n = at+k, n-k
	}
	return clash
}
