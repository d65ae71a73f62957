package bulk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// hello is what begins a stream.
func hello(t testing.TB, link Link, key Key, mode Mode) []byte {
	t.Helper()
	s, err := newSeal(link, key, mode)
	if err != nil {
		t.Fatal(err)
	}
	return packed(s, kindHello, nil)
}

// packed is a frame as it is sent.
func packed(s *seal, kind uint32, body []byte) []byte {
	if body != nil {
		return s.packData(frameOf(body))
	}
	return bytes.Clone(s.pack(kind))
}

// stranger connects and says something.
func stranger(t testing.TB, p *Port, say []byte) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err == nil {
		_, err = c.Write(say)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// gone waits until the other side has closed a connection.
func gone(t testing.TB, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(hang)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Read(make([]byte, 1))
	var timeout net.Error
	if n > 0 || err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("%d bytes, %v: not closed", n, err)
	}
}

// guests waits until the port has so many that have shown their hello.
func guests(t testing.TB, p *Port, want int) {
	t.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		shown := 0
		for _, g := range p.guests {
			if g.shown {
				shown++
			}
		}
		p.mu.Unlock()
		if shown == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d guests, wanted %d", shown, want)
		}
	}
}

// pass sends a byte from end to end.
func pass(t testing.TB, s *Sender, a accepted) {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	defer a.r.Close()
	if err := errors.Join(s.Send(frameOf([]byte{42})), s.Finish()); err != nil {
		t.Fatal(err)
	}
	f := NewFrame()
	if err := a.r.Receive(f); err != nil || !bytes.Equal(f.Body(), []byte{42}) {
		t.Errorf("%d bytes, %v", len(f.Body()), err)
	}
	if err := a.r.Receive(f); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// honest begins the right stream.
func honest(ctx context.Context, t testing.TB, p *Port, key Key, mode Mode) *Sender {
	t.Helper()
	s, err := Dial(ctx, p.Address(), testLink, key, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// wrong are beginnings that are not right: each bit of the right one altered, another key, mode or link, and the end too early.
func wrong(t testing.TB, key Key, mode Mode) [][]byte {
	var list [][]byte
	for i := range helloBytes {
		b := append([]byte(nil), hello(t, testLink, key, mode)...)
		b[i] ^= 1 << (i % 8)
		list = append(list, b)
	}
	b := append([]byte(nil), hello(t, testLink, key, mode)...)
	binary.LittleEndian.PutUint16(b[6:], uint16(3-mode)) // the other one
	back := Link{testLink.Transfer, testLink.To, testLink.From}
	return append(list, b, hello(t, testLink, NewKey(), mode), hello(t, testLink, key, 3-mode), hello(t, back, key, mode),
		hello(t, testLink, key, mode)[:helloBytes-1], nil)
}

// TestStrangers: a wrong beginning takes nobody's place, whether the port waits already or not.
func TestStrangers(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		key := NewKey()
		for i, say := range wrong(t, key, mode) {
			ctx, p := within(t), testPort(t, usual())
			c := accept(ctx, p, key, mode)
			early := stranger(t, p, say)
			pass(t, honest(ctx, t, p, key, mode), <-c)
			early.Close()
			guests(t, p, 0)

			first := stranger(t, p, say)
			if len(say) == helloBytes && i >= preambleBytes && i < helloBytes { // the preamble is right: it waits, too
				guests(t, p, 1)
			}
			s := honest(ctx, t, p, key, mode)
			a := <-accept(ctx, p, key, mode)
			pass(t, s, a)
			p.Close()
			gone(t, first)
		}
	})
}

// TestComesFirst: a connection waits for Accept, as long as it likes; when its sender gives up it is forgotten.
func TestComesFirst(t *testing.T) {
	ctx, p, key := within(t), testPort(t, usual()), NewKey()
	other := honest(ctx, t, p, NewKey(), Encrypted)
	guests(t, p, 1)
	other.Close()
	guests(t, p, 0)
	s, sent := honest(ctx, t, p, key, Encrypted), make(chan error, 1)
	s.patience = time.Millisecond
	go func() { sent <- errors.Join(s.Send(frameOf([]byte("x"))), s.Finish()) }()
	guests(t, p, 1)
	a := <-accept(ctx, p, key, Encrypted)
	if a.err != nil {
		t.Fatal(a.err)
	}
	defer a.r.Close()
	if got, err := drain(a.r); len(got) != 1 || got[0] != "x" || err != io.EOF {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestTooEarly: who sends on before the stream is accepted is no guest any more.
func TestTooEarly(t *testing.T) {
	p := testPort(t, usual())
	gone(t, stranger(t, p, append(hello(t, testLink, NewKey(), Encrypted), 0)))
}

// TestSecond: while a stream is open, another one for its link is refused, and so is another Accept. Other links are others.
func TestSecond(t *testing.T) {
	ctx, p, key := within(t), testPort(t, usual()), NewKey()
	one, two := honest(ctx, t, p, key, Encrypted), honest(ctx, t, p, key, Encrypted)
	guests(t, p, 2)
	a := <-accept(ctx, p, key, Encrypted)
	if a.err != nil {
		t.Fatal(a.err)
	}
	if err := two.Send(frameOf([]byte("x"))); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("sent on a second connection: %v", err)
	}
	gone(t, stranger(t, p, hello(t, testLink, key, Encrypted)))
	if b := <-accept(ctx, p, key, Encrypted); !errors.Is(b.err, ErrTwice) {
		t.Errorf("a second Accept: %v", b.err)
	}
	for _, link := range []Link{{testLink.Transfer, 1, 3}, {testLink.Transfer, 3, 2}, {testLink.Transfer + 1, 3, 1}} {
		s, err := Dial(ctx, p.Address(), link, key, Encrypted)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Accept(ctx, link, key, Encrypted)
		pass(t, s, accepted{r, err})
	}
	pass(t, one, a)
	c := accept(ctx, p, key, Encrypted) // the link is free again
	pass(t, honest(ctx, t, p, key, Encrypted), <-c)
}

// TestFlood: connections that say nothing, or something wrong, are kept in small number, and the right one gets through.
func TestFlood(t *testing.T) {
	ctx, key := within(t), NewKey()
	limits := usual()
	limits.most = 8
	p := testPort(t, limits)
	var flood []net.Conn
	pour := func(say []byte) {
		for range 3 * limits.most {
			flood = append(flood, stranger(t, p, say))
		}
	}
	c := accept(ctx, p, key, Encrypted)
	pour(nil)
	pass(t, honest(ctx, t, p, key, Encrypted), <-c)

	pour(hello(t, Link{1, 2, 3}, NewKey(), Encrypted))
	pour(hello(t, testLink, NewKey(), Encrypted))
	guests(t, p, limits.most)
	s := honest(ctx, t, p, key, Encrypted)
	pour(nil)
	pass(t, s, <-accept(ctx, p, key, Encrypted))

	p.mu.Lock()
	if n := len(p.guests); n > 2*limits.most {
		t.Errorf("%d guests, at most %d", n, 2*limits.most)
	}
	p.mu.Unlock()
	p.Close()
	for _, f := range flood {
		gone(t, f)
	}
}

// TestIdle: those that say nothing, or not all, go after a time.
func TestIdle(t *testing.T) {
	limits := usual()
	limits.hello = 20 * time.Millisecond
	p := testPort(t, limits)
	gone(t, stranger(t, p, []byte("BYSB")))
	gone(t, stranger(t, p, nil))
}

// TestClose ends calls of Accept and guests; streams stay.
func TestClose(t *testing.T) {
	ctx, p, key := within(t), testPort(t, usual()), NewKey()
	s := honest(ctx, t, p, key, Encrypted)
	a := <-accept(ctx, p, key, Encrypted)
	idle := stranger(t, p, nil)
	waits := make(chan error, 1)
	go func() {
		_, err := p.Accept(ctx, Link{9, 9, 9}, key, Encrypted)
		waits <- err
	}()
	p.Close()
	p.Close()
	if err := <-waits; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a waiting Accept: %v", err)
	}
	if b := <-accept(ctx, p, key, Authenticated); !errors.Is(b.err, net.ErrClosed) {
		t.Errorf("a later Accept: %v", b.err)
	}
	gone(t, idle)
	pass(t, s, a)
}

// TestListenerFails: a listener that is closed by others ends the port, with its error.
func TestListenerFails(t *testing.T) {
	l := listen(t)
	p := NewPort(l)
	defer p.Close()
	c := accept(within(t), p, NewKey(), Encrypted)
	l.Close()
	var op *net.OpError
	if a := <-c; !errors.As(a.err, &op) {
		t.Errorf("%v", a.err)
	}
}

// scarce is a listener that has no descriptors at first.
type scarce struct {
	net.Listener
	fails int
}

func (l *scarce) Accept() (net.Conn, error) {
	if l.fails--; l.fails >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestNoDescriptors: a port outlives a time without descriptors.
func TestNoDescriptors(t *testing.T) {
	limits := usual()
	limits.rest = time.Millisecond
	p := newPort(&scarce{Listener: listen(t), fails: 3}, limits)
	defer p.Close()
	ctx, key := within(t), NewKey()
	c := accept(ctx, p, key, Encrypted)
	pass(t, honest(ctx, t, p, key, Encrypted), <-c)
}

// TestRecorded: a hello that was recorded, and comes first, ends the stream, and nothing comes out of it.
func TestRecorded(t *testing.T) {
	ctx, p, key := within(t), testPort(t, usual()), NewKey()
	c := accept(ctx, p, key, Encrypted)
	thief := stranger(t, p, hello(t, testLink, key, Encrypted))
	a := <-c
	if a.err != nil {
		t.Fatal(a.err)
	}
	defer a.r.Close()
	if err := honest(ctx, t, p, key, Encrypted).Send(frameOf([]byte("x"))); err == nil {
		t.Error("the second connection is served")
	}
	if _, err := thief.Write(make([]byte, MaxFrame)); err != nil {
		t.Fatal(err)
	}
	if got, err := drain(a.r); len(got) > 0 || !errors.Is(err, ErrForged) {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzPort: whatever comes, nothing is handed out, and the right stream gets through.
func FuzzPort(f *testing.F) {
	key := NewKey()
	for _, say := range wrong(f, key, Encrypted) {
		f.Add(say)
	}
	f.Fuzz(func(t *testing.T, say []byte) {
		ctx, p := within(t), testPort(t, usual())
		defer p.Close()
		stranger(t, p, say).Close()
		c := accept(ctx, p, key, Encrypted)
		stranger(t, p, say).Close()
		pass(t, honest(ctx, t, p, key, Encrypted), <-c)
	})
}

// FuzzReceive: behind a right hello, whatever comes without the key is an error, and no byte comes out.
func FuzzReceive(f *testing.F) {
	key := NewKey()
	for _, mode := range []Mode{Encrypted, Authenticated} {
		s, err := newSeal(testLink, NewKey(), mode)
		if err != nil {
			f.Fatal(err)
		}
		s.frame = 1
		f.Add(packed(s, kindData, []byte("some text")))
		f.Add(packed(s, kindEnd, nil))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, say []byte) {
		for _, mode := range []Mode{Encrypted, Authenticated} {
			s, err := newSeal(testLink, key, mode)
			if err != nil {
				t.Fatal(err)
			}
			s.frame = 1
			in, out := net.Pipe()
			r := &Receiver{newEnd(within(t), in, s), func() {}}
			go func() {
				_, _ = out.Write(say) // fails when the receiver has seen enough
				out.Close()
			}()
			got, err := drain(r)
			if len(got) > 0 || !errors.Is(err, ErrForged) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q, %v", got, err)
			}
			in.Close()
		}
	})
}
