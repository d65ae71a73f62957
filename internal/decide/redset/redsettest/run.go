// Package redsettest performs the plans of package redset on memory or files: goroutines are the members, channels the
// links between them. It guarantees that a plan which asks for more than redset promises a driver (links of n-1 pieces,
// lengths that both ends agree on) ends with an error instead of waiting for ever.
package redsettest

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// Store is one place of a member.
type Store struct {
	io.ReaderAt
	io.WriterAt
}

// Member is where a member reads and writes: by redset.Place.
type Member [2]Store

// Traffic is what a member has sent and received, in bytes.
type Traffic struct{ Sent, Received int64 }

// hang is how long a set may stand still.
const hang = 5 * time.Minute

// driver is one member at work.
type driver struct {
	me     int
	store  Member
	links  [][]chan []byte // from, to
	hand   []byte          // the piece at hand
	counts *Traffic
}

// Run performs the plan of each member at the same time. The first error is returned.
func Run(members []Member, plan func(me int) iter.Seq[redset.Step]) ([]Traffic, error) {
	n := len(members)
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	links := make([][]chan []byte, n)
	for from := range links {
		for range n {
			links[from] = append(links[from], make(chan []byte, n-1))
		}
	}
	traffic, errs := make([]Traffic, n), make(chan error, n)
	for me := range members {
		d := &driver{me: me, store: members[me], links: links, counts: &traffic[me]}
		go func() { errs <- d.run(ctx, plan(me)) }()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	for from := range links {
		for to, link := range links[from] {
			if len(link) > 0 && first == nil {
				first = fmt.Errorf("redsettest: %d pieces from %d to %d were not received", len(link), from, to)
			}
		}
	}
	return traffic, first
}

func (d *driver) run(ctx context.Context, plan iter.Seq[redset.Step]) error {
	for s := range plan {
		if err := d.step(ctx, s); err != nil {
			return fmt.Errorf("redsettest: member %d: %+v: %w", d.me, s, err)
		}
	}
	return nil
}

func (d *driver) step(ctx context.Context, s redset.Step) error {
	if s.Length < 1 || s.Length > redset.Piece || s.Op != redset.Read && s.Op != redset.Receive && len(d.hand) != s.Length {
		return fmt.Errorf("a piece of %d bytes is at hand", len(d.hand))
	}
	switch s.Op {
	case redset.Read:
		d.hand = make([]byte, s.Length)
		_, err := d.store[s.In].ReadAt(d.hand, s.Offset)
		return err
	case redset.Add:
		own := make([]byte, s.Length)
		_, err := d.store[s.In].ReadAt(own, s.Offset)
		subtle.XORBytes(d.hand, d.hand, own)
		return err
	case redset.Write:
		_, err := d.store[s.In].WriteAt(d.hand, s.Offset)
		return err
	case redset.Send:
		d.counts.Sent += int64(s.Length)
		select {
		case d.links[d.me][s.Peer] <- d.hand:
			d.hand = nil
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case redset.Receive:
		select {
		case d.hand = <-d.links[s.Peer][d.me]:
		case <-ctx.Done():
			return ctx.Err()
		}
		if d.counts.Received += int64(s.Length); len(d.hand) != s.Length {
			return fmt.Errorf("a piece of %d bytes came", len(d.hand))
		}
		return nil
	}
	return fmt.Errorf("no such step")
}
