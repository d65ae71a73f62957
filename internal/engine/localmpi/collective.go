package localmpi

import (
	"slices"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/engine"
)

// An exchange is a collective operation of one rank: its messages are apart from all others'.
type exchange struct {
	r     *Rank
	c     *comm
	o     engine.Collective
	tag   int64
	each  int // bytes of an element
	first error
}

// Run performs a collective operation.
func (r *Rank) Run(o engine.Collective) error {
	x, err := r.exchange(o)
	if err != nil {
		return err
	}
	x.perform()
	return x.first
}

// Allreduce is Run of that.
func (r *Rank) Allreduce(send, recv unsafe.Pointer, n int, t engine.Type, op engine.Op, comm engine.Handle) error {
	return r.Run(engine.Collective{Kind: engine.Allreduce, Comm: comm, Send: engine.Buf{P: send, N: n, Type: t},
		Recv: engine.Buf{P: recv, N: n, Type: t}, Op: op})
}

// Begin begins one.
func (r *Rank) Begin(o engine.Collective) (engine.Request, error) {
	x, err := r.exchange(o)
	if err != nil {
		return nil, err
	}
	q := &request{done: make(chan struct{})}
	go func() {
		x.perform()
		q.complete(engine.Status{}, x.first)
	}()
	return q, nil
}

func (r *Rank) exchange(o engine.Collective) (*exchange, error) {
	c, err := r.comm(o.Kind.Name(true), o.Comm)
	if err != nil {
		return nil, err
	}
	c.count++
	t := o.Recv.Type
	if o.Recv.P == nil {
		t = o.Send.Type
	}
	return &exchange{r: r, c: c, o: o, tag: int64(c.count), each: t.Size()}, nil
}

func (x *exchange) send(to int, b []byte) {
	x.r.w.ranks[x.c.ranks[to]].deliver(&message{context: x.c.context | collectives, from: x.c.self, tag: x.tag, data: slices.Clone(b)})
}

func (x *exchange) recv(from int, into []byte) {
	q := &request{context: x.c.context | collectives, from: from, tag: x.tag, into: into}
	x.r.receive(q)
	st, err := q.Wait()
	if err == nil && st.Bytes != len(into) {
		err = &engine.Error{Function: x.o.Kind.Name(true), Class: engine.ErrTruncate, Text: "ranks give different counts"}
	}
	if x.first == nil {
		x.first = err
	}
}

// part is elements of a buffer.
func (x *exchange) part(b engine.Buf, at, n int) []byte {
	if n == 0 || b.P == nil {
		return nil
	}
	return unsafe.Slice((*byte)(b.P), (at+n)*x.each)[at*x.each:]
}

// out is what goes to a rank, in where what comes from one belongs: of equal shares, or as counts say.
func (x *exchange) out(n int) []byte {
	if c := x.o.Counts; c != nil && c.SendCounts != nil {
		return x.part(x.o.Send, int(c.SendDispls[n]), int(c.SendCounts[n]))
	}
	return x.part(x.o.Send, n*x.o.Send.N, x.o.Send.N)
}

func (x *exchange) in(n int) []byte {
	if c := x.o.Counts; c != nil && c.RecvCounts != nil {
		return x.part(x.o.Recv, int(c.RecvDispls[n]), int(c.RecvCounts[n]))
	}
	return x.part(x.o.Recv, n*x.o.Recv.N, x.o.Recv.N)
}

// perform does it.
func (x *exchange) perform() {
	o, n, self := x.o, len(x.c.ranks), x.c.self
	mine := x.part(o.Send, 0, o.Send.N)
	switch o.Kind {
	case engine.Barrier:
		x.together(nil)
	case engine.Bcast:
		x.spread(o.Root, x.part(o.Recv, 0, o.Recv.N))
	case engine.Gather, engine.Gatherv:
		x.send(o.Root, mine)
		for from := 0; from < n && self == o.Root; from++ {
			x.recv(from, x.in(from))
		}
	case engine.Scatter, engine.Scatterv:
		for to := 0; to < n && self == o.Root; to++ {
			x.send(to, x.out(to))
		}
		x.recv(o.Root, x.part(o.Recv, 0, o.Recv.N))
	case engine.Allgather, engine.Allgatherv, engine.Alltoall, engine.Alltoallv:
		for to := range n {
			b := mine
			if o.Kind == engine.Alltoall || o.Kind == engine.Alltoallv {
				b = x.out(to)
			}
			x.send(to, b)
		}
		for from := range n {
			x.recv(from, x.in(from))
		}
	default:
		x.reduce()
	}
}

// together is a barrier: rank 0 hears of all, and then tells all.
func (x *exchange) together(b []byte) {
	if x.c.self > 0 {
		x.send(0, nil)
	}
	for from := 1; from < len(x.c.ranks) && x.c.self == 0; from++ {
		x.recv(from, nil)
	}
	x.spread(0, b)
}

// spread sends what the root has to all.
func (x *exchange) spread(root int, b []byte) {
	if x.c.self != root {
		x.recv(root, b)
		return
	}
	for to := range x.c.ranks {
		if to != root {
			x.send(to, b)
		}
	}
}

// reduce combines what ranks have, in their order.
func (x *exchange) reduce() {
	o, n, self := x.o, len(x.c.ranks), x.c.self
	count := o.Recv.N
	if o.Kind == engine.ReduceScatterBlock {
		count *= n
	}
	from := o.Send
	if o.InPlace {
		from = o.Recv
	}
	mine := x.part(from, 0, count)
	result := x.part(o.Recv, 0, o.Recv.N)
	t := o.Recv.Type
	if o.Kind == engine.Scan || o.Kind == engine.Exscan {
		for to := self + 1; to < n; to++ {
			x.send(to, mine)
		}
		upto := self
		own := mine
		if o.Kind == engine.Exscan {
			own = nil
		}
		x.fold(t, upto, own, count, result)
		return
	}
	root := o.Root
	if o.Kind != engine.Reduce {
		root = 0
	}
	if self != root {
		x.send(root, mine)
	}
	all := result
	if self == root {
		all = make([]byte, count*x.each)
		x.gathered(t, root, mine, all)
	}
	switch o.Kind {
	case engine.Allreduce:
		if self == root {
			copy(result, all)
		}
		x.spread(root, result)
	case engine.ReduceScatterBlock:
		share := o.Recv.N * x.each
		for to := 0; to < n && self == root; to++ {
			x.send(to, all[to*share:(to+1)*share])
		}
		x.recv(root, result)
	default:
		if self == root {
			copy(result, all)
		}
	}
}

// gathered combines what all ranks have sent to this one.
func (x *exchange) gathered(t engine.Type, self int, mine, all []byte) {
	buffer := make([]byte, len(all))
	for from := range x.c.ranks {
		b := mine
		if from != self {
			x.recv(from, buffer)
			b = buffer
		}
		if from == 0 {
			copy(all, b)
		} else {
			combine(x.o.Op, t, all, b)
		}
	}
}

// fold combines what the ranks below upto have sent, and what this one has, if it counts.
func (x *exchange) fold(t engine.Type, upto int, own []byte, count int, result []byte) {
	all := make([]byte, count*x.each)
	buffer := make([]byte, count*x.each)
	some := false
	add := func(b []byte) {
		if some {
			combine(x.o.Op, t, all, b)
		} else {
			copy(all, b)
		}
		some = true
	}
	for from := range upto {
		x.recv(from, buffer)
		add(buffer)
	}
	if own != nil {
		add(own)
	}
	if some {
		copy(result, all)
	}
}

// combine combines elements with those of a later rank.
func combine(op engine.Op, t engine.Type, all, b []byte) {
	switch t {
	case engine.Int8:
		integers[int8](op, all, b)
	case engine.Int16:
		integers[int16](op, all, b)
	case engine.Int32:
		integers[int32](op, all, b)
	case engine.Int64:
		integers[int64](op, all, b)
	case engine.Uint8:
		integers[uint8](op, all, b)
	case engine.Uint16:
		integers[uint16](op, all, b)
	case engine.Uint32:
		integers[uint32](op, all, b)
	case engine.Uint64:
		integers[uint64](op, all, b)
	case engine.Float32:
		ordered[float32](op, all, b)
	case engine.Float64:
		ordered[float64](op, all, b)
	case engine.Complex64:
		numbers[complex64](op, all, b)
	case engine.Complex128:
		numbers[complex128](op, all, b)
	}
}

func elements[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type real interface {
	integer | float32 | float64
}

// numbers is the operations of all numbers.
func numbers[T real | complex64 | complex128](op engine.Op, all, b []byte) {
	x, y := elements[T](all), elements[T](b)
	for i, v := range y {
		switch op {
		case engine.Sum:
			x[i] += v
		case engine.Prod:
			x[i] *= v
		}
	}
}

// ordered is those of real numbers.
func ordered[T real](op engine.Op, all, b []byte) {
	x, y := elements[T](all), elements[T](b)
	switch op {
	case engine.Max:
		for i, v := range y {
			x[i] = max(x[i], v)
		}
	case engine.Min:
		for i, v := range y {
			x[i] = min(x[i], v)
		}
	default:
		numbers[T](op, all, b)
	}
}

// integers is those of integers.
func integers[T integer](op engine.Op, all, b []byte) {
	x, y := elements[T](all), elements[T](b)
	truth := func(yes bool) T {
		if yes {
			return 1
		}
		return 0
	}
	for i, v := range y {
		switch op {
		case engine.LAnd:
			x[i] = truth(x[i] != 0 && v != 0)
		case engine.BAnd:
			x[i] &= v
		case engine.LOr:
			x[i] = truth(x[i] != 0 || v != 0)
		case engine.BOr:
			x[i] |= v
		case engine.LXor:
			x[i] = truth((x[i] != 0) != (v != 0))
		case engine.BXor:
			x[i] ^= v
		}
	}
	ordered[T](op, all, b)
}
