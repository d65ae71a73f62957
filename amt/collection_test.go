package amt_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
)

// A walker is an element of the storm: it notes the messages that it has handled, and its generator goes with it.
type walker struct {
	Seen  []uint64
	Heard []uint64
	State uint64
	Moves int
}

func (w *walker) random(n uint64) uint64 {
	w.State = w.State*6364136223846793005 + 1442695040888963407
	return w.State >> 33 % n
}

// step is a message of the storm: its number has the way that it has gone.
type step struct {
	ID   uint64
	Left int32
	Move uint16 // of 100, how often an element goes away
	Fail bool
}

type call struct{ Number uint64 }

var (
	storm     amt.Collection[amt.Index2, walker]
	stormStep amt.Method[amt.Index2, walker, step]
	stormText amt.Method[amt.Index2, walker, letter]
	stormCall amt.Method[amt.Index2, walker, call]
	stormSum  amt.ElementReduction[amt.Index2, walker, string]
)

// letter is step with what has to be packed.
type letter struct {
	Step step
	Text string
}

var stormExtent = amt.Index2{X: 9, Y: 11}

var errStorm = errors.New("the storm fails")

func init() {
	storm.Is("storm")
	stormStep.Is(&storm, onStep)
	stormText.Is(&storm, func(c amt.At[amt.Index2], w *walker, m *letter) {
		if m.Text != fmt.Sprint("letter ", m.Step.ID) {
			c.Fail(fmt.Errorf("letter %d reads %q", m.Step.ID, m.Text))
		}
		onStep(c, w, &m.Step)
	})
	stormSum.Is(&storm, func(a, b string) string { return a + b })
	stormCall.Is(&storm, func(c amt.At[amt.Index2], w *walker, m *call) {
		stormSum.Give(c, uint64(len(w.Heard)), fmt.Sprintf("%d.%d;", c.Index().X, c.Index().Y)) // all hear broadcasts in one order
		w.Heard = append(w.Heard, m.Number)
		if w.random(3) == 0 {
			c.MoveTo(int(w.random(uint64(c.Ranks()))))
		}
	})
}

func onStep(c amt.At[amt.Index2], w *walker, m *step) {
	w.Seen = append(w.Seen, m.ID)
	if m.Fail && m.Left == 3 {
		c.Fail(errStorm)
	}
	if w.random(100) < uint64(m.Move) {
		w.Moves++
		c.MoveTo(int(w.random(uint64(c.Ranks()))))
	}
	if m.Left == 0 {
		return
	}
	next := step{m.ID + 1<<40, m.Left - 1, m.Move, m.Fail}
	to := stormExtent.At(w.random(uint64(stormExtent.X * stormExtent.Y)))
	if w.random(4) == 0 {
		stormText.Send(c.Context, to, &letter{next, fmt.Sprint("letter ", next.ID)})
	} else {
		stormStep.Send(c.Context, to, &next)
	}
}

// newStorm makes the elements.
func newStorm(c amt.Context, seed uint64) error {
	return storm.Create(c, stormExtent, func(i amt.Index2) (walker, error) {
		return walker{State: seed + uint64(i.X*1000+i.Y)}, nil
	})
}

// gathered is what all elements have, by rank 0's gathering.
type gathered struct {
	elements int
	seen     map[uint64]int
	heard    map[string]int
	moves    int
}

var (
	gather    amt.Handler[parcelOfWalkers]
	gathering amt.Local[gathered]
)

type parcelOfWalkers struct{ Walkers []walker }

func init() {
	gather.Is(func(c amt.Context, m *parcelOfWalkers) {
		g := gathering.Of(c)
		if g.seen == nil {
			*g = gathered{seen: map[uint64]int{}, heard: map[string]int{}}
		}
		for _, w := range m.Walkers {
			g.elements++
			g.moves += w.Moves
			for _, id := range w.Seen {
				g.seen[id]++
			}
			g.heard[fmt.Sprint(w.Heard)]++
		}
	})
}

// gatherStorm brings what all elements have to rank 0.
func gatherStorm(c amt.Context) (*gathered, error) {
	err := c.Collective("gather", func(c amt.Context) error {
		var p parcelOfWalkers
		storm.Each(c, func(_ amt.Index2, w *walker) { p.Walkers = append(p.Walkers, *w) })
		gather.Send(c, 0, &p)
		return nil
	}).Wait(c)
	return gathering.Of(c), err
}

// TestStorm: messages at random, elements that migrate at any moment, and broadcasts meanwhile: every message is handled once, every element
// runs every broadcast once, in their order, and none is lost.
func TestStorm(t *testing.T) {
	const messages, steps, calls = 20, 60, 6
	for _, ranks := range []int{1, 2, 3, 5, 8} {
		for _, move := range []uint16{0, 5, 60} {
			amttest.Run(t, ranks, func(c amt.Context) error {
				if err := newStorm(c, rand.Uint64()); err != nil {
					return err
				}
				var epochs []*amt.Epoch
				for n := range uint64(calls) {
					epochs = append(epochs, c.Collective("storm", func(c amt.Context) error {
						for k := range uint64(messages) {
							id := n<<32 | uint64(c.Rank())<<16 | k
							stormStep.Send(c, stormExtent.At(k*37%99), &step{id, steps, move, false})
						}
						if int(n)%c.Ranks() == c.Rank() {
							stormCall.Broadcast(c, &call{n})
						}
						return nil
					}))
				}
				for n, ep := range epochs {
					if err := ep.Wait(c); err != nil {
						return err
					}
					if sum, err := stormSum.Wait(c, uint64(n)); err != nil || sum != inOrder() {
						return fmt.Errorf("the reduction of broadcast %d: %q, %v", n, sum, err)
					}
				}
				if err := c.Phase(); err != nil {
					return err
				}
				g, err := gatherStorm(c)
				if err != nil || c.Rank() != 0 {
					return err
				}
				return g.check(calls*messages*(steps+1)*c.Ranks(), calls)
			})
		}
	}
}

// inOrder is what reductions are to give: all indices in their order.
func inOrder() (all string) {
	for n := range uint64(stormExtent.X * stormExtent.Y) {
		i := stormExtent.At(n)
		all += fmt.Sprintf("%d.%d;", i.X, i.Y)
	}
	return all
}

// check compares what all elements have with what they should have.
func (g *gathered) check(messages, calls int) error {
	if g.elements != stormExtent.X*stormExtent.Y {
		return fmt.Errorf("%d elements, wanted %d", g.elements, stormExtent.X*stormExtent.Y)
	}
	for id, n := range g.seen {
		if n != 1 {
			return fmt.Errorf("message %x was handled %d times", id, n)
		}
	}
	if len(g.seen) != messages {
		return fmt.Errorf("%d messages were handled, wanted %d", len(g.seen), messages)
	}
	if len(g.heard) != 1 {
		return fmt.Errorf("elements have heard broadcasts differently: %v", g.heard)
	}
	for heard := range g.heard {
		if n := len(strings.Fields(heard)); n != calls {
			return fmt.Errorf("elements have heard %s, wanted %d", heard, calls)
		}
	}
	return nil
}

// TestStormFails: an epoch that fails in the middle loses no element; the next is as if nothing had been.
func TestStormFails(t *testing.T) {
	for ranks := 2; ranks <= 5; ranks++ {
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := newStorm(c, rand.Uint64()); err != nil {
				return err
			}
			for n := range uint64(3) {
				err := c.Collective("fails", func(c amt.Context) error {
					for k := range uint64(50) {
						stormStep.Send(c, stormExtent.At(k), &step{k, 10, 30, k%7 == 0})
					}
					if c.Rank() == 0 {
						stormCall.Broadcast(c, &call{n})
					}
					return nil
				}).Wait(c)
				if !errors.Is(err, errStorm) {
					return fmt.Errorf("an epoch that fails ends with %v", err)
				}
			}
			if err := c.Phase(amt.Random(7)); err != nil {
				return err
			}
			n := storm.Count(c)
			total, err := storms.All(c, n)
			if err == nil && total != stormExtent.X*stormExtent.Y {
				err = fmt.Errorf("%d elements are left, wanted %d", total, stormExtent.X*stormExtent.Y)
			}
			if err != nil {
				return err
			}
			return c.Collective("goes on", func(c amt.Context) error {
				stormStep.Send(c, amt.Index2{X: c.Rank()}, &step{ID: uint64(c.Rank()), Left: 20, Move: 50})
				return nil
			}).Wait(c)
		})
	}
}

var storms amt.Reduction[int]

func init() { storms.Is(func(a, b int) int { return a + b }) }

// TestPhases: elements go where balancers say, and messages find them there.
func TestPhases(t *testing.T) {
	amttest.Run(t, 4, func(c amt.Context) error {
		if err := newStorm(c, 1); err != nil {
			return err
		}
		var all []amt.Index2
		storm.Each(c, func(i amt.Index2, _ *walker) { all = append(all, i) })
		if c.Rank() == 0 && (len(all) != 25 || all[0] != amt.Index2{} || !slices.IsSortedFunc(all, func(a, b amt.Index2) int { return (a.X-b.X)*100 + a.Y - b.Y })) {
			return fmt.Errorf("rank 0 has %v at first", all)
		}
		to := make([]int, 99)
		for n := range to {
			to[n] = n % 3
		}
		for phase, b := range []amt.Balancer{amt.Rotate, amt.Random(3), amt.Given("storm", to)} {
			if err := c.Phase(b); err != nil {
				return err
			}
			err := c.Collective("one for each", func(c amt.Context) error {
				for n := uint64(c.Rank()); n < 99; n += uint64(c.Ranks()) {
					stormStep.Send(c, stormExtent.At(n), &step{ID: n})
				}
				return nil
			}).Wait(c)
			storm.Each(c, func(i amt.Index2, w *walker) {
				if len(w.Seen) != phase+1 && err == nil {
					err = fmt.Errorf("phase %d: element %v has seen %v", phase, i, w.Seen)
				}
			})
			if err != nil {
				return err
			}
		}
		if n := storm.Count(c); c.PhaseNumber() != 3 || n != []int{33, 33, 33, 0}[c.Rank()] {
			return fmt.Errorf("rank %d has %d elements in phase %d", c.Rank(), n, c.PhaseNumber())
		}
		return nil
	})
}
