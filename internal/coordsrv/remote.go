package coordsrv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/agent"
	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/coord"
	"github.com/byssus-hpc/byssus/internal/node"
	"github.com/byssus-hpc/byssus/internal/pmi"
	"github.com/byssus-hpc/byssus/internal/timeline"
)

// Host is a node on which the job may run, as the resource manager hands it out.
type Host struct {
	Name  string
	Group string // what fails together with it; empty: nothing
	// Start starts an agent there, which reads its brief from stdin. It ends with its node, and when end is called.
	Start func(stdin io.Reader) (wait func() error, end func(), err error)
}

// joinLimit is how long agents may take to come: it is for hangs.
const joinLimit = time.Minute

// remote is what is needed to speak with agents elsewhere.
type remote struct {
	authority *control.Authority
	self      control.Identity
	listener  net.Listener
	address   string // at which the agents reach it
	missing   map[string]*peer
	told      bool // that somebody was turned away
	weak      bool // it was said of a node that what counts in its cache may be lost with power
}

// joinOthers starts the agents on all nodes, and waits until they have come.
func (s *Server) joinOthers() error {
	a, err := control.NewAuthority()
	if err != nil {
		return err
	}
	self, err := a.Coordinator()
	if err != nil {
		return err
	}
	l, address, err := s.opt.Listen()
	if err != nil {
		return fmt.Errorf("coordsrv: socket for the agents: %w", err)
	}
	s.remote = &remote{authority: a, self: self, listener: l, address: address, missing: map[string]*peer{}}
	for _, h := range s.opt.Hosts {
		p := &peer{name: h.Name, group: h.Group}
		s.peers, s.remote.missing[h.Name] = append(s.peers, p), p
	}
	s.wg.Go(s.acceptAgents)
	ended := make(chan absence, len(s.opt.Hosts))
	for i, h := range s.opt.Hosts {
		if err := s.startAgent(h, s.peers[i], ended); err != nil {
			ended <- absence{s.peers[i], err.Error()}
		}
	}
	if err := s.awaitAgents(ended); err != nil {
		return err
	}
	return s.choose()
}

// interrupted: who has started the job does not want to wait for agents any more.
type interrupted struct {
	syscall.Signal
	before string // what had come about
}

func (i interrupted) Error() string {
	return fmt.Sprintf("coordsrv: %v before %s", i.Signal, i.before)
}

// EndsWaiting says whether a signal ends a job that has not begun yet.
func EndsWaiting(sig os.Signal) bool {
	return slices.Contains([]os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP}, sig)
}

// pathOf is where an environment's programs are looked for.
func pathOf(environ []string) string {
	for _, v := range slices.Backward(environ) {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			return path
		}
	}
	return ""
}

// absence is an agent that has not come, or is gone again.
type absence struct {
	p   *peer
	why string
}

// startAgent starts one, which says by ended that it is over.
func (s *Server) startAgent(h Host, p *peer, ended chan<- absence) error {
	id, err := s.remote.authority.Node(h.Name)
	if err != nil {
		return err
	}
	b := agent.Brief{Byssus: s.opt.Version, Coordinator: []string{s.remote.address}, Identity: id,
		Job: s.opt.Job.Meta, Dir: s.opt.Job.Dir, Term: s.opt.Job.Term, RunDir: s.opt.RunDir + "." + h.Name,
		Node: h.Name, Fault: s.opt.Fault, Patience: s.opt.Patience, Rank: s.opt.Spec.Program}
	if len(s.opt.Spec.App) > 0 {
		b.App, b.Path = s.opt.Spec.App[0], pathOf(s.opt.Environ)
	}
	if s.caches != nil {
		b.Cache, b.Scavenge = s.caches.Dir, s.caches.Scavenge
	}
	brief, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("coordsrv: %w", err)
	}
	wait, end, err := h.Start(bytes.NewReader(append(brief, '\n')))
	if err != nil {
		return err
	}
	p.end, p.over = end, make(chan struct{})
	s.wg.Go(func() {
		err := wait()
		p.ended = err
		close(p.over)
		if err == nil {
			err = errors.New("exit code 0")
		}
		ended <- absence{p, fmt.Sprintf("its agent has ended: %v", err)}
	})
	return nil
}

// awaitAgents returns when all have come that may, or one cannot come without which the job does not start.
func (s *Server) awaitAgents(ended <-chan absence) error {
	limit := time.After(joinLimit)
	for wait := true; wait && len(s.remote.missing) > 0; {
		select {
		case f := <-s.queries:
			f()
		case a := <-ended:
			a.p.absent = a.why
			delete(s.remote.missing, a.p.name)
			wait = s.spare(a.p)
		case sig := <-s.opt.Signals:
			if EndsWaiting(sig) {
				return interrupted{sig.(syscall.Signal), "all agents had come"}
			}
		case <-limit:
			for _, p := range s.remote.missing {
				p.absent = fmt.Sprintf("no agent has come within %v", joinLimit)
			}
			wait = false
		}
	}
	return nil
}

// spare says whether a node is one of those on which nothing runs at first.
func (s *Server) spare(p *peer) bool { return slices.Index(s.peers, p) >= len(s.peers)-s.opt.Spares }

// choose leaves out what cannot be used, when the job can do without.
func (s *Server) choose() error {
	var list []candidate
	defer clear(s.remote.missing)
	for _, p := range s.peers {
		list = append(list, candidate{p.name, s.spare(p), s.remote.missing[p.name] == nil, p.absent, p.traits})
	}
	reasons, err := fit(list)
	if err != nil {
		return err
	}
	var use []*peer
	for i, p := range s.peers {
		if reasons[i] == "" {
			use = append(use, p)
			continue
		}
		s.opt.Say(fmt.Sprintf("spare %s is not used: %s", p.name, reasons[i]))
		s.opt.Spares--
		s.dismiss(p)
	}
	s.peers = use
	return nil
}

// dismiss ends the agent of a node that is not used, if there is one.
func (s *Server) dismiss(p *peer) {
	p.gone = true
	if p.end == nil {
		return
	}
	if p.close != nil {
		p.close(false)
	}
	s.wg.Go(func() {
		if p.close != nil {
			select {
			case <-p.over: // it tidies up
			case <-time.After(leaveLimit):
			}
		}
		p.end()
	})
}

// acceptRest is how long the listener rests after an error: descriptors that are missing may come back.
const acceptRest = 100 * time.Millisecond

// maxUnproved is how many connections may be there that have not shown a key of the job yet; others wait for their turn, and none
// takes longer than the control protocol lets it.
const maxUnproved = 64

// acceptAgents takes the connections of agents until the listener is closed.
func (s *Server) acceptAgents() {
	unproved := make(chan struct{}, maxUnproved)
	for {
		select {
		case unproved <- struct{}{}:
		case <-s.stop:
			return
		}
		c, err := s.remote.listener.Accept()
		if err != nil {
			<-unproved
		}
		switch {
		case err == nil:
			s.wg.Go(func() {
				if err := s.welcome(c, func() { <-unproved }); err != nil {
					s.ask(func() { s.opt.Say(err.Error()) })
					c.Close()
				}
			})
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-time.After(acceptRest):
			case <-s.stop:
				return
			}
		}
	}
}

// stranger tells of a connection that could not be proved: once, since whoever scans ports makes many.
func (s *Server) stranger(err error) {
	if !s.remote.told {
		s.remote.told = true
		s.opt.Say(fmt.Sprintf("somebody without a key of this job was turned away: %v (others are not told of)", err))
	}
}

// welcome proves a connection, calls proved when that is done, and makes it that of the node's peer.
func (s *Server) welcome(c net.Conn, proved func()) error {
	conn, name, err := control.Accept(context.Background(), c, s.remote.self, s.opt.Patience)
	proved()
	if err != nil {
		s.ask(func() { s.stranger(err) })
		c.Close()
		return nil
	}
	m, err := firstWord(conn)
	if err != nil {
		return err
	}
	joined, ok := m.Body.(control.Joined)
	if !ok {
		return fmt.Errorf("coordsrv: node %s: its agent begins with %T, wanted control.Joined", name, m.Body)
	}
	var p *peer
	if !s.ask(func() { p = s.enlist(name, conn, joined) }) || p == nil {
		return fmt.Errorf("coordsrv: node %s: an agent has come that is not expected", name)
	}
	s.receive(conn, p)
	return nil
}

// firstWord is what an agent says first, but for its beats: on a machine that has much to do it looks at its cache for longer than a beat
// before it can say what it has. That the agent comes at all is waited for elsewhere, for a time.
func firstWord(conn *control.Conn) (control.Message, error) {
	for {
		m, err := conn.Receive()
		if _, beats := m.Body.(control.Alive); err != nil || !beats {
			return m, err
		}
	}
}

// enlist makes a connection that of a node whose agent has not come yet, nil: there is none.
func (s *Server) enlist(name string, conn *control.Conn, joined control.Joined) *peer {
	p := s.remote.missing[name]
	if p == nil {
		return nil
	}
	delete(s.remote.missing, name)
	out := control.NewOutbox(conn)
	p.pid, p.seen, p.pieces, p.last, p.held = joined.PID, joined.Seen, joined.Pieces, joined.Last, joined.Held
	p.heard.Store(time.Now().UnixNano())
	p.traits = joined.Traits
	for _, why := range joined.Damaged {
		s.opt.Say(fmt.Sprintf("node %s: what is in its cache is left out: %s", name, why))
	}
	if joined.Weak != "" && !s.remote.weak {
		s.remote.weak = true
		s.opt.Say(fmt.Sprintf("node %s, and maybe others: %s", name, joined.Weak))
	}
	p.hear = out.Put
	p.close = func(forget bool) {
		out.Put(control.Message{Body: control.Leave{Forget: forget}})
		out.Close()
	}
	return p
}

// departed is what the loop hears when a connection is over.
type departed struct{ why string }

// receive hands on what an agent says until the connection is over.
func (s *Server) receive(conn *control.Conn, p *peer) {
	for {
		m, err := conn.Receive()
		if err != nil {
			s.inbox.put(said{p, control.Message{Body: departed{describe(err, s.opt.Patience)}}})
			return
		}
		p.heard.Store(time.Now().UnixNano())
		if _, alive := m.Body.(control.Alive); !alive {
			s.inbox.put(said{p, m})
		}
	}
}

// describe says how the end of a connection was noticed.
func describe(err error, p control.Patience) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Sprintf("silent for %v", p)
	}
	return "its connection is closed"
}

// lost: an agent is gone, and its node with it as far as the job is concerned. Nobody waits for its answers.
func (s *Server) lost(p *peer, why string) {
	if p.gone {
		return
	}
	p.gone, p.lost = true, why
	if s.caches != nil && s.caches.keeper != nil {
		s.caches.keeper.Lost(slices.Index(s.peers, p))
	}
	s.lostNode(p)
	s.log.Add(timeline.Event{Kind: timeline.Lost, Start: s.number, Node: p.name, LostRanks: p.ranks,
		Noticed: time.Since(p.lastHeard()), Reason: why})
	if p.end != nil {
		p.end()
	}
	for order, a := range s.waiting {
		if a.from == p {
			s.answered(order, isLost(p, why))
		}
	}
	switch {
	case s.spread == nil:
	case s.spread.launcher == p:
		s.launched(control.Launched{Signal: 9})
	case s.spread.launcher == nil:
		for _, r := range p.ranks {
			s.exited(control.Exited{Rank: r, Signal: 9})
		}
	}
	s.step(coord.NodeLost{Name: "node " + p.name, Ranks: p.ranks, Why: why})
}

// spread is a start of ranks by agents.
type spread struct {
	nodes []*peer
	root  *pmi.Root
	left  map[int]bool // ranks that have not ended
	code  int          // of the first that ended with an error, as a shell says it

	launcher *peer    // an MPI's own launcher runs here, and has started the ranks; nil: the agents have, one by one
	environ  []string // of what it starts
}

// startSpread starts the ranks on their nodes.
func (s *Server) startSpread(command, environ []string) {
	to := s.engaged()
	at := make([]int, s.opt.Spec.Ranks)
	sp := &spread{nodes: to, root: pmi.NewRoot(len(to)), left: map[int]bool{}}
	for i, p := range to {
		for _, r := range p.ranks {
			at[r], sp.left[r] = i, true
		}
	}
	s.spread = sp
	s.order(to, func(_ *peer, order uint64) any {
		return control.Run{Order: order, Command: command, Environ: environ, Dir: s.opt.Dir, Mapping: pmi.Mapping(at), Universe: len(at)}
	}, func(answers []control.Message) {
		if why := failure(answers); why != "" && s.spread == sp {
			s.opt.Say(why)
			s.tell(control.Kill{})
		}
	})
}

// meet takes in what the PMI of a node says to the others.
func (s *Server) meet(p *peer, up pmi.Up) {
	if s.spread == nil || s.spread.root == nil {
		return
	}
	sends, events, err := s.spread.root.Step(slices.Index(s.spread.nodes, p), up)
	if err != nil {
		s.opt.Say(err.Error())
	}
	for _, send := range sends {
		for i, to := range s.spread.nodes {
			if !to.gone && (send.Node == pmi.All || send.Node == i) {
				to.hear(control.Message{Start: s.number, Body: send.Down})
			}
		}
	}
	for _, ev := range events {
		if end, ok := ev.(pmi.End); ok && end.How != pmi.Lost {
			s.failed(max(end.Code, 1))
		}
	}
}

// failed: the first rank that ends with an error ends all, as launchers do.
func (s *Server) failed(code int) {
	if s.spread.code == 0 {
		s.spread.code = code
		s.tell(control.Kill{})
	}
}

// bySignal is what a shell adds to the number of a signal.
const bySignal = 128

// diedUntold says of a rank that has died before anybody was told to end that the others end because of it. Only where agents
// start the ranks: launchers end ranks by themselves.
func (s *Server) diedUntold(r node.Report) {
	l, ok := r.(node.Lost)
	if ok && l.Untold && !l.Ended && s.spread != nil && s.spread.launcher == nil {
		s.step(coord.RankKilled{Rank: l.Rank})
	}
}

// exited: when the last rank has ended the start is over.
func (s *Server) exited(e control.Exited) {
	sp := s.spread
	if sp == nil || !sp.left[e.Rank] {
		return
	}
	delete(sp.left, e.Rank)
	switch {
	case e.Signal != 0:
		s.failed(bySignal + e.Signal)
	case e.Code != 0:
		s.failed(e.Code)
	}
	if len(sp.left) == 0 {
		s.spread = nil
		s.wg.Go(func() { s.post(coord.LauncherExit{Code: sp.code}) })
	}
}

// startLauncher starts an MPI's own launcher on the first of the nodes.
func (s *Server) startLauncher(command, environ []string) {
	to := s.engaged()
	hosts := make([]string, s.opt.Spec.Ranks)
	for _, p := range to {
		for _, r := range p.ranks {
			hosts[r] = p.name
		}
	}
	sp := &spread{nodes: to, launcher: to[0], environ: environ}
	s.spread = sp
	s.order(to[:1], func(_ *peer, order uint64) any {
		return control.Launch{Order: order, Command: command, Environ: environ, Dir: s.opt.Dir, Hosts: hosts}
	}, func(answers []control.Message) {
		if why := failure(answers); why != "" && s.spread == sp {
			s.opt.Say(why)
			s.launched(control.Launched{Code: 1})
		}
	})
}

// launched: the launcher has ended.
func (s *Server) launched(l control.Launched) {
	if s.spread == nil || s.spread.launcher == nil {
		return
	}
	s.spread = nil
	s.wg.Go(func() { s.post(coord.LauncherExit{Code: l.Code, Signal: l.Signal}) })
}

// spawn has something started on another node for the launcher.
func (s *Server) spawn(from *peer, w control.Spawn) {
	const failed = 255
	sp := s.spread
	if sp == nil || sp.launcher != from {
		return
	}
	i := slices.IndexFunc(sp.nodes, func(p *peer) bool { return p.name == w.Node && !p.gone })
	if i < 0 {
		s.opt.Say(fmt.Sprintf("coordsrv: the launcher asks for node %q, which has no ranks", w.Node))
		from.hear(control.Message{Start: s.number, Body: control.Spawned{Number: w.Number, Code: failed}})
		return
	}
	sp.nodes[i].hear(control.Message{Start: s.number, Body: control.Exec{Number: w.Number, Command: w.Command, Environ: sp.environ, Dir: s.opt.Dir}})
}

// executed: what the launcher wanted on a node has ended.
func (s *Server) executed(e control.Executed) {
	if s.spread != nil && s.spread.launcher != nil && !s.spread.launcher.gone {
		s.spread.launcher.hear(control.Message{Start: s.number, Body: control.Spawned(e)})
	}
}
