package snapshots

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// process is one of a member in a simulation: it restores, computes, commits, and does so again when it hears that another has died.
type process struct {
	member int
	waits  uint64 // for the answer to this question, 0: for none
	asked  string
	run    uint64
	next   Answer
	step   uint64 // how far it has come
	left   bool
}

// survivors simulates members that die, and processes that take their places.
type survivors struct {
	*world
	rng      *rand.Rand
	procs    []*process        // nil: it has died, and no other has begun
	unknown  []bool            // the death is not known yet
	content  map[uint64]uint64 // of snapshots that count: how far members had come
	parts    map[uint64][]uint64
	counts   uint64 // the newest of which anybody has heard that it counts
	states   []uint64
	versions []uint64
	kills    int
	last     uint64
}

func (s *survivors) Commit(n uint64, parts []Part, then func(string)) {
	s.world.Commit(n, parts, func(why string) {
		if why == "" {
			s.content[n] = s.parts[n][0]
			for member, step := range s.parts[n] {
				if step != s.content[n] {
					s.t.Fatalf("snapshot %d: member %d had come to %d, member 0 to %d", n, member, step, s.content[n])
				}
			}
		}
		then(why)
	})
}

func (s *survivors) Begin(at []int, _ []uint64, then func(Answer)) {
	s.last++
	run := s.last
	s.later(func() {
		if s.g.broken && s.rng.IntN(2) == 0 { // the loss of a node keeps it from beginning
			then(Answer{Run: run, Refused: "a node was lost"})
			return
		}
		then(Answer{Run: run})
	})
}

func (s *survivors) Open(then func(uint64, string, string)) {
	s.world.Open(func(n uint64, dir, why string) {
		if s.g.broken && s.rng.IntN(2) == 0 {
			why = "a node was lost"
		}
		then(n, dir, why)
	})
}

func (s *survivors) say(p *process, what string, f func(Question)) {
	q := s.ask(p.member)
	q.Run = p.run
	p.waits, p.asked = q.Number, what
	f(q)
}

func (s *survivors) enter(p *process) {
	s.say(p, "enter", func(q Question) { s.g.Enter(q, "g", 0, true) })
}

const lastStep = 9

// goes lets a process do what comes next.
func (s *survivors) goes(p *process) {
	if p.left {
		return
	}
	if p.waits != 0 {
		a, ok := s.answers[p.waits]
		if !ok {
			return
		}
		p.waits = 0
		s.hears(p, a)
		return
	}
	switch {
	case p.asked == "":
		s.enter(p)
	case p.step == lastStep:
		s.say(p, "leave", func(q Question) { s.g.Leave(q, true) })
	default:
		p.step++
		n := p.next.Next
		if s.parts[n] == nil {
			s.parts[n] = make([]uint64, s.members)
		}
		s.parts[n][p.member] = p.step
		s.say(p, "commit", func(q Question) { s.g.Commit(q, p.step, Part{Valid: true}) })
	}
}

func (s *survivors) hears(p *process, a Answer) {
	n := p.next.Next
	switch {
	case a.Peer:
		p.step = 1000 // survivors scribble
		s.enter(p)
	case a.Refused != "":
		s.t.Fatalf("member %d: %s: %+v", p.member, p.asked, a)
	case a.Restore != 0:
		newest := s.stored[len(s.stored)-1]
		if a.Restore != newest || newest < s.counts {
			s.t.Fatalf("member %d restores %d, wanted the newest, %d, and none before %d", p.member, a.Restore, newest, s.counts)
		}
		p.step, p.run = s.content[a.Restore], a.Run
		s.say(p, "ready", func(q Question) { s.g.Ready(q, true, "") })
		return
	case p.asked == "enter":
		p.step = 0
	case p.asked == "commit" && a.Done:
		if s.counts = max(s.counts, n); !slices.Contains(s.stored, n) {
			s.t.Fatalf("member %d hears that snapshot %d counts, which does not", p.member, n)
		}
	case p.asked == "leave":
		p.left = true
	}
	if p.waits == 0 {
		p.run, p.next = a.Run, a
	}
}

// kill ends a process; that is known later.
func (s *survivors) kill(m int) {
	s.procs[m], s.unknown[m] = nil, true
	s.kills++
}

func (s *survivors) known(m int) {
	if s.unknown[m] {
		s.unknown[m] = false
		s.g.Died(m)
	}
}

// look has a member ask who is dead, and compares what it hears.
func (s *survivors) look(m int) {
	if a, ok := s.answers[s.states[m]]; ok {
		s.states[m], s.versions[m] = 0, a.Version
		for member, c := range a.State {
			if c != Healthy && c != Corrupt || c == Corrupt && !s.g.dead[member] && a.Version == s.g.version {
				s.t.Fatalf("state %s, dead are %v", a.State, s.g.dead)
			}
		}
	}
	if s.states[m] == 0 && !s.g.Over() {
		q := s.ask(m)
		s.states[m] = q.Number
		s.g.State(q, s.versions[m])
	}
}

func (s *survivors) turn() {
	m := s.rng.IntN(s.members)
	switch k := s.rng.IntN(12); {
	case k < 4 && len(s.due) > 0:
		f := s.due[0]
		s.due = s.due[1:]
		f()
	case k == 4:
		s.known(m)
	case k == 5:
		s.look(m)
	case s.procs[m] != nil:
		s.goes(s.procs[m])
	default:
		s.known(m) // a process is started in its place when it is
		s.procs[m] = &process{member: m}
	}
}

// TestSurvivors kills members at any moment, 1,000 times and more: each question is answered once, of a snapshot all hear the same, all go on
// from the newest that counts, and come to the end.
func TestSurvivors(t *testing.T) {
	seed, kills := rand.Uint64(), 0
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 600 {
		members := 1 + rng.IntN(5)
		s := &survivors{world: newWorld(t, members), rng: rng, procs: make([]*process, members), unknown: make([]bool, members), content: map[uint64]uint64{},
			parts: map[uint64][]uint64{}, states: make([]uint64, members), versions: make([]uint64, members)}
		s.g = New(s, members, true)
		for turns := 0; !s.g.Over(); turns++ {
			if turns == 40000 {
				t.Fatalf("no end: %d members, %+v", members, s.g)
			}
			if turns < 800 && rng.IntN(60) == 0 {
				s.kill(rng.IntN(members))
			}
			s.turn()
		}
		kills += s.kills
		for m, p := range s.procs {
			for p != nil && p.waits != 0 {
				s.goes(p)
			}
			s.look(m)
		}
		for ask := uint64(1); ask <= s.asked; ask++ {
			if _, ok := s.answers[ask]; !ok {
				t.Fatalf("question %d is not answered", ask)
			}
		}
	}
	if kills < 1000 {
		t.Errorf("%d kills, wanted more", kills)
	}
	t.Logf("%d kills", kills)
}

// TestState names exactly those that have died, to all survivors, until all begin again.
func TestState(t *testing.T) {
	w := newWorld(t, 4)
	w.g = New(w, 4, true)
	w.all(func(q Question) { w.g.Enter(q, "g", 0, true) })
	wait := func(member int, known uint64) uint64 {
		q := w.ask(member)
		w.g.State(q, known)
		return q.Number
	}
	first := w.answers[wait(0, 0)]
	if first.State != "0000" {
		t.Fatalf("%+v", first)
	}
	asks := []uint64{wait(0, first.Version), wait(3, first.Version)}
	w.g.Died(1)
	for _, ask := range asks {
		if a := w.answers[ask]; a.State != "0100" {
			t.Errorf("%+v", a)
		}
	}
	w.g.Died(2)
	q := w.ask(0)
	q.Run = first.Run
	w.g.Commit(q, 1, Part{Valid: true})
	if a := w.answers[q.Number]; !a.Peer || !strings.Contains(a.Refused, "members 1, 2 have died") {
		t.Errorf("%+v", a)
	}
	for _, member := range []int{1, 0, 2} {
		w.g.Enter(w.ask(member), "g", 0, true)
		if a := w.answers[wait(3, 0)]; a.State != "0110" {
			t.Errorf("%+v before all have begun again", a)
		}
	}
	w.g.Enter(w.ask(3), "g", 0, true)
	if a := w.answers[wait(3, 0)]; a.State != "0000" {
		t.Errorf("%+v", a)
	}
}
