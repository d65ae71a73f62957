// Package pmifd carries PMI-1 between the ranks of this node and their pmi.Node. A rank inherits one end of a pair of sockets
// and finds its number in PMI_FD, as under MPICH's own launcher: whoever starts the ranks makes them.
//
// There is no listener on purpose. PMI-1 has another way in, PMI_PORT with PMI_ID, for ranks that somebody else has started:
// they connect by TCP and say who they are. The protocol has no secret, so any process of any user that reaches the port
// could take the place of a rank, read where all others listen, answer for it, and abort the job. A rank that is not the
// agent's child can have a pair of sockets all the same: it is handed over the agent's Unix socket, which asks for the uid.
//
// It guarantees: a rank that does not read, or writes without reading, blocks nobody and loses its connection; messages of
// one rank are taken in their order; what pmi.Node orders first is done first; after Close nothing is reported any more.
// That a rank is gone shows here when no process has its end any more, so not while a child of it lives: whoever waits for
// the processes knows earlier.
//
// Lock order: Server.mu alone. Up and Event are called without it, from several goroutines. What follows from another is
// reported after it all the same, since a rank is answered before it speaks again.
package pmifd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/decide/pmi"
)

// Config says whom to serve.
type Config struct {
	pmi.Config
	Up    func(pmi.Up)    // to the Root; may call Down
	Event func(pmi.Event) // of this node
}

// Server serves the ranks of a node.
type Server struct {
	cfg Config
	wg  sync.WaitGroup

	mu     sync.Mutex
	node   *pmi.Node
	conns  map[int]*conn
	closed bool
}

// conn is our end of a rank's connection.
type conn struct {
	file    *os.File
	replies chan string
}

// pending is how many lines may wait to be written: four answer an initack, and nothing else has more than one.
const pending = 16

// New returns a server without ranks.
func New(cfg Config) (*Server, error) {
	node, err := pmi.NewNode(cfg.Config)
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, node: node, conns: map[int]*conn{}}, nil
}

// Open returns the end for a rank, which is to be started with it; then the caller closes it.
func (s *Server) Open(rank int) (*os.File, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("pmifd: rank %d: socketpair: %w", rank, err)
	}
	_ = syscall.SetNonblock(pair[0], true) // it cannot fail
	c := &conn{file: os.NewFile(uintptr(pair[0]), "pmi"), replies: make(chan string, pending)}
	theirs := os.NewFile(uintptr(pair[1]), "pmi")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.conns[rank] != nil || !slices.Contains(s.cfg.Local, rank) {
		c.file.Close()
		theirs.Close()
		return nil, fmt.Errorf("pmifd: rank %d: open already, or none of %v, or the server is closed", rank, s.cfg.Local)
	}
	s.conns[rank] = c
	s.wg.Go(c.write)
	s.wg.Go(func() { s.serve(rank, c) })
	return theirs, nil
}

// Env is the environment of a rank that finds its end at descriptor fd: what came from another launcher is left out.
func (s *Server) Env(environ []string, rank, fd int) []string {
	var env []string
	for _, e := range environ {
		if !strings.HasPrefix(e, "PMI_") {
			env = append(env, e)
		}
	}
	return append(env, fmt.Sprint("PMI_FD=", fd), fmt.Sprint("PMI_RANK=", rank), fmt.Sprint("PMI_SIZE=", s.cfg.Ranks))
}

// Down takes in a message of the Root.
func (s *Server) Down(d pmi.Down) {
	s.step(func(n *pmi.Node) pmi.Out { return n.Down(d) })
}

// Close hangs up on all ranks and waits for the goroutines. Ranks that are still there count as not lost.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for _, c := range s.conns {
		c.file.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// serve takes lines of a rank until there are no more.
func (s *Server) serve(rank int, c *conn) {
	in := bufio.NewReaderSize(c.file, pmi.MaxLine+2)
	for {
		line, err := in.ReadSlice('\n') // a full buffer is a line that is too long
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if s.step(func(n *pmi.Node) pmi.Out { return n.Line(rank, line) }) {
			break
		}
	}
	s.mu.Lock()
	delete(s.conns, rank)
	close(c.replies)
	s.mu.Unlock()
	c.file.Close()
	s.step(func(n *pmi.Node) pmi.Out { return n.Closed(rank) })
}

// step lets the node take in something, does what it orders, and says whether to hang up.
func (s *Server) step(take func(*pmi.Node) pmi.Out) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return true
	}
	out := take(s.node)
	for _, r := range out.Replies {
		if c := s.conns[r.Rank]; c != nil {
			c.put(r.Line)
		}
	}
	s.mu.Unlock()
	for _, up := range out.Up {
		s.cfg.Up(up)
	}
	for _, ev := range out.Events {
		s.cfg.Event(ev)
	}
	return out.HangUp
}

// put queues a line; it does not wait.
func (c *conn) put(line string) {
	select {
	case c.replies <- line:
	default: // it asks on and on, and does not read
		c.file.Close()
	}
}

func (c *conn) write() {
	for line := range c.replies {
		if _, err := c.file.WriteString(line); err != nil {
			return // the reader notices the end
		}
	}
}
