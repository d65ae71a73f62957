package agent

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// fed is a server whose rank 0 says that it has read so much, and gets what a job's input has.
func fed(t *testing.T, read uint64, source []byte) (s *Server, pipe *os.File, events chan node.Report) {
	t.Helper()
	events = make(chan node.Report, 100)
	var err error
	ready := make(chan *Server, 1)
	s, err = Listen(Config{Dir: t.TempDir(), Ranks: []int{0}, Size: 1, Report: func(r node.Report) { events <- r },
		Images: func(uint64) string { return "/images" },
		Input: func(read uint64) {
			s := <-ready
			ready <- s
			switch left := uint64(len(source)) - min(read, uint64(len(source))); {
			case read > uint64(len(source)):
				s.Feed(control.Input{Offset: read, Why: "there is no so much"})
			default:
				s.Feed(control.Input{Offset: read, Data: source[read : read+min(left, 5000)]})
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	ready <- s
	t.Cleanup(s.Close)
	return s, welcomed(t, s, read), events
}

// welcomed says the first HELLO of rank 0 and returns what comes with the answer.
func welcomed(t *testing.T, s *Server, read uint64) *os.File {
	t.Helper()
	c, err := dial(SocketPath(s.cfg.Dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	h := hello(1)
	h.Input = read
	if err := send(c, abi.MsgHello, 0, abi.Encode(h, "")); err != nil {
		t.Fatal(err)
	}
	m, f := hear(t, c)
	if m.Type != abi.MsgWelcome {
		t.Fatalf("message of type %d, wanted %d", m.Type, abi.MsgWelcome)
	}
	return f
}

// TestInput: what rank 0 reads is the job's input from where it was, and how far it is is known whenever it stands still.
func TestInput(t *testing.T) {
	source := make([]byte, 300_000)
	for i := range source {
		source[i] = byte(i * i >> 8)
	}
	for _, begin := range []int{0, 1, 123_456, len(source)} {
		t.Run(fmt.Sprint(begin), func(t *testing.T) {
			s, pipe, _ := fed(t, uint64(begin), source)
			if pipe == nil {
				t.Fatal("there is no standard input")
			}
			defer pipe.Close()
			if flags, err := unix.FcntlInt(pipe.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
				t.Errorf("flags %#x, %v: a rank's standard input waits", flags, err)
			}
			at, b := begin, make([]byte, 7777)
			for {
				n, err := pipe.Read(b)
				if n > 0 && !bytes.Equal(b[:n], source[at:at+n]) {
					t.Fatalf("at %d: not what the source has", at)
				}
				at += n
				if got := s.input.read(); got != uint64(at) {
					t.Fatalf("read %d bytes, and the agent says %d", at, got)
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if at != len(source) {
				t.Errorf("%d bytes, wanted %d", at, len(source))
			}
			var d abi.Drain
			if _, err := abi.Decode(s.encode(node.Order{Type: abi.MsgDrain})[0].Body, &d); err != nil || d.Input != uint64(at) {
				t.Errorf("DRAIN says %d, %v, wanted %d", d.Input, err, at)
			}
			if again := welcomed(t, s, 0); again != nil {
				t.Error("a rank that has become another program gets another standard input")
			}
		})
	}
}

// TestInputStays: an agent whose rank reads nothing ends all the same; a rank for which there is no input fails by name.
func TestInputStays(t *testing.T) {
	s, pipe, _ := fed(t, 0, make([]byte, 1<<20))
	defer pipe.Close()
	for full, end := false, time.Now().Add(patience); !full; time.Sleep(time.Millisecond) {
		raw, err := s.input.last().ours.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		_ = raw.Control(func(fd uintptr) { n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0) })
		if full = n == 0 && err == nil; time.Now().After(end) {
			t.Fatal("the pipe is not filled")
		}
	}
	if got := s.input.read(); got != 0 {
		t.Errorf("nothing was read, and the agent says %d", got)
	}
	_, pipe, events := fed(t, 2<<20, make([]byte, 1<<20))
	defer pipe.Close()
	expect(t, events, node.Hello{Ranks: one})
	expect(t, events, node.Failed{Rank: 0, Text: "there is no so much"})
}
