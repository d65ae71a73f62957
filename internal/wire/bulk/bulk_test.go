package bulk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// hang is how long a test may stand still.
const hang = 5 * time.Minute

var testLink = Link{Transfer: 7 << 40, From: 3, To: 1}

// modes runs a test in both modes.
func modes(t *testing.T, f func(t *testing.T, mode Mode)) {
	for _, mode := range []Mode{Encrypted, Authenticated} {
		t.Run(mode.String(), func(t *testing.T) { f(t, mode) })
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func testPort(t testing.TB, limits limits) *Port {
	t.Helper()
	p := newPort(listen(t), limits)
	t.Cleanup(p.Close)
	return p
}

// accepted is what Accept returns.
type accepted struct {
	r   *Receiver
	err error
}

// accept waits in a goroutine.
func accept(ctx context.Context, p *Port, key Key, mode Mode) <-chan accepted {
	c := make(chan accepted, 1)
	go func() {
		r, err := p.Accept(ctx, testLink, key, mode)
		c <- accepted{r, err}
	}()
	return c
}

// meet is both ends of a stream.
func meet(ctx context.Context, t testing.TB, p *Port, mode Mode) (*Sender, *Receiver) {
	t.Helper()
	key := NewKey()
	c := accept(ctx, p, key, mode)
	s, err := Dial(ctx, p.Address(), testLink, key, mode)
	if err != nil {
		t.Fatal(err)
	}
	a := <-c
	if a.err != nil {
		t.Fatal(a.err)
	}
	t.Cleanup(func() { s.Close(); a.r.Close() })
	return s, a.r
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// frameOf is a frame with that body.
func frameOf(body []byte) *Frame {
	f := NewFrame()
	f.Resize(len(body))
	copy(f.Body(), body)
	return f
}

// TestRoundTrip sends frames of all lengths that are near an edge, whether Accept or Dial comes first.
func TestRoundTrip(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		ctx, p := within(t), testPort(t, usual())
		s, r := meet(ctx, t, p, mode)
		rng := rand.New(rand.NewPCG(1, 1))
		var frames [][]byte
		for _, n := range []int{1, 2, 15, 16, 17, 4095, 4096, 65536, MaxFrame - 1, MaxFrame, 1} {
			frames = append(frames, random(rng, n))
		}
		sent := make(chan error, 1)
		go func() {
			for _, f := range frames {
				if err := s.Send(frameOf(f)); err != nil {
					sent <- err
					return
				}
			}
			sent <- s.Finish()
		}()
		b := NewFrame()
		for i, f := range frames {
			err := r.Receive(b)
			if err != nil || !bytes.Equal(b.Body(), f) {
				t.Fatalf("frame %d: %d bytes, wanted %d: %v", i, len(b.Body()), len(f), err)
			}
		}
		for range 2 {
			if err := r.Receive(b); err != io.EOF {
				t.Fatalf("at the end: %v", err)
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if err := s.Send(b); !errors.Is(err, errFinished) {
			t.Errorf("sent after the end: %v", err)
		}
	})
}

// TestRefused: what must not be sent or asked for is refused by name.
func TestRefused(t *testing.T) {
	ctx, p := within(t), testPort(t, usual())
	s, _ := meet(ctx, t, p, Encrypted)
	for _, n := range []int{0, MaxFrame + 1} {
		f := NewFrame()
		f.Resize(n)
		if err := s.Send(f); err == nil || !strings.Contains(err.Error(), fmt.Sprint(n, " bytes, wanted 1 to 524288")) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, mode := range []Mode{0, 3} {
		if _, err := Dial(ctx, p.Address(), testLink, Key{}, mode); err == nil {
			t.Errorf("%v", mode)
		}
		if _, err := p.Accept(ctx, testLink, Key{}, mode); err == nil {
			t.Errorf("%v", mode)
		}
	}
	if _, err := Dial(ctx, p.Address(), Link{1, -1, 0}, Key{}, Encrypted); err == nil {
		t.Error("member -1")
	}
}

// TestKey: a key goes through JSON, and does not show itself elsewhere.
func TestKey(t *testing.T) {
	type message struct{ Out, In Key }
	want := message{NewKey(), NewKey()}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got message
	if err := json.Unmarshal(b, &got); err != nil || got != want || got.Out == got.In {
		t.Errorf("%s: %v", b, err)
	}
	if s := fmt.Sprintf("%v %+v", want, want); s != "{(key) (key)} {Out:(key) In:(key)}" {
		t.Errorf("a key is shown: %s", s)
	}
	for _, bad := range []string{`{"Out":""}`, `{"Out":"AAAA"}`, `{"Out":"!"}`, `{"Out":"AAAAAAAAAAAAAAAAAAAAAAA="}`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is a key", bad)
		}
	}
}

// between is a man in the middle: he records what the sender sends, and sends on what edit makes of its frames; the first of
// them is the hello with the preamble. It returns what came out at the receiver, and its error.
func between(t *testing.T, mode Mode, texts []string, edit func(frames [][]byte) [][]byte) ([]string, error) {
	t.Helper()
	ctx, p, key, l := within(t), testPort(t, usual()), NewKey(), listen(t)
	defer l.Close()
	c := accept(ctx, p, key, mode)
	s, err := Dial(ctx, l.Addr().String(), testLink, key, mode)
	if err != nil {
		t.Fatal(err)
	}
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, first := stranger(t, p, nil), make([]byte, helloBytes)
	relay(t, in, out, first)
	relay(t, out, in, make([]byte, 1))
	for _, text := range texts {
		if err := s.Send(frameOf([]byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(in)
	if err == nil {
		_, err = out.Write(bytes.Join(edit(cut(mode, append(first, all...), texts)), nil)[helloBytes:])
	}
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	a := <-c
	if a.err != nil {
		t.Fatal(a.err)
	}
	defer a.r.Close()
	return drain(a.r)
}

// relay sends on so many bytes.
func relay(t *testing.T, from, to net.Conn, b []byte) {
	t.Helper()
	_, err := io.ReadFull(from, b)
	if err == nil {
		_, err = to.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sizeOf is the size of a frame behind the hello.
func sizeOf(mode Mode, text string) int {
	n := headerBytes + len(text) + tagBytes
	if mode == Authenticated && text != "" {
		n += headerBytes
	}
	return n
}

// cut cuts a stream into its frames.
func cut(mode Mode, all []byte, texts []string) [][]byte {
	frames, all := [][]byte{all[:helloBytes:helloBytes]}, all[helloBytes:]
	for _, text := range append(texts, "") {
		n := sizeOf(mode, text)
		frames, all = append(frames, all[:n:n]), all[n:]
	}
	return frames
}

// drain receives until an error, which comes again then.
func drain(r *Receiver) (got []string, err error) {
	f := NewFrame()
	for {
		err := r.Receive(f)
		if err != nil {
			if again := r.Receive(f); again != err {
				return got, fmt.Errorf("first %w, then %w", err, again)
			}
			return got, err
		}
		got = append(got, string(f.Body()))
	}
}

// TestAltered changes each bit of what is sent behind the hello: it is noticed at the frame that it is in.
func TestAltered(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		texts := []string{"first", "the second", "3"}
		for frame := 1; frame <= len(texts)+1; frame++ {
			text := ""
			if frame <= len(texts) {
				text = texts[frame-1]
			}
			for at := range sizeOf(mode, text) {
				got, err := between(t, mode, texts, func(f [][]byte) [][]byte {
					f[frame][at] ^= 1 << (at % 8)
					return f
				})
				known := errors.Is(err, ErrForged) || at < headerBytes && errors.Is(err, io.ErrUnexpectedEOF)
				if !known || !strings.Contains(err.Error(), fmt.Sprintf("%v: frame %d: ", testLink, frame)) {
					t.Errorf("frame %d, byte %d: %v", frame, at, err)
				}
				if strings.Join(got, ",") != strings.Join(texts[:frame-1], ",") {
					t.Errorf("frame %d, byte %d: %q came out", frame, at, got)
				}
			}
		}
	})
}

// TestReordered replays, swaps, leaves out and cuts off frames.
func TestReordered(t *testing.T) {
	texts := []string{"aaaa", "bbbb", "cccc"}
	for _, c := range []struct {
		name  string
		edit  func(f [][]byte) [][]byte
		frame int // at which it is noticed; 0: not
		want  error
	}{
		{"nothing", func(f [][]byte) [][]byte { return f }, 0, io.EOF},
		{"replayed", func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[1], f[2], f[3], f[4]} }, 2, ErrForged},
		{"swapped", func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[3], f[2], f[4]} }, 2, ErrForged},
		{"left out", func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[3], f[4]} }, 2, ErrForged},
		{"hello again", func(f [][]byte) [][]byte { return [][]byte{f[0], f[0], f[1]} }, 1, ErrForged},
		{"hello as a frame", func(f [][]byte) [][]byte { return [][]byte{f[0], f[0][preambleBytes:]} }, 1, ErrForged},
		{"end too early", func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[4]} }, 2, ErrForged},
		{"no end", func(f [][]byte) [][]byte { return f[:4] }, 4, io.ErrUnexpectedEOF},
		{"in a header", func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[2][:5]} }, 2, io.ErrUnexpectedEOF},
		{"in a body", func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[2][:10]} }, 2, io.ErrUnexpectedEOF},
		{"in a tag", func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[2], f[3], f[4][:20]} }, 4, io.ErrUnexpectedEOF},
		{"all but the hello", func(f [][]byte) [][]byte { return f[:1] }, 1, io.ErrUnexpectedEOF},
	} {
		modes(t, func(t *testing.T, mode Mode) {
			got, err := between(t, mode, texts, c.edit)
			whole := len(texts)
			if c.frame > 0 {
				whole = c.frame - 1
			}
			if !errors.Is(err, c.want) || c.frame > 0 && !strings.Contains(err.Error(), fmt.Sprintf(": frame %d: ", c.frame)) {
				t.Errorf("%s: %v", c.name, err)
			}
			if strings.Join(got, ",") != strings.Join(texts[:whole], ",") {
				t.Errorf("%s: %q came out", c.name, got)
			}
		})
	}
}

// TestClear: the data is in the clear in one mode only, and the same bytes never look the same in the other.
func TestClear(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		text := "a text that is long enough not to come about by chance"
		var frames [][]byte
		_, err := between(t, mode, []string{text, text}, func(f [][]byte) [][]byte { frames = f; return f })
		if err != io.EOF {
			t.Fatal(err)
		}
		clear := bytes.Contains(bytes.Join(frames, nil), []byte(text))
		if clear != (mode == Authenticated) || mode == Encrypted && bytes.Equal(frames[1][headerBytes:headerBytes+len(text)], frames[2][headerBytes:headerBytes+len(text)]) {
			t.Errorf("in the clear: %v", clear)
		}
	})
}

// TestAllocations: frames make no memory.
func TestAllocations(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		s, r := meet(within(t), t, testPort(t, usual()), mode)
		f := NewFrame()
		f.Resize(4096)
		if n := testing.AllocsPerRun(500, func() {
			if err := s.Send(f); err != nil {
				t.Fatal(err)
			}
			if err := r.Receive(f); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations for a frame", n)
		}
	})
}

// TestPatience: a side that moves nothing ends the stream.
func TestPatience(t *testing.T) {
	s, r := meet(within(t), t, testPort(t, usual()), Encrypted)
	s.patience, r.patience = 20*time.Millisecond, 20*time.Millisecond
	f := NewFrame()
	if err := r.Receive(f); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "frame 1") {
		t.Errorf("receive: %v", err)
	}
	s, _ = meet(within(t), t, testPort(t, usual()), Encrypted)
	s.patience = 20 * time.Millisecond
	var err error
	for err == nil {
		err = s.Send(f)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("send: %v", err)
	}
}

// TestCancel ends every wait by its context, with the reason for it.
func TestCancel(t *testing.T) {
	why := errors.New("the checkpoint is given up")
	begin := func() (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(within(t))
		return ctx, func() { cancel(why) }
	}
	p, f := testPort(t, usual()), NewFrame()
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx, cancel := begin()
	c := accept(ctx, p, NewKey(), Encrypted)
	cancel()
	check("accept", (<-c).err)
	_, err := Dial(ctx, p.Address(), testLink, NewKey(), Encrypted)
	check("dial", err)

	ctx, cancel = begin()
	waits := honest(ctx, t, p, NewKey(), Encrypted)
	go cancel()
	check("send before it is accepted", waits.Send(f))

	ctx, cancel = begin()
	s, _ := meet(ctx, t, p, Encrypted)
	go cancel()
	for err = nil; err == nil; {
		err = s.Send(f)
	}
	check("send", err)
	check("finish", s.Finish())

	ctx, cancel = begin()
	_, r := meet(ctx, t, testPort(t, usual()), Encrypted)
	go cancel()
	check("receive", r.Receive(f))
}

func benchmark(b *testing.B, mode Mode, size int) {
	s, r := meet(within(b), b, testPort(b, usual()), mode)
	sent := make(chan error, 1)
	buf, out := NewFrame(), NewFrame()
	out.Resize(size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			if err := s.Send(out); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.Finish()
	}()
	var err error
	for err == nil {
		err = r.Receive(buf)
	}
	if err := errors.Join(<-sent, err); !errors.Is(err, io.EOF) {
		b.Fatal(err)
	}
}

func BenchmarkStream(b *testing.B) {
	for _, mode := range []Mode{Encrypted, Authenticated} {
		for _, size := range []int{4096, MaxFrame} {
			b.Run(fmt.Sprintf("%v/%d", mode, size), func(b *testing.B) { benchmark(b, mode, size) })
		}
	}
}
