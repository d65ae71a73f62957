package control

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/byssus-hpc/byssus/internal/act/mover"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/decide/pmi"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/decide/routed"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// kinds are the types of messages; their numbers are their places, and never change within a version.
var kinds = []reflect.Type{
	reflect.TypeFor[Alive](), reflect.TypeFor[Refused](),

	// of an agent
	reflect.TypeFor[Joined](), reflect.TypeFor[Done](), reflect.TypeFor[Encoded](), reflect.TypeFor[Sealed](), reflect.TypeFor[Pages](), reflect.TypeFor[Exited](), reflect.TypeFor[Here](),
	reflect.TypeFor[pmi.Up](),
	reflect.TypeFor[node.Hello](), reflect.TypeFor[node.Init](), reflect.TypeFor[node.Finalizing](), reflect.TypeFor[node.Fini](),
	reflect.TypeFor[node.Restored](), reflect.TypeFor[node.Failed](), reflect.TypeFor[node.Lost](), reflect.TypeFor[node.Left](),
	reflect.TypeFor[node.Reason](), reflect.TypeFor[node.Asked](), reflect.TypeFor[node.Progress](), reflect.TypeFor[node.Clocks](),
	reflect.TypeFor[node.Raise](), reflect.TypeFor[node.Met](), reflect.TypeFor[node.Waiting](), reflect.TypeFor[node.Where](),
	reflect.TypeFor[node.Stopped](), reflect.TypeFor[node.Objects](), reflect.TypeFor[node.Image](), reflect.TypeFor[node.Resumed](),

	// of the coordinator
	reflect.TypeFor[Begin](), reflect.TypeFor[End](), reflect.TypeFor[Kill](), reflect.TypeFor[Look](),
	reflect.TypeFor[Prepare](), reflect.TypeFor[Seal](), reflect.TypeFor[Commit](), reflect.TypeFor[Discard](), reflect.TypeFor[Drop](),
	reflect.TypeFor[node.Order](), reflect.TypeFor[Run](), reflect.TypeFor[pmi.Down](), reflect.TypeFor[Leave](), reflect.TypeFor[Survey](), reflect.TypeFor[AllHere](),
	reflect.TypeFor[Encode](), reflect.TypeFor[Rebuild](), reflect.TypeFor[Abandon](), reflect.TypeFor[Flush](),
	reflect.TypeFor[Launch](), reflect.TypeFor[Room](), reflect.TypeFor[Launched](), reflect.TypeFor[Spawn](), reflect.TypeFor[Exec](), reflect.TypeFor[Executed](), reflect.TypeFor[Spawned](),

	reflect.TypeFor[WantInput](), reflect.TypeFor[Input](), reflect.TypeFor[Signal](), reflect.TypeFor[Inspect](),
	reflect.TypeFor[node.Moved](), reflect.TypeFor[node.Refused](), reflect.TypeFor[Repair](),
	reflect.TypeFor[Asked](), reflect.TypeFor[Told](), reflect.TypeFor[SealInPlace](), reflect.TypeFor[Compare](), reflect.TypeFor[Name](), reflect.TypeFor[RankLeft](),
	reflect.TypeFor[Routed](), reflect.TypeFor[Claim](), reflect.TypeFor[Claimed](), reflect.TypeFor[GiveUp](), reflect.TypeFor[Gather](), reflect.TypeFor[Gathered](),
	reflect.TypeFor[Release](), reflect.TypeFor[Unroute](), reflect.TypeFor[Recount](), reflect.TypeFor[Unrouted](), reflect.TypeFor[Replace](),
}

func kindOf(body any) (uint16, error) {
	i := slices.Index(kinds, reflect.TypeOf(body))
	if i < 0 {
		return 0, fmt.Errorf("control: %T is no message", body)
	}
	return uint16(i), nil
}

// What both sides say.
type (
	// Alive is said when there is nothing else to say.
	Alive struct{}
	// Refused: the other side is not served, and why; the connection ends.
	Refused struct{ Why string }
)

// What an agent says.
type (
	// Joined is an agent's first word.
	Joined struct {
		PID     int
		Seen    string          // what agents have in common that see each other's processes
		Pieces  string          // address at which it takes what others send it; empty: it has no cache
		Last    uint64          // highest number that a checkpoint had here
		Written uint64          // and that a dataset of files had
		Held    []recovery.Held // what is in its cache
		Damaged []string        // and what is there and cannot be used
		Weak    string          // why a loss of power may take what counts there; empty: nothing is known
		Traits  Traits
	}
	// Traits are what nodes must have in common on which a rank may go on that began elsewhere.
	Traits struct {
		Processor []string  // what an image that is written here needs, in byssus-rank's words
		Programs  []Program // that ranks consist of
		Wrong     string    // why nothing can run here; empty: nothing is known
	}
	// Program is a file, and what tells its content from another's (elfcheck.Content).
	Program struct{ Path, Content string }
	// Done answers an order; Err says why it could not be done.
	Done struct {
		Order   uint64
		Text    string // Name
		Err     string
		Follows bool             // from what another agent could not do (Abandon)
		Damaged bool             // since what the agent has is not as it was written (Flush, the base of Encode)
		Damage  []holding.Damage // where (Inspect); none: it is not known
		Full    bool             // since there is no room (Room)
	}
	// Encoded answers Encode, when it could be done.
	Encoded struct {
		Order uint64
		Sent  int64 // bytes
	}
	// Sealed answers Seal, Flush, and Rebuild of who becomes the lost member, when it could be done.
	Sealed struct {
		Order uint64
		Part  dataset.Part
	}
	// Exited: the process of a rank that the agent has started has ended. Signal is not 0 when it was killed.
	Exited struct {
		Rank, Code, Signal int
		Untold             bool // before the agent has sent any rank a signal
	}
	// Launched: the launcher that the agent has started has ended. Signal is not 0 when it was killed.
	Launched struct{ Code, Signal int }
	// Spawn: the launcher wants a command, as a shell reads it, started on a node. Answer: Spawned.
	Spawn struct {
		Number  int // its own
		Node    string
		Command string
	}
	// Executed: what Exec has started has ended, with an exit code as a shell says it.
	Executed struct{ Number, Code int }
	// Here: at a restart, the ranks of the node have come to a meeting.
	Here struct{ Meeting uint64 }
	// WantInput asks for what follows of the job's standard input, of which rank 0 has got so many bytes. Answer: Input.
	WantInput struct{ Offset uint64 }
	// Asked: a program asks for what the coordinator decides. Answer: Told.
	Asked struct {
		Number uint64 // the agent's own
		client.Asked
		Settings *settings.Sources // of Begin and Config
		Question string            // of Config
		Process  int               // of Enter and Spare: who asks
	}
	// RankLeft: the process of a rank that has joined a program (client.ReqJoin), or of a member that has begun (client.ReqEnter, ReqSpare), has ended.
	RankLeft struct {
		Run    uint64
		Rank   int
		Number uint64 // of what the agent asked for the member, 0: it is a rank
	}
	// Routed says what a node has of a dataset whose files are led.
	Routed struct{ routed.State }
	// Claim wants a file in the prefix that is in the cache of another node, to which this link leads; or, with To, that it gets another name,
	// or a second one. Answer: Claimed.
	Claim struct {
		Number     uint64
		Path, Link string
		To         string // the whole path
		Copy       bool
	}
	// Gathered answers Gather.
	Gathered struct{ Order, Bytes, Files uint64 }
	// Unrouted answers Unroute.
	Unrouted struct {
		Order   uint64
		Removed []string // keys of what was removed, since its program has not completed it
		Full    string   // what there is to say of a cache that had no room left; empty: nothing
	}
	// Pages answers Look.
	Pages struct {
		Order uint64
		Ranks []node.Sample
	}
)

// What the coordinator says. Order is a number that the answer has; checkpoints are those of stream 0, else datasets of another.
type (
	// Begin makes an agent ready for a start of ranks, whose number is the message's. Answer: Done.
	Begin struct {
		Order   uint64
		Ranks   []int // of this node, ascending
		Size    int   // of the job
		Restart bool
		Writers int
		Route   *Route // which files of the programs are led into the cache; nil: none
	}
	// Route says which files of programs that are run as they are are led into the cache (package routed).
	Route struct {
		Prefix string // below which they have their names
		Files  string // the pattern of these names, below the prefix
		Marker string // and of names of files that say that all of a dataset is written; empty: there are none
		Links  string // in the store, what begins the names of files in which nodes note where they put links
		More   int    // percent of a dataset's bytes that its redundancy takes on a node, about
	}
	// Claimed answers Claim.
	Claimed struct {
		Number uint64
		Err    string // why it cannot be had; empty: it is in the prefix now
	}
	// GiveUp puts a file into the prefix that is in the cache, since somebody elsewhere writes to it; or, with To, gives it another name, or a
	// second one. Answer: Done.
	GiveUp struct {
		Order uint64
		Path  string // below the prefix
		To    string
		Copy  bool
	}
	// Gather puts the files of a dataset that is complete into the directory that has been made for it, with places for these ranks, which
	// are the node's. Answer: Gathered, or Done with an error.
	Gather struct {
		Order, Checkpoint uint64
		Key               string
		Ranks             []int
	}
	// Release puts the files of a dataset that cannot count into the prefix. Answer: Done.
	Release struct {
		Order uint64
		Key   string
	}
	// Recount has an agent say what has changed of files that are led. Answer: Done.
	Recount struct{ Order uint64 }
	// Unroute ends the leading of files: those that are not in the prefix yet are put there, if Keep, or removed, as all that was ordered before
	// has been done. Answer: Unrouted, or Done with an error.
	Unroute struct {
		Order uint64
		Keep  bool
	}
	// Run starts the node's ranks of a start, for which Begin has been done. Answer: Done; then Exited for each.
	Run struct {
		Order    uint64
		Command  []string
		Environ  []string
		Dir      string
		Mapping  string // of ranks to nodes (package pmi)
		Universe int
	}
	// Replace starts processes in the places of ranks that have died, of a start that goes on; this node may have had no part in it so far.
	// Answer: Done; then Exited for each.
	Replace struct {
		Order   uint64
		Ranks   []int
		Size    int // ranks of the start
		Command []string
		Environ []string
		Dir     string
	}
	// Launch starts an MPI's own launcher on this node, for which Begin has been done; it starts others by Spawn. Answer: Done;
	// then Launched.
	Launch struct {
		Order   uint64
		Command []string
		Environ []string
		Dir     string
		Hosts   []string // the node of each rank
		Script  bool     // it is no launcher, but starts launchers by itself: each of the nodes is there once
	}
	// Exec starts for a launcher elsewhere what it wants on this node. Then Executed.
	Exec struct {
		Number  int
		Command string // as a shell reads it
		Environ []string
		Dir     string
	}
	// Spawned: what the launcher has wanted by Spawn has ended, or could not be started.
	Spawned struct{ Number, Code int }
	// End is the end of a start: ranks that are still there count no more.
	End struct{}
	// Input is a piece of the job's standard input. It is not empty, but at the end, and where Why says why it cannot be had.
	Input struct {
		Offset uint64
		Data   []byte
		Why    string
	}
	// AllHere: those of all nodes have come to it.
	AllHere struct{ Meeting uint64 }
	// Leave ends the agent; with Forget the job's part of its cache goes, too.
	Leave struct{ Forget bool }
	// Kill ends the ranks of a start.
	Kill struct{ Ask bool } // by the effect of a SIGTERM, not by SIGKILL
	// Signal gives the ranks of a start a signal.
	Signal struct{ Number int }
	// Look asks for what the ranks' pages say.
	Look struct{ Order uint64 }

	// Survey looks at the processes of the node that are not the job's, before a checkpoint is asked for. Ours are those which
	// it may see beside its own. Answer: Done.
	Survey struct {
		Order uint64
		Ours  []int
	}
	// Room asks whether the node's cache has room for so many bytes, of which some may be there already. Answer: Done.
	Room struct {
		Order uint64
		Bytes int64
	}
	// Prepare makes a place for the images of a checkpoint. In a cache there must be room for Copies of them, and for what is kept
	// for others, which is that Share; 0 copies: that is not asked. Answer: Done.
	Prepare struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
		Copies            int
		Share             redset.Share
		Members           []int // of a group, whose files are those of a snapshot that was dropped, if it was kept
	}
	// Seal makes sure that the parts of these ranks, which are the node's, are whole, and as durable as the job wants them.
	// Answer: Sealed, or Done with an error.
	Seal struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
		Kind              holding.Kind
		Ranks             []int
	}
	// Told answers Asked.
	Told struct {
		Number uint64
		client.Answered
	}
	// SealInPlace makes indexes, in the store that all nodes see, of the files that these ranks have written below the prefix in a
	// run. Answer: Sealed, or Done with an error.
	SealInPlace struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
		Run               uint64
		Ranks             []int
		Prefix            string
	}
	// Name asks for the path of a file that a rank has written, of a dataset that does not count yet. Answer: Done.
	Name struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
		holding.Path
	}
	// Compare compares the parts of these ranks, in the store that all nodes see, with their checksums. Answer: Done.
	Compare struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
		Ranks             []int
	}
	// Commit makes a checkpoint count. Answer: Done.
	Commit struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
		Record            dataset.Manifest
	}
	// Encode makes what the node keeps for the others of its set, which is a vote for the checkpoint when it is done. Header.Own
	// is the member that the node is. Answer: Encoded, or Done of who could not.
	Encode struct {
		Order, Checkpoint uint64
		Header            holding.Header
		Transfer          mover.Transfer
		Base              uint64 `json:",omitempty"` // it is an increment of this dataset of the stream; 0: of none
	}
	// Rebuild makes a member of a set again, which is lost; Header.Own is the member that the node is, or becomes. Answer: Sealed
	// of who becomes it, Done of the others.
	Rebuild struct {
		Order, Checkpoint uint64
		Header            holding.Header
		Lost              int
		Transfer          mover.Transfer
		Gone              []int `json:",omitempty"` // the other members that are lost, too, and take no part in it
	}
	// Repair repairs what of a member is damaged; Header.Own is the member that the node is. Answer: Done.
	Repair struct {
		Order, Checkpoint uint64
		Header            holding.Header
		Damaged           int
		Ranges            []redset.Range
		Transfer          mover.Transfer
	}
	// Abandon ends what the agent does for a transfer, or will be told to: it cannot succeed.
	Abandon struct{ Transfer uint64 }
	// Flush copies the parts of these ranks from the cache to the store that all nodes see, where a place has been made for
	// them, and seals them there. Answer: Sealed.
	Flush struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
		Ranks             []int
		Prefix            string // below which files get their own names; empty: they lie in the store
	}
	// Inspect reads all that the cache has of a checkpoint, with what it keeps for others. Answer: Done, with an error when
	// something of it is not as it was written.
	Inspect struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
	}
	// Discard removes what was written for a checkpoint that does not count.
	Discard struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
	}
	// Drop removes a committed checkpoint; Keep: but for its memory, which Prepare puts to use again.
	Drop struct {
		Order, Checkpoint uint64
		Stream            holding.Stream
		Keep              bool
	}
)
