package coordsrv

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
)

// gate is a server that takes agents, as far as that is needed for taking them.
type gate struct {
	*Server
	mu   sync.Mutex
	said []string
}

// newGate expects agents of these nodes at a listener.
func newGate(t *testing.T, l net.Listener, nodes ...string) *gate {
	t.Helper()
	a, err := control.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	self, err := a.Coordinator()
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Server: newServer(Options{})}
	g.agents.remote = &remote{authority: a, self: self, listener: l, address: l.Addr().String(), missing: map[string]*peer{}}
	g.opt.Patience = control.DefaultPatience
	g.opt.Say = func(text string) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.said = append(g.said, text)
	}
	for _, n := range nodes {
		p := &peer{name: n}
		g.agents.list, g.agents.remote.missing[n] = append(g.agents.list, p), p
	}
	g.wg.Go(g.agents.acceptAgents)
	t.Cleanup(func() {
		close(g.stop)
		l.Close()
		for _, p := range g.agents.list {
			if p.close != nil {
				p.close(false)
			}
		}
		g.wg.Wait()
	})
	return g
}

// serve does what the loop does while agents are awaited.
func (g *gate) serve() {
	for {
		select {
		case f := <-g.queries:
			f()
		case <-g.stop:
			return
		}
	}
}

// join comes as an agent does.
func (g *gate) join(t *testing.T, a *control.Authority, node string) (*control.Conn, error) {
	t.Helper()
	return g.joinWith(t, a, node, control.Joined{PID: 1})
}

func (g *gate) joinWith(t *testing.T, a *control.Authority, node string, joined control.Joined) (*control.Conn, error) {
	t.Helper()
	id, err := a.Node(node)
	if err != nil {
		t.Fatal(err)
	}
	c, err := control.Dial(context.Background(), g.agents.remote.address, id, control.DefaultPatience)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	err = c.Send(control.Message{Body: control.Alive{}}) // one that has much to do before it can say what it has
	return c, errors.Join(err, c.Send(control.Message{Body: joined}))
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestTurnedAway: strangers, however many, and agents of another job are turned away, which is told in one line; who holds a key
// and is not expected, or says something else first, in a line each. Agents come in all the same.
func TestTurnedAway(t *testing.T) {
	g := newGate(t, loopback(t), "one", "two")
	other, err := control.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	go g.serve()
	for range 20 {
		c, err := net.Dial("tcp", g.agents.remote.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	}
	for range 5 {
		if c, err := g.join(t, other, "one"); err == nil {
			if m, err := c.Receive(); err == nil {
				t.Errorf("an agent of another job is told %+v", m)
			}
		}
	}
	c, err := g.join(t, g.agents.remote.authority, "three")
	if err == nil {
		_, err = c.Receive()
	}
	if err == nil {
		t.Error("a node that is not expected is let in")
	}
	for _, node := range []string{"one", "two"} {
		c, err := g.join(t, g.agents.remote.authority, node)
		if err == nil {
			_, err = c.Receive() // a beat
		}
		if err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	text := strings.Join(g.said, "\n")
	if len(g.said) != 2 || strings.Count(text, "somebody without a key of this job was turned away: control: 127.0.0.1:") != 1 ||
		strings.Count(text, "node three: an agent has come that is not expected") != 1 {
		t.Errorf("said:\n%s", text)
	}
}

// TestWeakCaches: that a loss of power may take what caches have is said once, of how many nodes ever.
func TestWeakCaches(t *testing.T) {
	g := newGate(t, loopback(t), "one", "two", "three")
	go g.serve()
	for node, weak := range map[string]string{"one": "", "two": "it is weak", "three": "it is weak"} {
		c, err := g.joinWith(t, g.agents.remote.authority, node, control.Joined{PID: 1, Weak: weak})
		if err == nil {
			_, err = c.Receive() // a beat
		}
		if err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.said) != 1 || !strings.HasSuffix(g.said[0], ", and maybe others: it is weak") || strings.Contains(g.said[0], "one,") {
		t.Errorf("said %q", g.said)
	}
}

// scarce is a listener that fails a few times, as one does that finds no descriptor.
type scarce struct {
	net.Listener
	left int
}

func (l *scarce) Accept() (net.Conn, error) {
	if l.left--; l.left >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// TestAcceptAgain: agents come in though the listener has failed before.
func TestAcceptAgain(t *testing.T) {
	g := newGate(t, &scarce{loopback(t), 3}, "one")
	go g.serve()
	c, err := g.join(t, g.agents.remote.authority, "one")
	if err == nil {
		_, err = c.Receive()
	}
	if err != nil {
		t.Error(err)
	}
}

// counting is a listener that counts what it has handed out.
type counting struct {
	net.Listener
	n atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}

// TestSilentStrangers: no number of connections that say nothing is taken in at the same time, and agents come in when they are gone.
func TestSilentStrangers(t *testing.T) {
	l := &counting{Listener: loopback(t)}
	g := newGate(t, l, "one")
	go g.serve()
	var silent []net.Conn
	for range 2 * maxUnproved {
		c, err := net.Dial("tcp", g.agents.remote.address)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	began := time.Now()
	for l.n.Load() < maxUnproved {
		time.Sleep(time.Millisecond)
	}
	if n := l.n.Load(); n > maxUnproved && time.Since(began) < time.Duration(control.DefaultPatience)/2 {
		t.Errorf("%d were taken in, at most %d", n, maxUnproved)
	}
	for _, c := range silent {
		c.Close()
	}
	for l.n.Load() < 2*maxUnproved {
		time.Sleep(time.Millisecond)
	}
	c, err := g.join(t, g.agents.remote.authority, "one")
	if err == nil {
		_, err = c.Receive()
	}
	if err != nil {
		t.Error(err)
	}
}
