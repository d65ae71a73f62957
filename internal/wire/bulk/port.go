package bulk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// limits are those of a port for connections that nobody has accepted.
type limits struct {
	most  int           // how many that have not shown their hello, and how many that have
	grace time.Duration // for which each may stay, when more come
	hello time.Duration // until the hello has come
	rest  time.Duration // when there are no descriptors for more
}

func usual() limits {
	return limits{most: 64, grace: time.Second, hello: 30 * time.Second, rest: 100 * time.Millisecond}
}

// guest is a connection that nobody has accepted.
type guest struct {
	conn  net.Conn
	came  time.Time
	gone  chan struct{} // closed when it is no guest any more
	idle  chan struct{} // closed when the port reads it no more
	hello [helloBytes]byte
	link  Link // from here on: when it has shown its hello
	mode  Mode
	shown bool
}

// waiter is a call of Accept, or the Receiver that it has returned.
type waiter struct {
	*seal
	got   chan *guest // of one
	taken bool
}

// Port is where the streams to an agent arrive.
type Port struct {
	l       net.Listener
	limits  limits
	done    chan struct{} // closed when it has ended
	tasks   sync.WaitGroup
	mu      sync.Mutex
	err     error    // why it has ended
	guests  []*guest // in the order of their coming
	waiters map[Link]*waiter
}

// NewPort serves a listener until Close.
func NewPort(l net.Listener) *Port { return newPort(l, usual()) }

func newPort(l net.Listener, limits limits) *Port {
	p := &Port{l: l, limits: limits, done: make(chan struct{}), waiters: map[Link]*waiter{}}
	p.tasks.Go(p.serve)
	return p
}

// Address is that of the listener.
func (p *Port) Address() string { return p.l.Addr().String() }

// Close ends the port, waiting calls of Accept, and connections that nobody has accepted. Receivers stay.
func (p *Port) Close() {
	p.end(net.ErrClosed)
	_ = p.l.Close() // nothing is lost with it
	p.tasks.Wait()
}

func (p *Port) end(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	p.err = why
	close(p.done)
	for len(p.guests) > 0 {
		p.dismiss(p.guests[0])
	}
}

// serve takes connections. Descriptors that are missing may come back; any other error of the listener is its end.
func (p *Port) serve() {
	for {
		conn, err := p.l.Accept()
		switch {
		case err == nil:
			p.enter(conn)
		case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
			select {
			case <-time.After(p.limits.rest):
			case <-p.done:
				return
			}
		default:
			p.end(err)
			return
		}
	}
}

// enter makes a connection a guest, when there is room.
func (p *Port) enter(conn net.Conn) {
	for {
		wait, gone := p.tryEnter(conn)
		if wait <= 0 {
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-gone:
		case <-p.done:
		}
		t.Stop()
	}
}

// tryEnter makes room by the oldest that has not shown its hello, which an honest one does at once. It says how long that
// one may still stay, if it may, and what tells that it has gone.
func (p *Port) tryEnter(conn net.Conn) (time.Duration, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		_ = conn.Close() // nothing is lost with it
		return 0, nil
	}
	if oldest, n := p.oldest(false); n >= p.limits.most {
		if left := p.limits.grace - time.Since(oldest.came); left > 0 {
			return left, oldest.gone
		}
		p.dismiss(oldest)
	}
	g := &guest{conn: conn, came: time.Now(), gone: make(chan struct{}), idle: make(chan struct{})}
	p.guests = append(p.guests, g)
	p.tasks.Go(func() { p.greet(g) })
	return 0, nil
}

// oldest is the first of those that have shown their hello, or have not, and how many these are. The lock is held.
func (p *Port) oldest(shown bool) (*guest, int) {
	var first *guest
	n := 0
	for _, g := range p.guests {
		if g.shown == shown {
			if n++; n == 1 {
				first = g
			}
		}
	}
	return first, n
}

// greet looks after a guest until it is none any more. Nothing may come behind the hello before it is accepted: what the read
// tells is that the other side has given up, or that the port is through with it.
func (p *Port) greet(g *guest) {
	defer close(g.idle)
	if p.read(g) == nil && p.show(g) {
		_, _ = g.conn.Read(make([]byte, 1)) // whatever it says
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dismiss(g)
}

func (p *Port) read(g *guest) error {
	if err := g.conn.SetReadDeadline(time.Now().Add(p.limits.hello)); err != nil {
		return err
	}
	_, err := io.ReadFull(g.conn, g.hello[:])
	return err
}

// show brings a guest whose hello has come to the call that waits for it. It says whether the guest may stay.
func (p *Port) show(g *guest) bool {
	b := g.hello[:]
	if binary.LittleEndian.Uint32(b) != magic || binary.LittleEndian.Uint16(b[4:]) != version {
		return false
	}
	g.mode = Mode(binary.LittleEndian.Uint16(b[6:]))
	link := Link{Transfer: binary.LittleEndian.Uint64(b[8:]),
		From: int(binary.LittleEndian.Uint32(b[16:])), To: int(binary.LittleEndian.Uint32(b[20:]))}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.waiters[link]; c != nil {
		return p.take(g, c)
	}
	if oldest, n := p.oldest(true); n >= p.limits.most {
		p.dismiss(oldest)
	}
	g.link, g.shown = link, true
	return g.conn.SetReadDeadline(time.Time{}) == nil
}

// take gives a guest to a waiter, if it is the right one. The lock is held.
func (p *Port) take(g *guest, c *waiter) bool {
	if c.taken || g.mode != c.mode || !slices.Contains(p.guests, g) || !c.opens(g) {
		return false
	}
	if g.conn.SetReadDeadline(time.Unix(1, 0)) != nil { // wakes who reads it
		return false
	}
	c.taken = true
	p.remove(g)
	c.got <- g
	return true
}

// opens says whether a hello is sealed with the key of the waiter. If not, the first frame is still to come.
func (c *waiter) opens(g *guest) bool {
	copy(c.buf, g.hello[:])
	kind, _, err := c.parse(c.buf[preambleBytes:])
	if err == nil {
		err = c.open()
	}
	if err != nil || kind != kindHello {
		c.frame = 0
		return false
	}
	return true
}

// remove ends somebody's being a guest. The lock is held.
func (p *Port) remove(g *guest) {
	i := slices.Index(p.guests, g)
	p.guests = slices.Delete(p.guests, i, i+1)
	close(g.gone)
}

// dismiss closes the connection of a guest, if it is one. The lock is held.
func (p *Port) dismiss(g *guest) {
	if slices.Contains(p.guests, g) {
		p.remove(g)
		_ = g.conn.Close() // nothing is lost with it
	}
}

// Accept waits for the stream of a link. The context is that of the stream: its end ends it. A connection for the same link
// that comes while this one is open is refused.
func (p *Port) Accept(ctx context.Context, link Link, key Key, mode Mode) (*Receiver, error) {
	s, err := newSeal(link, key, mode)
	if err != nil {
		return nil, err
	}
	c := &waiter{seal: s, got: make(chan *guest, 1)}
	if err := p.await(c); err != nil {
		return nil, fmt.Errorf("bulk: %v: accept: %w", link, err)
	}
	select {
	case g := <-c.got:
		<-g.idle
		r := &Receiver{newEnd(ctx, g.conn, s), func() { p.leave(c) }}
		if err := r.answer(); err != nil {
			p.leave(c)
			return nil, err
		}
		return r, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.done:
		err = p.why()
	}
	p.leave(c)
	return nil, fmt.Errorf("bulk: %v: accept: %w", link, err)
}

func (p *Port) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// await looks among the guests for the right one. All others of that link go.
func (p *Port) await(c *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if p.waiters[c.link] != nil {
		return ErrTwice
	}
	p.waiters[c.link] = c
	for _, g := range slices.Clone(p.guests) {
		if g.shown && g.link == c.link && !p.take(g, c) {
			p.dismiss(g)
		}
	}
	return nil
}

// leave ends a waiter. What was given to it at the last moment is closed.
func (p *Port) leave(c *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiters[c.link] == c {
		delete(p.waiters, c.link)
	}
	select {
	case g := <-c.got:
		_ = g.conn.Close() // nothing is lost with it
	default:
	}
}
