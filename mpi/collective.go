package mpi

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/engine"
	"github.com/byssus-hpc/byssus/pup"
)

// Counts and places of the variants of collective operations that take those of each rank, in elements.
type Counts []int32

// run performs a collective operation.
func (c *Comm) run(o engine.Collective, err error) error {
	if err != nil {
		return err
	}
	o.Comm = c.h
	if c.before != nil {
		c.before(o.Kind.Name(true))
	}
	return c.e.Run(o)
}

// begin begins one.
func (c *Comm) begin(o engine.Collective, err error) (*Request, error) {
	if err != nil {
		return nil, err
	}
	o.Comm = c.h
	q, err := c.e.Begin(o)
	return c.begun(q, 1, err)
}

// wrong is an error of the arguments of a collective operation.
func wrong(k engine.Kind, class int, format string, args ...any) error {
	return &Error{Function: k.Name(true), Class: class, Text: fmt.Sprintf(format, args...)}
}

// rooted tells whether there is such a root.
func (c *Comm) rooted(k engine.Kind, root int) error {
	if root < 0 || root >= c.size {
		return wrong(k, ErrRoot, "the root is rank %d of %d", root, c.size)
	}
	return nil
}

// apart makes sure that what is sent and what is received lie in different memory (MPI-4.1 section 6.2.2): nil instead of a slice
// says in place.
func apart(k engine.Kind, send, recv engine.Buf, inPlace bool) error {
	a, b := uintptr(send.P), uintptr(recv.P)
	n, m := uintptr(send.N*send.Type.Size()), uintptr(recv.N*recv.Type.Size())
	if inPlace || send.P == nil || recv.P == nil || n == 0 || m == 0 || a+n <= b || b+m <= a {
		return nil
	}
	return wrong(k, ErrBuffer, "the slices that are sent and received lie in the same memory")
}

// shares divides a buffer among the ranks of the communicator.
func (c *Comm) shares(k engine.Kind, b *engine.Buf) error {
	if b.N%c.size != 0 {
		return wrong(k, ErrCount, "%d elements are not divisible among %d ranks", b.N, c.size)
	}
	b.N /= c.size
	return nil
}

// bcast, gather and so on say what an operation is; blocking and not, they are the same.

func bcast[T any](c *Comm, s []T, root int) (engine.Collective, error) {
	b, err := bufOf(s)
	if err == nil {
		err = c.rooted(engine.Bcast, root)
	}
	return engine.Collective{Kind: engine.Bcast, Recv: b, Root: root}, err
}

// equal is an operation of equal shares: what is divided among the ranks is out, in, or both.
func equal[T any](c *Comm, k engine.Kind, out, in []T, root int, divideOut, divideIn bool) (engine.Collective, error) {
	send, err := bufOf(out)
	if err != nil {
		return engine.Collective{}, err
	}
	recv, err := bufOf(in)
	if err == nil {
		err = c.rooted(k, root)
	}
	if err == nil && (divideIn || divideOut) {
		err = apart(k, send, recv, false)
	}
	if err == nil && divideOut {
		err = c.shares(k, &send)
	}
	if err == nil && divideIn {
		err = c.shares(k, &recv)
	}
	if err == nil && (send.N != recv.N) && (root == c.rank || k == engine.Allgather || k == engine.Alltoall) {
		err = wrong(k, ErrCount, "each rank sends %d elements and is received from %d", send.N, recv.N)
	}
	return engine.Collective{Kind: k, Send: send, Recv: recv, Root: root}, err
}

// combined is a reduction; in place, if out is nil.
func combined[T Number](c *Comm, k engine.Kind, out, in []T, op Op, root int) (engine.Collective, error) {
	t, _, err := typeOf[T]() // which has each element as one
	send := engine.Buf{P: unsafe.Pointer(unsafe.SliceData(out)), N: len(out), Type: t}
	recv := engine.Buf{P: unsafe.Pointer(unsafe.SliceData(in)), N: len(in), Type: t}
	if err == nil && root != 0 {
		err = c.rooted(k, root)
	}
	if err == nil {
		err = fitting(k, op, send.Type)
	}
	if err == nil && (k != engine.Reduce || c.rank == root) {
		err = apart(k, send, recv, false)
	}
	o := engine.Collective{Kind: k, Send: send, Recv: recv, Op: op, Root: root, InPlace: out == nil && len(in) > 0}
	if err != nil {
		return o, err
	}
	switch {
	case k == engine.Reduce && c.rank != root:
		if out == nil { // in place: the root alone receives
			o.Send = recv
		}
		o.InPlace, o.Recv = false, engine.Buf{N: o.Send.N, Type: send.Type}
	case k == engine.ReduceScatterBlock:
		if o.InPlace {
			err = c.shares(k, &o.Recv)
		} else if send.N != recv.N*c.size {
			err = wrong(k, ErrCount, "%d elements are sent, and %d received by each of %d ranks", send.N, recv.N, c.size)
		}
	case !o.InPlace && send.N != recv.N:
		err = wrong(k, ErrCount, "%d elements are sent, and there is room for %d", send.N, recv.N)
	}
	return o, err
}

// Barrier returns when all ranks have called it.
func (c *Comm) Barrier() error { return c.run(engine.Collective{Kind: engine.Barrier}, nil) }

// Ibarrier is complete when all ranks have called it.
func (c *Comm) Ibarrier() (*Request, error) {
	return c.begin(engine.Collective{Kind: engine.Barrier}, nil)
}

// Bcast sends the root's elements to all.
func Bcast[T any](c *Comm, s []T, root int) error { return c.run(bcast(c, s, root)) }

// Ibcast begins a Bcast.
func Ibcast[T any](c *Comm, s []T, root int) (*Request, error) { return c.begin(bcast(c, s, root)) }

// Gather has the root receive the elements of all, in the order of the ranks. Others may give nil for in.
func Gather[T any](c *Comm, out, in []T, root int) error {
	return c.run(equal(c, engine.Gather, out, in, root, false, c.rank == root))
}

// Igather begins a Gather.
func Igather[T any](c *Comm, out, in []T, root int) (*Request, error) {
	return c.begin(equal(c, engine.Gather, out, in, root, false, c.rank == root))
}

// Scatter divides the root's elements among all. Others may give nil for out.
func Scatter[T any](c *Comm, out, in []T, root int) error {
	return c.run(equal(c, engine.Scatter, out, in, root, c.rank == root, false))
}

// Iscatter begins a Scatter.
func Iscatter[T any](c *Comm, out, in []T, root int) (*Request, error) {
	return c.begin(equal(c, engine.Scatter, out, in, root, c.rank == root, false))
}

// Allgather has all receive the elements of all.
func Allgather[T any](c *Comm, out, in []T) error {
	return c.run(equal(c, engine.Allgather, out, in, 0, false, true))
}

// Iallgather begins an Allgather.
func Iallgather[T any](c *Comm, out, in []T) (*Request, error) {
	return c.begin(equal(c, engine.Allgather, out, in, 0, false, true))
}

// Alltoall has every rank send a share of its elements to every other.
func Alltoall[T any](c *Comm, out, in []T) error {
	return c.run(equal(c, engine.Alltoall, out, in, 0, true, true))
}

// Ialltoall begins an Alltoall.
func Ialltoall[T any](c *Comm, out, in []T) (*Request, error) {
	return c.begin(equal(c, engine.Alltoall, out, in, 0, true, true))
}

// Reduce combines the elements of all, one by one, on the root. Others may give nil for in; the root may give nil for out,
// if what it contributes is in in.
func Reduce[T Number](c *Comm, out, in []T, op Op, root int) error {
	return c.run(combined(c, engine.Reduce, out, in, op, root))
}

// Ireduce begins a Reduce.
func Ireduce[T Number](c *Comm, out, in []T, op Op, root int) (*Request, error) {
	return c.begin(combined(c, engine.Reduce, out, in, op, root))
}

// Allreduce combines the elements of all, one by one, everywhere; in place, if out is nil.
func Allreduce[T Number](c *Comm, out, in []T, op Op) error {
	t, _, err := typeOf[T]()
	if err != nil || len(out) == 0 || len(out) != len(in) || &out[0] == &in[0] || fitting(engine.Allreduce, op, t) != nil {
		return c.run(combined(c, engine.Allreduce, out, in, op, 0))
	}
	c.blocks("MPI_Allreduce")
	return c.e.Allreduce(unsafe.Pointer(&out[0]), unsafe.Pointer(&in[0]), len(out), t, op, c.h)
}

// Iallreduce begins an Allreduce.
func Iallreduce[T Number](c *Comm, out, in []T, op Op) (*Request, error) {
	return c.begin(combined(c, engine.Allreduce, out, in, op, 0))
}

// ReduceScatter combines the elements of all, of which each rank receives an equal share; in place, if out is nil.
func ReduceScatter[T Number](c *Comm, out, in []T, op Op) error {
	return c.run(combined(c, engine.ReduceScatterBlock, out, in, op, 0))
}

// Scan combines the elements of this rank and those below it; in place, if out is nil.
func Scan[T Number](c *Comm, out, in []T, op Op) error {
	return c.run(combined(c, engine.Scan, out, in, op, 0))
}

// Exscan combines the elements of the ranks below this one; on rank 0 nothing is received. In place, if out is nil.
func Exscan[T Number](c *Comm, out, in []T, op Op) error {
	return c.run(combined(c, engine.Exscan, out, in, op, 0))
}

// within makes sure that counts and places are those of so many ranks, and of a buffer; and says them in MPI's elements.
func (c *Comm) within(k engine.Kind, b engine.Buf, each int, counts, places Counts) (Counts, Counts, error) {
	if len(counts) != c.size || len(places) != c.size {
		return nil, nil, wrong(k, ErrArg, "%d counts and %d places of %d ranks", len(counts), len(places), c.size)
	}
	ns, at := make(Counts, c.size), make(Counts, c.size)
	for n := range counts {
		if counts[n] < 0 || places[n] < 0 || (int(places[n])+int(counts[n]))*each > min(b.N, math.MaxInt32) {
			return nil, nil, wrong(k, ErrCount, "%d elements of rank %d at %d, in %d", counts[n], n, places[n], b.N/each)
		}
		ns[n], at[n] = counts[n]*int32(each), places[n]*int32(each)
	}
	return ns, at, nil
}

// Gatherv is Gather of as many elements of each rank as counts says, to places in in.
func Gatherv[T any](c *Comm, out, in []T, counts, places Counts, root int) error {
	return c.run(various(c, engine.Gatherv, out, in, nil, nil, counts, places, root))
}

// Scatterv is Scatter of as many elements to each rank as counts says, from places in out.
func Scatterv[T any](c *Comm, out []T, counts, places Counts, in []T, root int) error {
	return c.run(various(c, engine.Scatterv, out, in, counts, places, nil, nil, root))
}

// Allgatherv is Allgather of as many elements of each rank as counts says, to places in in.
func Allgatherv[T any](c *Comm, out, in []T, counts, places Counts) error {
	return c.run(various(c, engine.Allgatherv, out, in, nil, nil, counts, places, 0))
}

// Alltoallv is Alltoall of as many elements as counts say, from places in out to places in in.
func Alltoallv[T any](c *Comm, out []T, outCounts, outPlaces Counts, in []T, inCounts, inPlaces Counts) error {
	return c.run(various(c, engine.Alltoallv, out, in, outCounts, outPlaces, inCounts, inPlaces, 0))
}

// various is an operation of shares that differ.
func various[T any](c *Comm, k engine.Kind, out, in []T, outCounts, outPlaces, inCounts, inPlaces Counts, root int) (engine.Collective, error) {
	send, err := bufOf(out)
	if err == nil {
		err = c.rooted(k, root)
	}
	recv, _ := bufOf(in)
	_, each, _ := typeOf[T]()
	counts := new(engine.Counts)
	o := engine.Collective{Kind: k, Send: send, Recv: recv, Root: root, Counts: counts}
	if err == nil {
		err = apart(k, send, recv, false)
	}
	if err != nil {
		return o, err
	}
	if k == engine.Alltoallv || k == engine.Scatterv && c.rank == root {
		if counts.SendCounts, counts.SendDispls, err = c.within(k, send, each, outCounts, outPlaces); err != nil {
			return o, err
		}
	}
	if k != engine.Scatterv && (k != engine.Gatherv || c.rank == root) {
		counts.RecvCounts, counts.RecvDispls, err = c.within(k, recv, each, inCounts, inPlaces)
	}
	return o, err
}

// BcastValue sends the root's value to all, as package pup packs it.
func BcastValue[T any](c *Comm, v *T, root int) error {
	head := make([]byte, 9)
	var b []byte
	if c.rank == root {
		var err error
		if b, err = pup.Marshal(v); err != nil { // all ranks are told, since they wait
			head[8] = 1
			if told := Bcast(c, head, root); told != nil {
				return told
			}
			return err
		}
		binary.LittleEndian.PutUint64(head, uint64(len(b)))
	}
	if err := Bcast(c, head, root); err != nil {
		return err
	}
	if head[8] != 0 {
		return wrong(engine.Bcast, ErrOther, "rank %d could not pack its value", root)
	}
	if c.rank != root {
		b = make([]byte, binary.LittleEndian.Uint64(head))
	}
	if err := Bcast(c, b, root); err != nil || c.rank == root {
		return err
	}
	return pup.Unmarshal(b, v)
}
