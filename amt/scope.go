package amt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/amt/internal/agree"
	"github.com/byssus-hpc/byssus/amt/internal/trace"
	"github.com/byssus-hpc/byssus/internal/engine"
	"github.com/byssus-hpc/byssus/mpi"
)

// A Scope makes collective operations of MPI safe: handlers and tasks ask for them when they like, in different orders on
// different ranks, and each is performed when all ranks have asked for it, on all of them in the same order. Within a scope,
// the n-th operation of one rank belongs to the n-th of the others.
type Scope struct {
	r     *rank
	n     uint32
	label string
	comm  *mpi.Comm
	asked fifo[asked] // and not performed
	done  uint64      // operations performed
}

// Scope makes one, with a communicator of its own. All ranks make the same ones, in the same order among their collective epochs, in
// their main functions.
func (c Context) Scope(label string) (*Scope, error) {
	f := c.own()
	if f.onLoop() || f.task != nil {
		return nil, fmt.Errorf("amt: rank %d: %s makes the scope %q: only main functions can", f.r.self, f.who(), label)
	}
	o := &f.r.operations
	s := o.scope(label)
	return s, c.Collective("the scope "+label, func(c Context) error {
		o.scopesOf.Do(c, func(world *mpi.Comm) (err error) {
			s.comm, err = world.Dup()
			return err
		})
		return nil
	}).Wait(c)
}

// Do has an operation performed on this rank, later, within the epoch of the context, which is not over before: on the scope's
// communicator it may call what blocks until other ranks perform theirs. An error of it fails the epoch. What is to be sent when
// it has been performed is sent by then, in the same epoch.
func (s *Scope) Do(c Context, operation func(comm *mpi.Comm) error, then ...func(Context)) {
	f := c.own()
	if s.r != f.r {
		c.Fail(fmt.Errorf("amt: rank %d: %s asks for an operation of the scope %q of rank %d: each rank has a *Scope of its own", f.r.self, f.who(), s.label, s.r.self))
		return
	}
	if ep := f.ep; f.task != nil {
		f.r.inbox.ask(func() { s.ask(ep, operation, then) })
		return
	}
	s.ask(f.ep, operation, then)
}

func (s *Scope) ask(ep *Epoch, operation func(*mpi.Comm) error, then []func(Context)) {
	ep.detector.hold()
	o := &s.r.operations
	o.agreement.Ask(s.n)
	s.asked.push(asked{ep, operation, then})
	o.dirty = true
}

// World is the communicator of all ranks. In handlers, calls of it that may block are reported: the rank does nothing else
// until they return, and ranks may wait for each other without end. Scopes serve there.
func (c Context) World() *mpi.Comm {
	f := c.own()
	if f.task != nil {
		return f.r.operations.unwatched
	}
	return f.r.operations.world
}

// blocks reports that a handler calls what may block.
func (o *operations) blocks(function string) {
	e := o.r.dispatcher.handler.entry
	if e == nil || o.reported[blocking{e, function}] {
		return
	}
	o.reported[blocking{e, function}] = true
	fmt.Fprintf(os.Stderr, "amt: rank %d: %v calls %s, which may block: this rank handles nothing until it returns, and ranks may wait for each other without end; ask for it by a Scope\n",
		o.r.self, e, function)
}

// blocking is a function that a handler has called.
type blocking struct {
	entry    *entry
	function string
}

// operations are those of a rank that have been asked for and not performed.
type operations struct {
	r         *rank
	scopes    []*Scope
	agreement *agree.Agreement
	dirty     bool
	orders    []agree.Order
	queue     []word // to be sent

	around frame // of an operation

	world, unwatched *mpi.Comm
	scopesOf         *Scope // what makes communicators of scopes
	reported         map[blocking]bool
}

type asked struct {
	ep        *Epoch
	operation func(*mpi.Comm) error
	then      []func(Context)
}

func (o *operations) init(r *rank) {
	o.around.from = r.self
	o.r, o.agreement = r, agree.New(r.self, r.ranks)
}

// open makes the rank's communicators of MPI's.
func (o *operations) open(e engine.Engine) error {
	var err, other error
	o.world, err = mpi.New(e, e.World(), o.blocks)
	o.unwatched, other = mpi.New(e, e.World(), nil)
	o.reported = map[blocking]bool{}
	o.scopesOf = o.scope("scopes")
	o.scopesOf.comm = o.unwatched
	return errors.Join(err, other)
}

// close frees the communicators of scopes.
func (o *operations) close() error {
	var err error
	for _, s := range o.scopes {
		if s != o.scopesOf && s.comm != nil {
			err = errors.Join(err, s.comm.Free())
		}
	}
	return err
}

// settle tells others what this rank has asked for.
func (o *operations) settle() bool {
	if !o.dirty {
		return false
	}
	o.dirty = false
	o.send(o.agreement.Settle(o.orders[:0]))
	return true
}

// send sends what ranks agree by, in batches of their own, which do not wait for others: a rank that is in an operation receives nothing.
func (o *operations) send(orders []agree.Order) {
	o.orders = orders
	for _, m := range orders {
		b, at := openRecord(o.r.t.Room(wholeSize(24)))
		b = binary.LittleEndian.AppendUint32(b, uint32(m.Kind))
		b = binary.LittleEndian.AppendUint32(b, m.Scope)
		b = binary.LittleEndian.AppendUint64(b, m.Upto)
		b = binary.LittleEndian.AppendUint64(b, m.Number)
		o.queue = append(o.queue, word{m.To, closeRecord(b, at, what(recordAgreement), 0)})
	}
	o.flush()
}

// flush sends what the transport takes now.
func (o *operations) flush() {
	if len(o.queue) == 0 {
		return
	}
	left := o.queue[:0]
	for _, w := range o.queue {
		if !o.r.t.putUrgently(w.to, w.b) {
			left = append(left, w)
		}
	}
	clear(o.queue[len(left):])
	o.queue = left
}

// A word is a batch of an agreement, for a rank.
type word struct {
	to int
	b  []byte
}

func (o *operations) receive(from int, b []byte) {
	m := agree.Message{Kind: agree.Kind(binary.LittleEndian.Uint32(b)), Scope: binary.LittleEndian.Uint32(b[4:]),
		Upto: binary.LittleEndian.Uint64(b[8:]), Number: binary.LittleEndian.Uint64(b[16:])}
	o.send(o.agreement.Receive(from, m, o.orders[:0]))
	o.dirty = true
}

// perform performs the operation that is next. What others need to come there, the decisions, leaves before: it may block. Messages need
// not, and could not to a rank that is there already.
func (o *operations) perform() bool {
	if !o.agreement.Due() {
		return false
	}
	r := o.r
	for r.outgoing.flush(); len(o.queue) > 0 && r.t.broken == nil; r.outgoing.flush() {
		r.dispatcher.fetch(waitingLooks)
	}
	if r.t.broken != nil {
		return false
	}
	r.watch.patience.beat()
	n, _, _ := o.agreement.Next()
	s := o.scopes[n]
	a := s.asked.pop()
	s.done++
	o.around.performs = s
	if tr := r.tracer; tr != nil {
		tr.begin(trace.Operation, tr.label("operation of ", s.label), 0, 0)
		defer tr.end()
	}
	a.ep.run(&o.around, func(c Context) error {
		if err := a.operation(s.comm); err != nil {
			return fmt.Errorf("amt: rank %d: operation %d of the scope %q: %w", o.r.self, s.done, s.label, err)
		}
		for _, then := range a.then {
			then(c)
		}
		return nil
	})
	a.ep.release(1)
	return true
}

// scope makes one.
func (o *operations) scope(label string) *Scope {
	s := &Scope{r: o.r, n: uint32(len(o.scopes)), label: label}
	o.scopes = append(o.scopes, s)
	return s
}
