// Command particles has particles fly through a box without walls: who leaves it on one side comes in on the other. The box is cut into
// blocks, the elements of a collection, which have the particles within them and send on those that leave; the blocks themselves go to
// other ranks after some steps. No particle is lost, and their momentum stays.
//
//	particles [-blocks 4] [-particles 20000] [-steps 40] [-every 5] [-seed 1]
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"

	"github.com/byssus-hpc/byssus/amt"
)

// A Particle has a place and a velocity, in parts of the box, of which it has 1<<32 in each direction: so it needs no wall.
type Particle struct {
	ID int64
	At [3]uint32
	V  [3]int32
}

// A Block is some of the box.
type Block struct {
	Here []Particle
	Come [2][]Particle // by steps: those of the next may come early
}

// A Flight is particles that come to a block in a step.
type Flight struct {
	Step      int
	Particles []Particle
}

// A Step is one of all blocks.
type Step struct{ Number int }

// A State is what is conserved, and what is not.
type State struct {
	Particles int64
	Momentum  [3]int64
	Digest    uint64 // of who is where
	Fullest   int64  // particles of a block
}

var (
	box     amt.Collection[amt.Index3, Block]
	fly     amt.Method[amt.Index3, Block, Step]
	enter   amt.Method[amt.Index3, Block, Flight]
	measure amt.Method[amt.Index3, Block, Step]
	state   amt.ElementReduction[amt.Index3, Block, State]

	blocks    = flag.Int("blocks", 4, "in each direction")
	particles = flag.Int("particles", 20_000, "how many")
	steps     = flag.Int("steps", 40, "how many")
	every     = flag.Int("every", 5, "steps of a phase, after which blocks go to other ranks")
	seed      = flag.Uint64("seed", 1, "of the particles")
)

func init() {
	box.Is("box")
	fly.Is(&box, func(c amt.At[amt.Index3], b *Block, m *Step) {
		b.settle(m.Number - 1)
		away := map[amt.Index3][]Particle{}
		stay := b.Here[:0]
		for _, p := range b.Here {
			for d := range p.At {
				p.At[d] += uint32(p.V[d])
			}
			if to := p.block(); to != c.Index() {
				away[to] = append(away[to], p)
			} else {
				stay = append(stay, p)
			}
		}
		b.Here = stay
		for to, list := range away {
			enter.Send(c.Context, to, &Flight{m.Number, list})
		}
	})
	enter.Is(&box, func(_ amt.At[amt.Index3], b *Block, m *Flight) {
		b.Come[m.Step%2] = append(b.Come[m.Step%2], m.Particles...)
	})
	measure.Is(&box, func(c amt.At[amt.Index3], b *Block, m *Step) {
		b.settle(m.Number)
		s := State{Particles: int64(len(b.Here)), Fullest: int64(len(b.Here))}
		for _, p := range b.Here { // in any order: these are whole numbers
			for d, v := range p.V {
				s.Momentum[d] += int64(v)
			}
			s.Digest += uint64(p.ID+1) * (uint64(p.At[0])*3 + uint64(p.At[1])*5 + uint64(p.At[2])*7)
		}
		state.Give(c, uint64(m.Number), s)
	})
	state.Is(&box, func(a, b State) State {
		for d := range a.Momentum {
			a.Momentum[d] += b.Momentum[d]
		}
		return State{a.Particles + b.Particles, a.Momentum, a.Digest + b.Digest, max(a.Fullest, b.Fullest)}
	})
}

// settle has those be here that have come in a step.
func (b *Block) settle(step int) {
	of := (step + 2) % 2
	b.Here = append(b.Here, b.Come[of]...)
	b.Come[of] = nil
}

// block is where a particle is.
func (p *Particle) block() amt.Index3 {
	in := func(d int) int { return int(uint64(p.At[d]) * uint64(*blocks) >> 32) }
	return amt.Index3{X: in(0), Y: in(1), Z: in(2)}
}

func newParticle(id int64) (p Particle) {
	const fastest = 1 << 29 // an eighth of the box
	random := rand.New(rand.NewPCG(*seed, uint64(id)))
	p.ID = id
	for d := range p.At {
		p.At[d] = random.Uint32() >> d // there are more of them in one corner
		p.V[d] = random.Int32N(fastest) - fastest/3
	}
	return p
}

func main() {
	flag.Parse()
	amt.Main(program)
}

func program(c amt.Context) error {
	extent := amt.Index3{X: *blocks, Y: *blocks, Z: *blocks}
	if err := box.Create(c, extent, func(amt.Index3) (Block, error) { return Block{}, nil }); err != nil {
		return err
	}
	err := c.Collective("fill", func(c amt.Context) error {
		for id := c.Rank(); id < *particles; id += c.Ranks() {
			p := newParticle(int64(id))
			enter.Send(c, p.block(), &Flight{0, []Particle{p}})
		}
		return nil
	}).Wait(c)
	if err == nil {
		err = report(c, 0)
	}
	for step := 1; step <= *steps && err == nil; step++ {
		if err = all(c, &fly, step); err == nil && step%*every == 0 {
			err = c.Phase(amt.Random(uint64(step)))
		}
	}
	if err != nil {
		return err
	}
	return report(c, *steps)
}

// all has all blocks run a method, and waits until that, and what follows from it, is done.
func all(c amt.Context, m *amt.Method[amt.Index3, Block, Step], number int) error {
	return c.Collective("blocks", func(c amt.Context) error {
		if c.Rank() == 0 {
			m.Broadcast(c, &Step{number})
		}
		return nil
	}).Wait(c)
}

// report prints what there is after a step.
func report(c amt.Context, step int) error {
	if err := all(c, &measure, step); err != nil {
		return err
	}
	s, err := state.Wait(c, uint64(step))
	if err == nil && c.Rank() == 0 {
		fmt.Printf("after %d steps: %d particles, momentum %v, at most %d in a block, digest %016x\n", step, s.Particles, s.Momentum, s.Fullest, s.Digest)
	}
	return err
}
