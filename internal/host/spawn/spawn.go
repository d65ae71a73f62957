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
//
// Neither side waits for the other to read: on both, who reads does nothing else, holds no lock while it waits, and takes none
// that is held while something is sent. So what is sent is read, however much is under way in both directions.
package spawn

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// Verb is the argument with which this program is a spawner (Serve).
const Verb = "spawner"

// ErrGone is the error of everything that a spawner is asked for that has been killed, or closed.
var ErrGone = errors.New("the process that starts others is gone")

// startLimit is how long a process may take to begin. Its file may be in a file system that hangs, and may go on hanging.
const startLimit = 5 * time.Minute

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
	limit time.Duration // to take an order; to carry it out

	sending sync.Mutex // never waited for with mu

	mu      sync.Mutex // held for moments: nothing is sent or received meanwhile
	last    int
	started map[int]*Process // that have not ended, by number
}

// Process is one that was started, or is about to be.
type Process struct {
	spawner *Spawner
	number  int
	begun   chan error // room for the one value
	done    chan struct{}
	late    bool   // nobody waits for it any more; Spawner.mu protects it
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
	s := &Spawner{conn: ours, ended: make(chan struct{}), limit: startLimit, started: map[int]*Process{}}
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

// Start starts a process. One that has not begun within some minutes is an error, and is killed if it begins later.
func (s *Spawner) Start(c Command) (*Process, error) {
	p := &Process{spawner: s, begun: make(chan error, 1), done: make(chan struct{})}
	s.mu.Lock()
	gone := s.started == nil
	if !gone {
		s.last++
		p.number = s.last
		s.started[p.number] = p
	}
	s.mu.Unlock()
	if gone {
		return nil, fmt.Errorf("spawn: %w", ErrGone)
	}
	err := s.send(request{Number: p.number, Start: &order{Args: frames.Bytes(c.Args), Env: frames.Bytes(c.Env), Dir: []byte(c.Dir),
		Group: c.Group, Block: c.Block, Death: c.Death}}, c.Files...)
	if err != nil {
		s.mu.Lock()
		delete(s.started, p.number)
		s.mu.Unlock()
		return nil, fmt.Errorf("spawn: %w", err)
	}
	limit := time.NewTimer(s.limit)
	defer limit.Stop()
	select {
	case err = <-p.begun:
	case <-limit.C:
		err = p.forget(c)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// forget gives up waiting for a process to begin, unless it just has.
func (p *Process) forget(c Command) error {
	s := p.spawner
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case err := <-p.begun:
		return err
	default:
	}
	p.late = true
	return fmt.Errorf("spawn: %s, in directory %q, has not begun within %v: a file system that it is started from may hang",
		strings.Join(c.Args[:min(len(c.Args), 1)], ""), c.Dir, s.limit)
}

// send gives the spawner a request. It always reads: one that does not is as good as gone, and what has been sent in part
// cannot be taken back.
func (s *Spawner) send(r request, files ...*os.File) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	err := s.conn.SetWriteDeadline(time.Now().Add(s.limit))
	if err == nil {
		err = frames.Send(s.conn, r, files...)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it has not read what it is asked for within %v: %w", s.limit, errors.Join(ErrGone, s.conn.Close()))
	}
	return err
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
		if p.late {
			go p.Signal(syscall.SIGKILL) // what is sent may have to wait, and whoever reads must not
		}
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
	there := p.spawner.started[p.number] == p
	p.spawner.mu.Unlock()
	if there {
		_ = p.spawner.send(request{Number: p.number, Signal: sig}) // listen notices that the spawner is gone
	}
}
