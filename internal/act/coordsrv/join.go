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

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/control"
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

// acceptRest is how long the listener rests after an error: descriptors that are missing may come back.
const acceptRest = 100 * time.Millisecond

// maxUnproved is how many connections may be there that have not shown a key of the job yet; others wait for their turn, and none
// takes longer than the control protocol lets it.
const maxUnproved = 64

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

// departed is what the loop hears when a connection is over.
type departed struct{ why string }

// describe says how the end of a connection was noticed.
func describe(err error, p control.Patience) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Sprintf("silent for %v", p)
	}
	return "its connection is closed"
}

// joinOthers starts the agents on all nodes, and waits until they have come.
func (a *agents) joinOthers() error {
	authority, err := control.NewAuthority()
	if err != nil {
		return err
	}
	self, err := authority.Coordinator()
	if err != nil {
		return err
	}
	l, address, err := a.opt.Listen()
	if err != nil {
		return fmt.Errorf("coordsrv: socket for the agents: %w", err)
	}
	a.remote = &remote{authority: authority, self: self, listener: l, address: address, missing: map[string]*peer{}}
	for _, h := range a.opt.Hosts {
		p := &peer{name: h.Name, group: h.Group}
		a.list, a.remote.missing[h.Name] = append(a.list, p), p
	}
	a.wg.Go(a.acceptAgents)
	ended := make(chan absence, len(a.opt.Hosts))
	for i, h := range a.opt.Hosts {
		if err := a.startAgent(h, a.list[i], ended); err != nil {
			ended <- absence{a.list[i], err.Error()}
		}
	}
	if err := a.awaitAgents(ended); err != nil {
		return err
	}
	return a.choose()
}

// startAgent starts one, which says by ended that it is over.
func (a *agents) startAgent(h Host, p *peer, ended chan<- absence) error {
	id, err := a.remote.authority.Node(h.Name)
	if err != nil {
		return err
	}
	b := agent.Brief{Byssus: a.opt.Version, Coordinator: []string{a.remote.address}, Identity: id,
		Job: a.opt.Job.Meta, Dir: a.opt.Job.Dir, Term: a.opt.Job.Term, RunDir: a.opt.RunDir + "." + h.Name,
		Node: h.Name, Fault: a.opt.Fault, Patience: a.opt.Patience, Rank: a.opt.Spec.Program}
	if len(a.opt.Spec.App) > 0 {
		b.App, b.Path = a.opt.Spec.App[0], pathOf(a.opt.Environ)
	}
	if a.opt.Caches != nil {
		b.Cache, b.Scavenge = a.opt.Caches.Dir, a.opt.Caches.Scavenge
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
	a.wg.Go(func() {
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
func (a *agents) awaitAgents(ended <-chan absence) error {
	limit := time.After(joinLimit)
	for wait := true; wait && len(a.remote.missing) > 0; {
		select {
		case f := <-a.queries:
			f()
		case e := <-ended:
			e.p.absent = e.why
			delete(a.remote.missing, e.p.name)
			wait = a.spare(e.p)
		case sig := <-a.opt.Signals:
			if EndsWaiting(sig) {
				return interrupted{sig.(syscall.Signal), "all agents had come"}
			}
		case <-limit:
			for _, p := range a.remote.missing {
				p.absent = fmt.Sprintf("no agent has come within %v", joinLimit)
			}
			wait = false
		}
	}
	return nil
}

// spare says whether a node is one of those on which nothing runs at first.
func (a *agents) spare(p *peer) bool { return slices.Index(a.list, p) >= len(a.list)-a.opt.Spares }

// choose leaves out what cannot be used, when the job can do without.
func (a *agents) choose() error {
	var list []candidate
	defer clear(a.remote.missing)
	for _, p := range a.list {
		list = append(list, candidate{p.name, a.spare(p), a.remote.missing[p.name] == nil, p.absent, p.traits})
	}
	reasons, err := fit(list)
	if err != nil {
		return err
	}
	var use []*peer
	for i, p := range a.list {
		if reasons[i] == "" {
			use = append(use, p)
			continue
		}
		a.opt.Say(fmt.Sprintf("spare %s is not used: %s", p.name, reasons[i]))
		a.opt.Spares--
		a.dismiss(p)
	}
	a.list = use
	return nil
}

// dismiss ends the agent of a node that is not used, if there is one.
func (a *agents) dismiss(p *peer) {
	p.gone = true
	if p.end == nil {
		return
	}
	if p.close != nil {
		p.close(false)
	}
	a.wg.Go(func() {
		if p.close != nil {
			select {
			case <-p.over: // it tidies up
			case <-time.After(leaveLimit):
			}
		}
		p.end()
	})
}

// acceptAgents takes the connections of agents until the listener is closed.
func (a *agents) acceptAgents() {
	unproved := make(chan struct{}, maxUnproved)
	for {
		select {
		case unproved <- struct{}{}:
		case <-a.stop:
			return
		}
		c, err := a.remote.listener.Accept()
		if err != nil {
			<-unproved
		}
		switch {
		case err == nil:
			a.wg.Go(func() {
				if err := a.welcome(c, func() { <-unproved }); err != nil {
					a.ask(func() { a.opt.Say(err.Error()) })
					c.Close()
				}
			})
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-time.After(acceptRest):
			case <-a.stop:
				return
			}
		}
	}
}

// stranger tells of a connection that could not be proved: once, since whoever scans ports makes many.
func (a *agents) stranger(err error) {
	if !a.remote.told {
		a.remote.told = true
		a.opt.Say(fmt.Sprintf("somebody without a key of this job was turned away: %v (others are not told of)", err))
	}
}

// welcome proves a connection, calls proved when that is done, and makes it that of the node's peer.
func (a *agents) welcome(c net.Conn, proved func()) error {
	conn, name, err := control.Accept(context.Background(), c, a.remote.self, a.opt.Patience)
	proved()
	if err != nil {
		a.ask(func() { a.stranger(err) })
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
	if !a.ask(func() { p = a.enlist(name, conn, joined) }) || p == nil {
		return fmt.Errorf("coordsrv: node %s: an agent has come that is not expected", name)
	}
	a.receive(conn, p)
	return nil
}

// enlist makes a connection that of a node whose agent has not come yet, nil: there is none.
func (a *agents) enlist(name string, conn *control.Conn, joined control.Joined) *peer {
	p := a.remote.missing[name]
	if p == nil {
		return nil
	}
	delete(a.remote.missing, name)
	out := control.NewOutbox(conn)
	p.pid, p.seen, p.pieces, p.held = joined.PID, joined.Seen, joined.Pieces, joined.Held
	p.last, p.writes = joined.Last, joined.Written
	p.heard.Store(time.Now().UnixNano())
	p.traits = joined.Traits
	for _, why := range joined.Damaged {
		a.opt.Say(fmt.Sprintf("node %s: what is in its cache is left out: %s", name, why))
	}
	if joined.Weak != "" && !a.remote.weak {
		a.remote.weak = true
		a.opt.Say(fmt.Sprintf("node %s, and maybe others: %s", name, joined.Weak))
	}
	p.hear = out.Put
	p.close = func(forget bool) {
		out.Put(control.Message{Body: control.Leave{Forget: forget}})
		out.Close()
	}
	return p
}

// receive hands on what an agent says until the connection is over.
func (a *agents) receive(conn *control.Conn, p *peer) {
	for {
		m, err := conn.Receive()
		if err != nil {
			a.inbox.put(said{p, control.Message{Body: departed{describe(err, a.opt.Patience)}}})
			return
		}
		p.heard.Store(time.Now().UnixNano())
		if _, alive := m.Body.(control.Alive); !alive {
			a.inbox.put(said{p, m})
		}
	}
}

// leave ends the agents, when they have done what was ordered, and returns those that have not tidied up, with why.
func (a *agents) leave(forget bool) (untidy []string) {
	for _, p := range a.list {
		if p.close != nil && !p.gone {
			p.close(forget)
		}
	}
	if a.remote != nil {
		a.remote.listener.Close()
	}
	limit, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	for _, p := range a.list {
		if p.end == nil {
			continue
		}
		if p.hear != nil && !p.gone {
			if err := p.tidies(limit.Done()); err != nil {
				untidy = append(untidy, fmt.Sprintf("node %s: its agent may not have tidied up: %v", p.name, err))
			}
		}
		p.end()
	}
	return untidy
}
