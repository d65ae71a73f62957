package main

import "github.com/byssus-hpc/byssus/pup"

//go:generate go run github.com/byssus-hpc/byssus/cmd/pupgen

// System is what is saved.
//
//pup:generate
type System struct {
	Step      int
	Random    uint64 // the state of the random numbers
	Particles []Particle
	byID      map[int]Particle //pup:skip made again from Particles on demand
}

var _ = pup.Register[System]("particles.System")

// Particle is what the system knows of its particles.
type Particle interface {
	Number() int
	Kind() string
	Move(s *System) Particle // one step; the answer takes the particle's place
	Place() Vec
	Energy() float64
}

// Vec is a place or a velocity.
//
//pup:generate
type Vec struct{ X, Y float64 }

// Body is what the particles have in common. Its fields lie side by side without pointers: one copy of memory.
//
//pup:generate
type Body struct {
	ID       int
	Pos, Vel Vec
	Mass     float64
}

// Number implements Particle.
func (b *Body) Number() int { return b.ID }

// Place implements Particle.
func (b *Body) Place() Vec { return b.Pos }

// Energy implements Particle. The conversions keep processors that can from fusing product and sum, which would round
// otherwise than those that cannot.
func (b *Body) Energy() float64 {
	return b.Mass / 2 * (float64(b.Vel.X*b.Vel.X) + float64(b.Vel.Y*b.Vel.Y))
}

// fly moves the body and lets it bounce off the walls of the unit square.
func (b *Body) fly() {
	const dt = 1.0 / 64
	b.Pos.X, b.Vel.X = bounce(b.Pos.X+float64(b.Vel.X*dt), b.Vel.X)
	b.Pos.Y, b.Vel.Y = bounce(b.Pos.Y+float64(b.Vel.Y*dt), b.Vel.Y)
}

func bounce(x, v float64) (float64, float64) {
	switch {
	case x < 0:
		return -x, -v
	case x > 1:
		return 2 - x, -v
	}
	return x, v
}

// Ball flies and bounces.
//
//pup:generate
type Ball struct{ Body }

// Decaying flies until chance makes Then of it.
//
//pup:generate
type Decaying struct {
	Body
	Rate float64 // how likely it is in each step
	Then Particle
}

// Tracked notes where another particle was. P need not be an interface.
//
//pup:generate
type Tracked[P Particle] struct {
	Of    P
	Every int // steps between notes
	Trace []Vec
}

// Cluster is several particles that stay one. It is no structure, and stands in the interface as it is, without a
// pointer.
//
//pup:generate
type Cluster []Particle

// Both the type and the pointer to it may stand in interfaces, under one name.
var (
	_ = pup.Register[Ball]("particles.Ball")
	_ = pup.Register[Decaying]("particles.Decaying")
	_ = pup.Register[Tracked[*Ball]]("particles.TrackedBall")
	_ = pup.Register[Tracked[Particle]]("particles.Tracked")
	_ = pup.Register[Cluster]("particles.Cluster")
	_ = pup.Register[Body]("particles.Body")
	_ = pup.Register[Vec]("particles.Vec")
)

// Kind implements Particle.
func (b *Ball) Kind() string { return "ball" }

// Move implements Particle.
func (b *Ball) Move(*System) Particle {
	b.fly()
	return b
}

// Kind implements Particle.
func (d *Decaying) Kind() string { return "decaying" }

// Move implements Particle.
func (d *Decaying) Move(s *System) Particle {
	d.fly()
	if s.random() >= d.Rate {
		return d
	}
	if b, ok := d.Then.(*Ball); ok {
		b.Body = d.Body
	}
	return d.Then
}

// Kind implements Particle.
func (t *Tracked[P]) Kind() string { return "tracked" }

// Number implements Particle.
func (t *Tracked[P]) Number() int { return t.Of.Number() }

// Place implements Particle.
func (t *Tracked[P]) Place() Vec { return t.Of.Place() }

// Energy implements Particle.
func (t *Tracked[P]) Energy() float64 { return t.Of.Energy() }

// Move implements Particle.
func (t *Tracked[P]) Move(s *System) Particle {
	if now, ok := t.Of.Move(s).(P); ok {
		t.Of = now
	}
	if s.Step%t.Every == 0 {
		t.Trace = append(t.Trace, t.Place())
	}
	return t
}

// Kind implements Particle.
func (c Cluster) Kind() string { return "cluster" }

// Number implements Particle.
func (c Cluster) Number() int { return c[0].Number() }

// Place implements Particle: the middle of all.
func (c Cluster) Place() (mean Vec) {
	for _, p := range c {
		at := p.Place()
		mean.X += at.X / float64(len(c))
		mean.Y += at.Y / float64(len(c))
	}
	return mean
}

// Energy implements Particle.
func (c Cluster) Energy() (sum float64) {
	for _, p := range c {
		sum += p.Energy()
	}
	return sum
}

// Move implements Particle.
func (c Cluster) Move(s *System) Particle {
	for i, p := range c {
		c[i] = p.Move(s)
	}
	return c
}
