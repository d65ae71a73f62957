package mover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

// ahead is how many pieces a link from another member reads ahead, besides the one that is on its way into the queue.
const ahead = 1

// pool is pieces that are free. There are as many in all as were ever in use at once: that is bounded by what the queues hold and
// who works on one piece each.
type pool struct {
	mu   sync.Mutex
	free []*bulk.Frame
	made int
}

func (p *pool) get() *bulk.Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	p.made++
	return bulk.NewFrame()
}

func (p *pool) put(f *bulk.Frame) {
	if f == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, f)
}

// send gives the piece at hand to the link.
func (r *run) send(s redset.Step) error {
	queue := r.out[s.Peer]
	if queue == nil {
		queue = make(chan *bulk.Frame, len(r.Peers)-1)
		r.out[s.Peer] = queue
		r.tasks.Go(func() {
			if err := r.sender(s.Peer, queue); err != nil {
				r.fail(fmt.Errorf("send to member %d: %w", s.Peer, err))
			}
		})
	}
	if r.Increment {
		r.hand.Resize(pack(r.hand.Body()))
	}
	n := len(r.hand.Body())
	select {
	case queue <- r.hand:
		r.hand = nil
		r.sent += int64(n)
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// sender sends what comes in the queue, then says that this is the end.
func (r *run) sender(peer int, queue <-chan *bulk.Frame) error {
	to := r.Peers[peer]
	s, err := bulk.Dial(r.ctx, to.Address, bulk.Link{Transfer: r.ID, From: r.Me, To: peer}, to.Out, r.Mode)
	if err != nil {
		return err
	}
	for f := range queue {
		if err := s.Send(f); err != nil {
			return err // which has closed it
		}
		r.pieces.put(f)
	}
	if err := context.Cause(r.ctx); err != nil { // the queue was closed early
		return errors.Join(err, s.Close())
	}
	return s.Finish()
}

// receive takes the next piece of the link.
func (r *run) receive(s redset.Step) error {
	queue := r.in[s.Peer]
	if queue == nil {
		queue = make(chan *bulk.Frame, ahead)
		r.in[s.Peer] = queue
		r.tasks.Go(func() {
			defer close(queue)
			if err := r.receiver(s.Peer, queue); err != nil {
				r.fail(fmt.Errorf("receive from member %d: %w", s.Peer, err))
			}
		})
	}
	r.pieces.put(r.hand)
	var ok bool
	select {
	case r.hand, ok = <-queue:
	case <-r.ctx.Done():
	}
	switch {
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	case !ok:
		return errors.New("it has sent all, wanted more")
	}
	n := len(r.hand.Body())
	if n == s.Length {
		return nil
	}
	if r.Increment && n < s.Length {
		r.hand.Resize(s.Length)
		if unpack(r.hand.Body(), n) {
			return nil
		}
	}
	return fmt.Errorf("a piece of %d bytes, wanted %d", n, s.Length)
}

// receiver puts what comes into the queue, until its sender says that this is the end.
func (r *run) receiver(peer int, queue chan<- *bulk.Frame) (err error) {
	link := bulk.Link{Transfer: r.ID, From: peer, To: r.Me}
	from, err := r.port.Accept(r.ctx, link, r.Peers[peer].In, r.Mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	for {
		f := r.pieces.get()
		err := from.Receive(f)
		if errors.Is(err, io.EOF) {
			r.pieces.put(f)
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case queue <- f:
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
}
