package agent

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/node"
)

// input is the standard input of rank 0 in one start: a pipe, into which goes what the coordinator has of the job's, beginning
// where the rank is. How much of it the rank has read is known at any moment: what was written less what is in the pipe.
type input struct {
	want   func(read uint64)
	theirs *os.File           // which reads, and is the rank's, too
	ours   *os.File           // which writes, and does not wait
	pieces chan control.Input // that was asked for last
	over   chan struct{}      // closed by close
	wg     sync.WaitGroup

	mu     sync.Mutex
	begun  bool
	closed bool
	done   uint64 // bytes of the job's standard input that are written, with those that the rank had before
}

func newInput(want func(read uint64)) (*input, error) {
	var fds [2]int
	err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC)
	if err == nil {
		err = syscall.SetNonblock(fds[1], true) // the other end is the application's
	}
	if err != nil {
		return nil, fmt.Errorf("agent: standard input: %w", err)
	}
	return &input{want: want, theirs: os.NewFile(uintptr(fds[0]), "input"), ours: os.NewFile(uintptr(fds[1]), "input"),
		pieces: make(chan control.Input, 1), over: make(chan struct{})}, nil
}

// begin begins to feed the rank, which has read so much, and returns what it is to read from; nil: it has that already, since it
// was another program a moment ago.
func (in *input) begin(read uint64) *os.File {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.begun || in.closed {
		return nil
	}
	in.begun, in.done = true, read
	in.wg.Go(func() { in.feed(read) })
	return in.theirs
}

// feed hands on pieces until the job's input has ended, or the start is over.
func (in *input) feed(from uint64) {
	for {
		in.want(from)
		select {
		case p := <-in.pieces:
			if len(p.Data) == 0 {
				in.ours.Close() // the rank reads an end, when it has read what is in the pipe
				return
			}
			if in.write(p.Data) != nil {
				return // the start is over: both ends are open till then
			}
			from += uint64(len(p.Data))
		case <-in.over:
			return
		}
	}
}

// write waits until the rank has read enough of it.
func (in *input) write(b []byte) error {
	raw, err := in.ours.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (over bool) {
		in.mu.Lock()
		defer in.mu.Unlock()
		for len(b) > 0 && failed == nil {
			n, err := syscall.Write(int(fd), b)
			switch err {
			case nil:
				b, in.done = b[n:], in.done+uint64(n)
			case syscall.EINTR:
			case syscall.EAGAIN:
				return false
			default:
				failed = err
			}
		}
		return true
	})
	return errors.Join(err, failed)
}

// read is how much of the job's standard input rank 0 has read. It does not change while the rank stands still.
func (in *input) read() uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	left := 0
	raw, err := in.theirs.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // every pipe has it
	}
	if err != nil {
		return 0 // closed: there will be no image
	}
	return in.done - uint64(left)
}

// close ends it.
func (in *input) close() {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	close(in.over)
	in.ours.Close()
	in.wg.Wait()
	in.theirs.Close()
}

// Feed takes in a piece of the job's standard input that Config.Input has asked for; it does not wait.
func (s *Server) Feed(p control.Input) {
	switch {
	case s.input == nil:
	case p.Why != "":
		s.said(node.Failed{Rank: 0, Text: p.Why})
	default:
		select {
		case s.input.pieces <- p:
		default: // nobody has asked
		}
	}
}
