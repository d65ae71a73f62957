// Package term decides when an epoch is over: when everything that was begun under it, anywhere, is done.
//
// It guarantees: an epoch is never told over while a message of it is on its way, waits or is being handled, or while
// anything else holds it (Hold); once nothing does, it is told over after a bounded number of messages, whatever the
// order in which they arrive. A collective epoch is told over on every rank by at most two waves beyond the one that is
// under way when the last work ends, and by a single one if no message of it ever left its rank; a rooted one on its
// root, after one acknowledgement for each message, of which one message carries many.
//
// A collective epoch is watched by waves over a tree that add up what was sent and received (F. Mattern, Algorithms for
// distributed termination detection, Distributed Computing 2, 1987: the four counter method); a rooted one by
// acknowledgements (E. W. Dijkstra, C. S. Scholten, Termination detection for diffusing computations, Information
// Processing Letters 11, 1980).
//
// It is pure: what is to be sent is appended to a list that the caller hands in, and the caller says when the rank has
// nothing else to do (Settle). A detector belongs to one goroutine. Messages may overtake each other.
package term

// A Kind says what detectors tell each other.
type Kind uint8

// What they tell.
const (
	Count Kind = iota // upwards: what a subtree has sent and received in this wave
	Wave              // downwards: this wave begins
	Over              // downwards: the epoch is over
	Ack               // Received messages of a rooted epoch have been taken care of
)

// A Message goes from the detector of an epoch on one rank to that on another.
type Message struct {
	Kind           Kind
	Wave           uint32 // the number of the wave, from 1
	Sent, Received uint64 // messages between ranks
}

// An Order is a message that has to be sent.
type Order struct {
	To int // rank
	Message
}
