package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// Command is what to start on a node. The fields are as those of exec.Cmd: nil streams are /dev/null, files are handed
// over as they are, others are copied through pipes.
type Command struct {
	Args   []string // of which the first is looked for in the PATH of Env
	Env    []string // nil: that of this process. Directories of the user become those of the node (Environ)
	Dir    string   // empty: that of this process
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Process is a process on a node, the leader of a session of its own.
type Process struct {
	PID  int // on the node
	conn *net.UnixConn
	send sync.Mutex
	over chan struct{} // closed when code and err are there
	code int
	err  error
	copy sync.WaitGroup // what is copied out of the process
	stop func() bool
}

// Start starts a process on a node that is up. It is killed, with its process group, when ctx is done, when this process
// ends, and when the node dies. Wait must be called.
func (c *Cluster) Start(ctx context.Context, node string, cmd Command) (*Process, error) {
	about := func(err error) error { return fmt.Errorf("sandbox: run on %s: %w", node, err) }
	if len(cmd.Args) == 0 {
		return nil, about(fmt.Errorf("no program given: %w", ErrOption))
	}
	if err := ctx.Err(); err != nil {
		return nil, about(err)
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	if cmd.Dir == "" {
		var err error
		if cmd.Dir, err = os.Getwd(); err != nil {
			return nil, about(err)
		}
	}
	conn, err := c.place.dial()
	if err != nil {
		return nil, fmt.Errorf("sandbox: sandbox %s: %w: %w", c.Name, ErrNotRunning, err)
	}
	p := &Process{conn: conn, over: make(chan struct{}), stop: context.AfterFunc(ctx, func() { conn.Close() })}
	if err := p.begin(node, cmd); err != nil {
		p.stop()
		conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, about(err)
	}
	go p.watch(ctx, node)
	return p, nil
}

// Listen makes a socket that listens in the network of a node that is up, and returns the address at which the nodes reach
// it. It is ours: nothing of the node waits for it.
func (c *Cluster) Listen(node string) (net.Listener, string, error) {
	about := func(err error) error { return fmt.Errorf("sandbox: listen on %s: %w", node, err) }
	nodes, err := c.Nodes()
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == node })
	if err == nil && i < 0 {
		err = ErrNode
	}
	if err != nil {
		return nil, "", about(err)
	}
	conn, err := c.place.dial()
	if err != nil {
		return nil, "", fmt.Errorf("sandbox: sandbox %s: %w: %w", c.Name, ErrNotRunning, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * hang)) // of a socket it never fails
	var answer reply
	var files []*os.File
	if err = frames.Send(conn, request{Verb: "listen", Node: node}); err == nil {
		files, err = frames.Receive(conn, &answer)
	}
	defer frames.CloseAll(files)
	if err = errors.Join(died(err), answer.err()); err == nil && len(files) != 1 {
		err = fmt.Errorf("found %d descriptors, wanted 1", len(files))
	}
	if err != nil {
		return nil, "", about(err)
	}
	l, err := net.FileListener(files[0])
	if err != nil {
		return nil, "", about(err)
	}
	return l, net.JoinHostPort(nodes[i].Address, answer.Note), nil
}

// died says what the end of a connection means.
func died(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrDied
	}
	return err
}

// begin has the connection handed over to the node, and the process started there.
func (p *Process) begin(node string, cmd Command) error {
	var answer reply
	if err := p.ask(request{Verb: "run", Node: node}, &answer); err != nil {
		return err
	}
	if err := answer.err(); err != nil {
		return err
	}
	s, err := p.streams(cmd)
	var e ending
	if err == nil {
		err = p.ask(command{Args: frames.Bytes(cmd.Args), Env: frames.Bytes(cmd.Env), Dir: []byte(cmd.Dir)}, &e, s.theirs...)
	}
	if err == nil {
		err = e.err()
	}
	if err != nil {
		s.close()
		return err
	}
	p.PID = e.PID
	s.run(&p.copy)
	return nil
}

// ask sends a message and waits for the answer.
func (p *Process) ask(what, answer any, files ...*os.File) error {
	err := frames.Send(p.conn, what, files...)
	if err == nil {
		_, err = frames.Receive(p.conn, answer)
	}
	return died(err)
}

// watch waits for the end.
func (p *Process) watch(ctx context.Context, node string) {
	var e ending
	_, err := frames.Receive(p.conn, &e)
	switch {
	case err == nil && e.Signal != 0:
		p.code = 128 + int(e.Signal)
	case err == nil:
		p.code = e.Code
	case ctx.Err() != nil:
		p.code, p.err = 128+int(syscall.SIGKILL), fmt.Errorf("sandbox: run on %s: %w", node, ctx.Err())
	default:
		p.code, p.err = 128+int(syscall.SIGKILL), fmt.Errorf("sandbox: run on %s: %w", node, died(err))
	}
	p.stop()
	p.conn.Close()
	close(p.over)
}

// Wait waits for the end of the process, and until all that it has written is copied, and returns its exit code as a
// shell does: 128 and the number of the signal when one has ended it. ErrDied: the node has, and the process with it.
func (p *Process) Wait() (int, error) {
	<-p.over
	p.copy.Wait()
	return p.code, p.err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.over }

// Signal sends a signal to the process group of the process. One that has ended gets none.
func (p *Process) Signal(sig syscall.Signal) error {
	p.send.Lock()
	defer p.send.Unlock()
	err := frames.Send(p.conn, signal{sig})
	if errors.Is(err, net.ErrClosed) || errors.Is(died(err), ErrDied) {
		return os.ErrProcessDone
	}
	return err
}

// streams are the standard streams of a process that is being started.
type streams struct {
	theirs []*os.File // in order: input, output, error
	given  []*os.File // of these, what we have opened: closed when the process has it
	kept   []*os.File // our ends of pipes, closed when nothing came of it
	in     []func()   // copies into the process: nobody waits for them
	out    []func()
}

// streams opens what is needed.
func (p *Process) streams(cmd Command) (*streams, error) {
	s := &streams{}
	if err := s.input(cmd.Stdin); err != nil {
		return s, err
	}
	if err := s.output(cmd.Stdout); err != nil {
		return s, err
	}
	if sameWriter(cmd.Stdout, cmd.Stderr) {
		s.theirs = append(s.theirs, s.theirs[1])
		return s, nil
	}
	return s, s.output(cmd.Stderr)
}

// sameWriter says whether two streams are one, as both outputs of a process often are.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }() // types that cannot be compared are not the same
	return a != nil && a == b
}

func (s *streams) null(flag int) error {
	f, err := os.OpenFile(os.DevNull, flag, 0)
	if err != nil {
		return err
	}
	s.theirs, s.given = append(s.theirs, f), append(s.given, f)
	return nil
}

func (s *streams) pipe(theirs, ours *os.File) {
	s.theirs, s.given, s.kept = append(s.theirs, theirs), append(s.given, theirs), append(s.kept, ours)
}

func (s *streams) input(from io.Reader) error {
	if f, ok := from.(*os.File); ok {
		s.theirs = append(s.theirs, f)
		return nil
	}
	if from == nil {
		return s.null(os.O_RDONLY)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.pipe(r, w)
	s.in = append(s.in, func() {
		_, _ = io.Copy(w, from) // the process need not read it all
		w.Close()
	})
	return nil
}

func (s *streams) output(to io.Writer) error {
	if f, ok := to.(*os.File); ok {
		s.theirs = append(s.theirs, f)
		return nil
	}
	if to == nil {
		return s.null(os.O_WRONLY)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.pipe(w, r)
	s.out = append(s.out, func() {
		_, _ = io.Copy(to, r) // who writes nowhere is told by the pipe
		r.Close()
	})
	return nil
}

// run begins to copy.
func (s *streams) run(out *sync.WaitGroup) {
	frames.CloseAll(s.given)
	for _, in := range s.in {
		go in()
	}
	for _, o := range s.out {
		out.Go(o)
	}
}

// close closes what was opened for a process that has not come about.
func (s *streams) close() {
	frames.CloseAll(s.given)
	frames.CloseAll(s.kept)
}
