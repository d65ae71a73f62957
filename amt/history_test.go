package amt_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
)

// A pace is a message of elements that weigh, move, and send on.
type paceStep struct{ Left, Seed uint64 }

var (
	paced    amt.Collection[amt.Index1, cell] // weighed: what is measured is the same in each run
	pacedOn  amt.Method[amt.Index1, cell, paceStep]
	timedBy  amt.Collection[amt.Index1, cell] // and one whose time is measured
	timedOn  amt.Method[amt.Index1, cell, paceStep]
	unpaced  amt.Collection[amt.Index1, cell]
	pacedOne amt.Collection[amt.Index1, cell] // that is not saved
	pacedAt  amt.Method[amt.Index1, cell, paceStep]
)

const pacers = 13

func init() {
	weighed := amt.Weighed[amt.Index1]()
	paced.Is("paced", weighed)
	pacedOn.Is(&paced, func(c amt.At[amt.Index1], _ *cell, m *paceStep) {
		c.Weigh(float64(m.Seed%7) / 4)
		if next := m.Seed*6364136223846793005 + 1; m.Left > 0 {
			pacedOn.Send(c.Context, amt.Index1{X: int(next >> 33 % pacers)}, &paceStep{m.Left - 1, next})
			timedOn.Send(c.Context, amt.Index1{X: int(next >> 34 % pacers)}, &paceStep{})
			pacedAt.Send(c.Context, amt.Index1{X: 0}, &paceStep{})
		}
	})
	timedBy.Is("timed", amt.Measured[amt.Index1]())
	timedOn.Is(&timedBy, func(amt.At[amt.Index1], *cell, *paceStep) {})
	unpaced.Is("unpaced")
	pacedOne.Is("paced once", weighed)
	pacedAt.Is(&pacedOne, func(amt.At[amt.Index1], *cell, *paceStep) {})
}

// A remembered is what all ranks have in their Loads, by phase and object.
type remembered struct {
	sync.Mutex
	phases []int
	loads  map[string]string
	edges  map[string][2]uint64
	homes  error
}

// take adds a rank's. Edges of ranks are one sum, since there may be others now; here is what is on the rank, nil: anything.
func (r *remembered) take(c amt.Context, saved func(collection string) bool) {
	r.Lock()
	defer r.Unlock()
	if r.loads == nil {
		r.loads, r.edges = map[string]string{}, map[string][2]uint64{}
	}
	r.phases = nil
	for place, p := range c.Loads() {
		r.phases = append(r.phases, p.Phase)
		for _, l := range p.Loads {
			at := fmt.Sprint(place, l.Object)
			if _, twice := r.loads[at]; twice {
				r.homes = fmt.Errorf("%s is there twice", at)
			}
			if l.Home = 0; saved(l.Collection) {
				r.loads[at] = fmt.Sprintf("%+v", l)
			}
		}
		for _, e := range p.Edges {
			if e.From.Collection == "" {
				if e.From.Number != uint64(c.Rank()) {
					r.homes = fmt.Errorf("rank %d has an edge of rank %d", c.Rank(), e.From.Number)
				}
				e.From.Number = 0
			} else if !saved(e.From.Collection) {
				continue
			}
			at := fmt.Sprint(place, e.From, e.To)
			was := r.edges[at]
			r.edges[at] = [2]uint64{was[0] + e.Messages, was[1] + e.Bytes}
		}
	}
}

// measuredPhases has elements work and move in some phases, of which one fails and another deletes elements.
func measuredPhases(c amt.Context, phases int) error {
	for _, k := range []*amt.Collection[amt.Index1, cell]{&paced, &timedBy, &unpaced, &pacedOne} {
		if err := k.Create(c, amt.Index1{X: pacers}, func(amt.Index1) (cell, error) { return cell{}, nil }); err != nil {
			return err
		}
	}
	fails := -1
	amt.OnPhase(c, func(c amt.Context, phase int) error {
		if fails == phase && c.Rank() == 0 {
			return errBad
		}
		return nil
	})
	for phase := range phases {
		err := c.Collective("work", func(c amt.Context) error {
			pacedOn.Send(c, amt.Index1{X: (c.Rank() + phase) % pacers}, &paceStep{20, uint64(phase*7 + c.Rank())})
			return nil
		}).Wait(c)
		if fails = -1; phase == 4 {
			fails = phase
		}
		if err == nil {
			err = c.Phase(amt.Rotate)
		}
		if phase == 4 && errors.Is(err, errBad) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestHistoryNToM: what was measured comes back with the elements, on any number of ranks, to where they are.
func TestHistoryNToM(t *testing.T) {
	saved := func(collection string) bool { return collection == "paced" || collection == "timed" }
	for _, ranks := range []int{1, 2, 5} {
		store := amt.Directory(t.TempDir())
		var before remembered
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := measuredPhases(c, 11); err != nil {
				return err
			}
			before.take(c, saved)
			return amt.Save(c, store, &paced, &unpaced, &timedBy)
		})
		if before.homes != nil || len(before.loads) != 8*2*pacers || len(before.edges) == 0 {
			t.Fatalf("%d ranks: %v; %d loads, %d edges", ranks, before.homes, len(before.loads), len(before.edges))
		}
		for _, others := range []int{1, 2, 3, 7} {
			var after remembered
			amttest.Run(t, others, func(c amt.Context) error {
				if found, err := amt.Restore(c, store, &paced, &unpaced, &timedBy); err != nil || !found {
					return fmt.Errorf("%v: %w", found, err)
				}
				after.take(c, saved)
				here := map[int]bool{}
				paced.Each(c, func(i amt.Index1, _ *cell) { here[i.X] = true })
				for _, p := range c.Loads() {
					for _, l := range p.Loads {
						if l.Collection == "paced" && !here[int(l.Number)] || l.Home != c.Rank() {
							return fmt.Errorf("rank %d has %+v", c.Rank(), l)
						}
					}
					if !slices.IsSortedFunc(p.Loads, func(a, b amt.Load) int { return strings.Compare(key(a), key(b)) }) {
						return fmt.Errorf("rank %d: %+v", c.Rank(), p.Loads)
					}
				}
				if again := c.PhaseNumber(); others == 3 { // it goes on
					if err := c.Phase(); err != nil || c.Loads()[7].Phase != again {
						return fmt.Errorf("%+v: %w", c.Loads()[7], err)
					}
				}
				return nil
			})
			if after.homes != nil || !slices.Equal(before.phases, after.phases) || !maps.Equal(before.loads, after.loads) || !maps.Equal(before.edges, after.edges) {
				t.Errorf("%d ranks to %d: %v; phases %v, %v before; %d loads, %d before; %d edges, %d before", ranks, others, after.homes, after.phases, before.phases, len(after.loads), len(before.loads), len(after.edges), len(before.edges))
			}
		}
	}
}

func key(l amt.Load) string { return fmt.Sprintf("%s %08d", l.Collection, l.Number) }

// TestNoHistory: where nothing is measured, a checkpoint is as it was before there were histories.
func TestNoHistory(t *testing.T) {
	dir := t.TempDir()
	amttest.Run(t, 2, func(c amt.Context) error {
		if err := unpaced.Create(c, amt.Index1{X: pacers}, func(amt.Index1) (cell, error) { return cell{}, nil }); err != nil {
			return err
		}
		if err := c.Phase(); err != nil {
			return err
		}
		return amt.Save(c, amt.Directory(dir), &unpaced)
	})
	all, err := filepath.Glob(filepath.Join(dir, "*", "manifest"))
	if err != nil || len(all) != 1 {
		t.Fatalf("%v: %v", all, err)
	}
	b, err := os.ReadFile(all[0])
	if err != nil || strings.Contains(string(b), "histories") || strings.Contains(string(b), "phases") {
		t.Errorf("%v: %s", err, b)
	}
}
