// Package redset decides how nodes protect each other's parts of a dataset: which nodes form a redundancy set, which
// losses a set survives, where its redundancy lies, and who sends which piece to whom to make it or to rebuild a member.
//
//	members -> Divide -> sets;  a set's scheme and the lengths of its parts -> NewLayout -> Encode, Rebuild -> steps
//
// It guarantees: every member is in exactly one set; members of one failure group are in different sets, or Divide says why
// that cannot be; the same members give the same sets, in whatever order they come. What Encode has made, Rebuild makes
// again of any members that may be lost together (Survives), one after the other, in any order. No member sends or receives more than
// the longest part, rounded up, as often as there are copies of it, and at a rebuild a member's redundancy on top; no plan needs memory
// that grows with its pieces. Members reach no further around the ring than Reach says.
//
// It moves no byte: drivers perform the steps.
package redset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Scheme is what a set does against losses. Its numbers are stored: the lowest byte is one of the constants; the next one, of Partner alone,
// how many copies there are beside the first.
type Scheme uint32

// The schemes.
const (
	Single  Scheme = 1 // nothing
	Partner Scheme = 2 // each member's part is copied to the next one; the last one's to the first
	XOR     Scheme = 3 // each member holds a parity of segments of all others
)

// MaxCopies is how many copies of a part there may be.
const MaxCopies = 8

const copiesShift = 8

// PartnerOf is the scheme by which each member's part is copied to so many members behind it. Of one copy it is Partner.
func PartnerOf(copies int) Scheme {
	if copies < 1 || copies > MaxCopies {
		return 0 // no scheme
	}
	return Partner | Scheme(copies-1)<<copiesShift
}

// Copies is how many copies of each part there are; 0: the scheme makes none.
func (s Scheme) Copies() int {
	if further := s >> copiesShift; s&(1<<copiesShift-1) == Partner && further < MaxCopies {
		return int(further) + 1
	}
	return 0
}

func (s Scheme) String() string {
	switch copies := s.Copies(); {
	case s == Single:
		return "single"
	case s == XOR:
		return "xor"
	case copies == 1:
		return "partner"
	case copies > 1:
		return fmt.Sprintf("partner:%d", copies)
	}
	return fmt.Sprintf("scheme %d", uint32(s))
}

// ParseScheme is the scheme of that name: as String says it, and partner:1 for partner.
func ParseScheme(name string) (Scheme, error) {
	for copies := range MaxCopies {
		if name == fmt.Sprintf("partner:%d", copies+1) {
			return PartnerOf(copies + 1), nil
		}
	}
	for _, s := range []Scheme{Single, Partner, XOR} {
		if name == s.String() {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%q, wanted %v, %v, %v to %v, or %v", name, Single, Partner, PartnerOf(2), PartnerOf(MaxCopies), XOR)
}

// Members is how many members a set has at least.
func (s Scheme) Members() int {
	if s == Single {
		return 1
	}
	return max(2, s.Copies()+1)
}

// Among is the scheme that so many nodes can follow, at least one: itself, or one with fewer copies, or none.
func (s Scheme) Among(nodes int) Scheme {
	switch {
	case nodes >= s.Members():
		return s
	case nodes < 2:
		return Single
	}
	return PartnerOf(nodes - 1)
}

// Reach is how far around the ring, in both directions, a member sends pieces.
func (s Scheme) Reach() int { return max(1, s.Copies()) }

// Copied are the members of a set of n of whose parts a member has copies, in the order in which these lie: from the one before it backwards.
func (s Scheme) Copied(me, n int) []int {
	var list []int
	for d := range s.Copies() {
		list = append(list, ((me-1-d)%n+n)%n)
	}
	return list
}

// MaxMembers is how many members a set may have.
const MaxMembers = 1024

// What Divide aims at when no size is asked for: SCR's for XOR. For copies it is the fewest members that can hold them, pairs for one: of
// all rings these have the fewest members in a row, whose loss together is what costs a part.
const defaultXOR = 8

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

// Divide makes sets of at least size members each, as SCR does, whose sizes differ by at most one. Size 0: 8 with XOR, less where there
// are fewer nodes, or where only that keeps failure groups apart; with copies one more than these, 2 with Partner. With Single each node
// is a set by itself.
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
	switch copies := s.Copies(); {
	case s == Single:
		return 0
	case copies > 0:
		return 100 * max(1, min(copies, nodes-1))
	case nodes <= 2:
		return 100
	case size == 0:
		size = defaultXOR
	}
	return (100 + min(size, nodes) - 2) / (min(size, nodes) - 1)
}

// Share is how much a member keeps for others, of what it has itself: so many times that, and so many times less.
type Share struct{ Times, Less int }

// Of is the share of so many bytes, rounded up.
func (s Share) Of(bytes int64) int64 {
	if s.Less == 0 {
		return 0 // nothing is kept
	}
	return divideUp(bytes*int64(s.Times), int64(s.Less))
}

// Share is that of the set's members, where all have as much.
func (s Set) Share() Share {
	switch copies := s.Scheme.Copies(); {
	case copies > 0:
		return Share{copies, 1}
	case s.Scheme == XOR:
		return Share{1, len(s.Members) - 1}
	}
	return Share{}
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
	least := scheme.Members()
	aim := least
	switch {
	case scheme == Single:
		return n, nil
	case scheme == XOR:
		aim = defaultXOR
	case scheme.Copies() == 0:
		return 0, fmt.Errorf("%v: wanted %v, %v or %v", scheme, Single, Partner, XOR)
	}
	switch {
	case n < least:
		return 0, fmt.Errorf("%w for %v: %d, at least %d", ErrTooFew, scheme, n, least)
	case size == 0:
		size = min(aim, n, max(least, n/group))
	case 2 <= size && size < least:
		return 0, fmt.Errorf("%w in a set for %v: set size %d, at least %d", ErrTooFew, scheme, size, least)
	case size < least || size > MaxMembers/2:
		return 0, fmt.Errorf("set size %d, wanted %d to %d", size, least, MaxMembers/2)
	case n < size:
		return 0, fmt.Errorf("%w for the set size: %d nodes, set size %d", ErrTooFew, n, size)
	}
	count := n / size
	switch {
	case group <= count:
		return count, nil
	case n/group < 2:
		return 0, fmt.Errorf("%w: %d of %d, more than half", ErrGroups, group, n)
	case n/group < least:
		return 0, fmt.Errorf("%w: %d of %d, wanted at most %d for %v", ErrGroups, group, n, n/least, scheme)
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
		if only := s.Scheme == XOR && gone == 1; !only && !s.copied(i, lost) {
			return false
		}
	}
	return true
}

// copied says whether a copy of a member's part is on a node that is not lost.
func (s Set) copied(member int, lost map[int]bool) bool {
	for d := range s.Scheme.Copies() {
		if !lost[s.Members[(member+1+d)%len(s.Members)].Node] {
			return true
		}
	}
	return false
}

// Needs is how many members, whichever they are, must hold the record of a commit, so that it is there after every loss
// that the set survives: one more than it can lose at most. (Exactly: a commit holds as soon as the set does not survive
// the loss of all that have the record.)
func (s Set) Needs() int {
	switch copies := s.Scheme.Copies(); {
	case copies > 0: // of each of these and one more in a row, one must be left
		return len(s.Members)*copies/(copies+1) + 1
	case s.Scheme == XOR:
		return 2
	}
	return 1
}
