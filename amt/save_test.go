package amt_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
	"github.com/byssus-hpc/byssus/pup"
)

// A shape is what polymorphic elements have.
type shape interface{ area() float64 }

type square struct{ Side float64 }

type disc struct{ Radius float64 }

var (
	_ = pup.Register[*square]("amt_test.square")
	_ = pup.Register[*disc]("amt_test.disc")
)

func (s *square) area() float64 { return s.Side * s.Side }
func (d *disc) area() float64   { return 3 * d.Radius * d.Radius }

// A drawing has polymorphic state, and more of it in some elements than in others.
type drawing struct {
	Name   string
	Shapes []shape
	Step   int
	Ring   *link // as many as steps, and around
	Last   *link // of them
}

type link struct {
	N    int
	Next *link
}

// sew adds a link to a ring.
func (d *drawing) sew(n int) {
	l := &link{N: n}
	if d.Last == nil {
		d.Ring, l.Next = l, l
	} else {
		l.Next, d.Last.Next = d.Ring, l
	}
	d.Last = l
}

// around is how many links a ring has, and whether its last is what is known as the last.
func (d *drawing) around() (n int, whole bool) {
	if d.Ring == nil {
		return 0, d.Last == nil
	}
	l := d.Ring
	for n = 1; l.Next != d.Ring && n < 1000; n++ {
		l = l.Next
	}
	return n, l == d.Last
}

var (
	drawings amt.Collection[amt.Index3, drawing]
	draw     amt.Method[amt.Index3, drawing, step]
	mirrored amt.Collection[amt.Index1, uint64] // plain
)

func init() {
	drawings.Is("drawings", amt.Graph[amt.Index3](), amt.MappedBy(func(i, extent amt.Index3, ranks int) int { return (i.X*7 + i.Y*3 + i.Z) % ranks }))
	draw.Is(&drawings, func(_ amt.At[amt.Index3], d *drawing, m *step) {
		d.Step++
		d.sew(d.Step)
		if m.ID%2 == 0 {
			d.Shapes = append(d.Shapes, &square{float64(m.ID)})
		} else {
			d.Shapes = append(d.Shapes, &disc{float64(m.ID)})
		}
	})
	mirrored.Is("numbers")
}

const numbers = 5 // fewer than ranks, sometimes

var drawingExtent = amt.Index3{X: 3, Y: 4, Z: 2}

// advance has each drawing be drawn on, and go elsewhere.
func advance(c amt.Context, phase int) error {
	err := c.Collective("draw", func(c amt.Context) error {
		for n := uint64(c.Rank()); n < 24; n += uint64(c.Ranks()) {
			draw.Send(c, drawingExtent.At(n), &step{ID: n + uint64(phase)})
		}
		return nil
	}).Wait(c)
	if err != nil {
		return err
	}
	return c.Phase(amt.Random(uint64(phase)))
}

var totals amt.Reduction[float64]

func init() { totals.Is(func(a, b float64) float64 { return a + b }) }

// result does not depend on where elements are, but on all that they have.
func result(c amt.Context) (float64, error) {
	sum := 0.0
	var torn error
	drawings.Each(c, func(i amt.Index3, d *drawing) {
		if n, whole := d.around(); n != d.Step || !whole {
			torn = fmt.Errorf("drawing %v: its ring has %d links, whole %v, wanted %d", i, n, whole, d.Step)
		}
		for k, s := range d.Shapes {
			sum += float64(k+1) * s.area() * float64(1+i.X+i.Y*5+i.Z*11)
		}
		sum += float64(d.Step) * float64(len(d.Name))
	})
	mirrored.Each(c, func(i amt.Index1, v *uint64) { sum += float64(*v) * float64(i.X+1) })
	all, err := totals.All(c, sum)
	return all, errors.Join(torn, err)
}

// begins makes the collections, or brings them back.
func begins(c amt.Context, store amt.Store) error {
	found, err := amt.Restore(c, store, &drawings, &mirrored)
	if err != nil || found {
		return err
	}
	if err := drawings.Create(c, drawingExtent, func(i amt.Index3) (drawing, error) { return drawing{Name: fmt.Sprint(i)}, nil }); err != nil {
		return err
	}
	return mirrored.Create(c, amt.Index1{X: numbers}, func(i amt.Index1) (uint64, error) { return uint64(i.X * i.X), nil })
}

// upTo runs phases up to a number, and saves then; it returns what comes out.
func upTo(t *testing.T, ranks, phases int, store amt.Store) (sum float64) {
	t.Helper()
	amttest.Run(t, ranks, func(c amt.Context) error {
		if err := begins(c, store); err != nil {
			return err
		}
		for c.PhaseNumber() < phases {
			if err := advance(c, c.PhaseNumber()); err != nil {
				return err
			}
		}
		if err := amt.Save(c, store, &drawings, &mirrored); err != nil {
			return err
		}
		v, err := result(c)
		if c.Rank() == 0 {
			sum = v
		}
		return err
	})
	return sum
}

// TestSparseNToM: a collection of few indices of many, and its reduction, go on on another number of ranks, and can be modified then.
func TestSparseNToM(t *testing.T) {
	for _, ranks := range []int{1, 2, 5} {
		for _, others := range []int{1, 3, 5} {
			store := amt.Directory(t.TempDir())
			seed := uint64(ranks*10 + others)
			g := garden{&grove, &groveRustle, &groveGraft, map[amt.Index2]bool{}}
			play := func(c amt.Context, first, last int) error {
				mine := garden{g.of, g.rustle, g.graft, maps.Clone(g.there)}
				for step := first; step < last; step++ {
					if err := mine.modify(c, step, rand.New(rand.NewPCG(seed, uint64(step)))); err != nil {
						return err
					}
					if err := mine.call(c, step).Wait(c); err != nil {
						return err
					}
					if sum, err := groveSum.Wait(c, uint64(step)); len(mine.there) > 0 && (err != nil || sum != mine.inOrder()) {
						return fmt.Errorf("step %d: the reduction: %q, %w, wanted %q", step, sum, err, mine.inOrder())
					}
				}
				if err := mine.check(c, last-1); err != nil {
					return err
				}
				if c.Rank() == 0 && first == 0 {
					g.there = mine.there
				}
				return amt.Save(c, store, &grove)
			}
			amttest.Run(t, ranks, func(c amt.Context) error {
				if err := grove.CreateEmpty(c, acres); err != nil {
					return err
				}
				return play(c, 0, 12)
			})
			amttest.Run(t, others, func(c amt.Context) error {
				if _, err := amt.Restore(c, store, &grove); err != nil {
					return err
				}
				if grove.Size(c) != uint64(len(g.there)) {
					return fmt.Errorf("%d elements, wanted %d", grove.Size(c), len(g.there))
				}
				return play(c, 12, 20)
			})
		}
	}
}

// scattered is a store each part of which one rank can open, as if it lay on that rank's node.
type scattered struct{ amt.Store }

func (s scattered) Here(at amt.Place, n uint64) (names []string, err error) {
	all, err := s.Store.Here(at, n)
	for i, name := range all {
		if i*7%at.Ranks == at.Rank {
			names = append(names, name)
		}
	}
	return names, err
}

func (s scattered) Open(at amt.Place, n uint64, name string) (amt.File, error) {
	if names, err := s.Here(at, n); err != nil || !slices.Contains(names, name) {
		return nil, fmt.Errorf("rank %d cannot open %s: %w", at.Rank, name, err)
	}
	return s.Store.Open(at, n, name)
}

// TestNToM: what was saved on some ranks goes on on others, as if nothing had been.
func TestNToM(t *testing.T) {
	counts := []int{1, 2, 3, 4, 7, 40}
	want := upTo(t, 3, 4, amt.Directory(t.TempDir()))
	for _, from := range counts {
		for _, to := range counts {
			store := amt.Directory(t.TempDir())
			upTo(t, from, 2, store)
			if (from+to)%2 == 0 {
				store = scattered{store}
			}
			if got := upTo(t, to, 4, store); got != want {
				t.Errorf("%d ranks to %d: %v, wanted %v", from, to, got, want)
			}
		}
	}
}

// fullStore is a store that fails at some call of a rank.
type fullStore struct {
	amt.Store
	at   string
	rank int
}

var errFull = errors.New("the store is full")

func (f fullStore) fails(call string, at amt.Place) error {
	if call == f.at && at.Rank == f.rank {
		return errFull
	}
	return nil
}

func (f fullStore) Begin(at amt.Place, n uint64) error {
	return errors.Join(f.Store.Begin(at, n), f.fails("begin", at))
}

func (f fullStore) Commit(at amt.Place, n uint64, manifest []byte) error {
	if err := f.fails("commit", at); err != nil {
		return err
	}
	return f.Store.Commit(at, n, manifest)
}

func (f fullStore) Create(at amt.Place, n uint64, name string) (io.WriteCloser, error) {
	w, err := f.Store.Create(at, n, name)
	return fullFile{w, f.fails("write", at)}, errors.Join(err, f.fails("create", at))
}

type fullFile struct {
	io.WriteCloser
	err error
}

func (f fullFile) Write(b []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.WriteCloser.Write(b)
}

// TestSaveFails: what cannot be saved on one rank is an error on all, the checkpoint before stands, nothing of it stays, and the next one counts.
func TestSaveFails(t *testing.T) {
	for _, at := range []string{"begin", "create", "write", "commit"} {
		for rank := range 3 {
			if at == "commit" && rank > 0 { // of a directory rank 0 alone does it
				continue
			}
			dir := t.TempDir()
			store := amt.Directory(dir)
			upTo(t, 3, 1, store)
			amttest.Run(t, 3, func(c amt.Context) error {
				if err := begins(c, store); err != nil {
					return err
				}
				if err := amt.Save(c, fullStore{store, at, rank}, &drawings, &mirrored); err == nil || !strings.Contains(err.Error(), errFull.Error()) {
					return fmt.Errorf("%s of rank %d: found %w", at, rank, err)
				}
				entries, err := os.ReadDir(dir)
				if c.Rank() == 0 && (err != nil || len(entries) != 1) {
					return fmt.Errorf("%s of rank %d: %v are left, %w", at, rank, entries, err)
				}
				return nil
			})
			want := upTo(t, 2, 3, amt.Directory(t.TempDir()))
			if got := upTo(t, 2, 3, store); got != want {
				t.Errorf("%s of rank %d: %v, wanted %v", at, rank, got, want)
			}
		}
	}
}

// TestKept: the newest counts, and two are kept.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	for phases := 1; phases <= 4; phases++ {
		upTo(t, 2, phases, amt.Directory(dir))
	}
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != "tasks.000003 tasks.000004" {
		t.Errorf("%s: %v", got, err)
	}
}

// TestRestoreWrong: what is not there, or not as it was written, is an error that names it, on all ranks.
func TestRestoreWrong(t *testing.T) {
	flip := func(name string, at int64) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, "tasks.000001", name)
			b, err := os.ReadFile(path)
			if err == nil {
				b[(at+int64(len(b)))%int64(len(b))] ^= 4
				err = os.WriteFile(path, b, 0o600)
			}
			return err
		}
	}
	for _, c := range []struct {
		name string
		harm func(dir string) error
		want string
	}{
		{"an element", flip("part-00001", 40), "part-00001: checkpoint: "},
		{"the index", flip("part-00001", -60), "part-00001: checkpoint: index: damaged: crc32c"},
		{"the end", flip("part-00002", -3), "part-00002: checkpoint: damaged: its last 32 bytes"},
		{"the manifest", flip("manifest", 100), "checkpoint: manifest: damaged"},
		{"a part is missing", func(dir string) error { return os.Remove(filepath.Join(dir, "tasks.000001/part-00000")) }, "part-00000 is not there: no rank can open it"},
		{"a part is short", func(dir string) error { return os.Truncate(filepath.Join(dir, "tasks.000001/part-00000"), 100) }, "part-00000: checkpoint: damaged"},
		{"another part", func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, "tasks.000001/part-00001"))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "tasks.000001/part-00000"), b, 0o600)
			}
			return err
		}, "part-00000: checkpoint: damaged"},
	} {
		dir := t.TempDir()
		upTo(t, 3, 1, amt.Directory(dir))
		if err := c.harm(dir); err != nil {
			t.Fatal(err)
		}
		for _, ranks := range []int{1, 4} {
			err := amttest.Try(t, ranks, func(c amt.Context) error { return begins(c, amt.Directory(dir)) })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: found %v, wanted %s", c.name, err, c.want)
			}
		}
	}
	dir := t.TempDir()
	upTo(t, 3, 1, amt.Directory(dir))
	for want, of := range map[string][]amt.Saved{
		`it has the collections ["drawings" "numbers"], wanted "storm" in place 0`: {&storm},
		"it has 2 collections, wanted 1":                                           {&drawings},
	} {
		err := amttest.Try(t, 2, func(c amt.Context) error { _, err := amt.Restore(c, amt.Directory(dir), of...); return err })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, wanted %s", err, want)
		}
	}
}
