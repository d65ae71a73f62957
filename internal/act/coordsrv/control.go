package coordsrv

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/host/launch"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// ControlSocket is the control socket's name in a job's run directory.
const ControlSocket = "control.sock"

// Status is what a running job says about itself.
type Status struct {
	Job     string        `json:"job"`
	Dir     string        `json:"dir"` // of its checkpoints
	App     []string      `json:"app"`
	PID     int           `json:"pid"`
	MPI     launch.MPI    `json:"mpi"`
	Library string        `json:"mpi_says,omitempty"`
	Running time.Duration `json:"running_ns"`
	coord.Status
	Last    *coord.Result `json:"last_checkpoint,omitempty"`
	PerRank []RankStatus  `json:"rank_status"`
	Nodes   []NodeStatus  `json:"nodes,omitempty"` // none: the job runs on this machine
	Plain   bool          `json:"plain,omitempty"` // its ranks are not led

	Datasets []outputs.Entry `json:"datasets,omitempty"` // of files that the program writes itself
}

// NodeStatus is what is known of a node.
type NodeStatus struct {
	Name   string        `json:"node"`
	State  string        `json:"state"`            // one of NodeStates
	Reason string        `json:"reason,omitempty"` // why it is lost or absent
	Ranks  []int         `json:"ranks"`
	Silent time.Duration `json:"silent_ns"` // since its agent said something
}

// States of a node; absent: its agent has not come.
const (
	nodeComputing = "computing"
	nodeAwaited   = "awaited"
	nodeSpare     = "spare"
	NodeLost      = "lost"
	NodeAbsent    = "absent"
)

// NodeStates are all, in the order in which they are told.
func NodeStates() []string {
	return []string{nodeComputing, nodeAwaited, nodeSpare, NodeLost, NodeAbsent}
}

// status is of the loop's goroutine.
func (p *peer) status() NodeStatus {
	st := NodeStatus{Name: p.name, State: nodeComputing, Reason: p.absent, Ranks: append([]int{}, p.ranks...), Silent: time.Since(p.lastHeard())}
	switch {
	case p.absent != "":
		st.State, st.Silent = NodeAbsent, 0
	case p.gone:
		st.State, st.Reason, st.Ranks = NodeLost, p.lost, []int{}
	case p.hear == nil:
		st.State, st.Silent = nodeAwaited, 0
	case len(p.ranks) == 0:
		st.State = nodeSpare
	}
	return st
}

// RankStatus is what a rank's shared page says.
type RankStatus struct {
	PID           int    `json:"pid"`
	Phase         string `json:"phase"`
	Where         string `json:"where"`
	BytesDone     uint64 `json:"bytes_done"`
	BytesTotal    uint64 `json:"bytes_total"`
	ResidentAdded uint64 `json:"resident_added"`
}

// CheckpointRequest is the body of POST /v1/checkpoint.
type CheckpointRequest struct {
	Stop   bool `json:"stop"`    // the job leaves after it
	NoWait bool `json:"no_wait"` // answer at once
}

// by is who asks for a checkpoint, as the timeline says it.
func (r *CheckpointRequest) by() string {
	if r.Stop {
		return timeline.ByStop
	}
	return timeline.ByRequest
}

// serveControl answers requests: GET /v1/status, POST /v1/checkpoint, POST /v1/outputs, POST /v1/kill.
func (s *Server) serveControl(l net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		var st Status
		pages := make(chan []node.Sample, 1)
		asked := s.ask(func() {
			st = s.status()
			if s.agents.start == 0 {
				pages <- nil
				return
			}
			to := s.agents.engaged()
			s.agents.order(to, func(_ *peer, order uint64) any { return control.Look{Order: order} },
				func(answers []control.Message) { pages <- byRank(s.opt.Spec.Ranks, to, answers) })
		})
		if !asked {
			http.Error(w, "the job is over", http.StatusGone)
			return
		}
		select {
		case ranks := <-pages:
			st.PerRank = perRank(ranks)
		case <-s.stop:
		}
		writeJSON(w, st)
	})
	mux.HandleFunc("POST /v1/checkpoint", s.handleCheckpoint)
	mux.HandleFunc("POST /v1/outputs", serveOutputs(s))
	mux.HandleFunc("POST /v1/kill", func(w http.ResponseWriter, _ *http.Request) {
		const interrupted = 130
		s.ask(func() { s.step(coord.Interrupt{Code: interrupted}) })
		writeJSON(w, struct{}{})
	})
	const slow = 10 * time.Second // for a client to say what it wants
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: slow, ReadTimeout: slow, IdleTimeout: slow, MaxHeaderBytes: 1 << 14}
	_ = srv.Serve(limit(l, maxClients))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // answers under way get out
	defer cancel()
	_ = srv.Shutdown(ctx)
}

func (s *Server) handleCheckpoint(w http.ResponseWriter, r *http.Request) {
	var req CheckpointRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ch := make(chan coord.Result, 1)
	asked := s.ask(func() {
		s.story.requested(req.by())
		if req.NoWait {
			ch <- coord.Result{}
			s.step(coord.Request{Stop: req.Stop})
			return
		}
		s.asked.last++
		s.asked.replies[s.asked.last] = ch
		s.step(coord.Request{ID: s.asked.last, Stop: req.Stop})
	})
	if !asked {
		writeJSON(w, coord.Result{Err: "the job is over"})
		return
	}
	select {
	case res := <-ch:
		writeJSON(w, res)
	case <-r.Context().Done(): // who asked has gone; the checkpoint is taken all the same
	case <-s.stop: // Finish answers everybody; the answer may be there by now
		select {
		case res := <-ch:
			writeJSON(w, res)
		default:
			writeJSON(w, coord.Result{Err: "the job is over"})
		}
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Server) status() Status {
	meta := &s.opt.Job.Meta
	st := Status{Job: meta.Name, Dir: s.opt.Job.Dir, App: meta.App, PID: os.Getpid(), MPI: s.opt.Spec.MPI, Library: s.shown.library,
		Running: time.Since(s.began), Status: s.machine.Status(), Last: s.shown.last, PerRank: []RankStatus{},
		Plain: s.opt.Plain}
	if w := s.written; w != nil && w.book != nil {
		if st.Datasets = w.book.Entries(); s.opt.Plain {
			st.Connected = w.book.Joined()
		}
	}
	if s.agents.remote != nil {
		for _, p := range s.agents.list {
			st.Nodes = append(st.Nodes, p.status())
		}
	}
	return st
}

// byRank puts the pages that agents have told in the order of the ranks.
func byRank(ranks int, from []*peer, answers []control.Message) []node.Sample {
	list := make([]node.Sample, ranks)
	for i, m := range answers {
		if pages, ok := m.Body.(control.Pages); ok && len(pages.Ranks) == len(from[i].ranks) {
			for k, rank := range from[i].ranks {
				list[rank] = pages.Ranks[k]
			}
		}
	}
	return list
}

func perRank(pages []node.Sample) []RankStatus {
	list := []RankStatus{}
	for _, p := range pages {
		list = append(list, RankStatus{p.PID, abi.PhaseName(p.Phase), abi.WhereName(p.Where), p.BytesDone, p.BytesTotal, p.ResidentAdded})
	}
	return list
}

// Client speaks to a running job, by one connection for each question.
type Client struct{ socket string }

// Dial returns a client for the job with that run directory.
func Dial(runDir string) *Client { return &Client{filepath.Join(runDir, ControlSocket)} }

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, ErrNotRunning
	}
	if err := checkPeer(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Answers says whether somebody listens at the control socket of a run directory.
func Answers(runDir string) bool {
	c, err := net.DialTimeout("unix", filepath.Join(runDir, ControlSocket), 5*time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// ErrForeign means that a process of another user answers.
var ErrForeign = errors.New("another user's process answers")

// checkPeer says whether the process at the other end of a connection runs under our own user id.
func checkPeer(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("coordsrv: control socket: found a connection of %T", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return fmt.Errorf("coordsrv: control socket: %w", err)
	}
	var cred *syscall.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("coordsrv: control socket: %w", err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("coordsrv: control socket: uid %d, wanted %d: %w", cred.Uid, os.Geteuid(), ErrForeign)
	}
	return nil
}

// ownPeers is a listener that hears processes of our own user alone.
type ownPeers struct{ net.Listener }

func (l ownPeers) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || checkPeer(c) == nil {
			return c, err
		}
		c.Close()
	}
}

// longestAnswer bounds what is read from a job: 100,000 ranks need a fifth of it.
const longestAnswer = 64 << 20

// ErrNotRunning means that nobody answers at the control socket, or that who answered has gone.
var ErrNotRunning = errors.New("the job does not run")

// gone says that the job ended while it was asked.
func gone(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("coordsrv: %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://job"+path, bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("coordsrv: %s: %w", path, err)
	}
	switch err := c.exchange(req, out); {
	case err == nil, errors.Is(err, ErrNotRunning):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("coordsrv: %s: %w", path, ctx.Err())
	case errors.Is(err, ErrForeign):
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	case gone(err):
		return ErrNotRunning
	default:
		return fmt.Errorf("coordsrv: %s: %w", path, err)
	}
}

// exchange sends a request and reads the answer into out.
func (c *Client) exchange(req *http.Request, out any) error {
	conn, err := c.dial(req.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(req.Context(), func() { conn.Close() })()
	req.Close = true
	if err := req.Write(conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, longestAnswer)), req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// Status asks for the job's state.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var st Status
	err := c.call(ctx, "GET", "/v1/status", struct{}{}, &st)
	return st, err
}

// Checkpoint asks for a checkpoint and waits for it.
func (c *Client) Checkpoint(ctx context.Context, req CheckpointRequest) (coord.Result, error) {
	var res coord.Result
	err := c.call(ctx, "POST", "/v1/checkpoint", req, &res)
	return res, err
}

// Kill ends the job without a checkpoint.
func (c *Client) Kill(ctx context.Context) error {
	return c.call(ctx, "POST", "/v1/kill", struct{}{}, &struct{}{})
}
