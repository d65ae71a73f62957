package amt

import (
	"encoding/binary"
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/agree"
)

// A Scope makes operations safe that all ranks must enter in one order, such as collectives of MPI: handlers and tasks ask
// for them when they like, in different orders on different ranks, and each is performed when all ranks have asked for it,
// on all of them in the same order. Within a scope, the n-th operation of one rank belongs to the n-th of the others.
type Scope struct {
	r     *rank
	n     uint32
	label string
}

// Scope makes one. All ranks make the same ones in the same order, in their main functions.
func (c Context) Scope(label string) (*Scope, error) {
	f := c.live()
	if f.onLoop() || f.task != nil {
		return nil, fmt.Errorf("amt: rank %d: %s makes the scope %q: only main functions can", f.r.self, f.who(), label)
	}
	s := &Scope{r: f.r, n: f.r.operations.scopes, label: label}
	f.r.operations.scopes++
	return s, nil
}

// Do has an operation performed on this rank, later, within the epoch of the context, which is not over before. It may
// block until all other ranks perform theirs. An error of it fails the epoch.
func (s *Scope) Do(c Context, operation func(Context) error) {
	f := c.live()
	ep := f.ep
	ask := func() {
		ep.hold()
		o := &s.r.operations
		number := o.agreement.Ask(s.n)
		o.asked[operationKey{s.n, number}] = &asked{ep, s, operation}
		o.dirty = true
	}
	if f.task != nil {
		f.r.ask(ask)
		return
	}
	ask()
}

// operations are those of a rank that have been asked for and not performed.
type operations struct {
	r         *rank
	scopes    uint32
	agreement *agree.Agreement
	dirty     bool
	asked     map[operationKey]*asked
	due       []operationKey
	orders    []agree.Order
}

type operationKey struct {
	scope  uint32
	number uint64
}

type asked struct {
	ep        *Epoch
	scope     *Scope
	operation func(Context) error
}

func (o *operations) init(r *rank) {
	o.r, o.agreement, o.asked = r, agree.New(r.self, r.ranks), map[operationKey]*asked{}
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

func (o *operations) send(orders []agree.Order) {
	o.orders = orders
	for _, m := range orders {
		var b [24]byte
		binary.LittleEndian.PutUint32(b[:], uint32(m.Kind))
		binary.LittleEndian.PutUint32(b[4:], m.Scope)
		binary.LittleEndian.PutUint64(b[8:], m.Upto)
		binary.LittleEndian.PutUint64(b[16:], m.Number)
		o.r.control(m.To, recordAgreement, 0, b[:])
	}
	for {
		scope, number, ok := o.agreement.Next()
		if !ok {
			return
		}
		o.due = append(o.due, operationKey{scope, number})
	}
}

func (o *operations) receive(from int, rec record) {
	b := rec.payload
	m := agree.Message{Kind: agree.Kind(binary.LittleEndian.Uint32(b)), Scope: binary.LittleEndian.Uint32(b[4:]),
		Upto: binary.LittleEndian.Uint64(b[8:]), Number: binary.LittleEndian.Uint64(b[16:])}
	o.send(o.agreement.Receive(from, m, o.orders[:0]))
	o.dirty = true
}

// perform performs the operation that is next. What others need to come there leaves before: it may block.
func (o *operations) perform() bool {
	if len(o.due) == 0 {
		return false
	}
	if o.r.drain() != nil {
		return false
	}
	key := o.due[0]
	o.due = o.due[1:]
	a := o.asked[key]
	delete(o.asked, key)
	a.ep.run(&frame{performs: a.scope, from: o.r.self}, func(c Context) error {
		if err := a.operation(c); err != nil {
			return fmt.Errorf("amt: rank %d: operation %d of the scope %q: %w", o.r.self, key.number, a.scope.label, err)
		}
		return nil
	})
	a.ep.release()
	return true
}
