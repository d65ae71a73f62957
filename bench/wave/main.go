// Command wave is bench/c/wave.c in Go: a seismic shot in three dimensions, made of tasks (package amt) that send each other the planes
// between their slabs, with snapshots of memory by package snapshot. It has the same arguments, and prints the same lines.
//
// It is driven by messages: a rank computes a step when the planes of both neighbours have come, those first that the neighbours wait
// for. The steps from one snapshot to the next are one epoch. A snapshot is started between two epochs, and looked after between steps.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/amt"
)

// Edge is a message: the planes of a neighbour that are next to this rank's.
type edge struct {
	Step   uint64
	Values []float32
}

// A slice is a message: a rank's part of the picture.
type slice struct{ Values []float32 }

// A turn is a message of a rank to itself.
type turn struct{ Step uint64 }

// A wave is what a rank has.
type wave struct {
	options
	*slab
	step       []uint64 // one: a region of snapshots
	goal       uint64   // step at which the epoch ends
	busy       bool     // a step is begun
	come       [2]int   // neighbours whose planes have come, of even and of odd steps
	neighbours int
	picture    [][]float32 // on rank 0, by ranks
	snapshots
}

var (
	own     amt.Local[wave]
	edges   amt.Handler[edge]
	outside amt.Handler[turn]
	inside  amt.Handler[turn]
	slices  amt.Handler[slice]
	latest  amt.Reduction[float64]
	digests amt.Reduction[uint64]
)

func init() {
	edges.Is(func(c amt.Context, m *edge) {
		w := own.Of(c)
		z := -reach
		if c.From() > c.Rank() {
			z = w.planes
		}
		copy(w.fields[m.Step&1][w.at(z):], m.Values)
		w.come[m.Step&1]++
		w.look(c)
	})
	outside.Is(func(c amt.Context, m *turn) {
		w := own.Of(c)
		w.compute(m.Step, 0, reach)
		w.compute(m.Step, w.planes-reach, w.planes)
		w.come[m.Step&1] = 0 // what the neighbours send next may come before this step is done
		if m.Step+1 < w.goal {
			w.tell(c, m.Step+1)
		}
		inside.Send(c, c.Rank(), m)
	})
	inside.Is(func(c amt.Context, m *turn) {
		w := own.Of(c)
		w.compute(m.Step, reach, w.planes-reach)
		w.step[0]++
		w.busy = false
		if err := w.snapshots.look(); err != nil {
			c.Fail(err)
			return
		}
		if w.step[0]%10 == 0 && c.Rank() == 0 {
			fmt.Printf("step %d @%.6f\n", w.step[0], now())
		}
		w.look(c)
	})
	slices.Is(func(c amt.Context, m *slice) { own.Of(c).picture[c.From()] = m.Values })
	latest.Is(func(a, b float64) float64 { return max(a, b) })
	digests.Is(func(a, b uint64) uint64 { return a + b })
}

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// look begins a step if everything is there.
func (w *wave) look(c amt.Context) {
	step := w.step[0]
	if !w.busy && step < w.goal && w.come[step&1] == w.neighbours {
		w.busy = true
		outside.Send(c, c.Rank(), &turn{step})
	}
}

// tell sends the planes at the slab's edges to the neighbours.
func (w *wave) tell(c amt.Context, step uint64) {
	field, n := w.fields[step&1], w.at(reach)-w.at(0)
	if c.Rank() > 0 {
		edges.Send(c, c.Rank()-1, &edge{step, field[w.at(0):][:n]})
	}
	if c.Rank() < c.Ranks()-1 {
		edges.Send(c, c.Rank()+1, &edge{step, field[w.at(w.planes-reach):][:n]})
	}
}

// An options has the arguments, as those of wave.c.
type options struct {
	steps, every uint64
	size         grid
	out          string
}

func parse(args []string) (o options, err error) {
	o = options{steps: 400, size: grid{384, 176, 176}}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "steps":
			_, err = fmt.Sscan(value, &o.steps)
		case "every":
			_, err = fmt.Sscan(value, &o.every)
		case "size":
			_, err = fmt.Sscanf(value, "%dx%dx%d", &o.size.nz, &o.size.ny, &o.size.nx)
		case "out":
			o.out = value
		default:
			err = errors.New("there is no such argument")
		}
		if err != nil {
			return o, fmt.Errorf("wave: %s: %w", a, err)
		}
	}
	return o, nil
}

func main() {
	amt.Main(func(c amt.Context) error {
		o, err := parse(os.Args[1:])
		if err != nil {
			return err
		}
		return shot(c, o)
	})
}

func shot(c amt.Context, o options) error {
	if o.size.nz/c.Ranks() < 2*reach || o.size.ny <= 2*reach || o.size.nx <= 2*reach {
		return fmt.Errorf("wave: a grid of %v is too small for %d ranks", o.size, c.Ranks())
	}
	begun, err := latest.All(c, now())
	if err != nil {
		return err
	}
	say(c, "begun @%.6f\n", begun)
	w := own.Of(c)
	w.options, w.slab, w.step = o, newSlab(o.size, c.Rank(), c.Ranks()), []uint64{0}
	w.neighbours = min(c.Rank(), 1) + min(c.Ranks()-1-c.Rank(), 1)
	if o.every > 0 {
		if err := w.restore(c); err != nil {
			return err
		}
	}
	from, loop := w.step[0], now()
	for w.step[0] < o.steps {
		if err := w.some(c); err != nil {
			return err
		}
	}
	if err := w.commit(context.Background()); err != nil {
		return err
	}
	loop = now() - loop
	if err := w.report(c); err != nil {
		return err
	}
	say(c, "loop %.6f %d\nsnapshots %d\n", loop, o.steps-from, w.counted)
	sum, err := digests.All(c, w.digest(w.step[0]))
	if err != nil {
		return err
	}
	say(c, "field %016x %d\n", sum, w.step[0])
	return errors.Join(w.draw(c), w.finish())
}

func say(c amt.Context, format string, args ...any) {
	if c.Rank() == 0 {
		fmt.Printf(format, args...)
	}
}

// some does the steps to the next snapshot, and starts it.
func (w *wave) some(c amt.Context) error {
	goal := w.steps
	if w.every > 0 {
		goal = min(goal, (w.step[0]/w.every+1)*w.every)
	}
	err := c.Collective("steps", func(c amt.Context) error {
		w.goal = goal
		w.tell(c, w.step[0])
		w.look(c)
		return nil
	}).Wait(c)
	switch {
	case err != nil:
		return err
	case w.step[0] != goal:
		return fmt.Errorf("wave: found step %d at the end of an epoch, wanted %d", w.step[0], goal)
	case goal == w.steps:
		return nil
	}
	return w.start(goal)
}

// draw writes the slice through the source: a line "wave NZ NY", the field, the velocities; float32, z by z.
func (w *wave) draw(c amt.Context) error {
	if w.out == "" {
		return nil
	}
	w.picture = make([][]float32, c.Ranks())
	all := []float32{}
	err := c.Collective("picture", func(c amt.Context) error {
		var mine slice
		for i := w.nx / 2; i < w.planes*w.ny*w.nx; i += w.nx {
			mine.Values = append(mine.Values, w.own(int(w.step[0] & 1))[i])
		}
		slices.Send(c, 0, &mine)
		return nil
	}).Wait(c)
	if err != nil || c.Rank() != 0 {
		return err
	}
	for _, part := range w.picture {
		all = append(all, part...)
	}
	for i := range w.nz * w.ny {
		all = append(all, float32(w.velocity(i/w.ny, i%w.ny)))
	}
	text, err := binary.Append(fmt.Appendf(nil, "wave %d %d\n", w.nz, w.ny), binary.LittleEndian, all)
	if err != nil {
		return err
	}
	return os.WriteFile(w.out, text, 0o600)
}
