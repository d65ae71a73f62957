package keep

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// event is something that happens at a time of the simulation; of two at one time the one that was planned first.
type event struct {
	at, seq int64
	do      func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// world is agents on nodes, the store that all see, and one owner of the job after the other. All follows from the seed.
type world struct {
	rng    *rand.Rand
	now    int64 // milliseconds
	seq    int64
	queue  events
	agents []*simAgent
	store  map[uint64][]holding.File
	moves  map[[2]uint64]*move // by owner and transfer
	owner  *owner
	owners uint64
	wrong  string // the first thing that should not be
	counts map[string]int
}

func (w *world) after(least, most int64, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + least + w.rng.Int64N(most-least+1), w.seq, do})
}

func (w *world) fault(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf("at %d ms: ", w.now) + fmt.Sprintf(format, args...)
	}
}

// run lets things happen until nothing does, or something is wrong.
func (w *world) run(most int) bool {
	for ; len(w.queue) > 0 && w.wrong == "" && most > 0; most-- {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	return most > 0
}

// part is what an agent has written of a checkpoint and not recorded yet.
type part struct {
	ranks   []int
	members []holding.Header // what it keeps for others
	rotten  bool             // made from what is
}

// simAgent is a node and its agent. Life counts the agent's lives: what it was about to do ends with one.
type simAgent struct {
	w        *world
	index    int
	up       bool
	life     int
	memory   int // lives of what is on its disk
	disk     map[uint64]*recovery.Held
	tmp      map[uint64]*part
	recorded map[uint64]int    // the life of the disk in which a checkpoint was recorded
	rotten   map[uint64]bool   // of which something is not as it was written
	building map[uint64]uint64 // by checkpoint: the transfer by which it becomes a member again
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

func (a *simAgent) name() string { return nodeName(a.index) }

// die ends the agent, with its node's memory or without.
func (a *simAgent) die(amnesia bool) {
	a.up, a.life, a.tmp, a.building = false, a.life+1, map[uint64]*part{}, map[uint64]uint64{}
	if amnesia {
		a.memory++
		a.disk, a.rotten = map[uint64]*recovery.Held{}, map[uint64]bool{}
	}
}

func filesOf(ranks []int) []holding.File {
	var files []holding.File
	for _, r := range ranks {
		files = append(files, holding.File{Name: fmt.Sprintf("rank-%05d.0.img", r), Size: 10, Digest: uint64(r), Rank: r})
	}
	return files
}

// move is a transfer that members of a set take part in.
type move struct {
	need      int
	begun     map[int]func(Answer) // by member: how its agent answers
	abandoned map[int]bool         // by agent
	members   []int
}

// hear does what an order says; answer is called at once or later, unless the agent dies.
func (a *simAgent) hear(o *owner, order Order, answer func(Answer)) {
	switch m := order.(type) {
	case Seal:
		if p := a.tmp[m.Checkpoint]; p == nil || !slices.Equal(p.ranks, m.Ranks) {
			a.w.fault("%s seals checkpoint %d, which it has not", a.name(), m.Checkpoint)
		}
		answer(Answer{Files: filesOf(m.Ranks)})
	case Encode:
		n := m.Header.Dataset
		if why := a.baseOf(m); why != "" {
			answer(Answer{Err: why, Damaged: true})
			return
		}
		a.join(o, m.Transfer, m.Members, len(m.Members), m.Header.Own, func() Answer {
			if a.tmp[n] == nil { // withdrawn meanwhile
				return Answer{Err: "gone"}
			}
			a.tmp[n].members = []holding.Header{m.Header}
			a.w.counts[map[bool]string{true: "increments", false: "full"}[m.Base != 0]]++
			return Answer{Sent: a.w.rng.Int64N(holding.Member{Files: filesOf(a.tmp[n].ranks)}.Bytes() + 1)}
		}, answer)
	case Rebuild:
		a.rebuild(o, m, answer)
	case Abandon:
		a.abandon(o, m.Transfer)
	case Inspect:
		h := a.disk[m.Checkpoint]
		switch {
		case !a.rotten[m.Checkpoint]:
			answer(Answer{})
		case h != nil && len(h.Members) == 1 && a.w.rng.IntN(3) > 0: // it is known where
			answer(Answer{Err: "rotten", Damage: []holding.Damage{{Header: h.Members[0], Ranges: []redset.Range{{From: 1, To: 2}}}}})
		default:
			answer(Answer{Err: "rotten"})
		}
	case Repair:
		a.repair(o, m, answer)
	case Record:
		a.record(m)
		answer(Answer{})
	case Withdraw:
		delete(a.tmp, m.Checkpoint)
		delete(a.disk, m.Checkpoint)
		answer(Answer{})
	case Drop:
		if a.building[m.Checkpoint] != 0 {
			a.w.fault("%s drops checkpoint %d while it makes some of it again", a.name(), m.Checkpoint)
		}
		delete(a.disk, m.Checkpoint)
		delete(a.rotten, m.Checkpoint)
		answer(Answer{})
	case Flush:
		h := a.disk[m.Checkpoint]
		if h == nil || slices.ContainsFunc(m.Ranks, func(r int) bool { return !slices.Contains(h.Ranks, r) }) {
			a.w.fault("%s copies ranks %v of checkpoint %d, which it has not", a.name(), m.Ranks, m.Checkpoint)
		}
		if a.rotten[m.Checkpoint] {
			a.w.counts["found when copied"]++
			answer(Answer{Err: "rotten", Damaged: true})
			return
		}
		answer(Answer{Files: filesOf(m.Ranks)})
	}
}

// baseOf looks at what the node has of the dataset that another is an increment of: it must have it, and may find it damaged.
func (a *simAgent) baseOf(m Encode) string {
	if m.Base == 0 {
		return ""
	}
	h := a.disk[m.Base]
	if h == nil || len(h.Members) != 1 || !h.Members[0].SameShape(&m.Header) {
		a.w.fault("%s makes an increment of checkpoint %d, of which it has %+v", a.name(), m.Base, h)
	}
	if a.rotten[m.Base] {
		a.w.counts["rotten base"]++
		return "rotten base"
	}
	return ""
}

// join takes part in a transfer. When all members do, each is done a while later; it never is when one is dead.
func (a *simAgent) join(o *owner, transfer uint64, members []int, need, own int, done func() Answer, answer func(Answer)) {
	key := [2]uint64{o.number, transfer}
	mv := a.w.moves[key]
	if mv == nil {
		mv = &move{need: need, begun: map[int]func(Answer){}, abandoned: map[int]bool{}, members: members}
		a.w.moves[key] = mv
	}
	if mv.abandoned[a.index] {
		answer(Answer{Err: "given up", Follows: true})
		return
	}
	life, over := a.life, false
	mv.begun[own] = func(given Answer) {
		if over || a.life != life {
			return
		}
		over = true
		if given.Err == "" {
			given = done()
		}
		answer(given)
	}
	if len(mv.begun) < mv.need {
		return
	}
	for _, member := range mv.members {
		if member >= 0 && !a.w.agents[member].up {
			return // nobody gets all pieces
		}
	}
	for _, end := range mv.begun {
		a.w.after(0, 40, func() { end(Answer{}) })
	}
}

func (a *simAgent) abandon(o *owner, transfer uint64) {
	key := [2]uint64{o.number, transfer}
	mv := a.w.moves[key]
	if mv == nil {
		mv = &move{begun: map[int]func(Answer){}, abandoned: map[int]bool{}}
		a.w.moves[key] = mv
	}
	mv.abandoned[a.index] = true
	for m, member := range mv.members {
		if end := mv.begun[m]; member == a.index && end != nil {
			end(Answer{Err: "given up", Follows: true})
		}
	}
}

// repair takes part in repairing what of a member is damaged. It cannot be where those who give are damaged in the same place.
func (a *simAgent) repair(o *owner, m Repair, answer func(Answer)) {
	n := m.Header.Dataset
	a.join(o, m.Transfer, m.Members, len(m.Members), m.Header.Own, func() Answer {
		h := a.disk[n]
		if h == nil || !slices.ContainsFunc(h.Members, func(x holding.Header) bool { return x.Set == m.Header.Set && x.Own == m.Header.Own }) {
			return Answer{Err: "gone"} // dropped, or of a node that was lost
		}
		if m.Header.Own != m.Damaged {
			return Answer{}
		}
		for _, i := range m.Members {
			if i != a.index && a.w.agents[i].rotten[n] && a.w.rng.IntN(2) == 0 {
				return Answer{Err: "rotten still"}
			}
		}
		a.w.counts["made good"]++
		delete(a.rotten, n)
		return Answer{}
	}, answer)
}

// rebuild takes part in making a member again. Members that are lost, too, take no part.
func (a *simAgent) rebuild(o *owner, m Rebuild, answer func(Answer)) {
	n, need := m.Header.Dataset, 0
	for _, member := range m.Members {
		if member >= 0 {
			need++
		}
	}
	if m.Header.Own != m.Lost {
		h := a.disk[n]
		if h == nil || !slices.ContainsFunc(h.Members, func(x holding.Header) bool { return x.Set == m.Header.Set && x.Own == m.Header.Own }) {
			a.w.fault("%s gives member %d of set %d of checkpoint %d, which it is not", a.name(), m.Header.Own, m.Header.Set, n)
		}
	}
	set, gone := redset.Set{Scheme: m.Header.Scheme}, map[int]bool{m.Lost: true}
	for i, member := range m.Members {
		set.Members = append(set.Members, redset.Member{Node: i})
		gone[i] = gone[i] || member < 0
	}
	if !set.Survives(gone) {
		a.w.fault("member %d of a set with %v is to be made again, while %v are gone", m.Lost, set.Scheme, gone)
	}
	if need < len(m.Members) {
		a.w.counts["others gone"]++
	}
	becomes := m.Header.Own == m.Lost
	if other := a.building[n]; becomes && other != 0 {
		a.w.fault("%s becomes a member of checkpoint %d twice at a time", a.name(), n)
	}
	if becomes {
		a.building[n] = m.Transfer
	}
	a.join(o, m.Transfer, m.Members, need, m.Header.Own, func() Answer {
		if becomes {
			a.tmp[n] = &part{m.Header.Members[m.Lost].Ranks(), []holding.Header{m.Header}, false}
			for _, i := range m.Members {
				a.tmp[n].rotten = a.tmp[n].rotten || i >= 0 && i != a.index && a.w.agents[i].rotten[n]
			}
		}
		return Answer{}
	}, func(given Answer) {
		if becomes {
			delete(a.building, n)
		}
		answer(given)
	})
}

// record makes what is there count, and must find it there.
func (a *simAgent) record(r Record) {
	h := &recovery.Held{ID: r.ID, Ranks: holding.Member{Files: r.Files}.Ranks(), Members: r.Members}
	slices.Sort(h.Ranks)
	have := part{}
	for _, p := range []*part{a.tmp[r.Dataset], partOf(a.disk[r.Dataset], r.ID)} {
		if p != nil {
			have.ranks, have.members = append(have.ranks, p.ranks...), append(have.members, p.members...)
		}
	}
	for _, rank := range h.Ranks {
		if !slices.Contains(have.ranks, rank) {
			a.w.fault("%s records rank %d of checkpoint %d, whose image it has not", a.name(), rank, r.Dataset)
		}
	}
	for _, m := range r.Members {
		if !slices.ContainsFunc(have.members, func(x holding.Header) bool { return x.Set == m.Set && x.Own == m.Own }) {
			a.w.fault("%s records member %d of set %d of checkpoint %d, which it has not made", a.name(), m.Own, m.Set, r.Dataset)
		}
	}
	a.disk[r.Dataset], a.recorded[r.Dataset] = h, a.memory
	if made := a.tmp[r.Dataset]; made != nil {
		a.rotten[r.Dataset] = made.rotten || a.rotten[r.Dataset] && len(have.members) > len(made.members)
	}
	delete(a.tmp, r.Dataset)
}

func partOf(h *recovery.Held, id holding.ID) *part {
	if h == nil || h.ID != id {
		return nil
	}
	return &part{h.Ranks, h.Members, false}
}
