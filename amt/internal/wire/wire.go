// Package wire says what the task runtime wants of a transport.
package wire

// A Transport carries batches between ranks. All methods but Wake belong to the goroutine that drives the rank.
//
// It guarantees that every batch arrives once and whole, and those of Size bytes or less between two ranks in their order.
type Transport interface {
	Rank() int
	Ranks() int
	// Size is how many bytes a batch has room for. A record that is longer travels in a batch of its own, of any length.
	Size() int
	// Room returns an empty batch with room for n bytes.
	Room(n int) []byte
	// Send takes a batch for another rank, if it can now: its memory is the transport's then.
	Send(to int, b []byte) (sent bool, err error)
	// SendUrgently is Send of a short batch that does not wait until others are received. They keep their order.
	SendUrgently(to int, b []byte) (sent bool, err error)
	// Look returns a batch if one has come within so many looks, else nil. Its memory is the caller's until it is given back.
	Look(looks int) (from int, b []byte, err error)
	// Free gives the memory of a batch back that Look or Room returned.
	Free(in []byte)
	// Held is how many bytes of what Send has taken are in memory yet: on ranks of one process until the receiver has told that it has
	// handled them, else until what is long has left. If so wanted, an Idle ends when there are fewer.
	Held(wake bool) int
	// Handled tells a rank that so many bytes of batches that Look has returned from it were handled.
	Handled(from, bytes int)
	// Idle rests, longer the more turns in a row brought nothing; it ends early when a batch comes, or by Wake.
	Idle(turns int)
	// Wake ends an Idle; it may be called from any goroutine.
	Wake()
}
