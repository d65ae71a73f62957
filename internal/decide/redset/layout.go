package redset

import (
	"fmt"
	"iter"
	"slices"
)

// With XOR, a part is cut into one segment less than the set has members, and padded with zeros to equal ones. A stripe has
// one block on every member: on one of them its parity, on each other a segment of its part. The blocks of a stripe add up
// (XOR) to zero, so that each is the sum of the others: that makes the parity, and later any block that is lost.
//
//	           member 0    1    2    3
//	stripe 0          p   s2   s1   s0
//	stripe 1         s0    p   s2   s1
//	stripe 2         s1   s0    p   s2
//	stripe 3         s2   s1   s0    p
//
// Sums are made along chains: a member reads its block, the next one receives that, adds its own and sends it on, and the
// last one, whose block it is, writes it.
//
// With copies, the redundancy of a member is the parts of as many members before it, one behind the other: the one before it first. Of five
// members and two copies (p: parts):
//
//	           member 0    1    2    3    4
//	part              p0   p1   p2   p3   p4
//	redundancy        p4   p0   p1   p2   p3
//	                  p3   p4   p0   p1   p2

const (
	// Piece is the longest piece that a step moves.
	Piece = 512 << 10
	// SegmentUnit divides the length of a segment.
	SegmentUnit = 64 << 10
	// MaxPart is how long a part may be.
	MaxPart = 16 << 40
)

// Place is where on its node a member reads and writes.
type Place int

// The places.
const (
	Part       Place = iota // its part; what is behind its end reads as zeros
	Redundancy              // with copies: those of the parts of the members before it (Scheme.Copied); XOR: its parity
)

// Op is what a member does in a step. Between steps it has one piece at hand.
type Op int

// The operations.
const (
	Read    Op = iota + 1 // a piece, which is at hand then
	Add                   // reads a piece and adds it (XOR) to that at hand
	Write                 // the piece at hand
	Send                  // the piece at hand, which may leave later; a link holds as many as the set has members, less one
	Receive               // a piece, which is at hand then; those of one sender come in the order of sending
)

// Step is one of a member's actions.
type Step struct {
	Op     Op
	Peer   int   // Send, Receive: the other member
	In     Place // Read, Add, Write
	Offset int64 // Read, Add, Write
	Length int   // of the piece, at most Piece
}

// Layout says where the redundancy of a set lies and how it is made. Members are numbered in the order of the set.
type Layout struct {
	copies  int // of each part; 0: parities
	parts   []int64
	segment int64
}

// NewLayout lays out the redundancy of parts of these lengths.
func NewLayout(scheme Scheme, parts []int64) (Layout, error) {
	l := Layout{copies: scheme.Copies(), parts: slices.Clone(parts)}
	if n := len(parts); n < 2 || n > MaxMembers {
		return l, fmt.Errorf("redset: layout: %d members, wanted 2 to %d", n, MaxMembers)
	}
	var longest int64
	for i, p := range parts {
		if p < 0 || p > MaxPart {
			return l, fmt.Errorf("redset: layout: part of member %d: %d bytes, wanted at most %d", i, p, int64(MaxPart))
		}
		longest = max(longest, p)
	}
	switch n := len(parts); {
	case l.copies >= n:
		return l, fmt.Errorf("redset: layout: %w for %v: %d, at least %d", ErrTooFew, scheme, n, scheme.Members())
	case l.copies > 0:
	case scheme == XOR:
		l.segment = roundUp(divideUp(longest, int64(len(parts)-1)), SegmentUnit)
	default:
		return l, fmt.Errorf("redset: layout: %v: wanted %v or %v", scheme, Partner, XOR)
	}
	return l, nil
}

func divideUp(a, b int64) int64 { return (a + b - 1) / b }

func roundUp(a, unit int64) int64 { return divideUp(a, unit) * unit }

// Redundancy is how many bytes a member holds for others.
func (l Layout) Redundancy(member int) int64 {
	if l.copies > 0 {
		return l.copyAt(member, l.copies+1)
	}
	return l.segment
}

// copyAt is where in a member's redundancy the copy of the part of the member so far before it begins.
func (l Layout) copyAt(member, distance int) int64 {
	var sum int64
	for d := 1; d < distance; d++ {
		sum += l.parts[l.at(member-d)]
	}
	return sum
}

// at is the member with that number, counted around the ring.
func (l Layout) at(i int) int { return (i%len(l.parts) + len(l.parts)) % len(l.parts) }

// Block says where a member keeps its block of a stripe.
func (l Layout) Block(member, stripe int) (Place, int64) {
	if member == stripe {
		return Redundancy, 0
	}
	return Part, int64(l.at(stripe-member-1)) * l.segment
}

// Encode is what a member does to make its set's redundancy. All members run at the same time.
func (l Layout) Encode(me int) iter.Seq[Step] {
	if l.copies > 0 {
		return func(yield func(Step) bool) { l.copyAround(me, yield) }
	}
	return func(yield func(Step) bool) { l.sumAround(me, yield) }
}

// Rebuild is what a member does so that a lost one, or who takes its place, gets its part and its redundancy again, in the
// order of their bytes. Those others that are gone take no part in it. The set must survive the loss of all of them; several that are lost
// are rebuilt one after the other.
func (l Layout) Rebuild(lost, me int, gone []int) iter.Seq[Step] {
	if l.copies > 0 {
		return func(yield func(Step) bool) { l.copyBack(lost, me, gone, every, yield) }
	}
	return func(yield func(Step) bool) { l.sumBack(lost, me, every, yield) }
}

// Range are bytes of one of a member's places.
type Range struct {
	In       Place
	From, To int64
}

// Repair is what a member does so that another one, which has all but these ranges, gets them again: and what lies in the same pieces. Of
// the others it needs what lies in the same stripes, or the copies. The set must survive the loss of the one.
func (l Layout) Repair(lost, me int, ranges []Range) iter.Seq[Step] {
	if l.copies > 0 {
		return func(yield func(Step) bool) { l.copyBack(lost, me, nil, only(ranges), yield) }
	}
	return func(yield func(Step) bool) { l.sumBack(lost, me, only(ranges), yield) }
}

// only says of a piece whether any of the ranges is in it; every says so of all.
func only(ranges []Range) func(Place, int64, int) bool {
	return func(in Place, from int64, length int) bool {
		return slices.ContainsFunc(ranges, func(r Range) bool { return r.In == in && r.From < from+int64(length) && from < r.To })
	}
}

func every(Place, int64, int) bool { return true }

// pieces is the number of pieces of so many bytes; piece is where one of them begins, and its length.
func pieces(bytes int64) int64 { return divideUp(bytes, Piece) }

func piece(i, bytes int64) (int64, int) { return i * Piece, int(min(Piece, bytes-i*Piece)) }

// sumAround makes all parities at once: that of stripe j is summed up from member j+1 around the ring to member j. In each
// round a member does its share of each chain for one piece, for an earlier piece the further it stands from the chain's
// beginning: what it receives in a round was sent in the round before, so that pieces travel while all work. The shares
// furthest from it come first. Then whoever waits to send has sent at most n-2 pieces more than it has received, and links
// of n-1 pieces cannot all be full; nor all empty while somebody waits to receive, since that one has sent more.
func (l Layout) sumAround(me int, yield func(Step) bool) {
	n, count := len(l.parts), pieces(l.segment)
	for round := range count + int64(n-1) {
		for distance := n - 1; distance >= 0; distance-- {
			i, stripe := round-int64(distance), l.at(me-1-distance)
			if i >= 0 && i < count && !l.pass(stripe, stripe, me, i, yield) {
				return
			}
		}
	}
}

// sumBack sums up those of the lost member's pieces that are wanted, from the member behind it around the ring to it.
func (l Layout) sumBack(lost, me int, wanted func(Place, int64, int) bool, yield func(Step) bool) {
	for k := range l.parts {
		stripe := l.at(lost + 1 + k) // its segments in order, then its parity
		in, block := l.Block(lost, stripe)
		for i := range pieces(l.segment) {
			from, length := piece(i, l.segment)
			if wanted(in, block+from, length) && !l.pass(lost, stripe, me, i, yield) {
				return
			}
		}
	}
}

// pass is what a member does with a piece of a stripe on its way to the end of its chain.
func (l Layout) pass(end, stripe, me int, i int64, yield func(Step) bool) bool {
	from, length := piece(i, l.segment)
	in, block := l.Block(me, stripe)
	own := Step{In: in, Offset: block + from, Length: length}
	send, receive := Step{Op: Send, Peer: l.at(me + 1), Length: length}, Step{Op: Receive, Peer: l.at(me - 1), Length: length}
	switch me {
	case end:
		own.Op = Write
		return yield(receive) && yield(own)
	case l.at(end + 1):
		own.Op = Read
		return yield(own) && yield(send)
	}
	own.Op = Add
	return yield(receive) && yield(own) && yield(send)
}

// copyAround sends the own part to the next members and keeps those of the ones before, a piece of each in a round. Of all members take one
// in the earliest round. It does not wait to send: who would not take a piece is in no earlier round, and has received all that was sent in
// those before. So nobody in that round waits to send, and whoever is there waits for a piece that is on its way. Links of one piece are enough.
func (l Layout) copyAround(me int, yield func(Step) bool) {
	longest := l.parts[me]
	for d := 1; d <= l.copies; d++ {
		longest = max(longest, l.parts[l.at(me-d)])
	}
	for i := range pieces(longest) {
		for d := 1; d <= l.copies; d++ {
			if mine := (stretch{Part, 0, l.parts[me]}); i < pieces(mine.length) && !mine.send(i, l.at(me+d), yield) {
				return
			}
		}
		for d := 1; d <= l.copies; d++ {
			owner := l.at(me - d)
			if other := (stretch{Redundancy, l.copyAt(me, d), l.parts[owner]}); i < pieces(other.length) && !other.keep(i, owner, yield) {
				return
			}
		}
	}
}

// copyBack brings what is wanted of the lost member's part from a member that has a copy, then of each copy that it held from the owner,
// or from another that has one: all of them that are not gone.
func (l Layout) copyBack(lost, me int, gone []int, wanted func(Place, int64, int) bool, yield func(Step) bool) {
	for d := range l.copies + 1 {
		owner, to := l.at(lost-d), stretch{Part, 0, l.parts[lost]}
		if d > 0 {
			to = stretch{Redundancy, l.copyAt(lost, d), l.parts[owner]}
		}
		giver, from := l.giver(owner, lost, gone)
		for i := range pieces(to.length) {
			at, length := piece(i, to.length)
			if !wanted(to.in, to.from+at, length) {
				continue
			}
			if me == giver && !from.send(i, lost, yield) || me == lost && !to.keep(i, giver, yield) {
				return
			}
		}
	}
}

// giver is who has the part of a member, itself or as a copy, and where: neither the lost one nor one that is gone. -1: nobody has it, which
// no driver takes for a member.
func (l Layout) giver(owner, lost int, gone []int) (int, stretch) {
	for d := range l.copies + 1 {
		m := l.at(owner + d)
		switch {
		case m == lost || slices.Contains(gone, m):
		case d == 0:
			return m, stretch{Part, 0, l.parts[owner]}
		default:
			return m, stretch{Redundancy, l.copyAt(m, d), l.parts[owner]}
		}
	}
	return -1, stretch{}
}

// stretch is where a part, or a copy of one, lies.
type stretch struct {
	in           Place
	from, length int64
}

// send reads one of its pieces and sends it.
func (s stretch) send(i int64, to int, yield func(Step) bool) bool {
	at, length := piece(i, s.length)
	return yield(Step{Op: Read, In: s.in, Offset: s.from + at, Length: length}) && yield(Step{Op: Send, Peer: to, Length: length})
}

// keep receives one of its pieces and writes it.
func (s stretch) keep(i int64, from int, yield func(Step) bool) bool {
	at, length := piece(i, s.length)
	return yield(Step{Op: Receive, Peer: from, Length: length}) && yield(Step{Op: Write, In: s.in, Offset: s.from + at, Length: length})
}
