// Package control is what the coordinator of a job and the agents on its nodes say to each other, and how: typed messages in
// frames, over TLS 1.3 with certificates made for the job alone.
//
// It guarantees: a connection is to somebody who holds a key of this job, and in the role that the other side wanted; a
// message arrives whole, in order and once, or the connection is over; what cannot be read is an error that says what was
// found, never a panic, and costs no more memory than a frame may have; neither side waits for ever (Patience).
//
//	frame
//	0       4       6      8        12         16      24
//	| magic | vers. | type | length | reserved | start | body: JSON ...
//
// Bodies are JSON: messages are few, a handful for each node and checkpoint, and what is in them is for people to read when
// something goes wrong. Both sides are of the same version of Byssus, or do not speak.
//
// To add a message: its type at the end of the list in messages.go.
package control

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"sync"
	"time"
)

// Limits of a connection.
const (
	Version     = 1
	magic       = 0x43535942 // "BYSC" in memory
	headerBytes = 24
	maxBody     = 64 << 20
	proveLimit  = 3 * time.Second // for a connection to be proved
)

// Patience is for how long an agent may be silent before it counts as gone.
type Patience time.Duration

// Patiences.
const (
	DefaultPatience = Patience(3 * time.Second)
	LeastPatience   = Patience(300 * time.Millisecond) // below that a machine that has much to do looks dead
	MostPatience    = Patience(time.Hour)
)

func (p Patience) String() string { return time.Duration(p).String() }

// Beat is how often each side says that it is there.
func (p Patience) Beat() time.Duration { return time.Duration(p) / 6 }

// Lease is after which time of silence the coordinator counts as gone: so agents end their ranks before others take their place.
func (p Patience) Lease() time.Duration { return time.Duration(p) * 2 / 3 }

// Message is what is said: one of the types in messages.go, about one start of the job's ranks (0: about none).
type Message struct {
	Start uint64
	Body  any
}

// ErrVersion means that the other side is of another version.
var ErrVersion = errors.New("another version of byssus")

// Conn is a connection. Send may be called by several goroutines, Receive by one.
type Conn struct {
	conn    net.Conn
	silence time.Duration // after which the other side counts as gone
	beat    time.Duration // how often this one says that it is there
	mu      sync.Mutex    // of writing
	buf     []byte
}

// newConn returns a connection over c, which has been proved (see keys.go).
func newConn(c net.Conn, silence time.Duration, p Patience) *Conn {
	return &Conn{conn: c, silence: silence, beat: p.Beat()}
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Peer is the address of the other side.
func (c *Conn) Peer() string { return c.conn.RemoteAddr().String() }

// Self is the address of this side.
func (c *Conn) Self() string { return c.conn.LocalAddr().String() }

// Send sends a message. It fails when the other side takes nothing for so long that it counts as gone; then the connection is over.
func (c *Conn) Send(m Message) error {
	kind, err := kindOf(m.Body)
	if err != nil {
		return err
	}
	body, err := json.Marshal(m.Body)
	if err != nil {
		return fmt.Errorf("control: %T: %w", m.Body, err)
	}
	if len(body) > maxBody {
		return fmt.Errorf("control: %T: %d bytes, at most %d", m.Body, len(body), maxBody)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = appendHeader(c.buf[:0], kind, m.Start, len(body))
	c.buf = append(c.buf, body...)
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	if _, err := c.conn.Write(c.buf); err != nil {
		c.conn.Close()
		return fmt.Errorf("control: %s: %w", c.Peer(), err)
	}
	return nil
}

// Receive returns the next message. It fails when nothing comes for so long that the other side counts as gone: both sides beat
// (Heartbeat).
func (c *Conn) Receive() (Message, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return Message{}, fmt.Errorf("control: %w", err)
	}
	m, err := read(&awake{conn: c.conn})
	if err != nil {
		c.conn.Close()
		return Message{}, fmt.Errorf("control: %s: %w", c.Peer(), err)
	}
	return m, nil
}

// lastLook is how long it is looked once more for what may have come when nothing was heard for so long: on a machine that has too
// much to do, this process may have slept itself.
const lastLook = 100 * time.Millisecond

// awake reads from a connection, and looks once more when its time is over.
type awake struct {
	conn   net.Conn
	looked bool
}

func (a *awake) Read(b []byte) (int, error) {
	n, err := a.conn.Read(b)
	var timeout net.Error
	if n > 0 || a.looked || !errors.As(err, &timeout) || !timeout.Timeout() {
		return n, err
	}
	a.looked = true
	if err := a.conn.SetReadDeadline(time.Now().Add(lastLook)); err != nil {
		return 0, err
	}
	return a.conn.Read(b)
}

// Heartbeat sends a beat every so often until done is closed or the connection is over.
func (c *Conn) Heartbeat(done <-chan struct{}) {
	t := time.NewTicker(c.beat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if c.Send(Message{Body: Alive{}}) != nil {
				return
			}
		case <-done:
			return
		}
	}
}

func appendHeader(b []byte, kind uint16, start uint64, length int) []byte {
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = binary.LittleEndian.AppendUint16(b, Version)
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(length))
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint64(b, start)
}

// read reads a frame.
func read(r io.Reader) (Message, error) {
	var h [headerBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Message{}, err
	}
	version, kind := binary.LittleEndian.Uint16(h[4:]), binary.LittleEndian.Uint16(h[6:])
	length := binary.LittleEndian.Uint32(h[8:])
	switch {
	case binary.LittleEndian.Uint32(h[:]) != magic:
		return Message{}, fmt.Errorf("frame begins with %x, wanted %x", h[:4], binary.LittleEndian.AppendUint32(nil, magic))
	case version != Version:
		return Message{}, fmt.Errorf("protocol version %d, wanted %d: %w", version, Version, ErrVersion)
	case length > maxBody:
		return Message{}, fmt.Errorf("frame of %d bytes, at most %d", length, maxBody)
	case int(kind) >= len(kinds):
		return Message{}, fmt.Errorf("message of type %d, which is unknown", kind)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(length))) // grows with what is there
	if err == nil && len(body) < int(length) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return Message{}, err
	}
	m := reflect.New(kinds[kind])
	if err := json.Unmarshal(body, m.Interface()); err != nil {
		return Message{}, fmt.Errorf("%s: %w", kinds[kind], err)
	}
	return Message{Start: binary.LittleEndian.Uint64(h[16:]), Body: m.Elem().Interface()}, nil
}
