package coord

import (
	"time"

	"github.com/byssus-hpc/byssus/internal/abi"
)

// Event is something that happened.
type Event interface{ event() }

// What can happen.
type (
	// Start begins the life of the machine. Images are the committed checkpoints of this job, in any order.
	Start struct {
		Images  []uint64
		Last    uint64   // highest number ever used, committed or not
		Aside   []uint64 // of Images: see the action of this name
		Restart bool     // go on from an image
		Only    uint64   // restart from this one and no other; 0: newest good one
	}
	// Tick says that time has passed.
	Tick struct{}

	// Hello: a rank has connected.
	Hello struct{ Rank int }
	// Init: a rank has finished MPI_Init.
	Init struct{ Rank int }
	// Finalizing: a rank enters MPI_Finalize.
	Finalizing struct{ Rank int }
	// Fini: a rank has finished MPI_Finalize.
	Fini struct{ Rank int }
	// Restored: a rank goes on from an image.
	Restored struct{ Rank int }
	// Failed: a rank cannot start or restart.
	Failed struct {
		Rank int
		Text string
	}
	// Lost: a rank's process is gone. Ended: by its own exit, with Code. Following: it was ended after another rank had
	// ended by itself with an error; that is what launchers do.
	Lost struct {
		Rank      int
		Ended     bool
		Code      int
		Following bool
	}
	// Reason: why a rank is about to end the job.
	Reason struct {
		Rank int
		Text string
	}
	// Progress: the shared pages show that bytes have moved, or that a rank has come further.
	Progress struct{}
	// Left: a rank's process is there and does not speak any more: it has become another program.
	Left struct{ Rank int }
	// LauncherExit: mpirun has ended. Signal is not 0 when it was killed.
	LauncherExit struct{ Code, Signal int }
	// LaunchFailed: mpirun was not started. Bad: because the image cannot be used.
	LaunchFailed struct {
		Text string
		Bad  bool
	}

	// Clocks of a rank, in answer to REQUEST; More: not all of them yet.
	Clocks struct {
		Rank   int
		Epoch  uint64
		Clocks []abi.Clock
		More   bool
	}
	// Raise: a rank goes beyond a target.
	Raise struct {
		Rank  int
		Epoch uint64
		Clock abi.Clock
	}
	// Met: a rank has reached all targets of that version.
	Met struct {
		Rank    int
		Epoch   uint64
		Version uint64
	}
	// Waiting: a rank has not met and stands still in a call of the MPI; Where is abi.WhereRun when it no longer does. Call
	// is that call's name; empty: not known.
	Waiting struct {
		Rank  int
		Epoch uint64
		Where uint32
		Call  string
	}
	// Where: what the shared page says a rank is doing.
	Where struct {
		Rank  int
		Where uint32
	}
	// Stopped: the threads of a rank stand still. Refusals name what cannot be saved; the last Passing of them may be
	// gone a moment later.
	Stopped struct {
		Rank     int
		Epoch    uint64
		Refusals []string
		Passing  int
	}
	// Objects: what a rank has that others might have too, in any number of parts before its Stopped.
	Objects struct {
		Rank    int
		Epoch   uint64
		Host    string
		Objects []Object
	}
	// Image: a rank's image is written, or failed to be.
	Image struct {
		Rank  int
		Epoch uint64
		Image abi.Image
		Text  string
	}
	// Resumed: a rank goes on after its image.
	Resumed struct {
		Rank  int
		Epoch uint64
		Stall time.Duration
	}

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

	// Request: somebody wants a checkpoint, and with Stop that the job leaves after it. ID 0 wants no reply.
	Request struct {
		ID   uint64
		Stop bool
	}
	// Terminate: leave after a checkpoint, and leave without one if there can be none in time. ByRank: a rank was asked to,
	// as when a batch system signals all processes of a job.
	Terminate struct{ ByRank bool }
	// Interrupt: leave at once.
	Interrupt struct{ Code int }
)

func (Start) event()        {}
func (Tick) event()         {}
func (Hello) event()        {}
func (Init) event()         {}
func (Finalizing) event()   {}
func (Fini) event()         {}
func (Reason) event()       {}
func (Progress) event()     {}
func (Restored) event()     {}
func (Failed) event()       {}
func (Lost) event()         {}
func (Left) event()         {}
func (LauncherExit) event() {}
func (LaunchFailed) event() {}
func (Clocks) event()       {}
func (Raise) event()        {}
func (Met) event()          {}
func (Waiting) event()      {}
func (Where) event()        {}
func (Stopped) event()      {}
func (Objects) event()      {}
func (Image) event()        {}
func (Resumed) event()      {}
func (Prepared) event()     {}
func (Committed) event()    {}
func (Request) event()      {}
func (Terminate) event()    {}
func (Interrupt) event()    {}

// Action is something for the driver to do.
type Action interface{ action() }

// What can be ordered.
type (
	// Launch starts the ranks, from an image when it is not 0.
	Launch struct{ Image uint64 }
	// Kill ends launcher and ranks.
	Kill struct{ How KillHow }
	// Prepare creates the directory of a checkpoint.
	Prepare struct{ Checkpoint uint64 }
	// Send sends a message to a rank. Version and Targets belong to TARGETS, Shares and Hold to SHARED, Checkpoint and
	// ExitAfter to DRAIN.
	Send struct {
		Rank       int
		Type       uint16
		Epoch      uint64
		Version    uint64
		Targets    []abi.Clock
		Shares     []abi.Share
		Hold       bool
		Checkpoint uint64
		ExitAfter  bool
	}
	// Commit makes a checkpoint count.
	Commit struct{ Checkpoint uint64 }
	// Discard removes what an attempt has written.
	Discard struct{ Checkpoint uint64 }
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
func (Prepare) action() {}
func (Send) action()    {}
func (Commit) action()  {}
func (Discard) action() {}
func (Drop) action()    {}
func (Aside) action()   {}
func (Reply) action()   {}
func (Took) action()    {}
func (Say) action()     {}
func (Finish) action()  {}
