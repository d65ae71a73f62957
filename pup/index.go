package pup

import (
	"cmp"
	"slices"
)

// An index finds regions by the address at which they begin. It is made like a page table: a directory leads to the slots of
// a page of memory, one for each grain. Values that are visited in the order of their addresses are found in that order,
// however large the heap is; nothing depends on how addresses collide, and a walk over the pages gives the regions
// sorted.
type index struct {
	pages pageTable[pageSlots]
	crowd map[crowded]slot // regions whose grain's slot another one has
}

// pageSlots is the part of an index for a page of memory.
type pageSlots [1 << (pageBits - grainBits)]slot

const grainBits = 4

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
	p := x.pages.get(base>>pageBits, fresh)
	if p == nil {
		return nil
	}
	return &p[base>>grainBits%uintptr(len(p))]
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

// sorted calls f for each page in the order of addresses, with the regions in it, not sorted themselves.
func (x *index) sorted(f func(page uintptr, slots *pageSlots, crowd []int)) {
	crowd := map[uintptr][]int{}
	for c, s := range x.crowd {
		crowd[c.base>>pageBits] = append(crowd[c.base>>pageBits], int(s.n-1))
	}
	pages := slices.DeleteFunc(slices.Clone(x.pages.dir), func(e pageEntry[pageSlots]) bool { return e.of == nil })
	slices.SortFunc(pages, func(a, b pageEntry[pageSlots]) int { return cmp.Compare(a.number, b.number) })
	for _, p := range pages {
		list := crowd[p.number]
		slices.Sort(list)
		f(p.number<<pageBits, p.of, list)
	}
}
