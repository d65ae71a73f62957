// Package redset decides how nodes protect each other's parts of a dataset: which nodes form a redundancy set, which
// losses a set survives, where its redundancy lies, and who sends which piece to whom to make it or to rebuild a member.
//
//	members -> Divide -> sets;  a set's scheme and the lengths of its parts -> NewLayout -> Encode, Rebuild -> steps
//
// It guarantees: every member is in exactly one set; members of one failure group are in different sets, or Divide says why
// that cannot be; the same members give the same sets, in whatever order they come. What Encode has made, Rebuild makes
// again of any members that may be lost together (Survives). No member sends or receives more than the longest part,
// rounded up, and at a rebuild a member's redundancy on top; no plan needs memory that grows with its pieces.
//
// It moves no byte: drivers perform the steps.
package redset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Scheme is what a set does against losses. Its numbers are stored.
type Scheme uint32

// The schemes.
const (
	Single  Scheme = 1 // nothing
	Partner Scheme = 2 // each member's part is copied to the next one; the last one's to the first
	XOR     Scheme = 3 // each member holds a parity of segments of all others
)

func (s Scheme) String() string {
	switch s {
	case Single:
		return "single"
	case Partner:
		return "partner"
	case XOR:
		return "xor"
	}
	return fmt.Sprintf("scheme %d", uint32(s))
}

// MaxMembers is how many members a set may have.
const MaxMembers = 1024

// What Divide aims at when no size is asked for: SCR's for XOR; pairs for copies, since of all rings pairs have the fewest
// neighbours, whose loss together is what costs a part.
const (
	defaultXOR     = 8
	defaultPartner = 2
)

// Errors that callers decide on.
var (
	ErrTooFew = errors.New("too few nodes")
	ErrGroups = errors.New("too many nodes of one failure group")
)

// Member is a node that holds a part.
type Member struct {
	Node  int
	Group string // what fails together (a rack, a switch); empty: the node alone
}

// group is a failure group, named by the user or made of one node.
type group struct {
	name string
	node int // when it has no name
}

func (m Member) group() group {
	if m.Group != "" {
		return group{name: m.Group}
	}
	return group{node: m.Node}
}

// Set is a redundancy set. The order of its members is that of the ring, and says where redundancy lies.
type Set struct {
	Scheme  Scheme
	Members []Member
}

// Divide makes sets of at least size members each, as SCR does, whose sizes differ by at most one. Size 0: 8 with XOR and 2
// with Partner, less where there are fewer nodes, or where only that keeps failure groups apart. With Single each node is a
// set by itself.
//
// The members are put in an order in which those of a group stand one behind the other, and are dealt to the sets in turn.
// With k sets, any k members in a row are dealt to k different ones: so a group that has at most k members has none of them
// twice in a set. A group that has more must have, however they are dealt. So this succeeds whenever anything can.
func Divide(members []Member, scheme Scheme, size int) ([]Set, error) {
	order, largest, err := arrange(members)
	if err != nil {
		return nil, err
	}
	count, err := setCount(len(order), len(largest), scheme, size)
	if errors.Is(err, ErrGroups) {
		a, b := largest[0], largest[1]
		return nil, fmt.Errorf("redset: divide: nodes %d and %d of failure group %s would be in one set: %w",
			a.Node, b.Node, a.Group, err)
	}
	if err != nil {
		return nil, fmt.Errorf("redset: divide: %w", err)
	}
	sets := make([]Set, count)
	for i, m := range order {
		s := &sets[i%count]
		s.Scheme, s.Members = scheme, append(s.Members, m)
	}
	return sets, nil
}

// Percent is about how much redundancy takes on a node, of what the node protects: sets are of this size, or as Divide chooses for 0, and of
// these nodes, each with as much.
func (s Scheme) Percent(size, nodes int) int {
	switch {
	case s == Single:
		return 0
	case s == Partner || nodes <= 2:
		return 100
	case size == 0:
		size = defaultXOR
	}
	return (100 + min(size, nodes) - 2) / (min(size, nodes) - 1)
}

// arrange puts groups in the order of their first nodes, and returns the members of the largest one too.
func arrange(members []Member) (order, largest []Member, err error) {
	order = slices.SortedFunc(slices.Values(members), func(a, b Member) int { return cmp.Compare(a.Node, b.Node) })
	first := map[group]int{}
	for i, m := range order {
		if i > 0 && m.Node == order[i-1].Node {
			return nil, nil, fmt.Errorf("redset: divide: node %d is there twice", m.Node)
		}
		if _, ok := first[m.group()]; !ok {
			first[m.group()] = m.Node
		}
	}
	slices.SortStableFunc(order, func(a, b Member) int { return cmp.Compare(first[a.group()], first[b.group()]) })
	for begin, i := 0, 0; i < len(order); i++ {
		if order[i].group() != order[begin].group() {
			begin = i
		}
		if run := order[begin : i+1]; len(run) > len(largest) {
			largest = run
		}
	}
	return order, largest, nil
}

// setCount is how many sets n nodes make, of which at most so many are of one group.
func setCount(n, group int, scheme Scheme, size int) (int, error) {
	var aim int
	switch scheme {
	case Single:
		return n, nil
	case Partner:
		aim = defaultPartner
	case XOR:
		aim = defaultXOR
	default:
		return 0, fmt.Errorf("%v: wanted %v, %v or %v", scheme, Single, Partner, XOR)
	}
	switch {
	case n < 2:
		return 0, fmt.Errorf("%w for %v: %d, at least 2", ErrTooFew, scheme, n)
	case size == 0:
		size = min(aim, n, max(2, n/group))
	case size < 2 || size > MaxMembers/2:
		return 0, fmt.Errorf("set size %d, wanted 2 to %d", size, MaxMembers/2)
	case n < size:
		return 0, fmt.Errorf("%w for the set size: %d nodes, set size %d", ErrTooFew, n, size)
	}
	count := n / size
	switch {
	case group <= count:
		return count, nil
	case n/group < 2:
		return 0, fmt.Errorf("%w: %d of %d, more than half", ErrGroups, group, n)
	}
	return 0, fmt.Errorf("%w: %d of %d, set size %d, wanted at most %d", ErrGroups, group, n, size, n/group)
}

// Survives says whether the parts of all members can be had when those nodes are lost.
func (s Set) Survives(lost map[int]bool) bool {
	gone := 0
	for i, m := range s.Members {
		if !lost[m.Node] {
			continue
		}
		gone++
		next := s.Members[(i+1)%len(s.Members)]
		if covered := s.Scheme == Partner && !lost[next.Node] || s.Scheme == XOR && gone == 1; !covered {
			return false
		}
	}
	return true
}

// Needs is how many members, whichever they are, must hold the record of a commit, so that it is there after every loss
// that the set survives: one more than it can lose at most. (Exactly: a commit holds as soon as the set does not survive
// the loss of all that have the record.)
func (s Set) Needs() int {
	switch s.Scheme {
	case Partner:
		return len(s.Members)/2 + 1 // every second one may be lost
	case XOR:
		return 2
	}
	return 1
}
