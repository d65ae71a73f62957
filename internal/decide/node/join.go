package node

import (
	"maps"
	"slices"
)

// joint is a report that several ranks can make together.
type joint interface {
	Report
	who() []int
	join(next Report) (Report, bool) // with what ranks say next; false: that is something else
}

// counts says whether a report is an answer that each rank gives once: when all have, nobody else is waited for.
func counts(r joint) bool {
	switch r.(type) {
	case Waiting, Where:
		return false
	}
	return true
}

// both are the ranks of two reports.
func both(a, b joint) []int { return append(slices.Clone(a.who()), b.who()...) }

func (r Hello) who() []int      { return r.Ranks }
func (r Init) who() []int       { return r.Ranks }
func (r Finalizing) who() []int { return r.Ranks }
func (r Fini) who() []int       { return r.Ranks }
func (r Restored) who() []int   { return r.Ranks }
func (r Clocks) who() []int     { return r.Ranks }
func (r Met) who() []int        { return r.Ranks }
func (r Waiting) who() []int    { return r.Ranks }
func (r Where) who() []int      { return r.Ranks }
func (r Stopped) who() []int    { return r.Ranks }
func (r Image) who() []int      { return r.Ranks }
func (r Resumed) who() []int    { return r.Ranks }

func (r Hello) join(next Report) (Report, bool) {
	n, ok := next.(Hello)
	return Hello{both(r, n)}, ok
}

func (r Init) join(next Report) (Report, bool) {
	n, ok := next.(Init)
	return Init{both(r, n), r.Library}, ok
}

func (r Finalizing) join(next Report) (Report, bool) {
	n, ok := next.(Finalizing)
	return Finalizing{both(r, n)}, ok
}

func (r Fini) join(next Report) (Report, bool) {
	n, ok := next.(Fini)
	return Fini{both(r, n)}, ok
}

func (r Restored) join(next Report) (Report, bool) {
	n, ok := next.(Restored)
	return Restored{both(r, n)}, ok
}

func (r Met) join(next Report) (Report, bool) {
	n, ok := next.(Met)
	return Met{both(r, n), r.Epoch, r.Version}, ok && n.Epoch == r.Epoch && n.Version == r.Version
}

func (r Waiting) join(next Report) (Report, bool) {
	n, ok := next.(Waiting)
	return Waiting{both(r, n), r.Epoch, r.Where, r.Call}, ok && n.Epoch == r.Epoch && n.Where == r.Where && n.Call == r.Call
}

func (r Where) join(next Report) (Report, bool) {
	n, ok := next.(Where)
	return Where{both(r, n), r.Where}, ok && n.Where == r.Where
}

func (r Stopped) join(next Report) (Report, bool) {
	n, ok := next.(Stopped)
	return Stopped{both(r, n), r.Epoch, slices.Concat(r.Refusals, n.Refusals), slices.Concat(r.Passing, n.Passing)}, ok && n.Epoch == r.Epoch
}

func (r Image) join(next Report) (Report, bool) {
	n, ok := next.(Image)
	return Image{both(r, n), r.Epoch, r.Bytes + n.Bytes, n.Text}, ok && n.Epoch == r.Epoch && r.Text == ""
}

func (r Resumed) join(next Report) (Report, bool) {
	n, ok := next.(Resumed)
	return Resumed{both(r, n), r.Epoch, max(r.Stall, n.Stall)}, ok && n.Epoch == r.Epoch
}

// join: the highest clock of each communicator, and how many have it.
func (r Clocks) join(next Report) (Report, bool) {
	n, ok := next.(Clocks)
	if !ok || n.Epoch != r.Epoch {
		return nil, false
	}
	all := map[uint64]Clock{}
	for _, c := range slices.Concat(r.Clocks, n.Clocks) {
		old := all[c.Comm]
		c.Seq, c.Have, c.Members = max(c.Seq, old.Seq), c.Have+old.Have, max(c.Members, old.Members)
		all[c.Comm] = c
	}
	out := Clocks{Ranks: both(r, n), Epoch: r.Epoch}
	for _, comm := range slices.Sorted(maps.Keys(all)) {
		out.Clocks = append(out.Clocks, all[comm])
	}
	return out, true
}
