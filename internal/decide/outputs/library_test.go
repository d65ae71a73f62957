package outputs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
)

// of has something done with another book.
func (w *world) of(b *Book, what func()) {
	was := w.b
	w.b = b
	what()
	w.b = was
}

// TestLibrary lets groups begin, commit and end in a random order, and nodes' byssus begin anew: each group has its own newest dataset at every
// moment, whatever others do, numbers are used once, and names are GROUP.N.
func TestLibrary(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		w := newWorld(t)
		l := NewLibrary(w, nil, 0, Memory{})
		w.b = l.Book
		newest, runs, used := map[string]uint64{}, map[string]uint64{}, map[uint64]bool{}
		for range 60 {
			name := fmt.Sprint("g", rng.IntN(3))
			b := l.Group(name)
			switch k := rng.IntN(10); {
			case runs[name] == 0:
				w.of(b, func() { runs[name] = w.begin(2, Policy{Keep: 1}) })
			case k == 0: // it ends, and nothing is kept
				b.End(w.ask(0), runs[name])
				w.turn(-1)
				for _, d := range b.List() {
					if err := b.Drop(d.Name, false); err != nil {
						t.Fatal(err)
					}
				}
				newest[name], runs[name] = 0, 0
			case k == 1: // byssus begins anew with what the nodes have
				l, runs = NewLibrary(w, known(l), l.last, l.Memory()), map[string]uint64{}
				w.b = l.Book
			default:
				fails := rng.IntN(5) == 0
				n := uint64(0)
				w.of(b, func() { n = w.snapshot(runs[name], fails) })
				if used[n] {
					t.Fatalf("seed %d: number %d is used twice", seed, n)
				}
				if used[n] = true; !fails {
					newest[name] = n
				}
			}
			for group, n := range newest {
				list := l.Group(group).List()
				if n == 0 && len(list) > 0 || n != 0 && (len(list) != 1 || list[0].Number != n || list[0].Name != fmt.Sprintf("%s.%d", group, n)) {
					t.Fatalf("seed %d: group %s has %v, wanted %d", seed, group, list, n)
				}
			}
			if len(l.List()) > 0 {
				t.Fatalf("seed %d: the program has %v", seed, l.List())
			}
		}
		heads := l.Heads()
		if all := l.Offered(); len(heads) > 1 && !slices.Equal(all, []uint64{heads[0].Number}) {
			t.Errorf("seed %d: offered are %v of %v", seed, all, heads)
		}
	}
}

// known is what is found of the datasets of groups.
func known(l *Library) (list []Dataset) {
	for _, e := range l.Entries() {
		if e.State == Counts {
			list = append(list, Dataset{Number: e.Dataset, Label: e.Label, Cached: e.Cached, Stored: e.Stored})
		}
	}
	return list
}

// snapshot makes one, as two members, and returns its number.
func (w *world) snapshot(run uint64, fails bool) uint64 {
	for rank := range 2 {
		w.b.Join(w.ask(rank), run, rank)
	}
	ask := w.ask(0)
	w.b.Open(ask, run, holding.Label{Checkpoint: true})
	w.turn(-1)
	a := w.answers[ask.Number]
	if a.Refused != "" || !strings.HasSuffix(a.Label.Name, fmt.Sprint(".", a.Dataset)) {
		w.t.Fatalf("%+v", a)
	}
	w.fails[a.Dataset] = fails
	for rank := range 2 {
		w.b.Written(w.ask(rank), Part{Run: run, Dataset: a.Dataset, Rank: rank, Valid: true})
	}
	w.turn(-1)
	return a.Dataset
}

// TestLibraryOfAProgram: datasets of a program that has a prefix are its own, also such as are called like snapshots.
func TestLibraryOfAProgram(t *testing.T) {
	w := newWorld(t)
	named := []Dataset{{Number: 3, Label: holding.Label{Name: "ckpt.3", Checkpoint: true, Ranks: 2}, Cached: true}}
	l := NewLibrary(w, named, 0, Memory{Policy: &Policy{Prefix: "/p"}})
	if len(l.List()) != 1 || len(l.Groups()) != 0 {
		t.Errorf("%v, %v", l.List(), l.Groups())
	}
	l = NewLibrary(w, named, 0, Memory{Current: 3})
	if len(l.List()) != 0 || len(l.Group("ckpt").List()) != 1 || l.Memory().Current != 3 || l.Next() != 4 {
		t.Errorf("%v, %v, %+v", l.List(), l.Groups(), l.Memory())
	}
}
