package snapshots

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// house is a program of several groups in a simulation. Its processes restore the groups of which they are members in one order, commit snapshots
// of them at intervals of their own, and end them; some die, and others take their places.
type house struct {
	t       *testing.T
	rng     *rand.Rand
	groups  []*wing
	procs   []*lodger
	due     []func()
	answers map[uint64]Answer
	asked   uint64
	asks    map[uint64]int // which process has asked
	used    uint64         // of datasets and programs, of all groups
	bonds   *Bonds[int]
	deaths  []int // that are not known yet
	kills   int
}

// wing is a group with its desk.
type wing struct {
	*house
	*Group
	name    string
	who     []int // the process of each member
	every   int
	stored  []uint64
	content map[uint64]int // the step of a snapshot
	parts   map[uint64]map[int]int
	heard   uint64 // the newest of which somebody has heard that it counts
}

// lodger is a process.
type lodger struct {
	number int
	at     int    // the group that it restores or ends, of its own; -1: it computes
	phase  string // restore, compute, finish, over
	asks   map[int]asking
	step   map[int]int // of each group
	run    map[int]uint64
	next   map[int]Answer
	again  bool // it has heard that all begin again
}

type asking struct {
	number uint64
	what   string
}

func (w *wing) Answer(ask uint64, a Answer) {
	if _, twice := w.answers[ask]; twice {
		w.t.Fatalf("question %d is answered twice", ask)
	}
	w.answers[ask] = a
	if a.Peer {
		w.bonds.Heard(w.asks[ask])
	}
}

func (h *house) later(f func()) { h.due = append(h.due, f) }

func (w *wing) Begin(_ []int, _ []uint64, then func(Answer)) {
	w.used++
	run := w.used
	w.later(func() { then(Answer{Run: run}) })
}

func (w *wing) Newest(then func(Found)) {
	w.later(func() {
		if len(w.stored) == 0 {
			then(Found{})
			return
		}
		then(Found{Number: w.stored[len(w.stored)-1]})
	})
}

func (w *wing) Read(_ uint64, _ bool, then func()) { w.later(then) }

func (w *wing) Open(then func(uint64, string, string)) {
	w.used++
	n := w.used
	w.later(func() { then(n, w.name, "") })
}

func (w *wing) Commit(n uint64, _ []Part, then func(string)) {
	w.later(func() {
		w.stored = append(w.stored, n)
		w.content[n] = w.parts[n][0]
		for member, step := range w.parts[n] {
			if step != w.content[n] {
				w.t.Fatalf("%s.%d: member %d is at step %d, wanted %d", w.name, n, member, step, w.content[n])
			}
		}
		then("")
	})
}

func (w *wing) End(_ bool, then func(string)) { w.later(func() { then("") }) }

const houseSteps = 12

// mine are the groups of a process, in the order in which all begin them.
func (h *house) mine(number int) []int {
	var list []int
	for i, w := range h.groups {
		if slices.Contains(w.who, number) {
			list = append(list, i)
		}
	}
	return list
}

func (h *house) ask(l *lodger, g int, what string, f func(Question)) {
	h.asked++
	l.asks[g], h.asks[h.asked] = asking{h.asked, what}, l.number
	f(Question{Number: h.asked, Node: l.number, Member: slices.Index(h.groups[g].who, l.number), Run: l.run[g]})
}

// goes lets a process do what comes next.
func (h *house) goes(l *lodger) {
	for g, a := range l.asks {
		if answer, ok := h.answers[a.number]; ok {
			delete(l.asks, g)
			h.hears(l, g, a.what, answer)
			return
		}
	}
	mine := h.mine(l.number)
	switch {
	case l.phase == "over" || len(l.asks) > 0:
	case l.again || l.phase == "":
		l.again, l.phase, l.at = false, "restore", 0
	case l.phase == "restore" && l.at == len(mine):
		l.phase = "compute"
	case l.phase == "restore":
		g := mine[l.at]
		h.ask(l, g, "enter", func(q Question) { h.enter(l, g, mine, q) })
	case l.phase == "compute":
		h.compute(l, mine)
	case l.at == len(mine):
		l.phase = "over"
	default:
		g := mine[l.at]
		h.ask(l, g, "leave", func(q Question) { h.groups[g].Leave(q, true) })
	}
}

func (h *house) enter(l *lodger, g int, mine []int, q Question) {
	w := h.groups[g]
	if h.bonds.Begins(l.number, w.Group, g == mine[0], h.all()) != nil {
		w.Answer(q.Number, Answer{Refused: "another first", Peer: true})
		return
	}
	w.Enter(q, w.name, 0, true)
	h.bonds.Look(h.all(), w.Group, "another")
}

// all are the groups that are not over.
func (h *house) all() (list []Bond[int]) {
	for _, w := range h.groups {
		b := Bond[int]{w.Group, map[int]int{}}
		for member, who := range w.who {
			if w.alive[member] {
				b.Members[member] = who
			}
		}
		if !w.Over() {
			list = append(list, b)
		}
	}
	return list
}

// compute does a step of the group that is behind, and commits it, and those of others that are due, at the same time.
func (h *house) compute(l *lodger, mine []int) {
	least := houseSteps
	for _, g := range mine {
		least = min(least, l.step[g])
	}
	if least == houseSteps {
		l.phase, l.at = "finish", 0
		return
	}
	for _, g := range mine {
		if l.step[g] > least {
			continue
		}
		l.step[g]++
		if w := h.groups[g]; l.step[g]%w.every == 0 {
			n := l.next[g].Next
			if w.parts[n] == nil {
				w.parts[n] = map[int]int{}
			}
			w.parts[n][slices.Index(w.who, l.number)] = l.step[g]
			h.ask(l, g, "commit", func(q Question) { w.Commit2(q, uint64(l.step[g])) })
		}
	}
}

// Commit2 is the group's Commit, not the desk's.
func (w *wing) Commit2(q Question, tag uint64) { w.Group.Commit(q, tag, Part{Valid: true}) }

func (h *house) hears(l *lodger, g int, what string, a Answer) {
	w := h.groups[g]
	switch {
	case a.Peer:
		l.again = true
	case a.Refused != "":
		h.t.Fatalf("process %d of group %s: %s: %s", l.number, w.name, what, a.Refused)
	case a.Restore != 0:
		if newest := w.stored[len(w.stored)-1]; a.Restore != newest || newest < w.heard {
			h.t.Fatalf("group %s restores %d, wanted %d, and none before %d", w.name, a.Restore, newest, w.heard)
		}
		l.step[g], l.run[g] = w.content[a.Restore], a.Run
		h.ask(l, g, "ready", func(q Question) { w.Ready(q, true, "") })
	case what == "leave":
		l.at++
	default:
		switch what {
		case "enter":
			l.step[g] = 0
			l.at++
		case "ready":
			l.at++
		case "commit":
			w.heard = max(w.heard, l.next[g].Next)
		}
		l.run[g], l.next[g] = a.Run, a
	}
}

// known: the death of a process is; another takes its place.
func (h *house) known(number int) {
	for _, w := range h.groups {
		if m := slices.Index(w.who, number); m >= 0 {
			w.Died(m)
		}
	}
	h.bonds.Look(h.all(), nil, "another")
	h.procs[number] = h.lodger(number)
}

func (h *house) lodger(number int) *lodger {
	return &lodger{number: number, asks: map[int]asking{}, step: map[int]int{}, run: map[int]uint64{}, next: map[int]Answer{}}
}

func (h *house) turn(deaths bool) {
	switch k := h.rng.IntN(8); {
	case k == 0 && len(h.deaths) > 0:
		number := h.deaths[0]
		h.deaths = h.deaths[1:]
		h.known(number)
	case k < 3 && len(h.due) > 0:
		f := h.due[0]
		h.due = h.due[1:]
		f()
	default:
		number := h.rng.IntN(len(h.procs))
		l := h.procs[number]
		if l == nil {
			return
		}
		ends := l.phase == "finish" || l.phase == "over" || slices.ContainsFunc(h.groups, func(w *wing) bool { return w.Over() })
		if deaths && !ends && h.rng.IntN(80) == 0 {
			h.procs[number] = nil
			h.deaths = append(h.deaths, number)
			h.kills++
			return
		}
		h.goes(l)
	}
}

// newHouse has up to five processes and three groups; the first has all of them.
func newHouse(t *testing.T, rng *rand.Rand) *house {
	h := &house{t: t, rng: rng, answers: map[uint64]Answer{}, bonds: NewBonds[int](), asks: map[uint64]int{}}
	processes := 1 + rng.IntN(5)
	for g := range 1 + rng.IntN(3) {
		w := &wing{house: h, name: fmt.Sprint("g", g), every: 1 + rng.IntN(4), content: map[uint64]int{}, parts: map[uint64]map[int]int{}}
		for p := range processes {
			if g == 0 || rng.IntN(2) == 0 {
				w.who = append(w.who, p)
			}
		}
		if len(w.who) == 0 {
			w.who = []int{0}
		}
		rng.Shuffle(len(w.who), func(i, j int) { w.who[i], w.who[j] = w.who[j], w.who[i] })
		w.Group = New(w, len(w.who), true)
		h.groups = append(h.groups, w)
	}
	for p := range processes {
		h.procs = append(h.procs, h.lodger(p))
	}
	return h
}

// TestGroups kills processes that are members of several groups, at any moment: each question is answered once, no two of them wait for each
// other in different groups, each group goes on from its own newest snapshot, and all come to the end.
func TestGroups(t *testing.T) {
	seed, kills := rand.Uint64(), 0
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	for range 1000 {
		h := newHouse(t, rng)
		over := func() bool {
			return !slices.ContainsFunc(h.procs, func(l *lodger) bool { return l == nil || l.phase != "over" })
		}
		for turns := 0; !over(); turns++ {
			if turns == 60000 {
				for _, l := range h.procs {
					t.Logf("%+v", l)
				}
				for _, w := range h.groups {
					t.Logf("%s: of %v, every %d, phase %d, busy %v, %+v, heard %v, stored %v", w.name, w.who, w.every, w.phase, w.busy, w.epoch, w.Group.heard, w.stored)
				}
				t.Fatalf("no end: %d processes, %d groups, %d due", len(h.procs), len(h.groups), len(h.due))
			}
			h.turn(turns < 3000)
		}
		kills += h.kills
	}
	if kills < 1000 {
		t.Errorf("%d kills, wanted more", kills)
	}
	t.Logf("%d kills", kills)
}

// TestStrangers: members that give one group two names are refused, by the words of members that differ; groups that others begin first are not.
func TestStrangers(t *testing.T) {
	h := &house{t: t, answers: map[uint64]Answer{}, bonds: NewBonds[int](), asks: map[uint64]int{}}
	for _, name := range []string{"a", "b"} {
		w := &wing{house: h, name: name, who: []int{0, 1, 2}}
		w.Group = New(w, 3, false)
		h.groups = append(h.groups, w)
	}
	enter := func(group, member int) uint64 {
		h.asked++
		h.groups[group].Enter(Question{Number: h.asked, Member: member}, "group "+h.groups[group].name, 0, false)
		return h.asked
	}
	asks := []uint64{enter(1, 0), enter(0, 1)}
	if groups, _ := Strangers(h.all(), 3); groups != nil {
		t.Errorf("%d groups differ though a member is missing", len(groups))
	}
	asks = append(asks, enter(0, 2))
	if groups, _ := Strangers(h.all(), 6); groups != nil {
		t.Errorf("%d groups differ though there are processes enough for each", len(groups))
	}
	groups, likes := Strangers(h.all(), 3)
	Differ(groups, likes)
	for _, ask := range asks {
		if a := h.answers[ask]; !a.Differ || a.Refused != `init: members differ: found "group a" of member 1, wanted "group b" as of member 0` {
			t.Errorf("%+v", a)
		}
	}
	for i, w := range h.groups {
		w.Group = New(w, 3, false)
		enter(i, 0)
	}
	enter(0, 1)
	if groups, _ := Strangers(h.all(), 3); groups != nil {
		t.Errorf("%d groups differ of which a member is in both", len(groups))
	}
}
