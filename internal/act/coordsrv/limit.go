package coordsrv

import (
	"net"
	"sync"
)

// maxClients is how many connections to the control socket are served at the same time; others wait for their turn.
const maxClients = 256

// limited is a listener that hands out a bounded number of open connections, so that no number of clients uses up the
// descriptors or the memory of the job's byssus.
type limited struct {
	net.Listener
	slots chan struct{}
}

func limit(l net.Listener, n int) limited { return limited{l, make(chan struct{}, n)} }

func (l limited) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &counted{Conn: c, done: func() { <-l.slots }}, nil
}

// counted gives its slot back when it is closed.
type counted struct {
	net.Conn
	once sync.Once
	done func()
}

func (c *counted) Close() error {
	c.once.Do(c.done)
	return c.Conn.Close()
}
