// Package engine says what package mpi wants of an implementation of MPI: a library that is found at run time
// (internal/engine/mpilib), or ranks that are goroutines of one process (internal/engine/localmpi).
//
// An engine is one rank's. Its calls are made by one goroutine at a time.
package engine

import (
	"fmt"
	"unsafe"
)

// A Handle is an object of an engine: a communicator or a message.
type Handle uint64

// A Type is the type of an element.
type Type int32

// The types of elements.
const (
	Byte Type = iota
	Bool
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float32
	Float64
	Complex64
	Complex128
	types
)

// Types is how many there are.
const Types = int(types)

// Size is the size of an element, in bytes.
func (t Type) Size() int { return [types]int{1, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16}[t] }

// An Op combines elements.
type Op int32

// The operations.
const (
	NoOp Op = iota
	Max
	Min
	Sum
	Prod
	LAnd
	BAnd
	LOr
	BOr
	LXor
	BXor
	ops
)

// Ops is how many there are, with NoOp.
const Ops = int(ops)

// Wildcards and places that are no rank.
const (
	AnySource = -1
	AnyTag    = -1
	ProcNull  = -2
)

// SendName is the function of a send in the MPI standard.
func SendName(synchronous, begins bool) string {
	switch {
	case synchronous && begins:
		return "MPI_Issend"
	case synchronous:
		return "MPI_Ssend"
	case begins:
		return "MPI_Isend"
	}
	return "MPI_Send"
}

// A Buf is N elements in memory; P nil with N > 0 is none.
type Buf struct {
	P    unsafe.Pointer
	N    int
	Type Type
}

// A Status is what is known of a message.
type Status struct {
	Source, Tag int
	Bytes       int
	Cancelled   bool
}

// A Kind is that of a collective operation.
type Kind int32

// The collective operations.
const (
	Barrier Kind = iota
	Bcast
	Gather
	Gatherv
	Scatter
	Scatterv
	Allgather
	Allgatherv
	Alltoall
	Alltoallv
	Reduce
	Allreduce
	ReduceScatterBlock
	Scan
	Exscan
	kinds
)

// Name is the operation's in the MPI standard, blocking or not.
func (k Kind) Name(blocks bool) string {
	if blocks {
		return [kinds]string{"MPI_Barrier", "MPI_Bcast", "MPI_Gather", "MPI_Gatherv", "MPI_Scatter", "MPI_Scatterv", "MPI_Allgather",
			"MPI_Allgatherv", "MPI_Alltoall", "MPI_Alltoallv", "MPI_Reduce", "MPI_Allreduce", "MPI_Reduce_scatter_block", "MPI_Scan",
			"MPI_Exscan"}[k]
	}
	return [kinds]string{"MPI_Ibarrier", "MPI_Ibcast", "MPI_Igather", "MPI_Igatherv", "MPI_Iscatter", "MPI_Iscatterv", "MPI_Iallgather",
		"MPI_Iallgatherv", "MPI_Ialltoall", "MPI_Ialltoallv", "MPI_Ireduce", "MPI_Iallreduce", "MPI_Ireduce_scatter_block", "MPI_Iscan",
		"MPI_Iexscan"}[k]
}

// A Collective is a collective operation. Send.N and Recv.N are the counts that the MPI function takes; those of the variants
// with counts for each rank are apart. It is a value, so that a reduction makes no memory.
type Collective struct {
	Kind       Kind
	Comm       Handle
	Send, Recv Buf
	InPlace    bool
	Op         Op
	Root       int
	Counts     *Counts // nil: equal shares
}

// Counts are those of each rank; nil: the share is Send.N or Recv.N. They stay as they are until the operation is complete.
type Counts struct {
	SendCounts, SendDispls, RecvCounts, RecvDispls []int32
}

// An Error is a failed call.
type Error struct {
	Function string // as the MPI standard calls it
	Class    int    // as MPI-4.1 numbers them in its ABI
	Text     string // the library's own
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Function, e.Text) }

// Error classes that are told here, too.
const (
	ErrBuffer   = 1
	ErrCount    = 2
	ErrType     = 3
	ErrTag      = 4
	ErrComm     = 5
	ErrRank     = 6
	ErrRequest  = 7
	ErrRoot     = 8
	ErrOp       = 10
	ErrTopology = 11
	ErrDims     = 12
	ErrArg      = 13
	ErrTruncate = 15
	ErrOther    = 16
	ErrPending  = 18
)

// A Request is an operation that was begun. It is complete when Wait returns, or Test with true; then, and after Free, it is not used
// again.
type Request interface {
	Wait() (Status, error)
	Test() (Status, bool, error)
	Cancel() error
	Free() error // the engine completes it
}

// An Engine is an implementation of MPI, as one rank has it. Memory that a request was begun on belongs to the engine until
// the request is complete.
type Engine interface {
	World() Handle
	Self() Handle
	Null() Handle // no communicator
	TagUB() int   // the highest tag
	Rank(comm Handle) (int, error)
	Size(comm Handle) (int, error)

	Send(b Buf, synchronous bool, to, tag int, comm Handle) error
	Recv(b Buf, from, tag int, comm Handle) (Status, error)
	BeginSend(b Buf, synchronous bool, to, tag int, comm Handle) (Request, error)
	BeginRecv(b Buf, from, tag int, comm Handle) (Request, error)
	Probe(from, tag int, comm Handle) (message Handle, st Status, found bool, err error)
	Take(b Buf, message Handle) (Status, error)
	Run(c Collective) error
	// Allreduce is Run of that, of n elements each: a call that is made so often that its arguments are worth registers.
	Allreduce(send, recv unsafe.Pointer, n int, t Type, op Op, comm Handle) error
	Begin(c Collective) (Request, error)
	Rest(n int) // after n vain looks in a row

	Dup(comm Handle) (Handle, error)
	Split(comm Handle, color, key int) (Handle, bool, error) // color < 0: no new one
	SplitShared(comm Handle, key int) (Handle, error)
	Create(comm Handle, ranks []int, tag int) (Handle, bool, error) // tag < 0: by all of comm
	Cart(comm Handle, dims []int, periods []bool, reorder bool) (Handle, bool, error)
	Free(comm Handle) error
	WorldRanks(comm Handle) ([]int, error)
	Fortran(comm Handle) (int, error)
	FromFortran(handle int) (Handle, error)
	Close() error // waits for freed requests; an error tells of others that are not complete
}
