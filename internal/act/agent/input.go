package agent

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/act/control"
)

// input is the standard input of rank 0 in one start: a pipe, into which goes what the coordinator has of the job's, beginning
// where the rank is. How much of it the rank has read is known at any moment: what was written less what is in the pipe.
type input struct {
	want   func(read uint64)
	pieces chan control.Input // that was asked for last
	over   chan struct{}      // closed by close
	wg     sync.WaitGroup

	mu     sync.Mutex
	pipes  []*inputPipe // the last one is fed: those before it were a wrapper's, which runs again at a restart
	begun  bool
	closed bool
}

// inputPipe is a pipe that is, or was, fed.
type inputPipe struct {
	theirs *os.File      // which reads, and is the rank's, too
	ours   *os.File      // which writes, and does not wait
	over   chan struct{} // closed when another is fed

	mu   sync.Mutex
	done uint64 // bytes of the job's standard input that are written, with those that the rank had before
}

func newInput(want func(read uint64)) (*input, error) {
	p, err := newInputPipe()
	if err != nil {
		return nil, err
	}
	return &input{want: want, pipes: []*inputPipe{p}, pieces: make(chan control.Input, 1), over: make(chan struct{})}, nil
}

func newInputPipe() (*inputPipe, error) {
	var fds [2]int
	err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC)
	if err == nil {
		err = syscall.SetNonblock(fds[1], true) // the other end is the application's
	}
	if err != nil {
		return nil, fmt.Errorf("agent: standard input: %w", err)
	}
	return &inputPipe{theirs: os.NewFile(uintptr(fds[0]), "input"), ours: os.NewFile(uintptr(fds[1]), "input"), over: make(chan struct{})}, nil
}

func (in *input) last() *inputPipe { return in.pipes[len(in.pipes)-1] }

// begin begins to feed the rank, which has read so much, and returns what it is to read from; nil: it has that already, since it
// was another program a moment ago.
func (in *input) begin(read uint64) *os.File {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.begun || in.closed {
		return nil
	}
	in.begun = true
	return in.start(read)
}

// again begins anew for a rank that goes on from an image below a wrapper, which has been fed from the beginning.
func (in *input) again(read uint64) (*os.File, error) {
	p, err := newInputPipe()
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil, errors.Join(p.ours.Close(), p.theirs.Close())
	}
	before := in.last()
	close(before.over)
	_ = before.ours.SetWriteDeadline(time.Now()) // who feeds it may wait until the wrapper reads
	in.pipes = append(in.pipes, p)
	return in.start(read), nil
}

func (in *input) start(read uint64) *os.File {
	p := in.last()
	p.done = read
	in.wg.Go(func() { in.feed(p, read) })
	return p.theirs
}

// feed hands on pieces until the job's input has ended, or the start is over.
func (in *input) feed(to *inputPipe, from uint64) {
	for asked := false; ; {
		if !asked {
			in.want(from)
		}
		select {
		case p := <-in.pieces:
			if asked = p.Offset != from; asked { // for who was fed before
				continue
			}
			if len(p.Data) == 0 {
				to.ours.Close() // the rank reads an end, when it has read what is in the pipe
				return
			}
			if to.write(p.Data) != nil {
				return // the start is over: both ends are open till then
			}
			from += uint64(len(p.Data))
		case <-to.over:
			return
		case <-in.over:
			return
		}
	}
}

// write waits until the rank has read enough of it.
func (p *inputPipe) write(b []byte) error {
	raw, err := p.ours.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (over bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for len(b) > 0 && failed == nil {
			n, err := syscall.Write(int(fd), b)
			switch err {
			case nil:
				b, p.done = b[n:], p.done+uint64(n)
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
	p := in.last()
	in.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	left := 0
	raw, err := p.theirs.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // every pipe has it
	}
	if err != nil {
		return 0 // closed: there will be no image
	}
	return p.done - uint64(left)
}

// close ends it.
func (in *input) close() {
	in.mu.Lock()
	in.closed = true
	pipes := in.pipes
	in.mu.Unlock()
	close(in.over)
	for _, p := range pipes {
		p.ours.Close()
	}
	in.wg.Wait()
	for _, p := range pipes {
		p.theirs.Close()
	}
}

// take takes in a piece; it does not wait.
func (in *input) take(p control.Input) {
	select {
	case in.pieces <- p:
	default: // nobody has asked
	}
}
