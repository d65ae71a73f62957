package mpi

import (
	"fmt"

	"github.com/byssus-hpc/byssus/internal/engine"
	"github.com/byssus-hpc/byssus/pup"
)

// A Status is what is known of a message that was received or found.
type Status struct {
	Source, Tag int
	Count       int // elements of the type that it was received as; of one that was found, bytes
	Cancelled   bool
}

// counted is a status in elements of a type of so many bytes. A message that is no number of them is an error (MPI_Get_count gives
// MPI_UNDEFINED then), if there was none.
func counted(function string, st engine.Status, each int, err error) (Status, error) {
	n := max(st.Bytes, 0)
	if n%each != 0 && err == nil && !st.Cancelled {
		err = &Error{Function: function, Class: ErrType, Text: fmt.Sprintf("a message of %d bytes is not one of elements of %d bytes", n, each)}
	}
	return Status{st.Source, st.Tag, n / each, st.Cancelled}, err
}

func sizeOf(b engine.Buf, elements int) int {
	if elements == 0 {
		return max(1, b.Type.Size())
	}
	return max(1, b.N/elements*b.Type.Size())
}

// Send sends elements to a rank.
func Send[T any](c *Comm, s []T, to, tag int) error { return send(c, s, to, tag, false, "MPI_Send") }

// Ssend is Send that returns when the message is being received.
func Ssend[T any](c *Comm, s []T, to, tag int) error { return send(c, s, to, tag, true, "MPI_Ssend") }

func send[T any](c *Comm, s []T, to, tag int, synchronous bool, function string) error {
	b, err := bufOf(s)
	if err != nil {
		return err
	}
	c.blocks(function)
	return c.e.Send(b, synchronous, to, tag, c.h)
}

// Recv receives elements from a rank, or AnySource, with a tag, or AnyTag. A message that is longer than the slice is an error of
// class ErrTruncate.
func Recv[T any](c *Comm, s []T, from, tag int) (Status, error) {
	b, err := bufOf(s)
	if err != nil {
		return Status{}, err
	}
	c.blocks("MPI_Recv")
	st, err := c.e.Recv(b, from, tag, c.h)
	return counted("MPI_Recv", st, sizeOf(b, len(s)), err)
}

// Sendrecv sends to one rank while it receives from another.
func Sendrecv[S, R any](c *Comm, out []S, to, outTag int, in []R, from, inTag int) (Status, error) {
	r, err := Irecv(c, in, from, inTag)
	if err != nil {
		return Status{}, err
	}
	c.blocks("MPI_Sendrecv")
	q, err := Isend(c, out, to, outTag)
	if err != nil {
		if r.Cancel() == nil {
			r.Wait()
		}
		return Status{}, err
	}
	st, err := r.Wait()
	if _, sent := q.Wait(); err == nil {
		err = sent
	}
	return st, err
}

// A Request is an operation that was begun. The slices that it was begun on must not be used until it is complete.
type Request struct {
	c    *Comm
	q    engine.Request // nil: it is complete
	each int
	st   Status
	err  error
}

// begun is a request that was begun, if it was.
func (c *Comm) begun(q engine.Request, each int, err error) (*Request, error) {
	if err != nil {
		return nil, err
	}
	return &Request{c: c, q: q, each: each}, nil
}

// Isend begins to send.
func Isend[T any](c *Comm, s []T, to, tag int) (*Request, error) { return isend(c, s, to, tag, false) }

// Issend is Isend that is complete when the message is being received.
func Issend[T any](c *Comm, s []T, to, tag int) (*Request, error) { return isend(c, s, to, tag, true) }

func isend[T any](c *Comm, s []T, to, tag int, synchronous bool) (*Request, error) {
	b, err := bufOf(s)
	if err != nil {
		return nil, err
	}
	q, err := c.e.BeginSend(b, synchronous, to, tag, c.h)
	return c.begun(q, sizeOf(b, len(s)), err)
}

// Irecv begins to receive.
func Irecv[T any](c *Comm, s []T, from, tag int) (*Request, error) {
	b, err := bufOf(s)
	if err != nil {
		return nil, err
	}
	q, err := c.e.BeginRecv(b, from, tag, c.h)
	return c.begun(q, sizeOf(b, len(s)), err)
}

// Wait returns when the operation is complete.
func (r *Request) Wait() (Status, error) {
	if r.q != nil {
		r.c.blocks("MPI_Wait")
		st, err := r.q.Wait()
		r.q = nil
		r.st, r.err = counted("MPI_Wait", st, r.each, err)
	}
	return r.st, r.err
}

// Test tells whether the operation is complete.
func (r *Request) Test() (Status, bool, error) {
	if r.q != nil {
		st, done, err := r.q.Test()
		if !done {
			return Status{}, false, err
		}
		r.q = nil
		r.st, r.err = counted("MPI_Test", st, r.each, err)
	}
	return r.st, true, r.err
}

// Cancel has a receive that has no message yet complete without one: its status is Cancelled then. It is to be waited for.
func (r *Request) Cancel() error {
	if r.q == nil {
		return nil
	}
	return r.q.Cancel()
}

// Free gives a send up that nobody waits for: its slice must not be changed until the receiver is known to have it, and what goes wrong
// is told by another call. Run waits for it. A request is completed by Wait, by Test, or by Free; Run fails, and says which, when one
// is not: with BYSSUS_MPI_CHECK=1 in the environment also where it was begun.
func (r *Request) Free() error {
	if r.q == nil {
		return nil
	}
	q := r.q
	r.q, r.err = nil, &Error{Function: "MPI_Wait", Class: ErrRequest, Text: "the request was freed"}
	return q.Free()
}

// WaitAll waits for requests, in their order, but for nil; its error is the first of theirs.
func WaitAll(requests ...*Request) error {
	var first error
	for _, r := range requests {
		if r == nil {
			continue
		}
		if _, err := r.Wait(); first == nil {
			first = err
		}
	}
	return first
}

// WaitAny returns when one of several requests is complete, with its index; those that are complete are left out by nil.
// With none it returns -1.
func WaitAny(requests ...*Request) (int, Status, error) {
	for n := 0; ; n++ {
		var c *Comm
		for i, r := range requests {
			if r == nil {
				continue
			}
			if n == 0 && c == nil {
				r.c.blocks("MPI_Waitany")
			}
			c = r.c
			if st, done, err := r.Test(); done || err != nil {
				return i, st, err
			}
		}
		if c == nil {
			return -1, Status{}, nil
		}
		c.e.Rest(n)
	}
}

// A Message was found, and is nobody else's to receive: Take, or TakeValue.
type Message struct {
	Status
	c *Comm
	h engine.Handle
}

// Improbe looks for a message from a rank, or AnySource, with a tag, or AnyTag; nil if there is none now. What is found is
// for the finder alone.
func (c *Comm) Improbe(from, tag int) (*Message, error) {
	h, st, found, err := c.e.Probe(from, tag, c.h)
	if err != nil || !found {
		return nil, err
	}
	size, err := counted("MPI_Improbe", st, 1, nil)
	return &Message{size, c, h}, err
}

// Mprobe waits for a message, as Improbe finds it.
func (c *Comm) Mprobe(from, tag int) (*Message, error) {
	c.blocks("MPI_Mprobe")
	for n := 0; ; n++ {
		m, err := c.Improbe(from, tag)
		if m != nil || err != nil {
			return m, err
		}
		c.e.Rest(n)
	}
}

// Take receives a message that was found, as elements.
func Take[T any](m *Message) ([]T, Status, error) {
	var none []T
	b, err := bufOf(none)
	if err != nil {
		return nil, Status{}, err
	}
	_, each, _ := typeOf[T]()
	each *= b.Type.Size()
	if each == 0 || m.Count%each != 0 {
		return nil, m.Status, &Error{Function: "MPI_Mrecv", Class: ErrType,
			Text: fmt.Sprintf("a message of %d bytes is not one of elements of %d bytes", m.Count, each)}
	}
	s := make([]T, m.Count/each)
	if b, err = bufOf(s); err != nil {
		return nil, Status{}, err
	}
	st, err := m.c.e.Take(b, m.h)
	out, err := counted("MPI_Mrecv", st, each, err)
	return s, out, err
}

// SendValue sends a value, whatever it holds, as package pup packs it.
func SendValue[T any](c *Comm, v *T, to, tag int) error {
	b, err := pup.Marshal(v)
	if err != nil {
		return err
	}
	return Send(c, b, to, tag)
}

// RecvValue receives a value that SendValue has sent.
func RecvValue[T any](c *Comm, v *T, from, tag int) (Status, error) {
	m, err := c.Mprobe(from, tag)
	if err != nil {
		return Status{}, err
	}
	return TakeValue(m, v)
}

// TakeValue receives a message that was found, as a value that SendValue has sent.
func TakeValue[T any](m *Message, v *T) (Status, error) {
	b, st, err := Take[byte](m)
	if err == nil {
		err = pup.Unmarshal(b, v)
	}
	return st, err
}
