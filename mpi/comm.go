package mpi

import (
	"errors"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/internal/engine"
)

// An Error is a failed call: the function, MPI's class of the error, and the library's text.
type Error = engine.Error

// Some classes of errors, as they are numbered in the ABI of MPI-5.0; ClassOf finds that of an error.
const (
	ErrBuffer   = engine.ErrBuffer
	ErrCount    = engine.ErrCount
	ErrType     = engine.ErrType
	ErrTag      = engine.ErrTag
	ErrComm     = engine.ErrComm
	ErrRank     = engine.ErrRank
	ErrRoot     = engine.ErrRoot
	ErrOp       = engine.ErrOp
	ErrTopology = engine.ErrTopology
	ErrDims     = engine.ErrDims
	ErrArg      = engine.ErrArg
	ErrRequest  = engine.ErrRequest
	ErrTruncate = engine.ErrTruncate
	ErrOther    = engine.ErrOther
)

// ClassOf is the class of an error of MPI, or 0.
func ClassOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return 0
}

// Wildcards, and the rank that messages to and from are nothing.
const (
	AnySource = engine.AnySource
	AnyTag    = engine.AnyTag
	ProcNull  = engine.ProcNull
)

// A Comm is a communicator, as one rank has it.
type Comm struct {
	e          engine.Engine
	h          engine.Handle
	rank, size int
	before     func(function string) // nil: calls that block are not reported
	dims       []int                 // of a Cartesian one
	periods    []bool
}

// New is for the runtime of package amt: a communicator of an engine. What is not nil is called with the name of each function that
// may block, before it does.
func New(e engine.Engine, h engine.Handle, before func(function string)) (*Comm, error) {
	c := &Comm{e: e, h: h, before: before}
	var err error
	if c.rank, err = e.Rank(h); err != nil {
		return nil, err
	}
	c.size, err = e.Size(h)
	return c, err
}

// blocks is called before a function that may block.
func (c *Comm) blocks(function string) {
	if c.before != nil {
		c.before(function)
	}
}

// Rank is this rank's number, from 0.
func (c *Comm) Rank() int { return c.rank }

// Size is how many ranks there are.
func (c *Comm) Size() int { return c.size }

// sub is a communicator that was made of this one; nil if this rank has no part of it.
func (c *Comm) sub(h engine.Handle, some bool, err error) (*Comm, error) {
	if err != nil || !some {
		return nil, err
	}
	return New(c.e, h, c.before)
}

// Dup makes a communicator of the same ranks whose messages are apart.
func (c *Comm) Dup() (*Comm, error) {
	c.blocks("MPI_Comm_dup")
	h, err := c.e.Dup(c.h)
	n, err := c.sub(h, true, err)
	if err == nil {
		n.dims, n.periods = c.dims, c.periods
	}
	return n, err
}

// Split makes a communicator of the ranks that give the same color, in the order of their keys. With a color below 0 it
// makes none, and returns nil.
func (c *Comm) Split(color, key int) (*Comm, error) {
	c.blocks("MPI_Comm_split")
	return c.sub(c.e.Split(c.h, color, key))
}

// SplitShared makes a communicator of the ranks that share a node, in the order of their keys.
func (c *Comm) SplitShared(key int) (*Comm, error) {
	c.blocks("MPI_Comm_split_type")
	h, err := c.e.SplitShared(c.h, key)
	return c.sub(h, true, err)
}

// Create makes a communicator of a group of this one's ranks; all ranks of this one call it, with the same group. It returns nil
// on ranks that are not of the group.
func (c *Comm) Create(g Group) (*Comm, error) {
	c.blocks("MPI_Comm_create")
	ranks, err := c.of(g)
	if err != nil {
		return nil, err
	}
	return c.sub(c.e.Create(c.h, ranks, -1))
}

// CreateGroup is Create that the ranks of the group alone call; the tag keeps several at a time apart.
func (c *Comm) CreateGroup(g Group, tag int) (*Comm, error) {
	if tag < 0 {
		return nil, &Error{Function: "MPI_Comm_create_group", Class: ErrTag, Text: fmt.Sprintf("the tag %d is below 0", tag)}
	}
	c.blocks("MPI_Comm_create_group")
	ranks, err := c.of(g)
	if err != nil {
		return nil, err
	}
	return c.sub(c.e.Create(c.h, ranks, tag))
}

// of is the ranks of a group in this communicator.
func (c *Comm) of(g Group) ([]int, error) {
	all, err := c.Group()
	if err != nil {
		return nil, err
	}
	ranks := g.In(all)
	if n := slices.Index(ranks, Undefined); n >= 0 {
		return nil, &Error{Function: "MPI_Comm_create", Class: ErrRank, Text: fmt.Sprintf("rank %d of the group is none of the communicator", n)}
	}
	return ranks, nil
}

// Free ends a communicator; all its ranks do.
func (c *Comm) Free() error {
	c.blocks("MPI_Comm_free")
	err := c.e.Free(c.h)
	if err == nil {
		c.h = c.e.Null() // which every call knows for none
	}
	return err
}

// Fortran is the handle that Fortran knows the communicator by, and a library of C gets by MPI_Comm_f2c.
func (c *Comm) Fortran() (int, error) { return c.e.Fortran(c.h) }

// FromFortran is the communicator that Fortran knows by a handle, or C by MPI_Comm_c2f. It is found by another of the same
// library, such as that of Init.
func (c *Comm) FromFortran(handle int) (*Comm, error) {
	h, err := c.e.FromFortran(handle)
	return c.sub(h, true, err)
}

// A Group is an ordered set of ranks, by their numbers in the world.
type Group []int

// Undefined is the number of a rank that is not in a group.
const Undefined = -32766

// Group is the ranks of a communicator.
func (c *Comm) Group() (Group, error) {
	ranks, err := c.e.WorldRanks(c.h)
	return Group(ranks), err
}

// In is the numbers that the ranks of the group have in another; Undefined where they have none.
func (g Group) In(o Group) []int {
	list := make([]int, len(g))
	for n, rank := range g {
		if list[n] = slices.Index(o, rank); list[n] < 0 {
			list[n] = Undefined
		}
	}
	return list
}

// Incl is the ranks of the given numbers, in their order.
func (g Group) Incl(numbers ...int) (Group, error) {
	var out Group
	for _, n := range numbers {
		if n < 0 || n >= len(g) || slices.Contains(out, g[n]) {
			return nil, &Error{Function: "MPI_Group_incl", Class: ErrRank, Text: fmt.Sprintf("rank %d of a group of %d, or named twice", n, len(g))}
		}
		out = append(out, g[n])
	}
	return out, nil
}

// Excl is the others than the ranks of the given numbers, in the order of the group.
func (g Group) Excl(numbers ...int) (Group, error) {
	without, err := g.Incl(numbers...)
	return g.Difference(without), err
}

// Union is the ranks of the group, and then those of another that are not in it.
func (g Group) Union(o Group) Group { return append(slices.Clone(g), o.Difference(g)...) }

// Intersection is the ranks of the group that are in another.
func (g Group) Intersection(o Group) Group {
	return slices.DeleteFunc(slices.Clone(g), func(rank int) bool { return !slices.Contains(o, rank) })
}

// Difference is the ranks of the group that are not in another.
func (g Group) Difference(o Group) Group {
	return slices.DeleteFunc(slices.Clone(g), func(rank int) bool { return slices.Contains(o, rank) })
}

// Cart makes a communicator whose ranks lie in a grid of these dimensions, the last of which varies fastest; periodic ones are
// closed. It returns nil on ranks beyond the grid. With reorder, ranks may get other numbers.
func (c *Comm) Cart(dims []int, periodic []bool, reorder bool) (*Comm, error) {
	if len(dims) != len(periodic) {
		return nil, &Error{Function: "MPI_Cart_create", Class: ErrDims, Text: fmt.Sprintf("%d dimensions, of which it is said of %d whether they are periodic", len(dims), len(periodic))}
	}
	c.blocks("MPI_Cart_create")
	n, err := c.sub(c.e.Cart(c.h, dims, periodic, reorder))
	if n != nil {
		n.dims, n.periods = append([]int{}, dims...), slices.Clone(periodic)
	}
	return n, err
}

// Dims is the dimensions of a communicator that Cart made, and which are periodic; empty for others.
func (c *Comm) Dims() (dims []int, periodic []bool) {
	return slices.Clone(c.dims), slices.Clone(c.periods)
}

// inGrid makes sure that Cart made the communicator, or Sub.
func (c *Comm) inGrid(function string) error {
	if c.dims == nil {
		return &Error{Function: function, Class: ErrTopology, Text: "the communicator has no grid"}
	}
	return nil
}

// TagUB is the highest tag that there is, of which 32767 is the least.
func (c *Comm) TagUB() int { return c.e.TagUB() }

// Coords is where a rank lies in the grid.
func (c *Comm) Coords(rank int) ([]int, error) {
	if err := c.inGrid("MPI_Cart_coords"); err != nil {
		return nil, err
	}
	if rank < 0 || rank >= c.size || len(c.dims) == 0 && rank > 0 {
		return nil, &Error{Function: "MPI_Cart_coords", Class: ErrRank, Text: fmt.Sprintf("rank %d of %d in a grid of %v", rank, c.size, c.dims)}
	}
	at := make([]int, len(c.dims))
	for d := len(at) - 1; d >= 0; d-- {
		at[d], rank = rank%c.dims[d], rank/c.dims[d]
	}
	return at, nil
}

// CartRank is the rank that lies somewhere in the grid; beyond the ends of a dimension that is not periodic there is none.
func (c *Comm) CartRank(at []int) (int, error) {
	if err := c.inGrid("MPI_Cart_rank"); err != nil {
		return 0, err
	}
	if len(at) != len(c.dims) {
		return 0, &Error{Function: "MPI_Cart_rank", Class: ErrDims, Text: fmt.Sprintf("%d coordinates in a grid of %d dimensions", len(at), len(c.dims))}
	}
	rank := 0
	for d, n := range c.dims {
		x := at[d]
		if c.periods[d] {
			x = (x%n + n) % n
		} else if x < 0 || x >= n {
			return ProcNull, &Error{Function: "MPI_Cart_rank", Class: ErrArg, Text: fmt.Sprintf("coordinate %d of dimension %d, of %d", x, d, n)}
		}
		rank = rank*n + x
	}
	return rank, nil
}

// Shift is the ranks that this one receives from and sends to when all send so many steps along a dimension; ProcNull beyond an
// end.
func (c *Comm) Shift(dimension, steps int) (from, to int, err error) {
	if err := c.inGrid("MPI_Cart_shift"); err != nil {
		return 0, 0, err
	}
	if dimension < 0 || dimension >= len(c.dims) {
		return 0, 0, &Error{Function: "MPI_Cart_shift", Class: ErrDims, Text: fmt.Sprintf("dimension %d of %d", dimension, len(c.dims))}
	}
	at, err := c.Coords(c.rank)
	if err != nil {
		return 0, 0, err
	}
	step := func(n int) int {
		there := slices.Clone(at)
		there[dimension] += n
		rank, err := c.CartRank(there)
		if err != nil {
			return ProcNull
		}
		return rank
	}
	return step(-steps), step(steps), nil
}

// Sub makes communicators of the sub-grids that keep some of the dimensions.
func (c *Comm) Sub(keep []bool) (*Comm, error) {
	if err := c.inGrid("MPI_Cart_sub"); err != nil {
		return nil, err
	}
	if len(keep) != len(c.dims) {
		return nil, &Error{Function: "MPI_Cart_sub", Class: ErrDims, Text: fmt.Sprintf("%d dimensions are kept or not, of %d", len(keep), len(c.dims))}
	}
	at, err := c.Coords(c.rank)
	if err != nil {
		return nil, err
	}
	color, key := 0, 0
	dims := []int{} // which is a grid of one rank, if none is kept
	var periods []bool
	for d, n := range c.dims {
		if keep[d] {
			key = key*n + at[d]
			dims, periods = append(dims, n), append(periods, c.periods[d])
		} else {
			color = color*n + at[d]
		}
	}
	s, err := c.Split(color, key)
	if err == nil {
		s.dims, s.periods = dims, periods
	}
	return s, err
}

// DimsCreate divides so many ranks among dimensions, as evenly as can be; dimensions that are not 0 stay.
func DimsCreate(ranks int, dims []int) ([]int, error) {
	out := slices.Clone(dims)
	left := ranks
	var open []int
	for d, n := range out {
		switch {
		case n < 0 || n > 0 && left%n != 0 || ranks < 1:
			return nil, &Error{Function: "MPI_Dims_create", Class: ErrDims, Text: fmt.Sprintf("%d ranks are not divisible by dimensions %v", ranks, dims)}
		case n > 0:
			left /= n
		default:
			open = append(open, d)
		}
	}
	if len(open) == 0 && left != 1 {
		return nil, &Error{Function: "MPI_Dims_create", Class: ErrDims, Text: fmt.Sprintf("dimensions %v are not those of %d ranks", dims, ranks)}
	}
	best := spread(left, len(open), left)
	for i, d := range open {
		out[d] = best[i]
	}
	return out, nil
}

// spread is the n factors, none above most, in falling order, whose greatest is least.
func spread(product, n, most int) []int {
	if n == 0 || product == 1 && n > 0 {
		list := make([]int, n)
		for i := range list {
			list[i] = 1
		}
		if n == 0 && product != 1 {
			return nil
		}
		return list
	}
	for first := 1; first <= min(product, most); first++ {
		if product%first != 0 {
			continue
		}
		if rest := spread(product/first, n-1, first); rest != nil {
			return append([]int{first}, rest...)
		}
	}
	return nil
}
