package amt_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
)

// A leaf is an element that is inserted and deleted: it notes when, and the broadcasts that it has heard since.
type leaf struct {
	Since int
	Heard []int
	State uint64
}

func (l *leaf) random(n uint64) uint64 {
	l.State = l.State*6364136223846793005 + 1442695040888963407
	return l.State >> 33 % n
}

type rustle struct{ Step int }

// graft has an element insert another, or delete one.
type graft struct {
	Step   int
	Index  amt.Index2
	Delete bool
}

// Two collections that are modified: one over which there is a reduction, and one that is modified while there are broadcasts.
var (
	grove        amt.Collection[amt.Index2, leaf]
	groveRustle  amt.Method[amt.Index2, leaf, rustle]
	groveGraft   amt.Method[amt.Index2, leaf, graft]
	groveSum     amt.ElementReduction[amt.Index2, leaf, string]
	groveCount   amt.ElementReduction[amt.Index2, leaf, int]
	meadow       amt.Collection[amt.Index2, leaf]
	meadowRustle amt.Method[amt.Index2, leaf, rustle]
	meadowGraft  amt.Method[amt.Index2, leaf, graft]
)

func init() {
	grove.Is("grove")
	meadow.Is("meadow", amt.MappedBy(func(i, _ amt.Index2, ranks int) int { return (i.X*7 + i.Y) % ranks }))
	groveSum.Is(&grove, func(a, b string) string { return a + b })
	groveCount.Is(&grove, func(a, b int) int { return a + b })
	groveRustle.Is(&grove, func(c amt.At[amt.Index2], l *leaf, m *rustle) {
		groveCount.Give(c, uint64(m.Step), 1)
		groveSum.Give(c, uint64(m.Step), fmt.Sprintf("%d.%d;", c.Index().X, c.Index().Y))
		l.hear(c, m)
	})
	meadowRustle.Is(&meadow, func(c amt.At[amt.Index2], l *leaf, m *rustle) { l.hear(c, m) })
	groveGraft.Is(&grove, func(c amt.At[amt.Index2], l *leaf, m *graft) { l.graft(c, &grove, m) })
	meadowGraft.Is(&meadow, func(c amt.At[amt.Index2], l *leaf, m *graft) { l.graft(c, &meadow, m) })
}

func (l *leaf) hear(c amt.At[amt.Index2], m *rustle) {
	l.Heard = append(l.Heard, m.Step)
	l.wander(c)
}

func (l *leaf) wander(c amt.At[amt.Index2]) {
	if l.random(2) == 0 {
		c.MoveTo(int(l.random(uint64(c.Ranks()))))
	}
}

func (l *leaf) graft(c amt.At[amt.Index2], in *amt.Collection[amt.Index2, leaf], m *graft) {
	if m.Delete {
		in.Delete(c.Context, m.Index)
	} else {
		in.Insert(c.Context, m.Index, leaf{Since: m.Step, State: l.State + 1})
	}
	l.wander(c)
}

// A garden is a collection, and what all ranks know of its elements.
type garden struct {
	of     *amt.Collection[amt.Index2, leaf]
	rustle *amt.Method[amt.Index2, leaf, rustle]
	graft  *amt.Method[amt.Index2, leaf, graft]
	there  map[amt.Index2]bool
}

// acres is an extent of which few indices have elements. Those that come and go are in its corners.
var acres = amt.Index2{X: 1 << 30, Y: 1 << 33}

func corner(r *rand.Rand) amt.Index2 {
	return amt.Index2{X: r.IntN(2) * (acres.X - 8), Y: r.IntN(8) * (acres.Y/8 - 1)}
}

// modify inserts and deletes some elements: r is the same on all ranks. Some that stay are asked to do it.
func (g *garden) modify(c amt.Context, step int, r *rand.Rand) error {
	var stay []amt.Index2
	changes := map[amt.Index2]bool{}
	for range r.IntN(8) {
		if i := corner(r); !changes[i] {
			changes[i] = true
		}
	}
	for i := range g.there {
		if !changes[i] {
			stay = append(stay, i)
		}
	}
	slices.SortFunc(stay, func(a, b amt.Index2) int { return (a.X-b.X)*2 + map[bool]int{true: 1, false: -1}[a.Y > b.Y] })
	order := make([]amt.Index2, 0, len(changes))
	for i := range changes {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b amt.Index2) int { return (a.X-b.X)*2 + map[bool]int{true: 1, false: -1}[a.Y > b.Y] })
	err := c.Modify("the garden", func(c amt.Context) error {
		for _, i := range order {
			m, by, asked := graft{step, i, g.there[i]}, r.IntN(c.Ranks()), r.IntN(3)
			if len(stay) > 0 && asked == 0 {
				if to := stay[r.IntN(len(stay))]; by == c.Rank() {
					g.graft.Send(c, to, &m)
				}
			} else if by == c.Rank() {
				switch {
				case m.Delete:
					g.of.Delete(c, i)
				case asked == 1:
					c.Go("insert", func(c amt.Context) error { g.of.Insert(c, i, leaf{Since: step, State: uint64(step)}); return nil })
				default:
					g.of.Insert(c, i, leaf{Since: step, State: uint64(step)})
				}
			}
		}
		return nil
	})
	for _, i := range order {
		if g.there[i] {
			delete(g.there, i)
		} else {
			g.there[i] = true
		}
	}
	if size := g.of.Size(c); err == nil && size != uint64(len(g.there)) {
		return fmt.Errorf("step %d: there are %d elements, wanted %d", step, size, len(g.there))
	}
	return err
}

// inOrder is what a reduction is to give.
func (g *garden) inOrder() (all string) {
	var keys []uint64
	for i := range g.there {
		n, _ := acres.Number(i)
		keys = append(keys, n)
	}
	slices.Sort(keys)
	for _, n := range keys {
		i := acres.At(n)
		all += fmt.Sprintf("%d.%d;", i.X, i.Y)
	}
	return all
}

// check looks at the elements of this rank: each is one that there is, and has heard all broadcasts since the step in which it was inserted;
// that of the step perhaps.
func (g *garden) check(c amt.Context, step int) (wrong error) {
	g.of.Each(c, func(i amt.Index2, l *leaf) {
		if l.Since > step { // another rank is ahead
			return
		}
		heard := l.Heard
		if len(heard) > 0 && heard[0] == l.Since {
			heard = heard[1:]
		}
		if n := len(heard); n > 0 && heard[n-1] == step+1 {
			heard = heard[:n-1]
		}
		ok := len(heard) == step-l.Since
		for k, n := range heard {
			ok = ok && n == l.Since+1+k
		}
		if !g.there[i] || !ok {
			wrong = fmt.Errorf("step %d: element %v, there %v, has heard %v since %d", step, i, g.there[i], l.Heard, l.Since)
		}
	})
	return wrong
}

const gardenSteps = 60

// TestModify: elements are inserted and deleted by anybody, and inserted again, while others migrate: there are as many as there should be, and
// a reduction has a value of each, in the order of indices.
func TestModify(t *testing.T) {
	for ranks := 1; ranks <= 6; ranks++ {
		seed := rand.Uint64()
		t.Logf("%d ranks, seed %d", ranks, seed)
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := grove.CreateEmpty(c, acres); err != nil {
				return err
			}
			g := garden{&grove, &groveRustle, &groveGraft, map[amt.Index2]bool{}}
			for step := range gardenSteps {
				if err := g.modify(c, step, rand.New(rand.NewPCG(seed, uint64(step)))); err != nil {
					return err
				}
				if err := g.call(c, step).Wait(c); err != nil {
					return err
				}
				if sum, err := groveSum.Wait(c, uint64(step)); err == nil && sum != g.inOrder() || (err == nil) != (len(g.there) > 0) {
					return fmt.Errorf("step %d: the reduction: %q, %w, wanted %q", step, sum, err, g.inOrder())
				}
				if n, err := groveCount.Wait(c, uint64(step)); err == nil && n != len(g.there) {
					return fmt.Errorf("step %d: %d elements count themselves, wanted %d", step, n, len(g.there))
				}
				if err := g.check(c, step); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// call broadcasts to all elements.
func (g *garden) call(c amt.Context, step int) *amt.Epoch {
	return c.Collective("call", func(c amt.Context) error {
		if c.Rank() == step%c.Ranks() {
			g.rustle.Broadcast(c, &rustle{step})
		}
		return nil
	})
}

// TestModifyWhile: the same while there are broadcasts, by which elements migrate, and without a reduction: each element hears those that it
// should, once.
func TestModifyWhile(t *testing.T) {
	for ranks := 1; ranks <= 6; ranks++ {
		seed := rand.Uint64()
		t.Logf("%d ranks, seed %d", ranks, seed)
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := meadow.CreateEmpty(c, acres); err != nil {
				return err
			}
			g := garden{&meadow, &meadowRustle, &meadowGraft, map[amt.Index2]bool{}}
			for step := range gardenSteps {
				ep := g.call(c, step)
				if err := g.modify(c, step, rand.New(rand.NewPCG(seed, uint64(step)))); err != nil {
					return err
				}
				if err := ep.Wait(c); err != nil {
					return err
				}
				if err := g.check(c, step); err != nil {
					return err
				}
				if step%7 == 6 {
					if err := c.Phase(amt.Rotate); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
}

// TestModifyWrong: what is wrong with insertion and deletion is an error that says so, on all ranks.
func TestModifyWrong(t *testing.T) {
	one, other := amt.Index2{X: 1, Y: 1}, amt.Index2{X: 5, Y: 5}
	by0 := func(c amt.Context, do func()) error {
		if c.Rank() == 0 {
			do()
		}
		return nil
	}
	for _, k := range []struct {
		name string
		then func(c amt.Context) error
		want string
	}{
		{"inserted outside", func(c amt.Context) error {
			return c.Collective("plain", func(c amt.Context) error {
				return by0(c, func() { grove.Insert(c, other, leaf{}) })
			}).Wait(c)
		}, `elements are inserted and deleted within Modify alone, found the epoch "plain"`},
		{"deleted by a method outside", func(c amt.Context) error {
			return c.Collective("plain", func(c amt.Context) error {
				return by0(c, func() { groveGraft.Send(c, one, &graft{0, one, true}) })
			}).Wait(c)
		}, `elements are inserted and deleted within Modify alone, found the epoch "plain"`},
		{"within a rooted epoch", func(c amt.Context) error {
			return c.Modify("rooted", func(c amt.Context) error {
				return c.Rooted("mine", func(c amt.Context) error { grove.Delete(c, one); return nil }).Wait(c)
			})
		}, `elements are inserted and deleted within Modify alone, found the epoch "mine"`},
		{"there is one", func(c amt.Context) error {
			return c.Modify("twice", func(c amt.Context) error { return by0(c, func() { grove.Insert(c, one, leaf{}) }) })
		}, "element {1 1} is to be inserted, but there is one"},
		{"there is none", func(c amt.Context) error {
			return c.Modify("none", func(c amt.Context) error { return by0(c, func() { grove.Delete(c, other) }) })
		}, "has no element {5 5}"},
		{"not within the extent", func(c amt.Context) error {
			return c.Modify("far", func(c amt.Context) error {
				return by0(c, func() { grove.Insert(c, amt.Index2{X: -1}, leaf{}) })
			})
		}, "there is no index {-1 0}: the extent is"},
		{"not created", func(c amt.Context) error {
			return c.Modify("absent", func(c amt.Context) error {
				return by0(c, func() { absent.Insert(c, amt.Index1{}, worker{}) })
			})
		}, `cannot insert element {0}: the collection "never created"`},
		{"a message to one that was deleted", func(c amt.Context) error {
			err := c.Modify("delete", func(c amt.Context) error { return by0(c, func() { grove.Delete(c, one) }) })
			if err != nil {
				return err
			}
			return c.Collective("late", func(c amt.Context) error { groveRustle.Send(c, one, &rustle{}); return nil }).Wait(c)
		}, "has no element {1 1}"},
		{"a value within Modify", func(c amt.Context) error {
			return c.Modify("give", func(c amt.Context) error {
				return by0(c, func() {
					grove.Insert(c, other, leaf{})
					groveRustle.Broadcast(c, &rustle{})
				})
			})
		}, "element {5 5} gives a value for reduction 0 while elements are being inserted and deleted"},
		{"a reduction of some", func(c amt.Context) error {
			err := c.Modify("another", func(c amt.Context) error { return by0(c, func() { grove.Insert(c, other, leaf{}) }) })
			if err != nil {
				return err
			}
			err = c.Collective("one gives", func(c amt.Context) error {
				return by0(c, func() { groveRustle.Send(c, one, &rustle{3}) })
			}).Wait(c)
			if err != nil {
				return err
			}
			return c.Modify("too early", func(c amt.Context) error { return by0(c, func() { grove.Delete(c, other) }) })
		}, "when some elements had given their values for a reduction, and others had not"},
		{"by a handler", func(c amt.Context) error {
			return c.Collective("handler", func(c amt.Context) error { modifier.Send(c, 0, &rustle{}); return nil }).Wait(c)
		}, `begins the collective epoch "modify: by a handler": only main functions can`},
	} {
		for ranks := 1; ranks <= 3; ranks += 2 {
			err := amttest.Try(t, ranks, func(c amt.Context) error {
				if err := grove.CreateEmpty(c, acres); err != nil {
					return err
				}
				if err := c.Modify("begin", func(c amt.Context) error { return by0(c, func() { grove.Insert(c, one, leaf{}) }) }); err != nil {
					return err
				}
				return k.then(c)
			})
			if err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("%s, %d ranks: found %v, wanted %s", k.name, ranks, err, k.want)
			}
		}
	}
}

var modifier amt.Handler[rustle]

func init() {
	modifier.Is(func(c amt.Context, _ *rustle) {
		c.Fail(c.Modify("by a handler", func(amt.Context) error { return nil }))
	})
}

var present amt.Reduction[[]uint64]

func init() { present.Is(func(a, b []uint64) []uint64 { return append(slices.Clip(a), b...) }) }

// elements are those of all ranks, by number, in order.
func (g *garden) elements(c amt.Context) ([]uint64, error) {
	var own []uint64
	g.of.Each(c, func(i amt.Index2, _ *leaf) {
		n, _ := acres.Number(i)
		own = append(own, n)
	})
	all, err := present.All(c, own)
	slices.Sort(all)
	return all, err
}

// TestModifyFails: when the epoch fails, by its body on a rank or by what cannot be inserted or deleted, what was done by then is counted, nothing is
// there twice, and the next one, and reductions, are right.
func TestModifyFails(t *testing.T) {
	for ranks := 1; ranks <= 5; ranks++ {
		seed := rand.Uint64()
		t.Logf("%d ranks, seed %d", ranks, seed)
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := grove.CreateEmpty(c, acres); err != nil {
				return err
			}
			g := garden{&grove, &groveRustle, &groveGraft, map[amt.Index2]bool{}}
			for step := range gardenSteps {
				r := rand.New(rand.NewPCG(seed, uint64(step)))
				err := c.Modify("fails, perhaps", func(c amt.Context) error {
					for range 6 {
						i, by, what := corner(r), r.IntN(c.Ranks()), r.IntN(12)
						switch {
						case by != c.Rank():
						case what == 0:
							return fmt.Errorf("rank %d fails", by)
						case what%2 == 0:
							grove.Insert(c, i, leaf{Since: step})
						default:
							grove.Delete(c, i)
						}
					}
					return nil
				})
				all, aerr := g.elements(c)
				if aerr != nil || uint64(len(all)) != grove.Size(c) || len(slices.Compact(slices.Clone(all))) != len(all) {
					return fmt.Errorf("step %d: %d elements are said to be there, after %w; found %v, %w", step, grove.Size(c), err, all, aerr)
				}
				if step%3 != 2 || len(all) == 0 {
					continue
				}
				for i := range g.there {
					delete(g.there, i)
				}
				for _, n := range all {
					g.there[acres.At(n)] = true
				}
				if err := g.call(c, step).Wait(c); err != nil {
					return err
				}
				if sum, err := groveSum.Wait(c, uint64(step)); err != nil || sum != g.inOrder() {
					return fmt.Errorf("step %d: the reduction: %q, %w, wanted %q", step, sum, err, g.inOrder())
				}
				if _, err := groveCount.Wait(c, uint64(step)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
