package coord

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// What several ranks share, files and memory, has one state, and one of them answers for it: its owner alone stores the
// content of what has no name, makes it anew at a restart and hands it to the others, and brings a file back to its size.
// Which objects are the same only the coordinator can see, who hears of all: by inode and the domain in which its number means something (package agent).
//
// That state must not change between the first image and the last. So, where anything is shared that somebody writes to,
// the ranks hold after their images until all are written.

// identity tells whether two ranks mean the same object.
type identity struct {
	domain string
	inode  uint64
}

// common is what is known of one object.
type common struct {
	flags         uint32         // of all ranks together
	size          uint64         // as a descriptor tells it
	end           uint64         // of what is mapped
	ranks         []int          // ascending
	whole, writes []int          // those that can save all of it; those that write to it
	front         map[int]uint64 // those that can save it up to there
	foreign       string         // strangers that have it too
	name          string         // of a file that is read and written in place
	reporter      int            // the rank that has said so
}

// sharing collects what the ranks report in one attempt.
type sharing struct {
	objects map[identity]*common
	twins   []string
}

// insert adds a rank to a set in ascending order.
func insert(set []int, rank int) []int {
	if i, found := slices.BinarySearch(set, rank); !found {
		return slices.Insert(set, i, rank)
	}
	return set
}

// add takes in what a rank reports.
func (s *sharing) add(ev node.Objects) {
	if s.objects == nil {
		s.objects = map[identity]*common{}
	}
	for _, o := range ev.Objects {
		if o.Twin != "" {
			s.twins = append(s.twins, fmt.Sprintf("rank %d: fd %d: %s: cannot be saved", ev.Rank, o.FD, o.Twin))
		}
		id := identity{o.Domain, o.Inode}
		c := s.objects[id]
		if c == nil {
			c = &common{reporter: ev.Rank, front: map[int]uint64{}}
			s.objects[id] = c
		}
		c.flags |= o.Flags &^ (abi.ObjectWhole | abi.ObjectFront)
		if o.FD >= 0 {
			c.size = max(c.size, o.Size)
		} else {
			c.end = max(c.end, o.Size)
		}
		c.ranks = insert(c.ranks, ev.Rank)
		if o.Flags&abi.ObjectWhole != 0 {
			c.whole = insert(c.whole, ev.Rank)
		}
		if o.Flags&abi.ObjectFront != 0 {
			c.front[ev.Rank] = max(c.front[ev.Rank], o.Size)
		}
		if o.Flags&abi.ObjectWrites != 0 {
			c.writes = insert(c.writes, ev.Rank)
		}
		c.name = cmp.Or(c.name, o.Name)
		if c.foreign == "" && o.Foreign != "" {
			c.foreign, c.reporter = o.Foreign, ev.Rank
		}
	}
}

// content says whether what is in the object goes into an image. What strangers keep in memory under a name, and the job
// only reads, is theirs.
func (c *common) content() bool {
	return c.flags&(abi.ObjectNameless|abi.ObjectMemory) != 0 && !c.theirs() || c.inPlace()
}

// inPlace says whether it is a file that the job alone reads and writes in place.
func (c *common) inPlace() bool {
	return c.flags&(abi.ObjectInPlace|abi.ObjectNameless|abi.ObjectMemory) == abi.ObjectInPlace && c.foreign == ""
}

func (c *common) theirs() bool {
	return c.foreign != "" && c.flags&(abi.ObjectMemory|abi.ObjectWrites) == abi.ObjectMemory
}

// refusal says why the object cannot be saved; empty: it can.
func (c *common) refusal() string {
	switch {
	case c.foreign != "" && (c.content() || c.flags&abi.ObjectKernel != 0):
		return fmt.Sprintf("rank %d: %s: cannot be saved", c.reporter, c.foreign)
	case c.flags&abi.ObjectKernel != 0 && len(c.ranks) > 1:
		return fmt.Sprintf("rank %d: pipe or socket that rank %d has too: cannot be saved", c.ranks[1], c.ranks[0])
	}
	return ""
}

// keeper is the rank that saves the content: the lowest that has a descriptor which reads all of it, or that has mapped all
// that anybody has mapped. False: there is none.
func (c *common) keeper() (int, bool) {
	if len(c.whole) > 0 {
		return c.whole[0], true
	}
	for _, r := range c.ranks {
		if c.front[r] >= max(c.end, c.size) && c.front[r] > 0 {
			return r, true
		}
	}
	return c.ranks[0], false
}

// share is what the ranks are told about the object; false: nothing.
func (c *common) share(id identity) (node.Share, bool) {
	keeper, whole := c.keeper()
	sh := node.Share{Domain: id.domain, Share: abi.Share{Inode: id.inode, Size: c.size, Flags: c.flags, Owner: uint32(keeper)}}
	if sh.Size == 0 {
		sh.Size = c.end
	}
	foreign := c.foreign != "" && c.flags&(abi.ObjectEnd|abi.ObjectInPlace) != 0 || c.theirs()
	if foreign {
		sh.Flags |= abi.ShareForeign
	}
	switch {
	case c.content() && !whole:
		sh.Flags |= abi.ShareEveryone
	case c.content():
	case len(c.writes) > 0:
		sh.Owner = uint32(c.writes[0])
	}
	return sh, foreign || len(c.ranks) > 1 && (c.content() || len(c.writes) > 0)
}

// decide returns what the ranks are told, in a fixed order, whether they must hold after their images, and what cannot be
// saved. Files that are read and written in place may have so many bytes together.
func (s *sharing) decide(files uint64) (shares []node.Share, hold bool, refusals []string) {
	order := slices.SortedFunc(maps.Keys(s.objects), func(a, b identity) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.inode, b.inode))
	})
	for _, id := range order {
		c := s.objects[id]
		if why := c.refusal(); why != "" {
			refusals = append(refusals, why)
		}
		if sh, ok := c.share(id); ok {
			shares, hold = append(shares, sh), hold || len(c.ranks) > 1
		}
	}
	if why := s.tooLarge(order, files); why != "" {
		refusals = append(refusals, why)
	}
	return shares, hold, append(refusals, s.twins...)
}

// tooLarge names the files that are read and written in place, largest first, when they have more than so many bytes together.
// Ranks bound themselves what they save of files that they have begun to write.
func (s *sharing) tooLarge(order []identity, limit uint64) string {
	const most = 5
	var all []*common
	var sum uint64
	for _, id := range order {
		if c := s.objects[id]; c.inPlace() && c.flags&abi.ObjectUnfinished == 0 {
			all, sum = append(all, c), sum+max(c.size, c.end)
		}
	}
	if sum <= limit {
		return ""
	}
	slices.SortStableFunc(all, func(a, b *common) int { return cmp.Compare(max(b.size, b.end), max(a.size, a.end)) })
	var names []string
	for _, c := range all[:min(most, len(all))] {
		names = append(names, fmt.Sprintf("%s of rank %d: %s", cmp.Or(c.name, "a mapped file"), c.ranks[0], mebibytes(max(c.size, c.end))))
	}
	if len(all) > most {
		names = append(names, fmt.Sprintf("and %d more", len(all)-most))
	}
	return fmt.Sprintf("%d files that are read and written in place have %s, more than the %s that a checkpoint may save of them (--save-files): %s",
		len(all), mebibytes(sum), mebibytes(limit), strings.Join(names, ", "))
}

// mebibytes is a size for people.
func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
