package node

import (
	"time"

	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// Report is what a node tells the coordinator. What its ranks say alike at one time is one report for several of them.
type Report interface{ report() }

// What can be reported.
type (
	// Hello: ranks have connected.
	Hello struct{ Ranks []int }
	// Init: ranks have finished MPI_Init, of a library that calls itself so.
	Init struct {
		Ranks   []int
		Library string
	}
	// Finalizing: ranks enter MPI_Finalize.
	Finalizing struct{ Ranks []int }
	// Fini: ranks have finished MPI_Finalize.
	Fini struct{ Ranks []int }
	// Restored: ranks go on from an image.
	Restored struct{ Ranks []int }
	// Failed: a rank cannot start or restart. Damaged: because its image is not as it was written.
	Failed struct {
		Rank    int
		Text    string
		Damaged bool
	}
	// Lost: a rank's process is gone. Ended: by its own exit, with Code, which it began so long ago. Untold: the agent had told no
	// rank to end when this one fell silent.
	Lost struct {
		Rank   int
		Ended  bool
		Untold bool
		Code   int
		Ago    time.Duration
	}
	// Left: a rank's process is there and does not speak any more: it has become another program.
	Left struct{ Rank int }
	// Reason: why a rank is about to end the job.
	Reason struct {
		Rank int
		Text string
	}
	// Asked: a rank was sent a SIGTERM, as when a batch system signals all processes of a job.
	Asked struct{ Rank int }
	// Moved: another process of its place is the rank from here on.
	Moved struct{ Rank int }
	// Refused: a process of a rank's place was about to do what cannot be.
	Refused struct {
		Rank int
		Text string
	}
	// Progress: the shared pages show that bytes have moved, or that a rank has come further. So many bytes of the images that
	// are now written or read are done.
	Progress struct{ Done, Total uint64 }

	// Clocks of ranks in answer to REQUEST.
	Clocks struct {
		Ranks  []int
		Epoch  uint64
		Clocks []Clock
	}
	// Raise: a rank goes beyond a target.
	Raise struct {
		Rank  int
		Epoch uint64
		Clock Clock
	}
	// Met: ranks have reached all targets of that version.
	Met struct {
		Ranks   []int
		Epoch   uint64
		Version uint64
	}
	// Waiting: ranks have not met and stand still in a call of the MPI; Where is abi.WhereRun when they no longer do. Call
	// is that call's name; empty: not known.
	Waiting struct {
		Ranks []int
		Epoch uint64
		Where uint32
		Call  string
	}
	// Where: what their shared pages say ranks are doing.
	Where struct {
		Ranks []int
		Where uint32
	}
	// Stopped: the threads of ranks stand still. Refusals name what cannot be saved, and the rank; what Passing names may be
	// gone a moment later.
	Stopped struct {
		Ranks    []int
		Epoch    uint64
		Refusals []string
		Passing  []string
	}
	// Objects: what a rank has that others might have too, in any number of parts before its Stopped.
	Objects struct {
		Rank    int
		Epoch   uint64
		Objects []Object
	}
	// Image: the images of ranks are written. Text: why that of the last one is not; empty: it is.
	Image struct {
		Ranks []int
		Epoch uint64
		Bytes uint64
		Text  string
	}
	// Resumed: ranks go on after their images, for which the longest stood still so long.
	Resumed struct {
		Ranks []int
		Epoch uint64
		Stall time.Duration
	}
)

// Clock is the highest of the clocks of some ranks on a communicator (see abi.Clock).
type Clock struct {
	Comm, Seq uint64
	Members   uint32 // ranks that belong to it
	Have      uint32 // ranks that have reported it
}

// Object is something that a rank has open or mapped, as it reported it.
type Object struct {
	abi.Object
	Domain  string // where the inode's number means this object: a device of one machine, or a file system of several
	Foreign string // processes that are not ranks and have it too; empty: none
	Twin    string // another rank's descriptor of the same open file; empty: none
	Name    string // of a file that is read and written in place; empty: not known
}

// Order is a message of the coordinator to all ranks. Version and Targets belong to TARGETS, Shares and Hold to SHARED,
// Checkpoint and ExitAfter to DRAIN.
type Order struct {
	Type       uint16
	Epoch      uint64
	Version    uint64
	Targets    []Target
	Shares     []Share
	Hold       bool
	Checkpoint uint64
	ExitAfter  bool
}

// Share is an object that several ranks have. Its device has another number on each node.
type Share struct {
	abi.Share
	Domain string
}

// Target is the clock that the members of a communicator have to reach.
type Target struct {
	abi.Clock
	Everyone bool // some member may not have made the communicator yet: all ranks are told
}

func (Hello) report()      {}
func (Init) report()       {}
func (Finalizing) report() {}
func (Fini) report()       {}
func (Restored) report()   {}
func (Failed) report()     {}
func (Lost) report()       {}
func (Left) report()       {}
func (Reason) report()     {}
func (Asked) report()      {}
func (Moved) report()      {}
func (Refused) report()    {}
func (Progress) report()   {}
func (Clocks) report()     {}
func (Raise) report()      {}
func (Met) report()        {}
func (Waiting) report()    {}
func (Where) report()      {}
func (Stopped) report()    {}
func (Objects) report()    {}
func (Image) report()      {}
func (Resumed) report()    {}
