//go:build cgo

package mpilib

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo LDFLAGS: -ldl
#cgo noescape real_ring_send
#cgo nocallback real_ring_send
#cgo noescape real_ring_look
#cgo nocallback real_ring_look
#include <stdlib.h>
#include "glue.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/engine"
)

// Available tells whether the program was built with cgo, without which there is no MPI.
const Available = true

// problem is the error of a neutral error class that a call has just returned.
func problem(what string, class C.int) error {
	if class == 0 {
		return nil
	}
	text := (*C.char)(C.malloc(C.NX_MAX_ERROR_STRING))
	defer C.free(unsafe.Pointer(text))
	C.real_error(class, text)
	return &engine.Error{Function: what, Class: int(class), Text: strings.TrimSpace(C.GoString(text))}
}

// Load finds the library: one that the process has already, else a file.
func Load(file string) error {
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	if why := C.real_load(name); why != nil {
		return fmt.Errorf("MPI: the library %s, which the launcher of this process wants, cannot be used: %s", file, C.GoString(why))
	}
	if wants := families()[file]; Name() != wants {
		return fmt.Errorf("MPI: this process has the library of %s, but was started by a launcher that wants %s (%s)", Name(), wants, file)
	}
	return nil
}

// Name is the family of the library: mpich or openmpi.
func Name() string { return C.GoString(C.real_name()) }

// Init calls MPI_Init_thread, and returns this rank's number and how many there are.
func Init() (rank, ranks int, err error) {
	var provided, r, n, state C.int
	if err := problem("MPI_Initialized", C.real_state(&state)); err != nil {
		return 0, 0, err
	}
	switch state {
	case C.REAL_FINALIZED:
		return 0, 0, errors.New("MPI: it is finalized in this process, and cannot be initialized again: one Run is all there is under MPI")
	case C.REAL_INITIALIZED, C.REAL_ATTACHED:
		return 0, 0, errors.New("MPI: this process has initialized it already")
	}
	if err := problem("MPI_Init_thread", C.real_init(&provided)); err != nil {
		return 0, 0, err
	}
	if provided < C.NX_THREAD_SERIALIZED {
		runtime.LockOSThread() // it may be called by the thread that has initialized it only
	}
	err = problem("MPI_Comm_rank", C.real_world(&r, &n))
	return int(r), int(n), err
}

// Attach makes the ranks those of a communicator of a program that has initialized MPI, by its handle in Fortran, of which a
// duplicate is made; all of its ranks call it. It returns this rank's number and how many there are.
func Attach(comm int) (rank, ranks int, err error) {
	none := C.CString("")
	defer C.free(unsafe.Pointer(none))
	if why := C.real_load(none); why != nil {
		return 0, 0, fmt.Errorf("MPI: %s", C.GoString(why))
	}
	var state, r, n C.int
	if err := problem("MPI_Initialized", C.real_state(&state)); err != nil {
		return 0, 0, err
	}
	switch state {
	case C.REAL_NEW, C.REAL_FINALIZED:
		return 0, 0, errors.New("MPI: the program has not initialized it, or has finalized it")
	case C.REAL_ATTACHED:
		return 0, 0, errors.New("MPI: this process is attached already")
	}
	if err := problem("MPI_Comm_dup", C.real_attach(C.int(comm))); err != nil {
		return 0, 0, err
	}
	err = problem("MPI_Comm_rank", C.real_world(&r, &n))
	return int(r), int(n), err
}

// Detach is the end of Attach; all ranks call it.
func Detach() error { return problem("MPI_Comm_free", C.real_detach()) }

// Finalize calls MPI_Finalize.
func Finalize() error { return problem("MPI_Finalize", C.real_finalize()) }

// Abort ends the job, once a launcher has read what this process printed; after Finalize it does nothing.
func Abort(code int) { C.real_abort(C.int(code)) }

// Bcast sends what root has in b to all ranks; the length is the same everywhere, and not 0.
func Bcast(b []byte, root int) error {
	return problem("MPI_Bcast", C.real_bcast(unsafe.Pointer(unsafe.SliceData(b)), C.int(len(b)), C.int(root)))
}

// Least is the least of all ranks' numbers.
func Least(mine int) (int, error) {
	var least C.long
	err := problem("MPI_Allreduce", C.real_least(C.long(mine), &least))
	return int(least), err
}

// Rest lets others have the processor: it yields, or sleeps.
func Rest(microseconds int) { C.real_rest(C.int(microseconds)) }

// A Ring carries batches. Its memory is pinned as long as it is open: the library has some of it between calls.
type Ring struct {
	e      *Engine
	size   int                 // of a batch, in bytes
	result *C.struct_real_ring // of C
	pin    runtime.Pinner
	free   [][]byte // what was used last comes first: a cache may still have it
	empty  C.int    // the receive that is to be posted again, or -1
	fresh  []byte   // for that
	posted [C.REAL_RECEIVES][]byte
	longs  map[*Long]struct{} // that are not complete: the library has their memory as long as the ring is there
	held   [C.REAL_SENDS + C.REAL_URGENT][]byte
}

// open is the ring that is open, if one is: the library has its memory, also when nobody else knows it any more.
var open = new(atomic.Pointer[Ring])

// Open makes the ring; all ranks do.
func Open(e *Engine) (*Ring, error) {
	r := &Ring{e: e, size: batches()[Name()], result: (*C.struct_real_ring)(C.calloc(1, C.sizeof_struct_real_ring)), empty: -1, longs: map[*Long]struct{}{}}
	open.Store(r)
	class := C.real_open(C.int(r.size))
	r.fresh = r.Room()
	for i := range r.posted {
		if class == 0 {
			r.posted[i] = r.Room()
			class = C.real_post(C.int(i), pointer(r.posted[i]))
		}
	}
	return r, problem("the ring of receives", class)
}

// batches are how long a batch is with a family of libraries: what is quickest. UCX, below MPICH, sends 8 KiB in one piece.
func batches() map[string]int { return map[string]int{"mpich": 8 << 10, "openmpi": 16 << 10} }

// Size is how many bytes a batch has room for.
func (r *Ring) Size() int { return r.size }

func pointer(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

// Room returns an empty batch of the ring's memory, with room for Size bytes.
func (r *Ring) Room() []byte {
	if last := len(r.free) - 1; last >= 0 {
		b := r.free[last]
		r.free = r.free[:last]
		return b
	}
	b := make([]byte, 0, r.size)
	r.pin.Pin(unsafe.SliceData(b))
	return b
}

// Free takes a batch of the ring's memory back.
func (r *Ring) Free(b []byte) {
	if cap(b) != r.size {
		panic(fmt.Sprintf("mpilib: memory of %d bytes is given to the ring, whose batches have %d", cap(b), r.size))
	}
	r.free = append(r.free, b[:0])
}

// Send sends a batch to a rank, if the ring takes it now: its memory, which is the ring's, is given back then. An urgent one does not wait
// until others are received.
func (r *Ring) Send(to, tag int, b []byte, urgent bool) (sent bool, err error) {
	if !r.e.mu.TryLock() {
		return false, nil // a goroutine is in a call of package mpi
	}
	first := C.int(0)
	if urgent {
		first = 1
	}
	class := C.real_ring_send(r.result, first, pointer(b), C.int(len(b)), C.int(to), C.int(tag), r.empty, pointer(r.fresh))
	r.e.mu.Unlock()
	if class != 0 {
		return false, problem("a send of the ring", class)
	}
	r.filled()
	if r.result.sent == 0 {
		return false, nil
	}
	if held := r.result.held; held >= 0 {
		r.held[held], b = b, r.held[held]
	}
	if b != nil {
		r.Free(b)
	}
	return true, nil
}

// Look returns a message in memory of the ring, if one has come within so many looks; else nil.
func (r *Ring) Look(looks int) (from, tag int, b []byte, err error) {
	if !r.e.mu.TryLock() {
		return 0, 0, nil, nil // as in Send
	}
	class := C.real_ring_look(r.result, C.int(looks), r.empty, pointer(r.fresh))
	r.e.mu.Unlock()
	if class != 0 {
		return 0, 0, nil, problem("a receive of the ring", class)
	}
	r.filled()
	if r.result.got < 0 {
		return 0, 0, nil, nil
	}
	r.empty = C.int(r.result.got)
	return int(r.result.from), int(r.result.tag), r.posted[r.empty][:r.result.n], nil
}

// filled notes that the receive that was empty has been posted.
func (r *Ring) filled() {
	if r.empty >= 0 {
		r.posted[r.empty], r.fresh = r.fresh, r.Room()
		r.empty = -1
	}
}

// Close completes what was sent, and ends the receives; all ranks do, when nothing is on its way.
func (r *Ring) Close() error {
	C.free(unsafe.Pointer(r.result))
	err := problem("the end of the ring", C.real_close())
	if err == nil {
		r.pin.Unpin()
		open.CompareAndSwap(r, nil)
	}
	return err
}

// Abandon ends what can be ended on this rank alone, without waiting: the receives in which nothing arrives. The ring is of no use then.
func (r *Ring) Abandon() error {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	return problem("the end of the ring", C.real_abandon())
}

// A Long is a long message on its way, in parts that MPI has numbers for. Its memory is pinned until it is complete.
type Long struct {
	r    *Ring
	b    []byte
	open []C.rh_t // parts that are not complete
	pin  runtime.Pinner
}

const mostPart = 1 << 30 // bytes: MPI counts with 32 bits

// parts begins to send or receive every part. Those of one message have one tag: MPI keeps their order.
func (r *Ring) parts(what string, b []byte, begin func(p unsafe.Pointer, n C.int, request *C.rh_t) C.int) (*Long, error) {
	l := &Long{r: r, b: b, open: make([]C.rh_t, (len(b)+mostPart-1)/mostPart)}
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	l.pin.Pin(unsafe.SliceData(b))
	r.longs[l] = struct{}{}
	for i := range l.open {
		part := b[i*mostPart : min((i+1)*mostPart, len(b))]
		if class := begin(unsafe.Pointer(unsafe.SliceData(part)), C.int(len(part)), &l.open[i]); class != 0 {
			return l, problem(what, class)
		}
	}
	return l, nil
}

// SendLong begins to send one.
func (r *Ring) SendLong(b []byte, to, tag int) (*Long, error) {
	return r.parts("MPI_Isend", b, func(p unsafe.Pointer, n C.int, request *C.rh_t) C.int {
		return C.real_isend(p, n, C.int(to), C.int(tag), request)
	})
}

// ReceiveLong begins to receive one of that length.
func (r *Ring) ReceiveLong(n, from, tag int) (*Long, error) {
	return r.parts("MPI_Irecv", make([]byte, n), func(p unsafe.Pointer, n C.int, request *C.rh_t) C.int {
		return C.real_irecv(p, n, C.int(from), C.int(tag), request)
	})
}

// Done tells whether it is complete, and returns its memory then.
func (l *Long) Done() (b []byte, done bool, err error) {
	l.r.e.mu.Lock()
	defer l.r.e.mu.Unlock()
	for ; len(l.open) > 0; l.open = l.open[1:] {
		var flag C.int
		err := problem("MPI_Test", C.real_test(&l.open[0], &flag))
		if err != nil || flag == 0 {
			return nil, false, err
		}
	}
	l.pin.Unpin()
	delete(l.r.longs, l)
	return l.b, true, nil
}

// families are the families of libraries.
func families() map[string]string {
	return map[string]string{"libmpi.so.40": "openmpi", "libmpich.so.12": "mpich"}
}
