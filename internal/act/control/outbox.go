package control

import "sync"

// Outbox sends what is to be said, in order, and beats when there is nothing.
type Outbox struct {
	mu     sync.Mutex
	wake   *sync.Cond
	list   []Message
	closed bool
	done   chan struct{}
	beat   chan struct{}
}

// NewOutbox begins to send.
func NewOutbox(c *Conn) *Outbox {
	o := &Outbox{done: make(chan struct{}), beat: make(chan struct{})}
	o.wake = sync.NewCond(&o.mu)
	go c.Heartbeat(o.beat)
	go o.send(c)
	return o
}

// Put does not wait.
func (o *Outbox) Put(m Message) {
	o.mu.Lock()
	o.list = append(o.list, m)
	o.mu.Unlock()
	o.wake.Signal()
}

// Close returns when everything is sent that was put, or cannot be.
func (o *Outbox) Close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.wake.Signal()
	<-o.done
	close(o.beat)
}

func (o *Outbox) send(c *Conn) {
	defer close(o.done)
	for {
		o.mu.Lock()
		for len(o.list) == 0 && !o.closed {
			o.wake.Wait()
		}
		list := o.list
		o.list = nil
		o.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for _, m := range list {
			if c.Send(m) != nil {
				return // who receives notices it, too
			}
		}
	}
}
