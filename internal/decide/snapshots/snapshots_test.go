package snapshots

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// world carries out what a group decides, later, in the order that a test chooses.
type world struct {
	t       *testing.T
	g       *Group
	members int
	due     []func()
	answers map[uint64]Answer
	asked   uint64
	stored  []uint64 // that count
	bad     map[uint64]bool
	last    uint64
	other   string // why the newest snapshot cannot be this group's
	fails   map[uint64]string
	ended   []bool
}

func newWorld(t *testing.T, members int, stored ...uint64) *world {
	w := &world{t: t, members: members, answers: map[uint64]Answer{}, stored: stored, bad: map[uint64]bool{}, fails: map[uint64]string{}}
	for _, n := range stored {
		w.last = max(w.last, n)
	}
	w.g = New(w, members, false)
	return w
}

func (w *world) Answer(ask uint64, a Answer) {
	if _, twice := w.answers[ask]; twice || ask == 0 || ask > w.asked {
		w.t.Fatalf("question %d is answered twice, or was never asked", ask)
	}
	w.answers[ask] = a
}

func (w *world) later(f func()) { w.due = append(w.due, f) }

func (w *world) Begin(at []int, _ []uint64, then func(Answer)) {
	if len(at) != w.members {
		w.t.Fatalf("%d members begin, wanted %d", len(at), w.members)
	}
	w.later(func() { then(Answer{Run: 5}) })
}

func (w *world) Newest(then func(Found)) {
	w.later(func() {
		for _, n := range slices.Backward(w.stored) {
			if !w.bad[n] {
				then(Found{Number: n, Differ: w.other})
				return
			}
		}
		if len(w.stored) > 0 {
			then(Found{Lost: "nothing is left of them"})
			return
		}
		then(Found{})
	})
}

func (w *world) Read(n uint64, valid bool, then func()) {
	w.later(func() {
		w.bad[n] = !valid
		then()
	})
}

func (w *world) Open(then func(uint64, string, string)) {
	w.later(func() {
		w.last++
		then(w.last, fmt.Sprintf("/d/%d", w.last), "")
	})
}

func (w *world) Commit(n uint64, parts []Part, then func(string)) {
	valid := !slices.ContainsFunc(parts, func(p Part) bool { return !p.Valid })
	if n != w.last || len(parts) != w.members {
		w.t.Fatalf("snapshot %d of %d parts is committed, wanted %d of %d", n, len(parts), w.last, w.members)
	}
	w.later(func() {
		why := w.fails[n]
		if !valid {
			why = "a part is not valid"
		}
		if why == "" {
			w.stored = append(w.stored, n)
		}
		then(why)
	})
}

func (w *world) End(keep bool, then func(string)) {
	w.ended = append(w.ended, keep)
	w.later(func() { then("") })
}

func (w *world) turn() {
	for len(w.due) > 0 {
		f := w.due[0]
		w.due = w.due[1:]
		f()
	}
}

func (w *world) ask(member int) Question {
	w.asked++
	return Question{Number: w.asked, Node: member / 2, Member: member}
}

// all has each member say something, and returns what they are answered, which is the same.
func (w *world) all(say func(Question)) Answer {
	w.t.Helper()
	var asks []uint64
	for member := range w.members {
		q := w.ask(member)
		asks = append(asks, q.Number)
		say(q)
		if member < w.members-1 {
			w.turn()
			if _, early := w.answers[q.Number]; early && !w.g.Over() {
				w.t.Fatalf("member %d is answered before all have said it", member)
			}
		}
	}
	w.turn()
	first := w.answers[asks[0]]
	for _, ask := range asks {
		if a, ok := w.answers[ask]; !ok || a != first {
			w.t.Fatalf("found %+v, %v, wanted %+v as all", a, ok, first)
		}
	}
	return first
}

// TestLife takes a group from its beginning, by commits that succeed and fail, to its end.
func TestLife(t *testing.T) {
	w := newWorld(t, 3)
	w.fails[2] = "the cache is full"
	a := w.all(func(q Question) { w.g.Enter(q, "g", 0, true) })
	if a != (Answer{Run: 5, Next: 1, Dir: "/d/1"}) {
		t.Fatalf("%+v", a)
	}
	for i, want := range []Answer{{Run: 5, Done: true, Next: 2, Dir: "/d/2"}, {Run: 5, Why: "the cache is full", Next: 3, Dir: "/d/3"}, {Run: 5, Done: true, Next: 4, Dir: "/d/4"}} {
		if a := w.all(func(q Question) { w.g.Commit(q, uint64(i), Part{Valid: true}) }); a != want {
			t.Errorf("commit %d: %+v, wanted %+v", i+1, a, want)
		}
	}
	if a := w.all(func(q Question) { w.g.Commit(q, 4, Part{Valid: q.Member != 1}) }); a.Done || a.Why != "member 1 could not start it" {
		t.Errorf("%+v", a)
	}
	if a := w.all(func(q Question) { w.g.Leave(q, true) }); a.Refused != "" || !a.Done || !w.g.Over() || !slices.Equal(w.ended, []bool{true}) {
		t.Errorf("%+v", a)
	}
	if q := w.ask(0); true {
		w.g.Commit(q, 5, Part{Valid: true})
		if a := w.answers[q.Number]; !strings.Contains(a.Refused, "whose group is over") {
			t.Errorf("%+v", a)
		}
	}
}

// TestRestore offers older snapshots until all members can read one.
func TestRestore(t *testing.T) {
	w := newWorld(t, 2, 3, 4)
	if a := w.all(func(q Question) { w.g.Enter(q, "g", 0, true) }); a.Restore != 4 {
		t.Fatalf("%+v", a)
	}
	if a := w.all(func(q Question) { w.g.Ready(q, q.Member != 1, "") }); a.Restore != 3 || a.Done {
		t.Fatalf("%+v", a)
	}
	if a := w.all(func(q Question) { w.g.Ready(q, true, "") }); a.Restore != 0 || !a.Done || a.Next != 5 || !w.bad[4] || w.bad[3] {
		t.Fatalf("%+v", a)
	}
	w = newWorld(t, 2, 3)
	w.bad[3] = true
	if a := w.all(func(q Question) { w.g.Enter(q, "g", 0, true) }); !a.Lost || !w.g.Over() {
		t.Fatalf("%+v", a)
	}
}

// TestDiffer refuses all members when they do not agree, or the snapshot is not theirs, which stays.
func TestDiffer(t *testing.T) {
	enter := func(w *world) Answer { return w.all(func(q Question) { w.g.Enter(q, "g", 0, true) }) }
	for name, c := range map[string]struct {
		stored []uint64
		other  string
		say    func(w *world) Answer
		want   string
	}{
		"names": {nil, "", func(w *world) Answer {
			return w.all(func(q Question) { w.g.Enter(q, fmt.Sprintf("g%d", q.Member/2), 0, true) })
		}, `init: members differ: found "g1, restored" of member 2, wanted "g0, restored" as of member 0`},
		"restored or not": {nil, "", func(w *world) Answer { return w.all(func(q Question) { w.g.Enter(q, "g", 0, q.Member == 0) }) }, "members differ"},
		"tags": {nil, "", func(w *world) Answer {
			enter(w)
			return w.all(func(q Question) { w.g.Commit(q, uint64(q.Member/1), Part{Valid: true}) })
		}, `commit: members differ: found "tag 1" of member 1, wanted "tag 0"`},
		"regions": {[]uint64{1}, "", func(w *world) Answer {
			enter(w)
			return w.all(func(q Question) { w.g.Ready(q, q.Member != 0, map[int]string{0: "other regions"}[q.Member]) })
		}, "other regions"},
		"members": {[]uint64{1}, "of 4 members", enter, "of 4 members"},
	} {
		w := newWorld(t, 3, c.stored...)
		w.other = c.other
		if a := c.say(w); !a.Differ || !strings.Contains(a.Refused, c.want) || w.bad[1] {
			t.Errorf("%s: %+v, wanted %q", name, a, c.want)
		}
	}
}

// TestRandom lets members of many groups speak in any order, out of order, twice, and be refused at any moment: each question is answered once,
// and of one snapshot all hear the same.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		w := newWorld(t, 1+rng.IntN(4), []uint64{1, 2}[:rng.IntN(3)]...)
		heard := map[uint64]Answer{} // of commits, by the number of the snapshot
		waits := map[int]uint64{}
		next := make([]Answer, w.members)
		entered := make([]bool, w.members)
		for range 60 {
			switch m := rng.IntN(w.members); {
			case rng.IntN(100) == 0:
				w.g.Refuse("the program is over")
			case len(w.due) > 0 && rng.IntN(2) == 0:
				f := w.due[0]
				w.due = w.due[1:]
				f()
			default:
				q := w.ask(m)
				if waits[m] == 0 {
					waits[m] = q.Number
				}
				switch {
				case !entered[m]:
					w.g.Enter(q, "g", 0, true)
				case next[m].Restore != 0:
					w.g.Ready(q, rng.IntN(3) > 0, "")
				case rng.IntN(20) == 0:
					w.g.Leave(q, true)
				default:
					w.g.Commit(q, 1, Part{Valid: rng.IntN(5) > 0})
				}
			}
			for m, ask := range waits {
				a, ok := w.answers[ask]
				if !ok || ask == 0 {
					continue
				}
				waits[m] = 0
				if a.Refused != "" {
					continue
				}
				if n := next[m].Next; n != 0 && a.Next != 0 {
					if before, twice := heard[n]; twice && before != a {
						t.Fatalf("snapshot %d: member %d hears %+v, another %+v", n, m, a, before)
					}
					heard[n] = a
				}
				entered[m], next[m] = true, a
			}
		}
		w.turn()
		w.g.Refuse("the end")
		w.turn()
		for ask := uint64(1); ask <= w.asked; ask++ {
			if _, ok := w.answers[ask]; !ok {
				t.Fatalf("question %d is not answered", ask)
			}
		}
	}
}

// TestResumed: members that were restored by other means lose what they had begun, and go on.
func TestResumed(t *testing.T) {
	resumed := func(stored ...uint64) *world {
		w := newWorld(t, 3, stored...)
		w.g = Resumed(w, 3)
		return w
	}
	w := resumed()
	if a := w.all(func(q Question) { w.g.Commit(q, 4, Part{Valid: true}) }); a.Done || a.Next != 1 || !strings.Contains(a.Why, "restored from a checkpoint") {
		t.Errorf("%+v", a)
	}
	if a := w.all(func(q Question) { w.g.Commit(q, 5, Part{Valid: true}) }); !a.Done {
		t.Errorf("%+v", a)
	}
	w = resumed()
	if a := w.all(func(q Question) { w.g.Leave(q, true) }); !a.Done || !w.g.Over() {
		t.Errorf("%+v", a)
	}
	w = resumed(7)
	if a := w.all(func(q Question) { w.g.Ready(q, true, "") }); a.Restore != 7 {
		t.Errorf("%+v", a)
	}
	w = resumed()
	if a := w.all(func(q Question) {
		if q.Member == 0 {
			w.g.Leave(q, true)
		} else {
			w.g.Commit(q, 5, Part{Valid: true})
		}
	}); !a.Differ {
		t.Errorf("%+v", a)
	}
}
