// Package localmpi is an engine of MPI without MPI: ranks are goroutines of one process.
//
// It guarantees MPI's order of messages, that what is sent is copied at once, and that reductions combine in the order of the ranks.
package localmpi

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/engine"
)

// A world is what the ranks of a process share.
type world struct {
	ranks    []*Rank
	contexts atomic.Uint64 // that were given to communicators
}

// A Rank is the engine of one rank.
type Rank struct {
	w    *world
	self int

	mu     sync.Mutex
	posted []*request // receives without a message, in their order
	came   []*message // messages that no receive has matched, in their order

	comms []*comm    // by handle
	found []*message // by handle: matched by Probe
}

// A comm is a communicator: those of one context belong together.
type comm struct {
	context uint64
	ranks   []int // in the world
	self    int
	count   uint64 // collective operations begun
}

// collectives is the bit of a context whose messages are of collective operations.
const collectives = 1 << 63

const (
	worldHandle engine.Handle = iota
	selfHandle
)

// New makes the engines of n ranks.
func New(n int) []*Rank {
	w := &world{ranks: make([]*Rank, n)}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	w.contexts.Store(uint64(n) + 1)
	for i := range w.ranks {
		w.ranks[i] = &Rank{w: w, self: i, comms: []*comm{{0, all, i, 0}, {uint64(i) + 1, []int{i}, 0, 0}}}
	}
	return w.ranks
}

// A message is on its way, or waits.
type message struct {
	context uint64
	from    int // in its communicator
	tag     int64
	data    []byte
	taken   *request // of a synchronous send
}

// A request is an operation that was begun.
type request struct {
	done chan struct{}
	st   engine.Status
	err  error

	r       *Rank // of a receive
	context uint64
	from    int
	tag     int64
	into    []byte
}

func (q *request) matches(m *message) bool {
	return m.context == q.context && (q.from == engine.AnySource || q.from == m.from) && (q.tag == engine.AnyTag || q.tag == m.tag)
}

// complete ends a request.
func (q *request) complete(st engine.Status, err error) {
	q.st, q.err = st, err
	close(q.done)
}

// take is a message's end, in the memory of a receive.
func (m *message) take(into []byte, function string) (engine.Status, error) {
	st := engine.Status{Source: m.from, Tag: int(m.tag), Bytes: copy(into, m.data)}
	if m.taken != nil {
		m.taken.complete(engine.Status{}, nil)
	}
	if len(m.data) > len(into) {
		return st, &engine.Error{Function: function, Class: engine.ErrTruncate,
			Text: fmt.Sprintf("a message of %d bytes from rank %d with tag %d, where there is room for %d", len(m.data), m.from, m.tag, len(into))}
	}
	return st, nil
}

// Wait returns when the request is complete.
func (q *request) Wait() (engine.Status, error) {
	<-q.done
	return q.st, q.err
}

// Test tells whether it is.
func (q *request) Test() (engine.Status, bool, error) {
	select {
	case <-q.done:
		return q.st, true, q.err
	default:
		runtime.Gosched()
		return engine.Status{}, false, nil
	}
}

// Free does nothing: what a rank has begun ends by itself.
func (q *request) Free() error { return nil }

// Close does nothing: requests that nobody waits for are no harm here.
func (r *Rank) Close() error { return nil }

// Cancel ends a receive that no message has matched.
func (q *request) Cancel() error {
	if q.r == nil {
		return nil
	}
	q.r.mu.Lock()
	defer q.r.mu.Unlock()
	if n := slices.Index(q.r.posted, q); n >= 0 {
		q.r.posted = slices.Delete(q.r.posted, n, n+1)
		q.complete(engine.Status{Cancelled: true}, nil)
	}
	return nil
}

// deliver brings a rank a message.
func (r *Rank) deliver(m *message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, q := range r.posted {
		if q.matches(m) {
			r.posted = slices.Delete(r.posted, n, n+1)
			q.complete(m.take(q.into, "MPI_Recv"))
			return
		}
	}
	r.came = append(r.came, m)
}

// receive begins to receive.
func (r *Rank) receive(q *request) {
	q.r, q.done = r, make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, m := range r.came {
		if q.matches(m) {
			r.came = slices.Delete(r.came, n, n+1)
			q.complete(m.take(q.into, "MPI_Recv"))
			return
		}
	}
	r.posted = append(r.posted, q)
}

// memory is a buffer's.
func memory(b engine.Buf) []byte {
	return unsafe.Slice((*byte)(b.P), b.N*b.Type.Size())
}

// keep gives a communicator a handle, that of one that was freed if there is any.
func (r *Rank) keep(c *comm) engine.Handle {
	if n := slices.Index(r.comms, nil); n >= 0 {
		r.comms[n] = c
		return engine.Handle(n)
	}
	r.comms = append(r.comms, c)
	return engine.Handle(len(r.comms) - 1)
}

// Null is no communicator's.
func (r *Rank) Null() engine.Handle { return math.MaxInt64 }

// comm is the communicator of a handle.
func (r *Rank) comm(function string, h engine.Handle) (*comm, error) {
	if h >= engine.Handle(len(r.comms)) || r.comms[h] == nil {
		return nil, &engine.Error{Function: function, Class: engine.ErrComm, Text: "no communicator, or one that was freed"}
	}
	return r.comms[h], nil
}

// partner makes sure that there is such a rank, and tag.
func (c *comm) partner(function string, rank, tag int, any bool) error {
	switch {
	case rank == engine.ProcNull, any && rank == engine.AnySource:
	case rank < 0 || rank >= len(c.ranks):
		return &engine.Error{Function: function, Class: engine.ErrRank, Text: fmt.Sprintf("rank %d of %d", rank, len(c.ranks))}
	}
	if tag < 0 && (!any || tag != engine.AnyTag) {
		return &engine.Error{Function: function, Class: engine.ErrTag, Text: fmt.Sprintf("the tag %d is below 0", tag)}
	}
	if tag > math.MaxInt32 {
		return &engine.Error{Function: function, Class: engine.ErrTag, Text: fmt.Sprintf("there is no tag %d", tag)}
	}
	return nil
}

// World is the communicator of all ranks.
func (r *Rank) World() engine.Handle { return worldHandle }

// Self is that of this rank alone.
func (r *Rank) Self() engine.Handle { return selfHandle }

// TagUB is the highest tag.
func (r *Rank) TagUB() int { return math.MaxInt32 }

// Rank is this rank's number.
func (r *Rank) Rank(h engine.Handle) (int, error) {
	c, err := r.comm("MPI_Comm_rank", h)
	if err != nil {
		return 0, err
	}
	return c.self, nil
}

// Size is how many ranks there are.
func (r *Rank) Size(h engine.Handle) (int, error) {
	c, err := r.comm("MPI_Comm_size", h)
	if err != nil {
		return 0, err
	}
	return len(c.ranks), nil
}

// BeginSend begins to send.
func (r *Rank) BeginSend(b engine.Buf, synchronous bool, to, tag int, h engine.Handle) (engine.Request, error) {
	return r.send(engine.SendName(synchronous, true), b, synchronous, to, tag, h)
}

func (r *Rank) send(function string, b engine.Buf, synchronous bool, to, tag int, h engine.Handle) (engine.Request, error) {
	c, err := r.comm(function, h)
	if err == nil {
		err = c.partner(function, to, tag, false)
	}
	if err != nil {
		return nil, err
	}
	q := &request{done: make(chan struct{})}
	if to == engine.ProcNull {
		q.complete(engine.Status{}, nil)
		return q, nil
	}
	m := &message{context: c.context, from: c.self, tag: int64(tag), data: slices.Clone(memory(b))}
	if synchronous {
		m.taken = q
	} else {
		q.complete(engine.Status{}, nil)
	}
	r.w.ranks[c.ranks[to]].deliver(m)
	return q, nil
}

// BeginRecv begins to receive.
func (r *Rank) BeginRecv(b engine.Buf, from, tag int, h engine.Handle) (engine.Request, error) {
	c, err := r.comm("MPI_Recv", h)
	if err == nil {
		err = c.partner("MPI_Recv", from, tag, true)
	}
	if err != nil {
		return nil, err
	}
	q := &request{context: c.context, from: from, tag: int64(tag), into: memory(b)}
	if from == engine.ProcNull {
		q.done = make(chan struct{})
		q.complete(engine.Status{Source: engine.ProcNull, Tag: engine.AnyTag}, nil)
		return q, nil
	}
	r.receive(q)
	return q, nil
}

// finish waits for a request that was begun, if it was.
func finish(q engine.Request, err error) (engine.Status, error) {
	if err != nil {
		return engine.Status{}, err
	}
	return q.Wait()
}

// Send sends.
func (r *Rank) Send(b engine.Buf, synchronous bool, to, tag int, h engine.Handle) error {
	_, err := finish(r.send(engine.SendName(synchronous, false), b, synchronous, to, tag, h))
	return err
}

// Recv receives.
func (r *Rank) Recv(b engine.Buf, from, tag int, h engine.Handle) (engine.Status, error) {
	return finish(r.BeginRecv(b, from, tag, h))
}

// Probe looks for a message, which is the finder's then.
func (r *Rank) Probe(from, tag int, h engine.Handle) (engine.Handle, engine.Status, bool, error) {
	c, err := r.comm("MPI_Improbe", h)
	if err == nil {
		err = c.partner("MPI_Improbe", from, tag, true)
	}
	if err != nil {
		return 0, engine.Status{}, false, err
	}
	q := &request{context: c.context, from: from, tag: int64(tag)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if from == engine.ProcNull { // whose message is always there, and nothing
		m := &message{context: c.context, from: from, tag: engine.AnyTag}
		r.found = append(r.found, m)
		return engine.Handle(len(r.found) - 1), engine.Status{Source: m.from, Tag: int(m.tag)}, true, nil
	}
	for n, m := range r.came {
		if q.matches(m) {
			r.came = slices.Delete(r.came, n, n+1)
			r.found = append(r.found, m)
			return engine.Handle(len(r.found) - 1), engine.Status{Source: m.from, Tag: int(m.tag), Bytes: len(m.data)}, true, nil
		}
	}
	return 0, engine.Status{}, false, nil
}

// Take receives a message that was found.
func (r *Rank) Take(b engine.Buf, h engine.Handle) (engine.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int(h) >= len(r.found) || r.found[h] == nil {
		return engine.Status{}, &engine.Error{Function: "MPI_Mrecv", Class: engine.ErrArg, Text: "the message was received already"}
	}
	m := r.found[h]
	r.found[h] = nil
	for n := len(r.found); n > 0 && r.found[n-1] == nil; n-- {
		r.found = r.found[:n-1]
	}
	return m.take(memory(b), "MPI_Mrecv")
}

// restless is how many looks in vain come before one rests longer.
const restless = 256

// Rest lets others have the processor.
func (r *Rank) Rest(n int) {
	if n < restless {
		runtime.Gosched()
	} else {
		time.Sleep(50 * time.Microsecond)
	}
}

// join makes communicators of a collective exchange: each rank says where it belongs (color, below 0: nowhere) and its key.
func (r *Rank) join(function string, h engine.Handle, color, key int) (engine.Handle, bool, error) {
	c, err := r.comm(function, h)
	if err != nil {
		return 0, false, err
	}
	n := len(c.ranks)
	mine := make([]byte, 24)
	binary.LittleEndian.PutUint64(mine, uint64(color))
	binary.LittleEndian.PutUint64(mine[8:], uint64(key))
	if c.self == 0 { // who has numbers for all colors there may be
		binary.LittleEndian.PutUint64(mine[16:], r.w.contexts.Add(uint64(n))-uint64(n))
	}
	all := make([]byte, 24*n)
	err = r.Run(engine.Collective{Kind: engine.Allgather, Comm: h, Send: bytesOf(mine), Recv: engine.Buf{P: unsafe.Pointer(&all[0]), N: 24}})
	if err != nil || color < 0 {
		return 0, false, err
	}
	type member struct{ key, rank int }
	var members []member
	var colors []int
	for i := range n {
		of := int(int64(binary.LittleEndian.Uint64(all[24*i:])))
		if of >= 0 && !slices.Contains(colors, of) {
			colors = append(colors, of)
		}
		if of == color {
			members = append(members, member{int(int64(binary.LittleEndian.Uint64(all[24*i+8:]))), i})
		}
	}
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	made := &comm{context: binary.LittleEndian.Uint64(all[16:]) + uint64(slices.Index(colors, color))}
	for i, m := range members {
		made.ranks = append(made.ranks, c.ranks[m.rank])
		if m.rank == c.self {
			made.self = i
		}
	}
	return r.keep(made), true, nil
}

func bytesOf(b []byte) engine.Buf {
	return engine.Buf{P: unsafe.Pointer(unsafe.SliceData(b)), N: len(b)}
}

// Dup makes a communicator of the same ranks.
func (r *Rank) Dup(h engine.Handle) (engine.Handle, error) {
	made, _, err := r.join("MPI_Comm_dup", h, 0, 0)
	return made, err
}

// Split makes communicators of ranks of the same color.
func (r *Rank) Split(h engine.Handle, color, key int) (engine.Handle, bool, error) {
	return r.join("MPI_Comm_split", h, color, key)
}

// SplitShared makes one of the ranks that share a node: all.
func (r *Rank) SplitShared(h engine.Handle, key int) (engine.Handle, error) {
	made, _, err := r.join("MPI_Comm_split_type", h, 0, key)
	return made, err
}

// Create makes one of some ranks.
func (r *Rank) Create(h engine.Handle, ranks []int, tag int) (engine.Handle, bool, error) {
	c, err := r.comm("MPI_Comm_create", h)
	if err != nil {
		return 0, false, err
	}
	place := slices.Index(ranks, c.self)
	if tag < 0 {
		return r.join("MPI_Comm_create", h, min(place, 0), place)
	}
	if place < 0 {
		return 0, false, nil
	}
	return r.createGroup(c, ranks, place, tag)
}

// createGroup has the first rank of a group tell the others the number of their communicator.
func (r *Rank) createGroup(c *comm, ranks []int, place, tag int) (engine.Handle, bool, error) {
	made := &comm{self: place}
	for _, n := range ranks {
		made.ranks = append(made.ranks, c.ranks[n])
	}
	const groups = 1 << 62 // tags of collective operations are below
	number := make([]byte, 8)
	if place == 0 {
		binary.LittleEndian.PutUint64(number, r.w.contexts.Add(1)-1)
		for _, to := range made.ranks[1:] {
			r.w.ranks[to].deliver(&message{context: c.context | collectives, from: c.self, tag: groups | int64(tag), data: slices.Clone(number)})
		}
	} else {
		q := &request{context: c.context | collectives, from: ranks[0], tag: groups | int64(tag), into: number}
		r.receive(q)
		q.Wait()
	}
	made.context = binary.LittleEndian.Uint64(number)
	return r.keep(made), true, nil
}

// Cart makes one of as many ranks as a grid has.
func (r *Rank) Cart(h engine.Handle, dims []int, _ []bool, _ bool) (engine.Handle, bool, error) {
	c, err := r.comm("MPI_Cart_create", h)
	if err != nil {
		return 0, false, err
	}
	n := 1
	for _, d := range dims {
		n *= max(d, 0)
	}
	if n < 1 || n > len(c.ranks) {
		return 0, false, &engine.Error{Function: "MPI_Cart_create", Class: engine.ErrDims, Text: fmt.Sprintf("dimensions %v of %d ranks", dims, len(c.ranks))}
	}
	color := 0
	if c.self >= n {
		color = -1
	}
	return r.join("MPI_Cart_create", h, color, 0)
}

// Free ends a communicator.
func (r *Rank) Free(h engine.Handle) error {
	if _, err := r.comm("MPI_Comm_free", h); err != nil {
		return err
	}
	if h <= selfHandle {
		return &engine.Error{Function: "MPI_Comm_free", Class: engine.ErrComm, Text: "the communicators that are always there cannot be freed"}
	}
	r.comms[h] = nil
	return nil
}

// WorldRanks is a communicator's ranks.
func (r *Rank) WorldRanks(h engine.Handle) ([]int, error) {
	c, err := r.comm("MPI_Comm_group", h)
	if err != nil {
		return nil, err
	}
	return slices.Clone(c.ranks), nil
}

// Fortran says that there is none.
func (r *Rank) Fortran(engine.Handle) (int, error) {
	return 0, &engine.Error{Function: "MPI_Comm_c2f", Class: engine.ErrComm, Text: "ranks that are goroutines have no MPI that Fortran knows"}
}

// FromFortran says that there is none.
func (r *Rank) FromFortran(int) (engine.Handle, error) {
	return 0, &engine.Error{Function: "MPI_Comm_f2c", Class: engine.ErrComm, Text: "ranks that are goroutines have no MPI that Fortran knows"}
}
