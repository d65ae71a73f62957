package coord

import (
	"maps"
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// agreement brings the ranks of one attempt to a point where no collective is half done.
//
// On every communicator the collectives have numbers, 1, 2, 3 and so on, the same on all members. A rank has *posted* those that
// it has started; it has *reached* the highest that it has entered, if that was a blocking one (or one that cannot be posted
// again: its input is overwritten, or its communicator freed), or whose completion it has made use of, if that was a
// non-blocking one. What one member has reached all members must have posted when they are stopped; what is posted, and
// reached by nobody, is posted again after a restart.
//
// REQUEST makes a rank report what it has reached, by communicator, and reach no more until targets come. The first targets are
// the highest that anybody reported. A rank is behind while it has posted less than a target. It may always post. To reach
// more, it
//
//	goes on                           up to the target;
//	holds                             beyond the target, when it is not behind: a test says "not complete" meanwhile;
//	says RAISE, then goes on          otherwise: it needs this one on its way to another target.
//
// When it is not behind, and not inside a blocking collective, it says MET(version). A rank that is behind and stands for a while
// because of something posted that is not complete raises that, too: the others may be holding before they post it. A rank
// that only tests for it may not need it at all, and has twice the patience after each time; else two ranks could lead
// each other on for ever.
//
// A RAISE makes a new version, sent to all; a MET counts only for the newest version. So STOP, sent when all have said
// MET for the newest version, cannot cross a RAISE: whoever said MET(v) reaches nothing until it sees a version above v, and
// there is none; and a RAISE said before the MET arrived before it, since a connection keeps order.
//
// Rules for ranks that follow: MPI_Init is the first collective of the world and MPI_Finalize its last. A rank inside a
// collective that creates a communicator does not say MET before it is out and knows whether it is a member: another
// member may already have raised the newcomer. A rank goes on reporting the clock of a communicator that it has freed
// until all members have (a clock that one member forgets while another has still to reach it could not be agreed on).
// What a checkpoint has completed counts as reached from then on, also when it fails: another member may not have
// completed it, and both must do the same after a restart from the next one.
//
// Targets only grow, and only a rank that has not met raises; it moves on towards a finite target. What may remain is
// a rank that waits for a message which a holding rank would send later: then everybody rests, somebody has not met, and
// after a while the attempt is stuck: the machine gives it up and tries again somewhat later. For that, ranks say WAITING: in
// waits, inside collectives, and when they test again and again without success.
type agreement struct {
	epoch   uint64
	version uint64                // 0: clocks are still coming in
	targets map[uint64]node.Clock // the highest clocks, with how many ranks have reported them
	ranks   []standing
	moved   time.Duration // last time that anything showed progress
}

// standing is what is known of one rank.
type standing struct {
	reported bool   // all its clocks are in
	met      uint64 // newest version it has met
	waiting  bool   // it says it waits
	message  bool   // what it waits for is a message
	call     string // and in which call of the MPI; empty: not known
	where    uint32 // what its page says
}

// deadline is when the attempt counts as stuck if nothing happens until then: nobody moves although somebody has not
// met. 0: somebody moves.
func (a *agreement) deadline(patience time.Duration) time.Duration {
	if a.version == 0 || a.done() {
		return 0
	}
	resting, waiting, message := true, true, false
	for _, r := range a.ranks {
		message = message || ((r.message || r.where == abi.WhereP2P) && r.met != a.version)
		resting = resting && (r.where != abi.WhereRun || r.waiting)
		waiting = waiting && (r.waiting || r.met == a.version)
	}
	switch {
	case !message: // ranks inside collectives come out by themselves, however long these take
		return 0
	case resting:
		return a.moved + patience
	case waiting: // but a rank that has met computes, perhaps towards the next send
		return a.moved + 20*patience
	}
	return 0
}

func newAgreement(epoch uint64, where []uint32, now time.Duration) *agreement {
	a := &agreement{epoch: epoch, targets: map[uint64]node.Clock{}, ranks: make([]standing, len(where)), moved: now}
	for i := range a.ranks {
		a.ranks[i].where = where[i]
	}
	return a
}

// clocks takes in a report; the result is true when it completed the first targets.
func (a *agreement) clocks(ev node.Clocks, now time.Duration) bool {
	if a.version != 0 {
		return false
	}
	for _, c := range ev.Clocks {
		a.raise(c)
	}
	a.moved = now
	for _, r := range ev.Ranks {
		a.ranks[r].reported = true
	}
	for i := range a.ranks {
		if !a.ranks[i].reported {
			return false
		}
	}
	a.version = 1
	return true
}

// raise lifts a target; false: it was high enough.
func (a *agreement) raise(c node.Clock) bool {
	old := a.targets[c.Comm]
	a.targets[c.Comm] = node.Clock{Comm: c.Comm, Seq: max(old.Seq, c.Seq), Members: max(old.Members, c.Members), Have: old.Have + c.Have}
	return c.Seq > old.Seq
}

// raised takes in RAISE; the result is true when there is a new version to be told.
func (a *agreement) raised(ev node.Raise, now time.Duration) bool {
	a.moved = now
	a.ranks[ev.Rank].stands("", abi.WhereRun)
	ev.Clock.Have = 0 // it was not one of the clocks at the request
	if !a.raise(ev.Clock) || a.version == 0 {
		return false
	}
	a.version++
	return true
}

func (a *agreement) met(ev node.Met, now time.Duration) {
	for _, i := range ev.Ranks {
		r := &a.ranks[i]
		r.met = max(r.met, ev.Version)
		r.stands("", abi.WhereRun)
	}
	a.moved = now
}

func (a *agreement) waits(ev node.Waiting, now time.Duration) {
	for _, i := range ev.Ranks {
		r := &a.ranks[i]
		if was := r.waiting; r.stands(ev.Call, ev.Where) != was {
			a.moved = now // another call alone is no progress: who polls is in one call after the other
		}
	}
}

// stands notes where a rank stands still, and returns whether it does.
func (r *standing) stands(call string, where uint32) bool {
	r.call, r.waiting, r.message = call, where != abi.WhereRun, where == abi.WhereP2P
	return r.waiting
}

func (a *agreement) whereabouts(ev node.Where, now time.Duration) {
	for _, i := range ev.Ranks {
		a.ranks[i].where = ev.Where
	}
	a.moved = now
}

// done says whether everybody has met the newest targets.
func (a *agreement) done() bool {
	if a.version == 0 {
		return false
	}
	for _, r := range a.ranks {
		if r.met != a.version {
			return false
		}
	}
	return true
}

// all returns the targets in a fixed order.
func (a *agreement) all() []node.Target {
	var out []node.Target
	for _, comm := range slices.Sorted(maps.Keys(a.targets)) {
		out = append(out, a.target(comm))
	}
	return out
}

func (a *agreement) target(comm uint64) node.Target {
	c := a.targets[comm]
	return node.Target{Clock: abi.Clock{Comm: comm, Seq: c.Seq, NMembers: c.Members}, Everyone: c.Have < c.Members}
}
