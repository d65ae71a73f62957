// Package agent is the ranks' counterpart on their node: it listens on a unix packet socket, keeps a session and a
// shared page per rank, and turns messages into events of the coordinator and its orders into messages.
//
// It guarantees: only processes of the same user are heard; a rank is lost exactly once, and only after its process is
// gone and everything that it had sent has been handed on; signals reach the process that said HELLO and no later one
// of the same number (pidfd); a rank that does not read blocks nobody else.
// One Server serves one start of the ranks, in a directory of its own, so that stragglers of an earlier start cannot
// reach it.
//
// Lock order: Server.mu, then Session.mu. Events are delivered without any lock held.
package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/host/rundir"
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
	JobID   [16]byte
	Spawn   *spawn.Spawner                 // starts ranks, or a launcher and its daemons; nil: others do
	Images  func(checkpoint uint64) string // the directory in which its images are written
	Report  func(node.Report)              // called from one goroutine, in order
	Here    func(meeting uint64)           // all ranks of this node have come; must not wait. See Met
	Input   func(read uint64)              // what follows of the job's standard input is wanted; must not wait. See Feed. nil: rank 0 keeps the launcher's
}

// Server is the agent of one start.
type Server struct {
	cfg      Config
	listener *net.UnixListener
	pages    []*page // as cfg.Ranks
	wg       sync.WaitGroup
	broker   broker
	crew     *crew  // an MPI's launcher, or its daemon
	input    *input // nil: rank 0 is not here

	mu       sync.Mutex
	sessions map[int]*session  // by rank, the newest
	aside    map[*session]bool // of the ranks' places, that are not the ranks
	epoch    uint64            // of the last order
	look     look              // what was found in other processes in the present attempt
	domains  *domains          // look's lock protects it
	procs    []*process        // all that ever said hello
	conns    map[*net.UnixConn]bool
	others   []int     // processes of the job that belong to other agents
	family   *family   // nil: an MPI's launcher has started the ranks
	launcher *launcher // nil: that runs elsewhere, or there is none
	closed   bool
	told     atomic.Bool // ranks have been told to end

	began  time.Time
	foldMu sync.Mutex
	fold   *node.Fold
	news   chan struct{} // there may be something to report
	over   chan struct{} // closed by Close
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
	s := &Server{cfg: cfg, domains: d, crew: newCrew(cfg.Spawn), sessions: map[int]*session{}, aside: map[*session]bool{}, conns: map[*net.UnixConn]bool{}, began: time.Now(),
		fold: node.New(cfg.Ranks, cfg.Restart), news: make(chan struct{}, 1), over: make(chan struct{})}
	for _, rank := range cfg.Ranks {
		p, err := newPage(PagePath(cfg.Dir, rank))
		if err != nil {
			s.closePages()
			return nil, fmt.Errorf("agent: page of rank %d: %w", rank, err)
		}
		s.pages = append(s.pages, p)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		s.closePages()
		return nil, fmt.Errorf("agent: listen: %w", err)
	}
	if cfg.Input != nil && slices.Contains(cfg.Ranks, 0) {
		if s.input, err = newInput(cfg.Input); err != nil {
			l.Close()
			s.closePages()
			return nil, err
		}
	}
	tidyStarts(cfg.JobID[:], func(start uint64) bool { return start>>termBits < cfg.Start>>termBits })
	if dir := MemoryDir(cfg.JobID, cfg.Start); dir != "" {
		err = rundir.Make(dir)
	}
	if err != nil {
		l.Close()
		s.closePages()
		return nil, fmt.Errorf("agent: memory of the launcher's ranks: %w", err)
	}
	s.listener = l
	s.wg.Go(s.accept)
	s.wg.Go(s.report)
	return s, nil
}

// Close ends all connections and waits for the goroutines. Ranks that are still there count as not lost.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	for _, p := range s.procs {
		p.close()
	}
	f, l := s.family, s.launcher
	s.mu.Unlock()
	if f != nil {
		f.end()
	}
	s.crew.end()
	_ = os.RemoveAll(s.sessionDir()) // of a launcher that was killed
	_ = os.RemoveAll(memoryDir(s.cfg.JobID[:], fmt.Sprintf("%x", s.cfg.Start)))
	if l != nil {
		l.close()
	}
	close(s.over)
	s.listener.Close()
	if s.input != nil {
		s.input.close()
	}
	s.wg.Wait()
	s.broker.close()
	s.closePages()
}

func (s *Server) closePages() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pages {
		p.close()
	}
	s.pages = nil
}

func (s *Server) accept() {
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors: later there may be some
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s.mu.Lock()
		s.conns[c] = true
		closed := s.closed
		s.mu.Unlock()
		if closed {
			c.Close()
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			s.serve(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
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
	if !s.isAside(ses) {
		s.said(node.Hello{Ranks: []int{ses.rank}})
	}
	s.wg.Go(func() { // a forked child may hold the socket open: the process itself decides
		<-ses.proc.over
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	})
	s.read(ses)
	untold := !s.told.Load() || ses.before.Load()
	ses.shut()
	select {
	case <-ses.proc.over:
	case <-time.After(execGrace):
		untold = false // it has only left
		if s.current(ses) {
			s.said(node.Left{Rank: ses.rank})
		}
		<-ses.proc.over
	}
	s.mu.Lock()
	delete(s.aside, ses)
	s.mu.Unlock()
	if !ses.proc.gone || s.unrestored(ses) {
		return
	}
	if s.current(ses) {
		s.said(s.lost(ses.rank, untold))
	}
}

// unrestored says so of a place whose launcher's process has run again, and has ended without starting what was the rank below it.
func (s *Server) unrestored(ses *session) bool {
	if !s.cfg.Restart || ses.restarted || !s.current(ses) || s.told.Load() {
		return false
	}
	s.said(node.Failed{Rank: ses.rank, Text: "the command of the job has run again, and has ended without starting the program " +
		"that the checkpoint is of, with the same file and arguments"})
	s.said(s.lost(ses.rank, false))
	return true
}

// current says whether a session is the newest of its rank.
func (s *Server) current(ses *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[ses.rank] == ses
}

// execGrace is how long a process may outlive its connection before it counts as having left: it has become another
// program by exec, which may or may not say HELLO again.
const execGrace = 500 * time.Millisecond

// lost says how a rank ended.
func (s *Server) lost(rank int, untold bool) node.Lost {
	i, _ := slices.BinarySearch(s.cfg.Ranks, rank)
	p := s.pages[i].sample()
	ev := node.Lost{Rank: rank, Ended: p.Phase == abi.PhaseEnded, Untold: untold}
	if ev.Ended {
		ev.Code, ev.Ago = int(p.ExitCode), s.pages[i].inPhase()
	}
	return ev
}

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
		s.said(node.Refused{Rank: int(m.Rank), Text: sentence(m.Body)})
		return nil, nil
	}
	var hello abi.Hello
	if _, err := abi.Decode(m.Body, &hello); err != nil {
		return nil, err
	}
	switch {
	case m.Type != abi.MsgHello:
		return nil, fmt.Errorf("agent: first message of type %d, wanted %d", m.Type, abi.MsgHello)
	case hello.ABIVersion != abi.Version:
		return nil, fmt.Errorf("agent: rank %d speaks protocol version %d, wanted %d", m.Rank, hello.ABIVersion, abi.Version)
	case int(m.Rank) >= s.cfg.Size || int(hello.NRanks) != s.cfg.Size:
		return nil, fmt.Errorf("agent: rank %d of %d, wanted %d ranks", m.Rank, hello.NRanks, s.cfg.Size)
	case hello.Start != s.cfg.Start:
		return nil, fmt.Errorf("agent: rank %d belongs to start %d of the job, this is start %d", m.Rank, hello.Start, s.cfg.Start)
	case !slices.Contains(s.cfg.Ranks, int(m.Rank)):
		return nil, fmt.Errorf("agent: rank %d is not one of this node's", m.Rank)
	}
	ses, err := s.enlist(c, int(m.Rank), pid, &hello)
	if err == nil && hello.Below == abi.BelowRestored {
		err = s.move(ses)
	}
	return ses, err
}

func (s *Server) enlist(c *net.UnixConn, rank, pid int, hello *abi.Hello) (*session, error) {
	proc, err := openProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("agent: rank %d: %w", rank, err)
	}
	ses := &session{rank: rank, conn: c, proc: proc, restarted: hello.Restarted != 0}
	ses.wake = sync.NewCond(&ses.mu)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, below := s.sessions[rank], hello.Below != abi.BelowNot
	again := old != nil && old.pid() == pid // it has become another program, which starts anew
	if s.closed || old != nil && !again && !below {
		proc.close()
		return nil, fmt.Errorf("agent: rank %d is here already (pid %d), this one is pid %d", rank, old.pid(), pid)
	}
	s.procs = append(s.procs, proc)
	switch {
	case again:
		ses.isRank = old.isRank
		old.shut()
		s.sessions[rank] = ses
	case below:
		s.aside[ses] = true
	default:
		s.sessions[rank] = ses
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
	ses.queue = append(ses.queue, p)
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
		if err == nil && s.isAside(ses) {
			err = errors.Join(s.saysAside(ses, m), closeFile(file))
		} else if err == nil {
			err = s.message(ses, m, file)
		} else if file != nil {
			file.Close()
		}
		if err != nil { // a rank that speaks nonsense cannot be trusted with a checkpoint
			s.said(node.Failed{Rank: ses.rank, Text: err.Error()})
			return
		}
	}
}

// Send gives a rank a message; it does not wait.
func (s *Server) Send(rank int, m abi.Message) {
	s.mu.Lock()
	ses := s.sessions[rank]
	s.mu.Unlock()
	if ses == nil {
		return
	}
	m.Rank = uint32(rank)
	ses.put(packet{bytes: abi.Packet(m)})
}

// Signal sends a signal to every rank that is there.
func (s *Server) Signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ses := range s.everyone() {
		ses.proc.signal(sig)
	}
}

// Sample reads the shared page of every rank of this node; none after Close.
func (s *Server) Sample() []node.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]node.Sample, len(s.pages))
	for i, p := range s.pages {
		out[i] = p.sample()
		if ses := s.sessions[s.cfg.Ranks[i]]; ses != nil {
			out[i].PID = ses.proc.pid
		}
	}
	return out
}
