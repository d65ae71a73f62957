//go:build cgo

package mpilib

/*
#cgo noescape real_send
#cgo nocallback real_send
#cgo noescape real_recv
#cgo nocallback real_recv
#cgo noescape real_allreduce
#cgo nocallback real_allreduce
#cgo noescape real_equal
#cgo nocallback real_equal
#cgo noescape real_done
#cgo nocallback real_done
#include "glue.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/engine"
)

// typeOf and opOf are the neutral numbers of types and operations.
func typeOf(t engine.Type) C.int {
	return [engine.Types]C.int{C.NX_TYPE_BYTE, C.NX_TYPE_C_BOOL, C.NX_TYPE_INT8_T, C.NX_TYPE_INT16_T, C.NX_TYPE_INT32_T,
		C.NX_TYPE_INT64_T, C.NX_TYPE_UINT8_T, C.NX_TYPE_UINT16_T, C.NX_TYPE_UINT32_T, C.NX_TYPE_UINT64_T, C.NX_TYPE_FLOAT,
		C.NX_TYPE_DOUBLE, C.NX_TYPE_C_FLOAT_COMPLEX, C.NX_TYPE_C_DOUBLE_COMPLEX}[t]
}

func opOf(o engine.Op) C.int32_t {
	return [engine.Ops]C.int32_t{C.NX_OP_NULL, C.NX_OP_MAX, C.NX_OP_MIN, C.NX_OP_SUM, C.NX_OP_PROD, C.NX_OP_LAND, C.NX_OP_BAND,
		C.NX_OP_LOR, C.NX_OP_BOR, C.NX_OP_LXOR, C.NX_OP_BXOR}[o]
}

// An Engine is the library's.
type Engine struct {
	mu    sync.Mutex // held in a call: the library was told that they follow one another
	share int        // processors of this node for each of its ranks; 0: they have to share them
	open  request    // the ring of requests that are not complete, whose memory the library has; itself none of them
	freed int        // of those, nobody else's any more
	where bool       // each remembers where it was made
}

// held is memory that C knows during a call, or until a request is complete.
type held struct {
	pin runtime.Pinner
	c   *engine.Counts
}

// NewEngine is the engine of the library that was loaded and initialized.
func NewEngine() (*Engine, error) {
	var here, processors C.int
	if err := problem("MPI_Comm_split_type", C.real_on_node(&here, &processors)); err != nil {
		return nil, err
	}
	crowded := C.int(0)
	if here > processors {
		crowded = 1
	}
	C.real_crowded(crowded)
	e := &Engine{share: int(processors / here), where: os.Getenv("BYSSUS_MPI_CHECK") != ""}
	e.open.next, e.open.prev = &e.open, &e.open
	return e, nil
}

// Share is how many processors of this node there are for each of its ranks; 0: they have to share them.
func (e *Engine) Share() int { return e.share }

func fits(function string, counts ...int) error {
	for _, n := range counts {
		if n < 0 || n > math.MaxInt32 {
			return &engine.Error{Function: function, Class: engine.ErrCount,
				Text: fmt.Sprintf("%d elements: a message has room for 0 to %d", n, math.MaxInt32)}
		}
	}
	return nil
}

// partner makes sure that C has words for a rank and a tag.
func partner(function string, rank, tag int) error {
	switch {
	case int(int32(rank)) != rank:
		return &engine.Error{Function: function, Class: engine.ErrRank, Text: fmt.Sprintf("there is no rank %d", rank)}
	case int(int32(tag)) != tag:
		return &engine.Error{Function: function, Class: engine.ErrTag, Text: fmt.Sprintf("there is no tag %d", tag)}
	}
	return nil
}

func mode(synchronous bool) C.int {
	if synchronous {
		return C.REAL_SYNCHRONOUS
	}
	return C.REAL_STANDARD
}

func statusOf(st *C.nx_status) engine.Status {
	return engine.Status{Source: int(st.source), Tag: int(st.tag), Bytes: int(st.bytes), Cancelled: st.cancelled != 0}
}

// World is the communicator of all ranks: MPI_COMM_WORLD, or what the program has attached by.
func (e *Engine) World() engine.Handle { return engine.Handle(C.real_comm_world()) }

// Self is MPI_COMM_SELF.
func (e *Engine) Self() engine.Handle { return engine.Handle(C.real_comm_self()) }

// Null is MPI_COMM_NULL.
func (e *Engine) Null() engine.Handle { return engine.Handle(C.real_comm_null()) }

// TagUB is the attribute MPI_TAG_UB.
func (e *Engine) TagUB() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(C.real_tag_ub())
}

// Rank is MPI_Comm_rank.
func (e *Engine) Rank(comm engine.Handle) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var n C.int
	err := problem("MPI_Comm_rank", C.real_comm_rank(C.rh_t(comm), &n))
	return int(n), err
}

// Size is MPI_Comm_size.
func (e *Engine) Size(comm engine.Handle) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var n C.int
	err := problem("MPI_Comm_size", C.real_comm_size(C.rh_t(comm), &n))
	return int(n), err
}

// Send is MPI_Send or MPI_Ssend.
func (e *Engine) Send(b engine.Buf, synchronous bool, to, tag int, comm engine.Handle) error {
	name := engine.SendName(synchronous, false)
	if err := errors.Join(fits(name, b.N), partner(name, to, tag)); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return problem(name, C.real_send(mode(synchronous), (*C.char)(b.P), C.int(b.N), typeOf(b.Type), C.int(to), C.int(tag), C.rh_t(comm)))
}

// Recv is MPI_Recv.
func (e *Engine) Recv(b engine.Buf, from, tag int, comm engine.Handle) (engine.Status, error) {
	if err := errors.Join(fits("MPI_Recv", b.N), partner("MPI_Recv", from, tag)); err != nil {
		return engine.Status{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var st C.nx_status
	err := problem("MPI_Recv", C.real_recv((*C.char)(b.P), C.int(b.N), typeOf(b.Type), C.int(from), C.int(tag), C.rh_t(comm), &st))
	return received("MPI_Recv", &st, roomOf(b), err)
}

// roomOf is how many bytes a receive has room for.
func roomOf(b engine.Buf) int { return b.N * b.Type.Size() }

// received is the end of a receive with room for so many bytes; negative: it is none. Open MPI 4 does not tell of a message of a rank
// to itself that is longer than the receive that was there before it.
func received(function string, st *C.nx_status, room int, err error) (engine.Status, error) {
	if room < 0 { // what is in the status then, MPI does not say
		return engine.Status{}, err
	}
	s := statusOf(st)
	if err == nil && s.Bytes > room && !s.Cancelled {
		err = &engine.Error{Function: function, Class: engine.ErrTruncate, Text: fmt.Sprintf("a message of %d bytes, room for %d", s.Bytes, room)}
	}
	return s, err
}

func (h *held) buf(b engine.Buf) {
	if b.P != nil {
		h.pin.Pin(b.P)
	}
}

// A request is an operation that was begun. Until it is complete its engine knows it, so that its memory stays where it is even if
// the program has lost it.
type request struct {
	held
	e          *Engine
	h          C.rh_t
	next, prev *request
	freed      bool
	function   string
	peer, tag  int    // -1: none, or any
	room       int    // of a receive, in bytes; -1: it is none
	maker      string // the file and line that have begun it, if that is asked for
}

// begun is a request that was begun, if it was.
func (q *request) begun(err error) (engine.Request, error) {
	if err != nil {
		q.pin.Unpin()
		return nil, err
	}
	e := q.e
	q.next, q.prev = &e.open, e.open.prev
	q.prev.next, q.next.prev = q, q
	if e.where {
		q.maker = outside()
	}
	if e.freed > 0 {
		e.sweep()
	}
	return q, nil
}

// over is the end of a request: its memory is the program's again.
func (q *request) over() {
	q.prev.next, q.next.prev = q.next, q.prev
	if q.freed {
		q.e.freed--
	}
	q.pin.Unpin()
}

// sweep ends the freed requests that are complete.
func (e *Engine) sweep() error {
	var first error
	for q := e.open.next; q != &e.open; {
		next := q.next
		if q.freed {
			var st C.nx_status
			var flag C.int
			class := C.real_done(&q.h, &flag, &st)
			if class != 0 || flag != 0 {
				q.over()
			}
			if first == nil {
				first = problem(q.function, class)
			}
		}
		q = next
	}
	return first
}

// Free is MPI_Request_free: the request is completed by the engine, which has its memory until then.
func (q *request) Free() error {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	q.freed = true
	q.e.freed++
	return q.e.sweep()
}

// outside is the file and line of the first caller that is not of packages mpi and mpilib.
func outside() string {
	const packages = "github.com/byssus-hpc/byssus/"
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, packages+"internal/engine/mpilib.") && !strings.HasPrefix(f.Function, packages+"mpi.") || !more {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
	}
}

func (q *request) String() string {
	s := q.function
	if q.peer >= 0 {
		s += fmt.Sprintf(" with rank %d", q.peer)
	}
	if q.tag >= 0 {
		s += fmt.Sprintf(", tag %d", q.tag)
	}
	if q.maker != "" {
		return fmt.Sprintf("%s, begun at %s", s, q.maker)
	}
	return s
}

// Close waits for the freed requests, and says which others nobody has waited for.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := 0; e.freed > 0; n++ {
		if err := e.sweep(); err != nil {
			return err
		}
		e.Rest(n)
	}
	n := 0
	for q := e.open.next; q != &e.open; q = q.next {
		n++
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%d requests were begun, and neither waited for nor freed; the first: %v", n, e.open.next)
	if !e.where {
		text += " (BYSSUS_MPI_CHECK=1 tells where)"
	}
	return &engine.Error{Function: "MPI_Finalize", Class: engine.ErrPending, Text: text}
}

// BeginSend is MPI_Isend or MPI_Issend.
func (e *Engine) BeginSend(b engine.Buf, synchronous bool, to, tag int, comm engine.Handle) (engine.Request, error) {
	name := engine.SendName(synchronous, true)
	if err := errors.Join(fits(name, b.N), partner(name, to, tag)); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q := &request{e: e, function: name, peer: to, tag: tag, room: -1}
	q.buf(b)
	class := C.real_begin_send(mode(synchronous), (*C.char)(b.P), C.int(b.N), typeOf(b.Type), C.int(to), C.int(tag), C.rh_t(comm), &q.h)
	return q.begun(problem(name, class))
}

// BeginRecv is MPI_Irecv.
func (e *Engine) BeginRecv(b engine.Buf, from, tag int, comm engine.Handle) (engine.Request, error) {
	if err := errors.Join(fits("MPI_Irecv", b.N), partner("MPI_Irecv", from, tag)); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q := &request{e: e, function: "MPI_Irecv", peer: from, tag: tag, room: roomOf(b)}
	q.buf(b)
	class := C.real_begin_recv((*C.char)(b.P), C.int(b.N), typeOf(b.Type), C.int(from), C.int(tag), C.rh_t(comm), &q.h)
	return q.begun(problem("MPI_Irecv", class))
}

// Probe is MPI_Improbe.
func (e *Engine) Probe(from, tag int, comm engine.Handle) (engine.Handle, engine.Status, bool, error) {
	if err := partner("MPI_Improbe", from, tag); err != nil {
		return 0, engine.Status{}, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var flag C.int
	var message C.rh_t
	var st C.nx_status
	err := problem("MPI_Improbe", C.real_probe(C.int(from), C.int(tag), C.rh_t(comm), &flag, &message, &st))
	st.cancelled = 0 // which libraries leave as it was
	return engine.Handle(message), statusOf(&st), flag != 0, err
}

// Take is MPI_Mrecv.
func (e *Engine) Take(b engine.Buf, message engine.Handle) (engine.Status, error) {
	if err := fits("MPI_Mrecv", b.N); err != nil {
		return engine.Status{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var st C.nx_status
	h := C.rh_t(message)
	err := problem("MPI_Mrecv", C.real_take((*C.char)(b.P), C.int(b.N), typeOf(b.Type), &h, &st))
	return statusOf(&st), err
}

// collective is an operation in C's words; its memory is pinned by h.
func collective(c engine.Collective, h *held) (C.struct_real_collective, error) {
	err := fits(c.Kind.Name(true), c.Send.N, c.Recv.N)
	h.c = c.Counts
	h.buf(c.Send)
	h.buf(c.Recv)
	list := func(l []int32) *C.int {
		if len(l) == 0 {
			return nil
		}
		h.pin.Pin(unsafe.SliceData(l))
		return (*C.int)(unsafe.Pointer(unsafe.SliceData(l)))
	}
	out := C.struct_real_collective{send: c.Send.P, recv: c.Recv.P, comm: C.rh_t(c.Comm), kind: C.int32_t(c.Kind),
		sendcount: C.int32_t(c.Send.N), recvcount: C.int32_t(c.Recv.N), op: opOf(c.Op), root: C.int32_t(c.Root)}
	if n := c.Counts; n != nil {
		out.sendcounts, out.senddispls = list(n.SendCounts), list(n.SendDispls)
		out.recvcounts, out.recvdispls = list(n.RecvCounts), list(n.RecvDispls)
	}
	t := c.Recv.Type
	if c.Recv.P == nil {
		t = c.Send.Type
	}
	out._type = typeOf(t)
	if !c.InPlace && out.send == nil {
		out.send = unsafe.Pointer(C.real_nothing())
	}
	return out, err
}

// Run performs a collective operation.
func (e *Engine) Run(c engine.Collective) error {
	if uint(c.Send.N|c.Recv.N) > math.MaxInt32 {
		return fits(c.Kind.Name(true), c.Send.N, c.Recv.N)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.Counts != nil {
		return e.various(c)
	}
	send, t := (*C.char)(c.Send.P), c.Recv.Type
	if c.Recv.P == nil {
		t = c.Send.Type
	}
	if !c.InPlace && send == nil {
		send = C.real_nothing()
	}
	class := C.real_equal(C.int(c.Kind), send, C.int(c.Send.N), (*C.char)(c.Recv.P), C.int(c.Recv.N), typeOf(t), C.int(opOf(c.Op)),
		C.int(c.Root), C.rh_t(c.Comm))
	if class != 0 {
		return problem(c.Kind.Name(true), class)
	}
	return nil
}

// Allreduce is MPI_Allreduce, of elements that are there.
func (e *Engine) Allreduce(send, recv unsafe.Pointer, n int, t engine.Type, op engine.Op, comm engine.Handle) error {
	if uint(n) > math.MaxInt32 {
		return fits("MPI_Allreduce", n)
	}
	e.mu.Lock()
	class := C.real_allreduce((*C.char)(send), (*C.char)(recv), C.int(n), typeOf(t), C.int(opOf(op)), C.rh_t(comm))
	e.mu.Unlock()
	if class != 0 {
		return problem("MPI_Allreduce", class)
	}
	return nil
}

// various performs an operation with counts for each rank.
func (e *Engine) various(c engine.Collective) error {
	var h held
	defer h.pin.Unpin()
	in, err := collective(c, &h)
	if err != nil {
		return err
	}
	return problem(c.Kind.Name(true), C.real_collective(&in, nil))
}

// Begin begins a collective operation.
func (e *Engine) Begin(c engine.Collective) (engine.Request, error) {
	name := c.Kind.Name(false)
	e.mu.Lock()
	defer e.mu.Unlock()
	q := &request{e: e, function: name, peer: -1, tag: -1, room: -1}
	in, err := collective(c, &q.held)
	if err != nil {
		q.pin.Unpin()
		return nil, err
	}
	return q.begun(problem(name, C.real_collective(&in, &q.h)))
}

// Wait is MPI_Wait.
func (q *request) Wait() (engine.Status, error) {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	var st C.nx_status
	class := C.real_finish(&q.h, &st)
	q.over()
	return received("MPI_Wait", &st, q.room, problem("MPI_Wait", class))
}

// Test is MPI_Test.
func (q *request) Test() (engine.Status, bool, error) {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	var st C.nx_status
	var flag C.int
	class := C.real_done(&q.h, &flag, &st)
	if class == 0 && flag == 0 {
		return engine.Status{}, false, nil
	}
	q.over()
	end, err := received("MPI_Test", &st, q.room, problem("MPI_Test", class))
	return end, true, err
}

// Cancel is MPI_Cancel.
func (q *request) Cancel() error {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	return problem("MPI_Cancel", C.real_cancel(q.h))
}

// Rest lets others have the processor.
func (e *Engine) Rest(n int) {
	if n < restless {
		Rest(0)
	} else {
		Rest(restMicroseconds)
	}
}

// How a call that looks again and again rests: it yields so many times, then sleeps.
const (
	restless         = 256
	restMicroseconds = 50
)

// Dup is MPI_Comm_dup.
func (e *Engine) Dup(comm engine.Handle) (engine.Handle, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out C.rh_t
	err := problem("MPI_Comm_dup", C.real_comm_dup(C.rh_t(comm), &out))
	return engine.Handle(out), err
}

// Split is MPI_Comm_split.
func (e *Engine) Split(comm engine.Handle, color, key int) (engine.Handle, bool, error) {
	if err := fits("MPI_Comm_split", max(color, 0)); err != nil {
		return 0, false, err
	}
	if int(int32(key)) != key {
		return 0, false, &engine.Error{Function: "MPI_Comm_split", Class: engine.ErrArg, Text: fmt.Sprintf("the key %d is longer than 32 bits", key)}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var out C.rh_t
	err := problem("MPI_Comm_split", C.real_comm_split(C.rh_t(comm), C.int(max(color, -1)), C.int(key), &out))
	return made(out, err)
}

// made is a communicator that this rank may not be a part of.
func made(h C.rh_t, err error) (engine.Handle, bool, error) {
	if err != nil || h == C.real_comm_null() {
		return 0, false, err
	}
	return engine.Handle(h), true, nil
}

// SplitShared is MPI_Comm_split_type with MPI_COMM_TYPE_SHARED.
func (e *Engine) SplitShared(comm engine.Handle, key int) (engine.Handle, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out C.rh_t
	err := problem("MPI_Comm_split_type", C.real_comm_split_shared(C.rh_t(comm), C.int(key), &out))
	return engine.Handle(out), err
}

func ints(list []int) []C.int {
	out := make([]C.int, len(list), len(list)+1)
	for i, n := range list {
		out[i] = C.int(n)
	}
	return out
}

// Create is MPI_Comm_create, or MPI_Comm_create_group.
func (e *Engine) Create(comm engine.Handle, ranks []int, tag int) (engine.Handle, bool, error) {
	name := "MPI_Comm_create_group"
	if tag < 0 {
		name = "MPI_Comm_create"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var out C.rh_t
	err := problem(name, C.real_comm_create(C.rh_t(comm), unsafe.SliceData(ints(ranks)), C.int(len(ranks)), C.int(tag), &out))
	return made(out, err)
}

// Cart is MPI_Cart_create.
func (e *Engine) Cart(comm engine.Handle, dims []int, periods []bool, reorder bool) (engine.Handle, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	number := func(b bool) C.int {
		if b {
			return 1
		}
		return 0
	}
	around := make([]C.int, 0, len(periods)+1)
	for _, p := range periods {
		around = append(around, number(p))
	}
	var out C.rh_t
	err := problem("MPI_Cart_create", C.real_comm_cart(C.rh_t(comm), unsafe.SliceData(ints(dims)), unsafe.SliceData(around), C.int(len(dims)),
		number(reorder), &out))
	return made(out, err)
}

// Free is MPI_Comm_free.
func (e *Engine) Free(comm engine.Handle) error {
	if comm == e.World() || comm == e.Self() {
		return &engine.Error{Function: "MPI_Comm_free", Class: engine.ErrComm, Text: "the communicators that are always there cannot be freed"}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := C.rh_t(comm)
	return problem("MPI_Comm_free", C.real_comm_free(&h))
}

// WorldRanks is the ranks of a communicator in World.
func (e *Engine) WorldRanks(comm engine.Handle) ([]int, error) {
	n, err := e.Size(comm)
	if err != nil {
		return nil, err
	}
	ranks, world := make([]C.int, n), make([]C.int, n)
	list := make([]int, n)
	for i := range ranks {
		ranks[i] = C.int(i)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	class := C.real_comm_world_ranks(C.rh_t(comm), unsafe.SliceData(ranks), C.int(n), unsafe.SliceData(world))
	for i, w := range world {
		list[i] = int(w)
	}
	return list, problem("MPI_Group_translate_ranks", class)
}

// Fortran is MPI_Comm_c2f.
func (e *Engine) Fortran(comm engine.Handle) (int, error) {
	var n C.int
	err := problem("MPI_Comm_c2f", C.real_comm_fortran(C.rh_t(comm), &n))
	return int(n), err
}

// FromFortran is MPI_Comm_f2c.
func (e *Engine) FromFortran(handle int) (engine.Handle, error) {
	if err := fits("MPI_Comm_f2c", max(handle, -handle)); err != nil {
		return 0, err
	}
	var out C.rh_t
	err := problem("MPI_Comm_f2c", C.real_fortran_comm(C.int(handle), &out))
	return engine.Handle(out), err
}
