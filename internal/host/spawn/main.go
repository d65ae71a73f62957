package spawn

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/host/reap"
	"github.com/byssus-hpc/byssus/internal/ui"
	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// server is a spawner, seen from inside.
type server struct {
	conn *net.UnixConn

	mu       sync.Mutex          // held for moments: nothing is sent or received meanwhile
	children map[int]*reap.Child // that have not been waited for

	sending sync.Mutex // taken by those who wait for processes: never by who reads, and never with mu
}

// Main serves in the process of a spawner, and ends it; in others it does nothing. The TestMain of a package begins with it whose
// tests have a spawner.
func Main() {
	if len(os.Args) != 2 || os.Args[1] != Verb {
		return
	}
	if err := Serve(); err != nil {
		ui.Say(os.Stderr, err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// Serve is the life of a spawner: until whoever has started it is gone.
func Serve() error {
	conn, err := frames.Conn(os.Stdin)
	if err != nil {
		return err
	}
	hearNothing()
	s := &server{conn: conn, children: map[int]*reap.Child{}}
	for {
		var r request
		files, err := frames.Receive(conn, &r)
		switch {
		case err != nil:
			return nil
		case r.Start != nil:
			go s.run(r.Number, r.Start, files) // a program may be in a file system that hangs
		default:
			s.signal(r.Number, r.Signal)
		}
	}
}

// hearNothing catches the signals that would end this process. Caught, not ignored: children inherit that, and those that
// are ignored stay so for the same reason.
func hearNothing() {
	heard := make(chan os.Signal, 1)
	for sig := syscall.Signal(1); sig < 65; sig++ {
		if sig != syscall.SIGCHLD && sig != syscall.SIGURG && !signal.Ignored(sig) {
			signal.Notify(heard, sig)
		}
	}
}

// run starts a process, and tells how it has ended.
func (s *server) run(number int, o *order, files []*os.File) {
	runtime.LockOSThread() // signal mask and death signal are those of the thread that starts a process
	defer runtime.UnlockOSThread()
	var child *reap.Child
	cmd, err := o.command(files)
	if err == nil {
		was := block(o.Block)
		child, err = reap.Start(cmd)
		setMask(was)
	}
	frames.CloseAll(files)
	if err != nil {
		s.tell(notice{Number: number, Failed: err.Error()})
		return
	}
	s.mu.Lock()
	s.children[number] = child
	s.mu.Unlock()
	s.tell(notice{Number: number})
	_ = child.Wait() // nothing is copied: what it says is in the state
	s.mu.Lock()
	delete(s.children, number)
	s.mu.Unlock()
	end := &ending{Code: cmd.ProcessState.ExitCode()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		end.Signal = ws.Signal()
	}
	s.tell(notice{Number: number, End: end})
}

// command is what is to be executed.
func (o *order) command(files []*os.File) (*exec.Cmd, error) {
	if len(o.Args) == 0 || len(files) < 2 {
		return nil, errors.New("wanted a program, standard output and standard error")
	}
	args := frames.Strings(o.Args)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir = append([]string{}, frames.Strings(o.Env)...), string(o.Dir) // with none it would get ours
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = files[0], files[1], files[2:]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: o.Group, Pdeathsig: o.Death}
	return cmd, nil
}

// signal sends a signal to a process that has not ended: SIGKILL to its group, if it has one of its own.
func (s *server) signal(number int, sig syscall.Signal) {
	s.mu.Lock()
	child := s.children[number]
	s.mu.Unlock()
	switch {
	case child == nil:
	case sig == syscall.SIGKILL:
		child.Kill()
	default:
		child.Signal(sig)
	}
}

// tell says something to whoever has this spawner.
func (s *server) tell(n notice) {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = frames.Send(s.conn, n) // who is gone is noticed where something is received
}
