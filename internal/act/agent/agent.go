// Package agent is the ranks' counterpart on their node: it listens on a unix packet socket, keeps a session and a
// shared page per rank, and turns messages into events of the coordinator and its orders into messages.
//
// It guarantees: only processes of the same user are heard; a rank is lost exactly once, and only after its process is
// gone and everything that it had sent has been handed on; signals reach the process that said HELLO and no later one
// of the same number (pidfd); a rank that does not read blocks nobody else.
// One Server serves one start of the ranks, in a directory of its own, so that stragglers of an earlier start cannot
// reach it.
//
// Each part of a Server has a lock of its own. Lock order: look.mu, then places.mu, then session.mu; broker.mu, then session.mu or
// reports.mu. Those of pages and started are held alone. Reports are delivered without any lock held; Config.Here is called with the
// broker's.
package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/host/spawn"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// MaxSocketPath is the longest path that a unix socket may have everywhere.
const MaxSocketPath = 99

// Config says whom to expect, and what they are told.
type Config struct {
	Dir     string // exists, 0700; agent.sock and page.N are made here
	Ranks   []int  // those of this node, ascending
	Size    int    // of the job
	Start   uint64 // number of this start
	Restart bool   // they go on from images
	Writers int    // threads that write a rank's image
	Routed  bool   // files of programs are led (routes)
	Clients string // where programs that hand files to be kept are heard; empty: nowhere
	JobID   [16]byte
	Spawn   *spawn.Spawner                 // starts ranks, or a launcher and its daemons; nil: others do
	Images  func(checkpoint uint64) string // the directory in which its images are written
	Report  func(node.Report)              // called from one goroutine, in order
	Here    func(meeting uint64)           // all ranks of this node have come; must not wait. See Met
	Input   func(read uint64)              // what follows of the job's standard input is wanted; must not wait. See Feed. nil: rank 0 keeps the launcher's
}

// Server is the agent of one start. Each of its parts has a lock of its own; the Server itself has nothing that changes. It says what
// the processes are told, and what becomes of what they say.
type Server struct {
	cfg      *Config
	listener *net.UnixListener
	wg       sync.WaitGroup // goroutines that accept, serve connections, write to them, and report
	places   places         // who is connected
	pages    pages          // what the ranks show of themselves
	reports  reports        // what the coordinator is to hear
	look     look           // who else has what the ranks have
	broker   broker         // what ranks pass to each other at a restart
	started  started        // processes that this agent has started
	input    *input         // nil: rank 0 is not here
}

// SocketPath is where ranks connect.
func SocketPath(dir string) string { return filepath.Join(dir, "agent.sock") }

// PagePath is the shared page of a rank.
func PagePath(dir string, rank int) string { return filepath.Join(dir, fmt.Sprintf("page.%d", rank)) }

// Listen makes socket and pages and begins to serve.
func Listen(cfg Config) (*Server, error) {
	path := SocketPath(cfg.Dir)
	if len(path) > MaxSocketPath {
		return nil, fmt.Errorf("agent: socket %s: path of %d bytes, at most %d", path, len(path), MaxSocketPath)
	}
	d, err := newDomains()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: &cfg, places: newPlaces(), look: look{domains: d}, started: started{cfg: &cfg, crew: newCrew(cfg.Spawn)}}
	s.reports = newReports(node.New(cfg.Ranks, cfg.Restart), s.Sample, cfg.Report)
	s.broker = broker{cfg: &cfg, say: s.reports.said}
	err = s.pages.open(cfg.Dir, cfg.Ranks)
	if err == nil {
		s.listener, err = openSocket(path)
	}
	if err == nil && cfg.Input != nil && slices.Contains(cfg.Ranks, 0) {
		s.input, err = newInput(cfg.Input)
	}
	if err == nil {
		err = s.started.begin()
	}
	if err != nil {
		s.free()
		return nil, err
	}
	s.wg.Go(s.accept)
	s.wg.Go(s.reports.run)
	return s, nil
}

func openSocket(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			l.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("agent: listen: %w", err)
	}
	return l, nil
}

// Close ends all connections and waits for the goroutines. Ranks that are still there count as not lost.
func (s *Server) Close() {
	s.places.close()
	s.started.end()
	s.reports.close()
	s.free()
}

// free gives back what Listen has made, when the goroutines have ended.
func (s *Server) free() {
	if s.listener != nil {
		s.listener.Close()
	}
	if s.input != nil {
		s.input.close()
	}
	s.wg.Wait()
	s.broker.close()
	s.pages.close()
}

func (s *Server) accept() {
	eachConnection(s.listener, func(c *net.UnixConn) {
		if !s.places.connect(c) { // it is being closed
			c.Close()
			return
		}
		s.wg.Go(func() {
			s.serve(c)
			c.Close()
			s.places.disconnect(c)
		})
	})
}

// acceptRest is how long a listener rests after an error: descriptors that are missing may come back.
const acceptRest = 10 * time.Millisecond

// eachConnection hands connections to f until the listener is closed.
func eachConnection(l *net.UnixListener, f func(*net.UnixConn)) {
	for {
		c, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptRest)
		default:
			f(c)
		}
	}
}

// serve speaks with one connection until it ends.
func (s *Server) serve(c *net.UnixConn) {
	_ = c.SetWriteBuffer(2 * abi.MaxBody)
	ses, err := s.welcome(c)
	if err != nil {
		refusal := abi.Message{Header: abi.Header{Type: abi.MsgRefuse}, Body: []byte(err.Error())}
		_, _ = c.Write(abi.Packet(refusal))
		return
	}
	if ses == nil { // it has said what there is to say
		return
	}
	s.wg.Go(ses.write)
	if !s.places.isAside(ses) {
		s.reports.said(node.Hello{Ranks: []int{ses.rank}})
	}
	s.wg.Go(func() { // a forked child may hold the socket open: the process itself decides
		<-ses.proc.over
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	})
	s.read(ses)
	untold := s.places.untold(ses)
	ses.shut()
	s.outlast(ses, untold)
}

// outlast waits until a process has ended whose connection has, and says what that is to its rank.
func (s *Server) outlast(ses *session, untold bool) {
	select {
	case <-ses.proc.over:
	case <-time.After(execGrace):
		untold = false // it has only left
		if s.places.isRank(ses) {
			s.reports.said(node.Left{Rank: ses.rank})
		}
		<-ses.proc.over
	}
	s.places.leave(ses)
	if !ses.proc.gone || !s.places.isRank(ses) {
		return
	}
	if s.cfg.Restart && !ses.restarted && !s.places.told() { // a place whose launcher's process has run again
		s.reports.said(node.Failed{Rank: ses.rank, Text: "the command of the job has run again, and has ended without starting the program " +
			"that the checkpoint is of, with the same file and arguments"})
		untold = false
	}
	s.reports.said(s.pages.lost(ses.rank, untold))
}

// execGrace is how long a process may outlive its connection before it counts as having left: it has become another
// program by exec, which may or may not say HELLO again.
const execGrace = 500 * time.Millisecond

// welcome takes the first message and makes the session.
func (s *Server) welcome(c *net.UnixConn) (*session, error) {
	pid, err := peer(c)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, abi.HeaderBytes+abi.MaxBody)
	n, err := c.Read(buf)
	if err != nil {
		return nil, fmt.Errorf("agent: hello: %w", err)
	}
	m, err := abi.Parse(buf[:n])
	if err != nil {
		return nil, err
	}
	if m.Type == abi.MsgRefused && slices.Contains(s.cfg.Ranks, int(m.Rank)) {
		s.reports.said(node.Refused{Rank: int(m.Rank), Text: sentence(m.Body)})
		return nil, nil
	}
	var hello abi.Hello
	if _, err := abi.Decode(m.Body, &hello); err != nil {
		return nil, err
	}
	if err := s.cfg.expects(m.Header, &hello); err != nil {
		return nil, err
	}
	ses, err := s.enlist(c, int(m.Rank), pid, &hello)
	if err == nil && hello.Below == abi.BelowRestored {
		err = s.move(ses)
	}
	return ses, err
}

// expects says why a process that says HELLO is none of those that are waited for.
func (cfg *Config) expects(m abi.Header, hello *abi.Hello) error {
	switch {
	case m.Type != abi.MsgHello:
		return fmt.Errorf("agent: first message of type %d, wanted %d", m.Type, abi.MsgHello)
	case hello.ABIVersion != abi.Version:
		return fmt.Errorf("agent: rank %d speaks protocol version %d, wanted %d", m.Rank, hello.ABIVersion, abi.Version)
	case int(m.Rank) >= cfg.Size || int(hello.NRanks) != cfg.Size:
		return fmt.Errorf("agent: rank %d of %d, wanted %d ranks", m.Rank, hello.NRanks, cfg.Size)
	case hello.Start != cfg.Start:
		return fmt.Errorf("agent: rank %d belongs to start %d of the job, this is start %d", m.Rank, hello.Start, cfg.Start)
	case !slices.Contains(cfg.Ranks, int(m.Rank)):
		return fmt.Errorf("agent: rank %d is not one of this node's", m.Rank)
	}
	return nil
}

// enlist makes the session of a process that is expected. Nothing is written to it yet, so that WELCOME comes first.
func (s *Server) enlist(c *net.UnixConn, rank, pid int, hello *abi.Hello) (*session, error) {
	proc, err := openProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("agent: rank %d: %w", rank, err)
	}
	ses := &session{rank: rank, conn: c, proc: proc, restarted: hello.Restarted != 0}
	if s.cfg.Clients != "" {
		ses.passes = "socket to unix " + s.cfg.Clients
	}
	ses.wake = sync.NewCond(&ses.mu)
	below := hello.Below != abi.BelowNot
	if err := s.places.enter(ses, below); err != nil {
		proc.close()
		return nil, err
	}
	p := packet{bytes: abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgWelcome, Rank: uint32(rank)},
		Body: abi.Encode(abi.Welcome{Writers: uint32(s.cfg.Writers), Here: uint32(len(s.cfg.Ranks))}, "")})}
	switch {
	case rank != 0 || s.input == nil:
	case !below:
		p.file = s.input.begin(hello.Input)
	case hello.Below == abi.BelowRestored && hello.WantsInput != 0:
		if p.file, err = s.input.again(hello.Input); err != nil {
			return nil, err
		}
	}
	ses.putFirst(p)
	return ses, nil
}

// peer returns the process at the other end, which must be ours.
func peer(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("agent: peer: %w", err)
	}
	var cred *syscall.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, cerr); err != nil {
		return 0, fmt.Errorf("agent: peer: %w", err)
	}
	if int(cred.Uid) != os.Getuid() {
		return 0, fmt.Errorf("agent: peer: uid %d, wanted %d", cred.Uid, os.Getuid())
	}
	return int(cred.Pid), nil
}

// read hands on messages until the connection ends.
func (s *Server) read(ses *session) {
	buf := make([]byte, abi.HeaderBytes+abi.MaxBody)
	for {
		n, file, err := receive(ses.conn, buf)
		if n == 0 || err != nil && !errors.Is(err, errMany) {
			return
		}
		var m abi.Message
		if err == nil {
			m, err = abi.Parse(buf[:n])
		}
		if err == nil && int(m.Rank) != ses.rank {
			err = fmt.Errorf("agent: message of rank %d from rank %d", m.Rank, ses.rank)
		}
		if err == nil && s.places.isAside(ses) {
			err = errors.Join(s.saysAside(ses, m), closeFile(file))
		} else if err == nil {
			err = s.message(ses, m, file)
		} else if file != nil {
			file.Close()
		}
		if err != nil { // a rank that speaks nonsense cannot be trusted with a checkpoint
			s.reports.said(node.Failed{Rank: ses.rank, Text: err.Error()})
			return
		}
	}
}

// Send gives a rank a message; it does not wait.
func (s *Server) Send(rank int, m abi.Message) {
	if ses := s.places.rank(rank); ses != nil {
		m.Rank = uint32(rank)
		ses.put(packet{bytes: abi.Packet(m)})
	}
}

// Signal sends a signal to every rank that is there, and to who is aside.
func (s *Server) Signal(sig syscall.Signal) { s.places.signal(sig) }

// Sample reads the shared page of every rank of this node; none after Close.
func (s *Server) Sample() []node.Sample {
	out := s.pages.sample()
	for i := range out {
		out[i].PID = s.places.rank(s.cfg.Ranks[i]).pid()
	}
	return out
}

// Survey looks at all other processes; others are those of the job that belong to other agents. It takes time, and is therefore
// called before a checkpoint is asked for.
func (s *Server) Survey(others []int) { s.look.survey(s.places.pids(), others) }

// Met lets the ranks go on from a meeting to which all have come.
func (s *Server) Met(meeting uint64) { s.broker.met(meeting) }

// Feed takes in a piece of the job's standard input that Config.Input has asked for; it does not wait.
func (s *Server) Feed(p control.Input) {
	switch {
	case s.input == nil:
	case p.Why != "":
		s.reports.said(node.Failed{Rank: 0, Text: p.Why})
	default:
		s.input.take(p)
	}
}
