package pup

import (
	"slices"
)

// An index finds regions by the address at which they begin. It is made like a page table: a directory leads to the slots of
// a page of memory, one for each grain. Values that are visited in the order of their addresses are found in that order,
// however large the heap is; nothing depends on how addresses collide, and a walk over the pages gives the regions
// sorted.
type index struct {
	dir   []page
	used  int
	crowd map[crowded]slot // regions whose grain's slot another one has
}

const (
	pageBits  = 13
	grainBits = 4
	pageSlots = 1 << (pageBits - grainBits)
)

// page is the part of an index for some memory.
type page struct {
	number uintptr // address >> pageBits
	slots  *[pageSlots]slot
}

// A slot names a region.
type slot struct {
	n   uint32 // number of the region + 1; 0: the slot is free
	tag uint32 // the number of its type, slotMany, and the lowest bits of its address
}

const (
	slotMany = 1 << grainBits // the region has more than one element
	tagBits  = grainBits + 1
)

// tag tells regions that begin in one grain apart.
func (i *typeInfo) tag(base uintptr) uint32 { return i.number<<tagBits | uint32(base)&(1<<grainBits-1) }

// crowded is the key of a region that has no slot.
type crowded struct {
	base uintptr
	info *typeInfo
}

// slot returns the slot for an address; if there is none, a new one or nil.
func (x *index) slot(base uintptr, fresh bool) *slot {
	if fresh && 2*(x.used+1) > len(x.dir) {
		x.rehash()
	}
	if len(x.dir) == 0 {
		return nil
	}
	number, mask := base>>pageBits, uintptr(len(x.dir)-1)
	h := scatter(number) & mask
	for ; x.dir[h].slots != nil; h = (h + 1) & mask {
		if x.dir[h].number == number {
			return &x.dir[h].slots[base>>grainBits%pageSlots]
		}
	}
	if !fresh {
		return nil
	}
	x.used++
	x.dir[h] = page{number, new([pageSlots]slot)}
	return &x.dir[h].slots[base>>grainBits%pageSlots]
}

// scatter is the multiplicative hash of Knuth, The Art of Computer Programming, volume 3, section 6.4.
func scatter(number uintptr) uintptr { return uintptr(uint64(number) * 0x9E3779B97F4A7C15 >> 32) }

func (x *index) rehash() {
	old := x.dir
	x.dir = make([]page, max(64, 2*len(old)))
	mask := uintptr(len(x.dir) - 1)
	for _, p := range old {
		if p.slots == nil {
			continue
		}
		h := scatter(p.number) & mask
		for x.dir[h].slots != nil {
			h = (h + 1) & mask
		}
		x.dir[h] = p
	}
}

// set enters a region, or changes its entry.
func (x *index) set(base uintptr, i *typeInfo, s slot) {
	at := x.slot(base, true)
	if at.n == 0 || at.n == s.n {
		*at = s
		return
	}
	if x.crowd == nil {
		x.crowd = map[crowded]slot{}
	}
	x.crowd[crowded{base, i}] = s
}

// sorted calls f for each page in the order of addresses, with the numbers of the regions in it: those with slots in
// order, the others after them.
func (x *index) sorted(f func(numbers []int)) {
	crowd := map[uintptr][]int{}
	for c, s := range x.crowd {
		crowd[c.base>>pageBits] = append(crowd[c.base>>pageBits], int(s.n-1))
	}
	pages := slices.DeleteFunc(slices.Clone(x.dir), func(p page) bool { return p.slots == nil })
	slices.SortFunc(pages, func(a, b page) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	var numbers []int
	for _, p := range pages {
		numbers = numbers[:0]
		for k := range p.slots {
			if s := &p.slots[k]; s.n != 0 {
				numbers = append(numbers, int(s.n-1))
			}
		}
		list := crowd[p.number]
		slices.Sort(list)
		f(append(numbers, list...))
	}
}
