package amt_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
)

// A plot is an element of sections: it notes what it hears, keeps a section, and its generator goes with it.
type plot struct {
	Heard []tidings
	Keeps amt.Section[amt.Index2, plot]
	State uint64
}

// tidings are a message to a section: the n-th to the k-th section.
type tidings struct {
	K, N  int
	To    amt.Section[amt.Index2, plot]
	Then  string
	Left  int
	Still bool // nobody moves
}

var (
	field       amt.Collection[amt.Index2, plot]
	fieldNews   amt.Method[amt.Index2, plot, tidings]
	fieldNames  amt.ElementReduction[amt.Index2, plot, string]
	fieldWeight amt.ElementReduction[amt.Index2, plot, float64]
	fieldHandle amt.Handler[tidings]
	fieldHeard  amt.Reduction[[]hearing]
)

// hearing is what an element has heard.
type hearing struct {
	Index amt.Index2
	Heard []tidings
}

var errField = errors.New("the field fails")

func init() {
	field.Is("field", amt.MappedBy(func(i, _ amt.Index2, ranks int) int { return (i.X*5 + i.Y/3) % ranks }))
	fieldNames.Is(&field, func(a, b string) string { return a + b })
	fieldWeight.Is(&field, func(a, b float64) float64 { return (a + b) * 1.0000001 })
	fieldNews.Is(&field, onTidings)
	fieldHandle.Is(func(c amt.Context, m *tidings) { fieldNews.BroadcastTo(c, m.To, m) })
	fieldHeard.Is(func(a, b []hearing) []hearing { return append(a, b...) })
}

func onTidings(c amt.At[amt.Index2], p *plot, m *tidings) {
	wander := func() {
		p.State = p.State*6364136223846793005 + 1442695040888963407
		if p.State>>33%2 == 0 && !m.Still {
			c.MoveTo(int(p.State >> 40 % uint64(c.Ranks())))
		}
	}
	switch m.Then {
	case "fail":
		if c.Index().X == 2 {
			c.Fail(errField)
		}
	case "on": // the n-th has the members broadcast to their own section
		if m.Left > 0 && c.Index().Y == 0 {
			fieldNews.BroadcastTo(c.Context, p.Keeps, &tidings{K: m.K, N: m.N + 1, To: p.Keeps, Then: "on", Left: m.Left - 1})
		}
	case "keep":
		p.Keeps = m.To
		wander()
		return
	case "twice":
		fieldNames.GiveTo(c, m.To, uint64(m.N), "")
	case "wander":
		wander()
		return
	}
	number := 0
	for _, h := range p.Heard { // all members hear broadcasts in one order
		if h.K == m.K {
			number++
		}
	}
	p.Heard = append(p.Heard, *m)
	wander()
	if m.Then == "give" || m.Then == "twice" {
		i := c.Index()
		fieldNames.GiveTo(c, m.To, uint64(number), fmt.Sprintf("%d.%d;", i.X, i.Y))
		fieldWeight.GiveTo(c, m.To, uint64(number), 1/float64(1+i.X*11+i.Y+number))
	}
}

var fieldExtent = amt.Index2{X: 9, Y: 11}

func newField(c amt.Context, seed uint64) error {
	return field.Create(c, fieldExtent, func(i amt.Index2) (plot, error) { return plot{State: seed + uint64(i.X*1000+i.Y)}, nil })
}

// fieldMembers are who is in the k-th section: rows, columns, one, none, all, those that begin on rank 0 of 7, and most.
var fieldMembers = []func(i amt.Index2) bool{
	func(i amt.Index2) bool { return i.X == 3 },
	func(i amt.Index2) bool { return i.X == 8 },
	func(i amt.Index2) bool { return i.Y == 4 },
	func(i amt.Index2) bool { return i.Y == 0 },
	func(i amt.Index2) bool { return i == amt.Index2{X: 8, Y: 10} },
	func(amt.Index2) bool { return false },
	func(amt.Index2) bool { return true },
	func(i amt.Index2) bool { return (i.X*5+i.Y/3)%7 == 0 },
	func(i amt.Index2) bool { return (i.X+i.Y)%3 != 0 },
}

const emptySection = 5

func fieldSections(c amt.Context) (all []amt.Section[amt.Index2, plot], err error) {
	for k, member := range fieldMembers {
		s, err := field.Section(c, fmt.Sprint("section ", k), member)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// names is what a reduction over a section is to give.
func names(member func(i amt.Index2) bool) (all string) {
	for n := range uint64(fieldExtent.X * fieldExtent.Y) {
		if i := fieldExtent.At(n); member(i) {
			all += fmt.Sprintf("%d.%d;", i.X, i.Y)
		}
	}
	return all
}

// checkField compares what elements have heard with so many broadcasts to each section, and the order of any two of these with that in which
// others have heard them.
func checkField(c amt.Context, broadcasts []int) error {
	var own []hearing
	field.Each(c, func(i amt.Index2, p *plot) { own = append(own, hearing{i, p.Heard}) })
	all, err := fieldHeard.All(c, own)
	if err != nil || c.Rank() != 0 {
		return err
	}
	if len(all) != fieldExtent.X*fieldExtent.Y {
		return fmt.Errorf("%d elements", len(all))
	}
	type pair struct{ k, n, l, m int }
	before := map[pair]amt.Index2{}
	for _, h := range all {
		times := map[[2]int]int{}
		for a, t := range h.Heard {
			times[[2]int{t.K, t.N}]++
			for _, u := range h.Heard[:a] {
				before[pair{u.K, u.N, t.K, t.N}] = h.Index
			}
		}
		for k, member := range fieldMembers {
			for n := range broadcasts[k] {
				if want := map[bool]int{true: 1}[member(h.Index)]; times[[2]int{k, n}] != want {
					return fmt.Errorf("element %v has heard broadcast %d to section %d %d times, wanted %d", h.Index, n, k, times[[2]int{k, n}], want)
				}
				delete(times, [2]int{k, n})
			}
		}
		if len(times) > 0 {
			return fmt.Errorf("element %v has heard %v too", h.Index, times)
		}
	}
	for p, who := range before {
		if other, ok := before[pair{p.l, p.m, p.k, p.n}]; ok {
			return fmt.Errorf("elements %v and %v have heard %v in two orders", who, other, p)
		}
	}
	return nil
}

// TestSections: broadcasts to sections by turns, from all ranks, while members migrate, and phases between: each member hears each once, all in
// one order, and reductions have a value of each in the order of indices, the same to the last bit on any number of ranks.
func TestSections(t *testing.T) {
	const rounds, steps = 3, 4
	weights := map[string]float64{}
	for _, places := range []string{"", "4"} {
		t.Setenv(amt.PlacesVariable, places)
		for _, ranks := range []int{1, 2, 3, 7} {
			seed := rand.Uint64()
			t.Logf("%d ranks, seed %d", ranks, seed)
			amttest.Run(t, ranks, func(c amt.Context) error {
				if err := newField(c, seed); err != nil {
					return err
				}
				sections, err := fieldSections(c)
				if err != nil {
					return err
				}
				for round := range rounds {
					if err := fieldRound(c, sections, round*steps, steps, weights); err != nil {
						return err
					}
					if err := c.Phase([]amt.Balancer{amt.Rotate, amt.Random(seed), func(string, uint64, int, int) int { return 0 }}[round]); err != nil {
						return err
					}
				}
				return checkField(c, slices.Repeat([]int{rounds * steps}, len(fieldMembers)))
			})
		}
	}
}

// fieldRound broadcasts some messages to each section, before it waits for any result.
func fieldRound(c amt.Context, sections []amt.Section[amt.Index2, plot], first, steps int, weights map[string]float64) error {
	var epochs []*amt.Epoch
	for n := first; n < first+steps; n++ {
		epochs = append(epochs, c.Collective("tell", func(c amt.Context) error {
			for k, s := range sections {
				switch m := (tidings{K: k, N: n, To: s, Then: "give"}); {
				case (n+k)%c.Ranks() != c.Rank():
				case k%3 == 1:
					fieldHandle.Send(c, (n*k)%c.Ranks(), &m)
				case k%3 == 2:
					c.Go("tells", func(c amt.Context) error { fieldNews.BroadcastTo(c, s, &m); return nil })
				default:
					fieldNews.BroadcastTo(c, s, &m)
				}
			}
			return nil
		}))
	}
	for n := first; n < first+steps; n++ {
		for k := range sections {
			k = len(sections) - 1 - k
			s := sections[k]
			all, err := fieldNames.WaitFor(c, s, uint64(n))
			if k == emptySection {
				if err == nil || !strings.Contains(err.Error(), `the section "section 5" of field: there are no elements`) {
					return fmt.Errorf("the empty section: %w", err)
				}
				continue
			}
			if want := names(fieldMembers[k]); err != nil || all != want || field.Members(c, s) != uint64(strings.Count(want, ";")) {
				return fmt.Errorf("reduction %d over section %d: found %q, %v, wanted %q", n, k, all, err, want)
			}
			w, err := fieldWeight.WaitFor(c, s, uint64(n))
			if err != nil {
				return err
			}
			if key := fmt.Sprint(k, ".", n); c.Rank() != 0 {
				continue
			} else if was, ok := weights[key]; ok && math.Float64bits(was) != math.Float64bits(w) {
				return fmt.Errorf("reduction %d over section %d: %v, and %v on another number of ranks", n, k, w, was)
			} else {
				weights[key] = w
			}
		}
	}
	for _, ep := range epochs {
		if err := ep.Wait(c); err != nil {
			return err
		}
	}
	return nil
}

// TestSectionOfElements: elements keep their section, broadcast to it by their methods, and migrate.
func TestSectionOfElements(t *testing.T) {
	for _, ranks := range []int{1, 3, 5} {
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := newField(c, rand.Uint64()); err != nil {
				return err
			}
			broadcasts := make([]int, len(fieldMembers))
			sections, err := fieldSections(c)
			if err != nil {
				return err
			}
			for _, then := range []string{"keep", "on"} {
				err := c.Collective(then, func(c amt.Context) error {
					for k := range 2 {
						if c.Rank() == k%c.Ranks() {
							fieldNews.BroadcastTo(c, sections[k], &tidings{K: k, To: sections[k], Then: then, Left: 9})
						}
					}
					return nil
				}).Wait(c)
				if err != nil {
					return err
				}
			}
			broadcasts[0], broadcasts[1] = 10, 10
			return checkField(c, broadcasts)
		})
	}
}

// TestSectionFails: a broadcast whose epoch fails leaves out members, and takes nothing from those that follow.
func TestSectionFails(t *testing.T) {
	for _, ranks := range []int{1, 4} {
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := newField(c, rand.Uint64()); err != nil {
				return err
			}
			sections, err := fieldSections(c)
			if err != nil {
				return err
			}
			for n := range 6 {
				var epochs []*amt.Epoch
				for k, s := range sections {
					epochs = append(epochs, c.Collective("tell", func(c amt.Context) error {
						if then := map[bool]string{true: "fail", false: "give"}[k == 2]; n%c.Ranks() == c.Rank() {
							fieldNews.BroadcastTo(c, s, &tidings{K: k, N: n, To: s, Then: then})
						}
						return nil
					}))
				}
				for k, ep := range epochs {
					if err := ep.Wait(c); k != 2 && err != nil || k == 2 && (err == nil || err.Error() != errField.Error()) {
						return fmt.Errorf("broadcast %d to section %d: %w", n, k, err)
					}
				}
			}
			for k, s := range sections {
				if k == 2 || k == emptySection {
					continue
				}
				if all, err := fieldNames.WaitFor(c, s, 5); err != nil || all != names(fieldMembers[k]) {
					return fmt.Errorf("section %d: %q, %v", k, all, err)
				}
			}
			field.Each(c, func(_ amt.Index2, p *plot) { // what has failed is heard by some
				p.Heard = slices.DeleteFunc(p.Heard, func(t tidings) bool { return t.K == 2 })
			})
			all := slices.Repeat([]int{6}, len(fieldMembers))
			all[2] = 0
			return checkField(c, all)
		})
	}
}

// TestSectionModify: what was begun before Modify is heard once at most; a section made before is refused by name afterwards, whatever is
// asked of it, and one made anew has those that there are. One of another collection, or of one in which nothing was changed, is good still.
func TestSectionModify(t *testing.T) {
	for _, ranks := range []int{1, 2, 5} {
		for _, wait := range []bool{true, false} {
			amttest.Run(t, ranks, func(c amt.Context) error { return sectionModify(c, wait) })
		}
	}
}

func sectionModify(c amt.Context, wait bool) error {
	if err := newField(c, rand.Uint64()); err != nil {
		return err
	}
	inRow := func(i amt.Index2) bool { return i.X == 3 }
	row, err := field.Section(c, "row", inRow)
	if err == nil {
		err = c.Modify("nothing", func(amt.Context) error { return nil })
	}
	if err != nil {
		return err
	}
	ep := c.Collective("tell", func(c amt.Context) error {
		if c.Rank() == 0 {
			for n := range 5 {
				fieldNews.BroadcastTo(c, row, &tidings{N: n, To: row, Still: true})
			}
		}
		return nil
	})
	if wait {
		if err := ep.Wait(c); err != nil {
			return err
		}
	}
	gone := amt.Index2{X: 3, Y: 5}
	err = c.Modify("cut", func(c amt.Context) error {
		if c.Rank() == 0 {
			field.Delete(c, gone)
		}
		return nil
	})
	if err = errors.Join(err, ep.Wait(c)); err != nil {
		return err
	}
	const want = `a section of the collection "field"`
	if _, err = fieldNames.WaitFor(c, row, 9); err == nil || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("WaitFor: %w", err)
	}
	for _, k := range []func(c amt.Context){
		func(c amt.Context) { fieldNews.BroadcastTo(c, row, &tidings{}) },
		func(c amt.Context) {
			fieldNews.Send(c, amt.Index2{X: 3, Y: 1}, &tidings{To: row, Then: "give", Still: true})
		},
	} {
		err := c.Collective("wrong", func(c amt.Context) error { k(c); return nil }).Wait(c)
		if err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("found %w, wanted %s", err, want)
		}
	}
	for round := range 2 { // and without it
		row, err = field.Section(c, "row", inRow)
		if err == nil {
			err = c.Collective("tell", func(c amt.Context) error {
				if c.Rank() == 0 {
					fieldNews.BroadcastTo(c, row, &tidings{K: 7, N: 7, To: row, Then: "give"})
				}
				return nil
			}).Wait(c)
		}
		if err != nil {
			return err
		}
		there := func(i amt.Index2) bool { return inRow(i) && i != gone }
		if all, err := fieldNames.WaitFor(c, row, uint64(round)); err != nil || all != names(there) {
			return fmt.Errorf("found %q, %v, wanted %q", all, err, names(there))
		}
		field.Free(c, row)
		if _, err := fieldNames.WaitFor(c, row, 7); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("freed: %w", err)
		}
	}
	var wrong error
	field.Each(c, func(i amt.Index2, p *plot) {
		seen := map[int]int{}
		for _, h := range p.Heard {
			if seen[h.N]++; h.Then == "" && seen[h.N] > 1 || !inRow(i) {
				wrong = fmt.Errorf("element %v has heard %v", i, p.Heard)
			}
		}
	})
	return wrong
}

// TestSectionRestore: a section that elements have kept is refused by name in another run, where it is made anew.
func TestSectionRestore(t *testing.T) {
	dir := amt.Directory(t.TempDir())
	make9 := func(c amt.Context) error {
		s, err := field.Section(c, "row", fieldMembers[0])
		if err != nil {
			return err
		}
		return c.Collective("keep", func(c amt.Context) error {
			if c.Rank() == 0 {
				fieldNews.Broadcast(c, &tidings{Then: "keep", To: s})
			}
			return nil
		}).Wait(c)
	}
	tell := func(c amt.Context) error {
		return c.Collective("tell", func(c amt.Context) error {
			if c.Rank() == 0 {
				fieldNews.Send(c, amt.Index2{X: 3}, &tidings{Then: "on", Left: 1})
			}
			return nil
		}).Wait(c)
	}
	amttest.Run(t, 3, func(c amt.Context) error {
		if err := errors.Join(newField(c, 1), make9(c)); err != nil {
			return err
		}
		return amt.Save(c, dir, &field)
	})
	amttest.Run(t, 5, func(c amt.Context) error {
		if _, err := amt.Restore(c, dir, &field); err != nil {
			return err
		}
		if err := tell(c); err == nil || !strings.Contains(err.Error(), "or in another run: make it anew") {
			return fmt.Errorf("found %w", err)
		}
		field.Each(c, func(_ amt.Index2, p *plot) { p.Heard = nil })
		if err := errors.Join(make9(c), tell(c)); err != nil {
			return err
		}
		heard := 0
		field.Each(c, func(i amt.Index2, p *plot) { heard += len(p.Heard) })
		all, err := censusOfTests.All(c, heard)
		if err == nil && all != 11+1 {
			err = fmt.Errorf("%d have heard it", all)
		}
		return err
	})
}

var censusOfTests amt.Reduction[int]

func init() { censusOfTests.Is(func(a, b int) int { return a + b }) }

// TestSectionWrong: what is wrong with the use of a section is an error that says so.
func TestSectionWrong(t *testing.T) {
	type use func(c amt.Context, row amt.Section[amt.Index2, plot]) error
	in := func(do func(c amt.Context, row amt.Section[amt.Index2, plot])) use {
		return func(c amt.Context, row amt.Section[amt.Index2, plot]) error {
			return c.Collective("wrong", func(c amt.Context) error {
				if c.Rank() == 0 {
					do(c, row)
				}
				return nil
			}).Wait(c)
		}
	}
	for _, k := range []struct {
		want string
		use  use
	}{
		{`a section of the collection "field"`, in(func(c amt.Context, _ amt.Section[amt.Index2, plot]) {
			fieldNews.BroadcastTo(c, amt.Section[amt.Index2, plot]{}, &tidings{})
		})},
		{`section "row": element {4 1} gives a value for reduction 0, and is no member`, in(func(c amt.Context, row amt.Section[amt.Index2, plot]) {
			fieldNews.Send(c, amt.Index2{X: 4, Y: 1}, &tidings{To: row, Then: "give", Still: true})
		})},
		{`section "row": element {3 1} gives a value for reduction 0, and has given one for 0`, in(func(c amt.Context, row amt.Section[amt.Index2, plot]) {
			fieldNews.Send(c, amt.Index2{X: 3, Y: 1}, &tidings{To: row, Then: "twice", Still: true})
		})},
		{`a broadcast to elements belongs to a collective epoch`, func(c amt.Context, row amt.Section[amt.Index2, plot]) error {
			return c.Rooted("alone", func(c amt.Context) error { fieldNews.BroadcastTo(c, row, &tidings{}); return nil }).Wait(c)
		}},
		{`-> element {3 0} of the collection "field", and 10 more of rank 0: gave no value for reduction 4`, func(c amt.Context, row amt.Section[amt.Index2, plot]) error {
			if err := c.Phase(func(string, uint64, int, int) int { return 0 }); err != nil {
				return err
			}
			_, err := fieldNames.WaitFor(c, row, 4)
			return err
		}},
		{`only main functions can`, in(func(c amt.Context, _ amt.Section[amt.Index2, plot]) {
			c.Go("task", func(c amt.Context) error {
				_, err := field.Section(c, "late", fieldMembers[0])
				return err
			})
		})},
		{`ranks begin collective epochs, reductions or scopes in different orders`, func(c amt.Context, _ amt.Section[amt.Index2, plot]) error {
			_, err := field.Section(c, fmt.Sprint("of rank ", c.Rank()), fieldMembers[0])
			return err
		}},
	} {
		err := amttest.Try(t, 3, func(c amt.Context) error {
			if err := newField(c, 1); err != nil {
				return err
			}
			row, err := field.Section(c, "row", func(i amt.Index2) bool { return i.X == 3 })
			if err != nil {
				return err
			}
			return k.use(c, row)
		})
		if err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("found %v, wanted %s", err, k.want)
		}
	}
	err := amttest.Try(t, 2, func(c amt.Context) error {
		_, err := field.Section(c, "early", fieldMembers[0])
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "has not created the collection") {
		t.Errorf("found %v", err)
	}
}
