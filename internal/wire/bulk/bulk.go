// Package bulk moves data between the agents of a job: sealed streams over TCP, one for each link (from one member of a
// redundancy set to another) of one transfer.
//
// It guarantees: what Receive hands out was sent by somebody with the key of the link, in this order, nothing left out, and
// io.EOF comes only after the sender has said that this is the end; anything else (altered, replayed, reordered, cut off) is
// an error that names link and frame. Bytes from the network never cause a panic. A Port gives a connection to nobody before
// its first frame has been opened with the link's key, and keeps only so many, for only so long, whose key is not known yet:
// a stranger takes nobody's place for good. Every wait ends with its context, and, once a stream is accepted, with a side
// that moves no frame for Patience. Send and Receive make no memory. Finish says that all was handed to the kernel, not that
// it was read.
//
// There is no handshake. The coordinator makes a key for each link of each transfer and hands it to both sides over its own
// connections (TLS 1.3, package control).
//
//	stream
//	0          32      64    80      112             ...
//	| preamble | hello | tag | frame | body    | tag | frame ...
//
//	preamble                                                frame
//	0       4      6      8          16     20   24      32 0        4      8       32
//	| magic | vers.| mode | transfer | from | to | zeros |  | length | kind | zeros |
//
// The other way goes one byte, when the stream is accepted: before that nothing is sent behind the hello, so that a receiver
// that is busy elsewhere may take its time. That byte is not sealed; who forges it makes the sender send, to nobody's use.
//
// Who is on the way can end a stream, as he can cut the wire: also by showing a recorded hello before its sender does. Nothing
// comes out of that but an error.
//
// The rule for nonces: a key seals one stream, in the one direction that its link has, and the nonce of a frame is its number
// in the stream, a counter of 64 bits that begins at 0 with the hello and never comes round. Keys are never used for another
// stream. So no pair of key and nonce is ever used twice; in both modes.
//
// The header of a frame is additional data of its seal, of the first frame together with the preamble before it. Encrypted:
// the body is the sealed text. Authenticated: the body is additional data as well, behind the header, and travels in the
// clear. docs/format/bulk.md draws it too.
//
// The lock of a Port is held for no wait, and no other is taken under it.
package bulk

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"time"
)

// Limits.
const (
	MaxFrame = 512 << 10   // bytes of a body
	Patience = time.Minute // after which a Send or Receive that has not moved its frame fails
)

// Errors that callers decide on.
var (
	ErrForged = errors.New("not sealed with the key of the link at this place: altered, replayed, reordered or a stranger's")
	ErrTwice  = errors.New("the link is accepted, or waited for, already")
)

// Key seals one stream: it is made for one link of one transfer and never used for another.
type Key [16]byte

// NewKey makes one.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k[:]) // which never fails
	return k
}

// String keeps keys out of messages.
func (Key) String() string { return "(key)" }

// MarshalText is for messages to those who are to use the key.
func (k Key) MarshalText() ([]byte, error) { return base64.StdEncoding.AppendEncode(nil, k[:]), nil }

// UnmarshalText reads what MarshalText has written.
func (k *Key) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return errors.New("bulk: key: not in base64") // an error that shows no part of it
	}
	if len(b) != len(k) {
		return fmt.Errorf("bulk: key: %d bytes, wanted %d", len(b), len(k))
	}
	copy(k[:], b)
	return nil
}

// Mode is what a seal does. Its numbers are in the stream.
type Mode uint16

// The modes.
const (
	Encrypted     Mode = 1 // AES-128-GCM
	Authenticated Mode = 2 // GMAC: the data is in the clear, and cannot be altered
)

func (m Mode) String() string {
	switch m {
	case Encrypted:
		return "encrypted"
	case Authenticated:
		return "authenticated"
	}
	return fmt.Sprintf("mode %d", uint16(m))
}

// Link is the way from one member to another in one transfer. No other transfer has the same number.
type Link struct {
	Transfer uint64
	From, To int
}

func (l Link) String() string {
	return fmt.Sprintf("transfer %d, link %d to %d", l.Transfer, l.From, l.To)
}

func (l Link) check() error {
	if l.From < 0 || l.To < 0 || l.From > math.MaxInt32 || l.To > math.MaxInt32 {
		return fmt.Errorf("bulk: %v: wanted members 0 to %d", l, math.MaxInt32)
	}
	return nil
}
