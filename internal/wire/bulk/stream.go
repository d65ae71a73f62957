package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// end is one end of a stream. It serves one goroutine, but for Close, which any may call.
type end struct {
	*seal
	ctx      context.Context
	conn     net.Conn
	stop     func() bool // forgets the context
	patience time.Duration
	err      error // what the stream has ended with
}

func newEnd(ctx context.Context, conn net.Conn, s *seal) end {
	return end{seal: s, ctx: ctx, conn: conn, stop: context.AfterFunc(ctx, func() { conn.Close() }), patience: Patience}
}

func (e *end) close() error {
	e.stop()
	if err := e.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("bulk: %v: close: %w", e.link, err)
	}
	return nil
}

// fail ends the stream for a reason, which is that of the context where that has closed the connection.
func (e *end) fail(frame uint64, err error) error {
	if cause := context.Cause(e.ctx); cause != nil {
		err = cause
	}
	e.err = fmt.Errorf("bulk: %v: frame %d: %w", e.link, frame, err)
	_ = e.close() // the reason is told
	return e.err
}

// taken is what the port answers when a stream is accepted. It is not sealed: it proves nothing to the sender, but says when
// it makes sense to send.
const taken = 6

// Sender is the end of a stream that sends.
type Sender struct {
	end
	taken bool
}

// errFinished is what a Sender has ended with after Finish, or Close.
var errFinished = errors.New("the stream is finished")

// Dial begins the stream of a link at the port of its receiver, and does not wait until it is accepted there: the first Send,
// or Finish, does, for as long as it takes. The context is that of the stream: its end ends it.
func Dial(ctx context.Context, address string, link Link, key Key, mode Mode) (*Sender, error) {
	s, err := newSeal(link, key, mode)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: Patience}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("bulk: %v: %s: %w", link, address, err)
	}
	sender := &Sender{end: newEnd(ctx, conn, s)}
	if err := sender.write(kindHello, nil); err != nil {
		return nil, err
	}
	return sender, nil
}

// Send sends a frame of 1 to MaxFrame bytes, whose content is lost. After an error the stream is over.
func (s *Sender) Send(f *Frame) error {
	if f.n < 1 || f.n > MaxFrame {
		return fmt.Errorf("bulk: %v: frame %d: %d bytes, wanted 1 to %d", s.link, s.frame, f.n, MaxFrame)
	}
	return s.write(kindData, f)
}

// write sends a frame; f: of data.
func (s *Sender) write(kind uint32, f *Frame) error {
	if s.err != nil {
		return s.err
	}
	frame := s.frame
	if kind != kindHello && !s.taken {
		if err := s.await(); err != nil {
			return s.fail(frame, err)
		}
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		return s.fail(frame, err)
	}
	var b []byte
	if f != nil {
		b = s.packData(f)
	} else {
		b = s.pack(kind)
	}
	if _, err := s.conn.Write(b); err != nil {
		return s.fail(frame, err)
	}
	return nil
}

// await waits until the stream is accepted.
func (s *Sender) await() error {
	b := s.buf[:1] // of the preamble, which was sent
	_, err := io.ReadFull(s.conn, b)
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the port has not accepted it: %w", io.ErrUnexpectedEOF)
	case err == nil && b[0] != taken:
		return fmt.Errorf("the port answers %d, wanted %d", b[0], taken)
	}
	s.taken = err == nil
	return err
}

// Finish says that this is the end, and closes the stream.
func (s *Sender) Finish() error {
	if err := s.write(kindEnd, nil); err != nil {
		return err
	}
	s.err = fmt.Errorf("bulk: %v: %w", s.link, errFinished)
	return s.end.close()
}

// Close gives the stream up, if it is not finished.
func (s *Sender) Close() error { return s.end.close() }

// Receiver is the end of a stream that receives.
type Receiver struct {
	end
	leave func() // the port
}

// answer tells the sender that the stream is accepted.
func (r *Receiver) answer() error {
	err := r.conn.SetWriteDeadline(time.Now().Add(r.patience))
	if err == nil {
		_, err = r.conn.Write([]byte{taken})
	}
	if err != nil {
		return r.fail(0, err)
	}
	return nil
}

// Receive receives the next frame. io.EOF: the sender has said that this is the end. After an error the stream is over, and nothing
// in the frame is worth anything.
func (r *Receiver) Receive(f *Frame) error {
	if r.err != nil {
		return r.err
	}
	frame := r.frame
	kind, err := r.read(f)
	if err != nil {
		return r.fail(frame, err)
	}
	if kind == kindEnd {
		r.err = io.EOF
		return io.EOF
	}
	return nil
}

func (r *Receiver) read(f *Frame) (kind uint32, err error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(r.patience)); err != nil {
		return 0, err
	}
	if err := r.full(f.header()); err != nil {
		return 0, err
	}
	kind, n, err := r.parse(f.header())
	if err != nil {
		return 0, err
	}
	if kind == kindEnd {
		copy(r.buf[preambleBytes:], f.header())
		if err := r.full(r.buf[bodyOff:]); err != nil {
			return 0, err
		}
		return kind, r.open()
	}
	f.Resize(n)
	if err := r.full(f.buf[bodyAt : bodyAt+n+r.tail()]); err != nil {
		return 0, err
	}
	return kind, r.openData(f)
}

// full reads so many bytes. Within a stream whose end was not said there is no good place to end.
func (r *Receiver) full(b []byte) error {
	_, err := io.ReadFull(r.conn, b)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close ends the stream.
func (r *Receiver) Close() error {
	r.leave()
	return r.end.close()
}
