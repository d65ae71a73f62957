package coord

import (
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
)

// Event is something that happened: one of these, or a node.Report.
type Event any

// What can happen.
type (
	// Start begins the life of the machine. Images are the committed checkpoints of this job, in any order.
	Start struct {
		Images  []uint64
		Last    uint64   // highest number ever used, committed or not
		Aside   []uint64 // of Images: see the action of this name
		Flushed []uint64 // of Images: those that the loss of nodes does not take, where others lie in their caches
		Restart bool     // go on from an image
		Only    uint64   // restart from this one and no other; 0: newest good one
		Patient bool     // no older one takes the place of one that nodes that are away may have: the job is over instead
	}
	// Tick says that time has passed.
	Tick struct{}

	// NodeLost: a node is gone, with these ranks, and why that is thought.
	NodeLost struct {
		Name  string
		Ranks []int
		Why   string
	}
	// RanksDied: ranks of a plain job have, by no order, whose survivors may go on without them for a while: with their node, or by a signal.
	RanksDied struct {
		Ranks  []int
		Signal int
		Node   string
		Why    string // the node is thought to be lost
	}
	// Unreplaced: no other process has taken the place of a rank that has died.
	Unreplaced struct{ Why string }
	// RankKilled: a rank has died by no order, and no launcher does such things.
	RankKilled struct{ Rank int }
	// LauncherExit: mpirun has ended. Signal is not 0 when it was killed; Died, of a plain job, when it tells that a rank was.
	LauncherExit struct{ Code, Signal, Died int }
	// LaunchFailed: mpirun was not started. Bad: because the image cannot be used. Away: because nodes that have a part of it are not
	// here. Nowhere: because there is no node left.
	LaunchFailed struct {
		Text    string
		Bad     bool
		Away    bool
		Nowhere bool
	}

	// Launched: mpirun was started. Of a plain job nothing else is heard until it ends.
	Launched struct{}
	// Counts: a dataset that a plain job can restart from counts from now on, or does not any more.
	Counts struct {
		Checkpoint uint64
		Counts     bool
	}
	// Heeded: a plain job was told that it is to end, by its own question; or its program knows of no question, and is to be ended now,
	// since a dataset of it counts.
	Heeded struct{ Ends bool }

	// Prepared: the directory for the images is there, or Err.
	Prepared struct {
		Checkpoint uint64
		Err        string
	}
	// Committed: the checkpoint is committed, or Err.
	Committed struct {
		Checkpoint uint64
		Err        string
	}

	// Flushed: a committed checkpoint is, since now, also where the loss of nodes does not take it.
	Flushed struct{ Checkpoint uint64 }

	// Request: somebody wants a checkpoint, and with Stop that the job leaves after it. ID 0 wants no reply.
	Request struct {
		ID   uint64
		Stop bool
	}
	// Terminate: leave after a checkpoint, and leave without one if there can be none in time.
	Terminate struct{}
	// Interrupt: leave at once.
	Interrupt struct{ Code int }
)

// Action is something for the driver to do.
type Action interface{ action() }

// What can be ordered.
type (
	// Launch starts the ranks, from an image when it is not 0. Doubted: a rank has found that image damaged; what is damaged of it
	// is to be made again before.
	Launch struct {
		Image   uint64
		Doubted bool
	}
	// Kill ends launcher and ranks.
	Kill struct{ How KillHow }
	// Replace starts processes in the places of ranks that have died. The others go on.
	Replace struct{ Ranks []int }
	// Prepare creates the directory of a checkpoint.
	Prepare struct{ Checkpoint uint64 }
	// Halt has a plain job told that it is to end, when it asks.
	Halt struct{ Why string }
	// Send sends an order to all ranks.
	Send struct{ node.Order }
	// Commit makes a checkpoint count, which the attempt of that epoch has written.
	Commit struct{ Checkpoint, Epoch uint64 }
	// Discard removes what was written of a checkpoint that has failed, and why it has.
	Discard struct {
		Checkpoint uint64
		Why        string
	}
	// Drop removes a committed checkpoint.
	Drop struct{ Checkpoint uint64 }
	// Aside says which checkpoints the job has gone back behind, all of them. Since then it may have changed files that
	// they count on: it does not go forward to them by itself.
	Aside struct{ Checkpoints []uint64 }
	// Reply answers a Request.
	Reply struct {
		ID     uint64
		Result Result
	}
	// Took: a checkpoint is committed and everybody goes on (or leaves).
	Took struct{ Result Result }
	// Say tells the user.
	Say struct{ Text string }
	// Finish ends the job with an exit code.
	Finish struct{ Code int }
)

// KillHow is how launcher and ranks are ended. What is ended by SIGKILL leaves things behind, so it comes late.
type KillHow int

// The ways, each stronger than the one before.
const (
	KillAsk   KillHow = iota + 1 // the ranks get the effect of a SIGTERM
	KillRanks                    // the ranks by SIGKILL; the launcher is asked
	KillBoth                     // launcher and ranks by SIGKILL
)

func (k KillHow) String() string { return [...]string{"", "ask", "ranks", "both"}[k] }

// Result of a checkpoint.
type Result struct {
	Checkpoint uint64        `json:"checkpoint,omitempty"`
	Bytes      uint64        `json:"bytes,omitempty"`
	Stall      time.Duration `json:"stall_ns,omitempty"` // the longest of all ranks
	Took       time.Duration `json:"took_ns,omitempty"`  // from the request to the commit
	Attempts   int           `json:"attempts,omitempty"`
	Refusals   []string      `json:"refusals,omitempty"`
	Err        string        `json:"error,omitempty"`
}

func (Launch) action()  {}
func (Kill) action()    {}
func (Replace) action() {}
func (Prepare) action() {}
func (Halt) action()    {}
func (Send) action()    {}
func (Commit) action()  {}
func (Discard) action() {}
func (Drop) action()    {}
func (Aside) action()   {}
func (Reply) action()   {}
func (Took) action()    {}
func (Say) action()     {}
func (Finish) action()  {}
