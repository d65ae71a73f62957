package snapshots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// epoch is the time from one beginning of a group to the death of a member, or to its end: who lives, who begins the next one, and who waits
// for news of that.
type epoch struct {
	keeps    bool           // survivors go on when a member has died
	broken   bool           // what is being done is the last of this epoch
	alive    map[int]bool   // members whose processes have said that they begin, and have not died
	dead     map[int]bool   // members that have died since the epoch began
	entrants map[int]said   // who has said that it begins the next
	likes    map[int]string // with what each has begun
	watchers map[int]uint64 // the question of each that waits for a change
	version  uint64         // of who is dead
	ends     uint64         // of epochs
	apart    string         // why it has ended, if for another group's sake: members are not to wait here for the next
}

func newEpoch(keeps bool) epoch {
	return epoch{keeps: keeps, alive: map[int]bool{}, dead: map[int]bool{}, entrants: map[int]said{}, likes: map[int]string{}, watchers: map[int]uint64{}, version: 1}
}

// Lives says whether the process of any member that has begun does.
func (e *epoch) Lives() bool { return len(e.alive) > 0 }

// Died: the process of a member has.
func (g *Group) Died(member int) {
	if g.phase == over || !g.alive[member] {
		return
	}
	delete(g.alive, member)
	g.dead[member] = true
	if s, ok := g.entrants[member]; ok {
		delete(g.entrants, member)
		g.desk.Answer(s.ask, g.ended(g.members))
	}
	g.changed()
	if g.keeps && (g.phase != entering || g.busy) {
		g.breakUp()
	}
}

// undone: the epoch of another group has ended, of which processes are members that are members here. Who waits here hears so, and all begin
// again here as there.
func (g *Group) undone(why string) {
	if g.phase == over || !g.keeps {
		return
	}
	g.apart = why
	waiting := g.entrants
	g.entrants = map[int]said{}
	g.answer(waiting, g.ended(g.members))
	if g.phase != entering || g.busy {
		g.breakUp()
	}
}

// breakUp ends the epoch. What is being done is done first; who waits for a member that has died hears so, and who was about to go on with a
// snapshot waits for the next epoch.
func (g *Group) breakUp() {
	if !g.broken && (g.phase != entering || g.busy) {
		g.ends++
	}
	if g.busy {
		g.broken = true
		return
	}
	begins, heard := g.phase == reading || g.phase == entering, g.heard
	g.phase, g.broken, g.heard = entering, false, map[int]said{}
	for member := range g.members {
		_, again := g.entrants[member]
		if s, ok := heard[member]; ok && begins && g.apart == "" && g.alive[member] && !again {
			delete(heard, member)
			s.like = g.likes[member]
			g.entrants[member] = s
		}
	}
	g.answer(heard, g.ended(g.members))
	g.begin()
}

// fail: what all have said cannot be done. If a member has died meanwhile it is because of that, and all begin again; else the group is over.
func (g *Group) fail(a Answer) {
	if !g.broken {
		g.end(a)
		return
	}
	g.busy = false
	g.breakUp()
}

// returns: a member has read a snapshot of an epoch that is over; it takes part in the next.
func (g *Group) returns(q Question) bool {
	_, twice := g.entrants[q.Member]
	if !g.keeps || g.phase != entering || g.busy || g.apart != "" || twice || !g.alive[q.Member] {
		return false
	}
	g.entrants[q.Member] = said{q.Number, q.Node, g.likes[q.Member], Part{}}
	g.begin()
	return true
}

// healed: all members are there.
func (g *Group) healed() {
	g.apart = ""
	if len(g.dead) > 0 {
		clear(g.dead)
		g.changed()
	}
}

// ended is the answer that the epoch is over.
func (e *epoch) ended(members int) Answer {
	why := cmp.Or(e.apart, "a member begins again")
	var list []string
	for member := range members {
		if e.dead[member] {
			list = append(list, fmt.Sprint(member))
		}
	}
	switch len(list) {
	case 0:
	case 1:
		why = "member " + list[0] + " has died"
	default:
		why = "members " + strings.Join(list, ", ") + " have died"
	}
	return Answer{Peer: true, Refused: why + ": all restore the newest snapshot"}
}

// State: a member asks who is dead; it is answered when that is another version than it knows.
func (g *Group) State(q Question, known uint64) {
	if !g.known(q, "state") {
		return
	}
	g.unwatch(q.Member, g.state())
	g.watchers[q.Member] = q.Number
	if known != g.version {
		g.unwatch(q.Member, g.state())
	}
}

func (g *Group) state() Answer {
	text := slices.Repeat([]byte{Healthy}, g.members)
	for member := range g.dead {
		text[member] = Corrupt
	}
	return Answer{Run: g.run, State: string(text), Version: g.version}
}

// changed tells those who wait for it.
func (g *Group) changed() {
	g.version++
	for member := range g.members {
		g.unwatch(member, g.state())
	}
}

// unwatch answers a member that waits for a change.
func (g *Group) unwatch(member int, a Answer) {
	if ask, ok := g.watchers[member]; ok {
		delete(g.watchers, member)
		g.desk.Answer(ask, a)
	}
}
