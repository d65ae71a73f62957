package coord

import (
	"fmt"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// rank is what is known of one process of the present start.
type rank struct {
	hello, fini, restored, lost bool
	left                        bool // it has become another program
	moved                       bool // it is below the launcher's process, whose end the launcher tells
	finalizing                  bool // it has entered MPI_Finalize
	where                       uint32
}

// ranks are the processes of the present start, as they have told of themselves. They decide nothing: they say what is so.
type ranks []rank

// note takes in what a rank tells of its own life; what follows from it is for others to decide.
func (rs ranks) note(ev Event) {
	switch ev := ev.(type) {
	case node.Hello:
		for _, r := range ev.Ranks {
			rs[r].hello, rs[r].left = true, false
		}
	case node.Restored:
		for _, r := range ev.Ranks {
			rs[r].restored = true
		}
	case node.Finalizing:
		for _, r := range ev.Ranks {
			rs[r].finalizing = true
		}
	case node.Fini:
		for _, r := range ev.Ranks {
			rs[r].fini = true
		}
	case node.Where:
		for _, r := range ev.Ranks {
			rs[r].where = ev.Where
		}
	case node.Left:
		rs[ev.Rank].left = true
	case node.Lost:
		rs[ev.Rank].lost = true
	case node.Moved: // another process is the rank from here on
		rs[ev.Rank].where, rs[ev.Rank].left, rs[ev.Rank].moved = abi.WhereRun, false, true
	}
}

// lose takes ranks for lost, and says whether any of them was not lost before and had not come to its end.
func (rs ranks) lose(list []int) bool {
	robbed := false
	for _, r := range list {
		robbed = robbed || !rs[r].lost && !rs[r].fini
		rs[r].lost = true
	}
	return robbed
}

// there says whether all are connected, and have been restored if that is asked for.
func (rs ranks) there(restored bool) bool {
	for _, r := range rs {
		if !r.hello || restored && !r.restored {
			return false
		}
	}
	return true
}

// connected is how many can be spoken to.
func (rs ranks) connected() int {
	n := 0
	for _, r := range rs {
		if r.hello && !r.lost {
			n++
		}
	}
	return n
}

// where is what the page of each one says.
func (rs ranks) where() []uint32 {
	list := make([]uint32, len(rs))
	for i := range rs {
		list[i] = rs[i].where
	}
	return list
}

// finalizing is a rank that has entered MPI_Finalize while not all have left it, or -1.
func (rs ranks) finalizing() int {
	entered, left := -1, 0
	for i, r := range rs {
		if r.fini {
			left++
		}
		if r.finalizing && entered < 0 {
			entered = i
		}
	}
	if left == len(rs) {
		return -1
	}
	return entered
}

// whyNot says why there can be no checkpoint, empty when there can. When all ranks have left MPI_Finalize there can be one
// again: then they are processes without an MPI.
func (rs ranks) whyNot() string {
	for i, r := range rs {
		if r.left && !r.lost {
			return fmt.Sprintf("rank %d does not speak any more: it has become another program (exec), which cannot be checkpointed", i)
		}
	}
	if i := rs.finalizing(); i >= 0 {
		return fmt.Sprintf("the job is ending: rank %d is in MPI_Finalize", i)
	}
	return ""
}
