// Package snapshots decides when what the members of a group say together is complete, and what follows: a group begins, restores the newest
// snapshot that all its members can read, commits one after the other, and ends.
//
// It guarantees: for each thing that members say together there is one answer, the same to all, and not before all have said it; members that
// say different things where they must agree are all refused, and who said what is named; a snapshot that one of them could not read is not
// restored by any; every question is answered once, also when the group is over before.
//
// Where survivors are kept, the death of a member ends an epoch of the group: who waits for it hears so, and the next epoch begins when all
// members, survivors and the processes that have taken the places of the dead, have said that they begin, with the newest snapshot. Who is
// dead stays so until then. What had been said by all before the death is carried out, and all who live hear what became of it.
//
// Groups know nothing of each other. A process may be a member of several: whoever has them ends the epochs of all groups that are connected by
// such processes, when one of theirs dies (Undone).
//
// It is pure: a Desk carries out what is decided and calls back, never from within a call. Nothing here is safe for concurrent use.
package snapshots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Desk carries out what is decided.
type Desk interface {
	// Answer answers a question.
	Answer(ask uint64, a Answer)
	// Begin begins a program whose members run on these nodes, and have so many bytes each. The answer has its run, or says why not.
	Begin(at []int, bytes []uint64, then func(Answer))
	// Newest finds the newest snapshot that can be had.
	Newest(then func(Found))
	// Read: all members have read a snapshot; if it is not valid, Newest does not return it again.
	Read(n uint64, valid bool, then func())
	// Open makes room for the next snapshot; members put theirs into the directory.
	Open(then func(n uint64, dir, why string))
	// Commit makes a snapshot count that all members have put there; why not, if it cannot.
	Commit(n uint64, parts []Part, then func(why string))
	// End ends the program: its snapshots stay, or are removed.
	End(keep bool, then func(why string))
}

// Found is a snapshot.
type Found struct {
	Number uint64 // 0: there is none
	Stored bool   // members find it in the store that all nodes see
	Differ string // why it cannot be theirs, though it is there
	Lost   string // why none can be had, though there are some
}

// Part is a member's of a snapshot.
type Part struct {
	Valid bool
	Bytes uint64
}

// Answer is what each member hears.
type Answer struct {
	Refused string // why not; empty: it is done
	Differ  bool   // since members do not agree
	Lost    bool   // since more is lost than redundancy covers
	Peer    bool   // since a member has died, or begins again: all begin again
	Use     bool   // since what was asked for cannot be
	Room    bool   // since a node has no room for it
	Run     uint64
	Restore uint64 // a snapshot to be read, which Ready is said of then; 0: none
	Stored  bool   // it is in the store that all nodes see
	Done    bool   // Commit: it counts; Ready: it was restored
	Why     string // it is not done, and the group goes on
	Next    uint64 // the number of the next snapshot, if nothing is to be read
	Dir     string // that members put it into
	State   string // of State: a character for each member
	Version uint64 // of that
}

// Characters of a State.
const (
	Healthy = '0'
	Corrupt = '1' // its process has died
)

// phase is what members say next.
type phase int

const (
	resuming phase = iota // whatever comes next: they were restored by other means
	entering
	reading
	computing
	over
)

// said is what a member has said.
type said struct {
	ask  uint64
	node int
	like string // what all must say alike
	part Part
}

// Group is one that uses snapshots.
type Group struct {
	epoch
	desk    Desk
	members int
	phase   phase
	busy    bool         // what all have said is being done
	heard   map[int]said // what members say together
	run     uint64
	number  uint64 // of the snapshot that is read, or made next
	differs string // why a member's regions are not the snapshot's
}

// New returns a group of so many members, none of which has said anything. Keeps: survivors go on when a member has died.
func New(desk Desk, members int, keeps bool) *Group {
	return &Group{desk: desk, members: members, phase: entering, heard: map[int]said{}, epoch: newEpoch(keeps)}
}

// Resumed returns a group whose members were restored, by other means than its snapshots, to a moment at which none of them waited for an
// answer. They take themselves to be where they were then. What they say next begins an epoch: a snapshot that had been begun does not count.
func Resumed(desk Desk, members int) *Group {
	g := New(desk, members, false)
	g.phase = resuming
	return g
}

// Refuse ends a group: who waits hears why, and so does who comes later.
func (g *Group) Refuse(why string) { g.end(Answer{Refused: why}) }

func (g *Group) end(a Answer) {
	g.phase = over
	g.tell(a)
	g.answer(g.entrants, a)
	for member := range g.members {
		g.unwatch(member, a)
	}
}

// Over says whether the group is: it has ended, or was refused.
func (g *Group) Over() bool { return g.phase == over }

// tell answers all who wait for what they have said together.
func (g *Group) tell(a Answer) {
	heard := g.heard
	g.heard, g.busy, g.differs = map[int]said{}, false, ""
	g.answer(heard, a)
	if g.broken && g.phase != over {
		g.breakUp()
	}
}

// answer answers what members have said, in their order, and forgets it.
func (g *Group) answer(to map[int]said, a Answer) {
	a.Run = g.run
	for member := range g.members {
		if s, ok := to[member]; ok {
			delete(to, member)
			g.desk.Answer(s.ask, a)
		}
	}
}

// Question is where a member has said something.
type Question struct {
	Number uint64
	Node   int
	Member int
	Run    uint64 // of the epoch that the member takes itself to be in; 0: of none
	Again  bool   // Enter: the process has said so before, and does not wait for that answer any more
}

func (g *Group) refuse(q Question, format string, args ...any) {
	g.desk.Answer(q.Number, Answer{Refused: fmt.Sprintf(format, args...)})
}

// known refuses what no member, or one of a group that is over, has said.
func (g *Group) known(q Question, what string) bool {
	switch {
	case q.Member < 0 || q.Member >= g.members:
		g.refuse(q, "%s by member %d, wanted one of 0 to %d", what, q.Member, g.members-1)
	case g.phase == over:
		g.refuse(q, "%s by member %d, whose group is over", what, q.Member)
	default:
		return true
	}
	return false
}

const outOfOrder = "%s by member %d, which has not been answered yet, or says it out of order"

// hear takes in what a member says in a phase; all is true when it was the last.
func (g *Group) hear(q Question, in phase, what, like string, p Part) (all bool) {
	if !g.known(q, what) {
		return false
	}
	_, twice := g.heard[q.Member]
	switch {
	case g.keeps && g.alive[q.Member] && (g.phase == entering && !g.busy || q.Run != g.run):
		g.desk.Answer(q.Number, g.ended(g.members))
	case g.phase != in || g.busy || twice:
		g.refuse(q, outOfOrder, what, q.Member)
	default:
		g.heard[q.Member] = said{q.Number, q.Node, like, p}
		return g.agreed(what)
	}
	return false
}

// differs is the answer to members of which one has said something else than the first.
func differs(what, found string, member int, wanted string) Answer {
	return Answer{Differ: true, Refused: fmt.Sprintf("%s: members differ: found %q of member %d, wanted %q as of member 0", what, found, member, wanted)}
}

// agreed says whether all have said the same. Those who have not are refused.
func (g *Group) agreed(what string) bool {
	if len(g.heard) < g.members {
		return false
	}
	for rank := range g.members {
		if found, wanted := g.heard[rank].like, g.heard[0].like; found != wanted {
			g.tell(differs(what, found, rank, wanted))
			return false
		}
	}
	g.busy = true
	return true
}

// Enter: a member begins, with so many bytes; restore: with the newest snapshot, if there is one. All say so, and the same of what else is like.
func (g *Group) Enter(q Question, like string, bytes uint64, restore bool) {
	if restore {
		like += ", restored"
	}
	const what = "init"
	if !g.known(q, what) {
		return
	}
	before, twice := g.entrants[q.Member]
	switch {
	case !g.keeps && g.alive[q.Member] && (g.phase != entering || g.busy):
		g.refuse(q, "%s by member %d, which has begun: members begin again where survivors are kept (byssus run --survivors keep)", what, q.Member)
		return
	case twice && !q.Again || !g.keeps && (g.phase != entering || g.busy):
		g.refuse(q, outOfOrder, what, q.Member)
		return
	case twice:
		g.desk.Answer(before.ask, Answer{Refused: fmt.Sprintf("%s by member %d, which has said it again", what, q.Member)})
	}
	g.alive[q.Member], g.likes[q.Member] = true, like
	g.entrants[q.Member] = said{q.Number, q.Node, like, Part{Bytes: bytes}}
	if g.phase == entering && !g.busy {
		g.begin()
	} else {
		g.breakUp()
	}
}

// begin begins an epoch, when all members have said that they do.
func (g *Group) begin() {
	if len(g.entrants) < g.members {
		return
	}
	g.heard, g.entrants = g.entrants, map[int]said{}
	if !g.agreed("init") {
		return
	}
	g.healed()
	restore := strings.HasSuffix(g.heard[0].like, ", restored")
	g.begins(func() {
		if restore {
			g.newest()
		} else {
			g.open(Answer{})
		}
	})
}

// begins has a program begin, of those who have said the same.
func (g *Group) begins(then func()) {
	at, bytes := make([]int, g.members), make([]uint64, g.members)
	for rank, s := range g.heard {
		at[rank], bytes[rank] = s.node, s.part.Bytes
	}
	g.desk.Begin(at, bytes, func(a Answer) {
		switch g.run = a.Run; {
		case g.phase == over:
		case a.Refused != "":
			g.fail(a)
		default:
			then()
		}
	})
}

// resumes takes in what a member says first when it was restored by other means; false: it was not.
func (g *Group) resumes(q Question, what string, then func()) bool {
	if g.phase != resuming {
		return false
	}
	if !g.known(q, what) {
		return true
	}
	if _, twice := g.heard[q.Member]; twice {
		g.refuse(q, outOfOrder, what, q.Member)
		return true
	}
	g.heard[q.Member] = said{q.Number, q.Node, what, Part{}}
	if g.alive[q.Member] = true; g.agreed(what) {
		g.phase = computing
		g.begins(then)
	}
	return true
}

// newest offers the newest snapshot; without one the group begins empty.
func (g *Group) newest() {
	g.desk.Newest(func(f Found) {
		switch {
		case g.phase == over:
		case f.Differ != "":
			g.fail(Answer{Refused: f.Differ, Differ: true})
		case f.Lost != "":
			g.fail(Answer{Refused: f.Lost, Lost: true})
		case f.Number == 0:
			g.open(Answer{})
		default:
			g.phase, g.number = reading, f.Number
			g.tell(Answer{Restore: f.Number, Stored: f.Stored})
		}
	})
}

// open makes room for the next snapshot, and tells all where, with what they are told of the last.
func (g *Group) open(a Answer) {
	g.desk.Open(func(n uint64, dir, why string) {
		switch {
		case g.phase == over:
		case why != "":
			g.fail(Answer{Refused: why})
		default:
			g.phase, g.number = computing, n
			a.Next, a.Dir = n, dir
			g.tell(a)
		}
	})
}

// Ready: a member has read a snapshot, or could not; differs says that its regions are not as the snapshot's, empty: they are.
func (g *Group) Ready(q Question, valid bool, differs string) {
	if g.returns(q) || g.resumes(q, "restore", g.newest) {
		return
	}
	g.differs = cmp.Or(g.differs, differs)
	if !g.hear(q, reading, "restore", "", Part{Valid: valid}) {
		return
	}
	valid = true
	for _, s := range g.heard {
		valid = valid && s.part.Valid
	}
	if g.differs != "" {
		g.end(Answer{Refused: g.differs, Differ: true})
		return
	}
	n := g.number
	g.desk.Read(n, valid, func() {
		switch {
		case g.phase == over:
		case valid:
			g.open(Answer{Done: true})
		default:
			g.newest()
		}
	})
}

// Commit: a member has put its part of the next snapshot in its place; its tag is the program's.
func (g *Group) Commit(q Question, tag uint64, p Part) {
	if g.resumes(q, "commit", func() {
		g.open(Answer{Why: "the program has been restored from a checkpoint of its processes since it was begun"})
	}) {
		return
	}
	if !g.hear(q, computing, "commit", fmt.Sprintf("tag %d", tag), p) {
		return
	}
	parts := make([]Part, g.members)
	for rank, s := range g.heard {
		parts[rank] = s.part
	}
	if bad := slices.IndexFunc(parts, func(p Part) bool { return !p.Valid }); bad >= 0 {
		g.store(parts, fmt.Sprintf("member %d could not start it", bad))
		return
	}
	g.store(parts, "")
}

// store makes the snapshot count, unless it cannot for this reason, and goes on with the next.
func (g *Group) store(parts []Part, why string) {
	g.desk.Commit(g.number, parts, func(failed string) {
		if g.phase == over {
			return
		}
		if why == "" {
			why = failed
		}
		g.open(Answer{Done: why == "", Why: why})
	})
}

// Leave: a member uses this no more.
func (g *Group) Leave(q Question, keep bool) {
	like := "its snapshots are removed"
	if keep {
		like = "its snapshots stay"
	}
	if g.resumes(q, "finish", func() { g.finish(keep) }) || !g.hear(q, computing, "finish", like, Part{}) {
		return
	}
	g.finish(keep)
}

func (g *Group) finish(keep bool) {
	g.desk.End(keep, func(why string) {
		if g.phase == over {
			return
		}
		g.end(Answer{Refused: why, Done: why == ""})
	})
}
