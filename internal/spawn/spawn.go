// Package spawn starts processes out of one that has no files open.
//
// A process that is started begins with copies of all descriptors of its parent, and closes them when it executes its program;
// and to close a file can take as long as its file system likes: NFS writes back what is dirty, FUSE asks its server. So a
// process that has files open in a store that hangs can start nothing. Who runs a job has some there at any time. Therefore an
// agent, and byssus run, have a spawner: a child that they start before they open anything, and which starts processes for them.
//
// Guarantees: what is started has the descriptors that it is given, and no others. Its end is told once. A signal reaches it
// or nobody. When whoever has the spawner is gone, it is gone, too, and what it has started gets the signal that was chosen
// for that (prctl(2), PR_SET_PDEATHSIG). It hears no signals itself: a batch system may send one to all processes of a job.
package spawn

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/frames"
)

// Verb is the argument with which this program is a spawner (Serve).
const Verb = "spawner"

// ErrGone is the error of everything that a spawner is asked for that has been killed, or closed.
var ErrGone = errors.New("the process that starts others is gone")

// A Command is what to start. Its standard input is empty.
type Command struct {
	Args  []string // the first one is the program: a path, or a name that is looked for in PATH
	Env   []string
	Dir   string         // empty: that of the spawner
	Files []*os.File     // descriptors 1, 2 and following
	Group bool           // it gets a process group of its own
	Block syscall.Signal // blocked in it; 0: none
	Death syscall.Signal // that it gets when the spawner is gone; 0: none
}

// Spawner starts processes. Its methods may be called by several goroutines.
type Spawner struct {
	conn  *net.UnixConn
	ended chan struct{} // closed when the spawner has

	mu      sync.Mutex // also for sending
	last    int
	started map[int]*Process // that have not ended, by number
}

// Process is one that was started, or is about to be.
type Process struct {
	spawner *Spawner
	number  int
	begun   chan error // room for the one value
	done    chan struct{}
	end     ending // valid after done, as is the next one
	failed  error
}

// Frames between a spawner and whoever has it.
type (
	// request starts a process (the descriptors come with it), or signals one.
	request struct {
		Number int            `json:"number"`
		Start  *order         `json:"start,omitempty"`
		Signal syscall.Signal `json:"signal,omitempty"`
	}
	// order is a Command as it is sent.
	order struct {
		Args  [][]byte       `json:"args"`
		Env   [][]byte       `json:"env"`
		Dir   []byte         `json:"dir"`
		Group bool           `json:"group"`
		Block syscall.Signal `json:"block"`
		Death syscall.Signal `json:"death"`
	}
	// notice tells that a process has begun, or not, or how it has ended.
	notice struct {
		Number int     `json:"number"`
		Failed string  `json:"failed,omitempty"`
		End    *ending `json:"end,omitempty"`
	}
	ending struct {
		Code   int            `json:"code"`
		Signal syscall.Signal `json:"signal"`
	}
)

// Start starts a spawner, which is this program with one argument, Verb.
func Start() (*Spawner, error) {
	ours, theirs, err := frames.Pair()
	if err != nil {
		return nil, fmt.Errorf("spawn: %w", err)
	}
	defer theirs.Close()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"byssus", Verb}, Stdin: theirs, Stderr: os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s := &Spawner{conn: ours, ended: make(chan struct{}), started: map[int]*Process{}}
	begun := make(chan error)
	go func() {
		runtime.LockOSThread() // the death signal is sent when this thread ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		begun <- err
		if err == nil {
			_ = cmd.Wait() // that it is gone is all that matters
			close(s.ended)
		}
	}()
	if err := <-begun; err != nil {
		ours.Close()
		return nil, fmt.Errorf("spawn: %w", err)
	}
	go s.listen()
	return s, nil
}

// Close ends the spawner. What it has started, and has not ended, is told of as gone.
func (s *Spawner) Close() {
	s.conn.Close()
	<-s.ended
}

// Start starts a process.
func (s *Spawner) Start(c Command) (*Process, error) {
	p := &Process{spawner: s, begun: make(chan error, 1), done: make(chan struct{})}
	s.mu.Lock()
	if s.started == nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("spawn: %w", ErrGone)
	}
	s.last++
	p.number = s.last
	s.started[p.number] = p
	err := frames.Send(s.conn, request{Number: p.number, Start: &order{Args: frames.Bytes(c.Args), Env: frames.Bytes(c.Env), Dir: []byte(c.Dir),
		Group: c.Group, Block: c.Block, Death: c.Death}}, c.Files...)
	if err != nil {
		delete(s.started, p.number)
	}
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("spawn: %w", err)
	}
	if err := <-p.begun; err != nil {
		return nil, err
	}
	return p, nil
}

// listen takes in what the spawner tells, until it is gone.
func (s *Spawner) listen() {
	for {
		var n notice
		_, err := frames.Receive(s.conn, &n)
		s.mu.Lock()
		if err != nil {
			for _, p := range s.started {
				p.over(notice{Failed: ErrGone.Error()})
			}
			s.started = nil
			s.mu.Unlock()
			return
		}
		if p := s.started[n.Number]; p != nil && p.over(n) {
			delete(s.started, n.Number)
		}
		s.mu.Unlock()
	}
}

// over takes in what is told of a process, and says whether that was the last.
func (p *Process) over(n notice) bool {
	switch {
	case n.Failed == "" && n.End == nil:
		p.begun <- nil
		return false
	case n.End != nil:
		p.end = *n.End
	case n.Failed == ErrGone.Error():
		p.failed = ErrGone
	default:
		p.failed = errors.New(n.Failed)
	}
	select {
	case p.begun <- p.failed:
	default: // it has begun
	}
	close(p.done)
	return true
}

// Wait returns the exit code of the process, or -1 and the signal that ended it, when it has ended; ErrGone when nobody knows.
func (p *Process) Wait() (code, signal int, err error) {
	<-p.done
	return p.end.Code, int(p.end.Signal), p.failed
}

// Signal sends a signal to the process, if it is still there.
func (p *Process) Signal(sig syscall.Signal) {
	p.spawner.mu.Lock()
	defer p.spawner.mu.Unlock()
	if p.spawner.started[p.number] == p {
		_ = frames.Send(p.spawner.conn, request{Number: p.number, Signal: sig}) // listen notices that the spawner is gone
	}
}
