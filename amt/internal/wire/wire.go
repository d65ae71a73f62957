// Package wire says what the task runtime wants of a transport.
package wire

// Size is how many bytes a batch has room for. A record that is longer travels in a batch of its own, of any length.
const Size = 16 << 10

// A Turn is what a rank and its transport hand each other at one time.
type Turn struct {
	To   int    // the rank that Out goes to
	Out  []byte // a batch; nil if there is none. Taken: its memory is the transport's
	From int    // the rank that In comes from
	In   []byte // a batch; nil if none came. Its memory is the rank's until it is given back (Free)
}

// A Transport carries batches between ranks. All methods but Wake belong to the goroutine that drives the rank.
//
// It guarantees that every batch arrives once and whole, and those of Size or less between two ranks in their order.
type Transport interface {
	Rank() int
	Ranks() int
	// Room returns an empty batch with room for n bytes.
	Room(n int) []byte
	// Turn takes t.Out, if it can now, and sets it to nil; and sets t.In to a batch, if one has come within so many looks.
	Turn(t *Turn, looks int) error
	// Free gives the memory of a batch back that Turn brought.
	Free(in []byte)
	// Idle rests, longer the more turns in a row brought nothing; it ends early when a batch comes, or by Wake.
	Idle(turns int)
	// Wake ends an Idle; it may be called from any goroutine.
	Wake()
}
