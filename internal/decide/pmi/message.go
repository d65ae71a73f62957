package pmi

// Up is what a Node tells the Root. Its fields are parts that come together or alone.
type Up struct {
	Barrier   bool              // all ranks of the node have entered the barrier
	Puts      map[string]string // with Barrier: what they have put since the one before
	Finalized bool              // all ranks of the node have finalized
	Name      *Name
	End       *End
}

// Down is what the Root tells a Node.
type Down struct {
	Barrier bool              // all have entered: the ranks go on
	Puts    map[string]string // with Barrier: what all nodes have put
	Name    *Name             // the answer
	End     *End
}

// Name is a question about a published name, and its answer.
type Name struct {
	Rank    int // who asks
	Command string
	Service string
	Port    string // of publish_name, and of the answer to lookup_name
	Refusal string // of the answer: why not; one word
}

// End is why the job cannot go on.
type End struct {
	Rank int
	How  How
	Code int    // Aborted: what MPI_Abort was called with
	Text string // Aborted: what it was called with, if anything; else what has happened
}

// How a rank has brought its job to an end.
type How int

// The ways.
const (
	Aborted How = iota + 1 // it has called MPI_Abort, or an error was fatal
	Lost                   // it was gone before it had finalized
	Faulty                 // it spoke nonsense and was hung up on
)

func (h How) String() string { return [...]string{"", "aborted", "lost", "faulty"}[h] }

// Event is something that the driver of a Node or of the Root may want to know.
type Event interface{ event() }

// What can happen. End is an event as well: of the Node of the rank, then of the Root, then of the other Nodes.
type (
	// Init: a rank has come to MPI_Init.
	Init struct{ Rank int }
	// Finalized: a rank is about to leave MPI_Finalize.
	Finalized struct{ Rank int }
	// Unknown: a rank has used a command that there is not, and was told so.
	Unknown struct {
		Rank int
		Line string
	}
	// Finished, of the Root: all ranks have finalized.
	Finished struct{}
)

func (Init) event()      {}
func (Finalized) event() {}
func (Unknown) event()   {}
func (Finished) event()  {}
func (End) event()       {}

// Reply is a line to a rank, with its end.
type Reply struct {
	Rank int
	Line string
}

// Out is what a step of a Node leaves to be done, in the order of the fields.
type Out struct {
	Replies []Reply
	HangUp  bool // on the rank that has spoken
	Up      []Up
	Events  []Event
}
