// Package mover performs the plans of package redset: it reads and writes a member's places, and sends pieces to the other
// members of its set and receives theirs, over streams of package bulk.
//
// It guarantees: when Run returns nil, the whole plan is done, all that the member had to send was handed to the kernel, and
// each member that sent to it has said that there is no more. Else the error is the first cause, with the member and the step
// or the link at fault. Any error ends everything of that Run, its links too, by which the others notice; the context does
// the same. When Run returns, its goroutines have ended, and nothing uses the places any more.
//
// The goroutine that calls Run performs the steps in their order and is the only one that touches places. Each link has a
// goroutine besides, and is opened when the plan first uses it: one to another member seals and writes, behind a queue of one
// piece less than the set has members, as plans want it; one from another member reads up to two pieces ahead.
//
// Memory: of pieces, no more than members * redset.Piece for each link and three more, whatever the lengths of the parts, made
// when they are first needed. A piece is a frame of package bulk: nothing is copied between reading it and sending it.
//
// Several members of a set may be on one agent, each with its Run, all with one port: links are told apart by transfer and
// both members. No lock is held for a wait.
package mover

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

const _ = uint(bulk.MaxFrame - redset.Piece) // a piece has room in a frame

// Places are what a member reads and writes, by redset.Place. Those that its plan does not use may be nil.
type Places struct {
	Read  [2]io.ReaderAt
	Write [2]io.WriterAt
	Base  [2]io.ReaderAt // of an increment: what Read, or Write, was in the older dataset
}

// Peer is how another member of the set is reached: the address of its agent's port, and the keys of the links to it (Out)
// and from it (In). It comes from the coordinator; what is Out for one side is In for the other.
type Peer struct {
	Address string
	Out, In bulk.Key
}

// Transfer is one performance of a plan by the members of a set, each of which has its own Transfer. No other has its number.
type Transfer struct {
	ID    uint64
	Me    int // the member
	Mode  bulk.Mode
	Peers []Peer // by member; that of Me is not used
	// Increment: what is moved is the difference (XOR) of each piece to what all members have in the same place of an older dataset (Base).
	// All plans that make redundancy are sums, or copies, so that what comes out is the difference of that. Blocks without a difference are not sent.
	Increment bool `json:",omitempty"`
}

func (t *Transfer) check() error {
	if t.Me < 0 || t.Me >= len(t.Peers) || len(t.Peers) > redset.MaxMembers {
		return fmt.Errorf("%d members, at most %d", len(t.Peers), redset.MaxMembers)
	}
	return nil
}

// run is a member at work.
type run struct {
	Transfer
	port   *bulk.Port
	at     Places
	sent   int64 // bytes of pieces, as they were sent
	ctx    context.Context
	fail   context.CancelCauseFunc  // the first call counts
	tasks  sync.WaitGroup           // of the links
	out    map[int]chan *bulk.Frame // by member
	in     map[int]chan *bulk.Frame
	pieces pool
	hand   *bulk.Frame // the piece at hand; nil: none yet
	own    *bulk.Frame // what is added
	base   *bulk.Frame // what an increment adds to
}

// Run performs a member's plan. It returns how many bytes of pieces it has sent.
func Run(ctx context.Context, port *bulk.Port, t Transfer, steps iter.Seq[redset.Step], at Places) (sent int64, err error) {
	r := newRun(ctx, port, t, at)
	err = r.perform(steps)
	return r.sent, err
}

func newRun(ctx context.Context, port *bulk.Port, t Transfer, at Places) *run {
	r := &run{Transfer: t, port: port, at: at, out: map[int]chan *bulk.Frame{}, in: map[int]chan *bulk.Frame{}}
	r.ctx, r.fail = context.WithCancelCause(ctx)
	return r
}

func (r *run) perform(steps iter.Seq[redset.Step]) error {
	defer r.fail(nil)
	err := r.check()
	if err == nil {
		err = r.steps(steps)
	}
	if err != nil {
		r.fail(err)
	}
	for _, queue := range r.out {
		close(queue)
	}
	if err := r.ends(); err != nil {
		r.fail(err)
	}
	r.tasks.Wait()
	if err := context.Cause(r.ctx); err != nil {
		return fmt.Errorf("mover: transfer %d: member %d: %w", r.ID, r.Me, err)
	}
	return nil
}

func (r *run) steps(steps iter.Seq[redset.Step]) error {
	for s := range steps {
		err := context.Cause(r.ctx)
		if err == nil {
			err = r.step(s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name(s), err)
		}
	}
	return nil
}

// ends waits for the end of each link from another member.
func (r *run) ends() error {
	for peer, queue := range r.in {
		select {
		case f, ok := <-queue:
			if ok {
				return fmt.Errorf("receive from member %d: another piece of %d bytes, wanted the end", peer, len(f.Body()))
			}
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
	return nil
}

// name says what a step is, for errors.
func name(s redset.Step) string {
	place := fmt.Sprintf("place %d", s.In)
	switch s.In {
	case redset.Part:
		place = "part"
	case redset.Redundancy:
		place = "redundancy"
	}
	switch s.Op {
	case redset.Read:
		return fmt.Sprintf("read %d bytes of the %s at %d", s.Length, place, s.Offset)
	case redset.Add:
		return fmt.Sprintf("add %d bytes of the %s at %d", s.Length, place, s.Offset)
	case redset.Write:
		return fmt.Sprintf("write %d bytes of the %s at %d", s.Length, place, s.Offset)
	case redset.Send:
		return fmt.Sprintf("send %d bytes to member %d", s.Length, s.Peer)
	case redset.Receive:
		return fmt.Sprintf("receive %d bytes from member %d", s.Length, s.Peer)
	}
	return fmt.Sprintf("step of kind %d", s.Op)
}

var errStep = errors.New("not a step of a plan")

// possible says whether a step can be done at all: plans are made, not received, so this is about the caller.
func (r *run) possible(s redset.Step) error {
	if s.Length < 1 || s.Length > redset.Piece {
		return fmt.Errorf("%w: a piece has 1 to %d bytes", errStep, redset.Piece)
	}
	if s.Op != redset.Read && s.Op != redset.Receive {
		at := 0
		if r.hand != nil {
			at = len(r.hand.Body())
		}
		if at != s.Length {
			return fmt.Errorf("%w: a piece of %d bytes is at hand", errStep, at)
		}
	}
	switch s.Op {
	case redset.Read, redset.Add, redset.Write:
		if s.In != redset.Part && s.In != redset.Redundancy {
			return errStep
		}
		if s.Op == redset.Write && r.at.Write[s.In] == nil || s.Op != redset.Write && r.at.Read[s.In] == nil || r.Increment && r.at.Base[s.In] == nil {
			return errors.New("the member does not have it")
		}
		return nil
	case redset.Send, redset.Receive:
		if s.Peer < 0 || s.Peer >= len(r.Peers) || s.Peer == r.Me {
			return fmt.Errorf("%w: member %d of %d, which is %d", errStep, s.Peer, len(r.Peers), r.Me)
		}
		return nil
	}
	return errStep
}

func (r *run) step(s redset.Step) error {
	if err := r.possible(s); err != nil {
		return err
	}
	switch s.Op {
	case redset.Read:
		return r.read(&r.hand, s)
	case redset.Add:
		if err := r.read(&r.own, s); err != nil {
			return err
		}
		subtle.XORBytes(r.hand.Body(), r.hand.Body(), r.own.Body())
		return nil
	case redset.Write:
		if err := r.differ(r.hand, s); err != nil {
			return err
		}
		n, err := r.at.Write[s.In].WriteAt(r.hand.Body(), s.Offset)
		if err == nil && n < s.Length {
			err = io.ErrShortWrite
		}
		return err
	case redset.Send:
		return r.send(s)
	default:
		return r.receive(s)
	}
}

// read reads a piece; of an increment, its difference to the base.
func (r *run) read(to **bulk.Frame, s redset.Step) error {
	if err := r.fill(to, r.at.Read[s.In], s); err != nil {
		return err
	}
	return r.differ(*to, s)
}

// differ makes of a piece, of an increment, its difference to the base; and of a difference the piece again.
func (r *run) differ(f *bulk.Frame, s redset.Step) error {
	if !r.Increment {
		return nil
	}
	if err := r.fill(&r.base, r.at.Base[s.In], s); err != nil {
		return fmt.Errorf("base: %w", err)
	}
	subtle.XORBytes(f.Body(), f.Body(), r.base.Body())
	return nil
}

// fill reads a piece.
func (r *run) fill(to **bulk.Frame, from io.ReaderAt, s redset.Step) error {
	if *to == nil {
		*to = r.pieces.get()
	}
	(*to).Resize(s.Length)
	return read(from, (*to).Body(), s.Offset)
}

func read(from io.ReaderAt, b []byte, off int64) error {
	n, err := from.ReadAt(b, off)
	switch {
	case n == len(b) && (err == nil || errors.Is(err, io.EOF)):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%d bytes: %w", n, io.ErrUnexpectedEOF)
	}
	return err
}
