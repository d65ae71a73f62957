// Command particles saves a system of particles of different kinds in a file, with code that pupgen wrote.
//
// The system holds an interface, Particle. What is behind it differs: a Ball flies and bounces, a Decaying one turns
// into something else one day and holds the particle that it will be, a Cluster is made of particles itself, and
// Tracked[P] watches another particle and notes its places. Interfaces are stored with the registered name of what they
// hold, so every such type is registered, next to its declaration. Tracked is generic: each instance that occurs is a
// type of its own and has a name of its own.
//
// No PUP method was written by hand. The comment //pup:generate marks the types, and
//
//	go generate ./pup/examples/particles
//
// writes their methods into pup_gen.go, which is committed. A test fails when the file is not what pupgen would write
// today, as it is when somebody adds a field and does not generate. A field that shall not be saved says so and why:
// see System.byID.
//
// The state of the random numbers is a field like any other. Whoever forgets it gets a restart that works, but gives
// other numbers than an uninterrupted run.
//
//	go run ./pup/examples/particles -stop 300 -steps 1000 -file state.pup
//
// Without flags it prints
//
//	uninterrupted: step 1000, 11 balls, 3 decaying, 4 tracked, 2 clusters, energy 3.2596, number 7 at {0.6941 0.7403}
//	saved:         step  300, 9 balls, 5 decaying, 4 tracked, 2 clusters, energy 3.2596, number 7 at {0.7656 0.5380}
//	restored:      step  300, 9 balls, 5 decaying, 4 tracked, 2 clusters, energy 3.2596, number 7 at {0.7656 0.5380}
//	restored:      step 1000, 11 balls, 3 decaying, 4 tracked, 2 clusters, energy 3.2596, number 7 at {0.6941 0.7403}
//	every bit is the same: true
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/pup"
)

// ByID finds a particle by its number.
func (s *System) ByID(id int) Particle {
	if s.byID == nil {
		s.byID = map[int]Particle{}
		for _, p := range s.Particles {
			s.byID[p.Number()] = p
		}
	}
	return s.byID[id]
}

// Advance makes one step.
func (s *System) Advance() {
	for i, p := range s.Particles {
		s.Particles[i] = p.Move(s)
		if s.Particles[i].Kind() != p.Kind() {
			s.byID = nil
		}
	}
	s.Step++
}

// random returns a number from 0 up to 1.
func (s *System) random() float64 {
	s.Random = s.Random*6364136223846793005 + 1442695040888963407
	return float64(s.Random>>40) / (1 << 24)
}

// NewSystem makes twenty particles.
func NewSystem() *System {
	s := &System{Random: 1}
	for id := range 20 {
		ball := &Ball{Body{id, Vec{s.random(), s.random()}, Vec{s.random() - 0.5, s.random() - 0.5}, 1 + s.random()}}
		var p Particle = ball
		switch id % 10 {
		case 1, 2, 3:
			p = &Decaying{Body: ball.Body, Rate: 1.0 / 1024, Then: ball}
		case 5:
			p = &Tracked[*Ball]{Of: ball, Every: 100}
		case 6:
			p = &Tracked[Particle]{Of: &Decaying{Body: ball.Body, Rate: 1.0 / 512, Then: ball}, Every: 50}
		case 9:
			other := *ball
			other.Vel = Vec{ball.Vel.Y, ball.Vel.X}
			p = Cluster{ball, &other}
		}
		s.Particles = append(s.Particles, p)
	}
	return s
}

// report prints how many particles of each kind there are and how much energy they have.
func (s *System) report(out io.Writer, what string) {
	count, energy := map[string]int{}, 0.0
	for _, p := range s.Particles {
		count[p.Kind()]++
		energy += p.Energy()
	}
	fmt.Fprintf(out, "%-14s step %4d, %d balls, %d decaying, %d tracked, %d clusters, energy %.4f, number 7 at %.4f\n",
		what, s.Step, count["ball"], count["decaying"], count["tracked"], count["cluster"], energy, s.ByID(7).Place())
}

// same compares two systems by their bytes, which depend on the values alone.
func same(a, b *System) (bool, error) {
	x, err := pup.Marshal(a)
	if err != nil {
		return false, err
	}
	y, err := pup.Marshal(b)
	return bytes.Equal(x, y), err
}

// restart runs a system up to a step, saves it, and goes on with what the file says.
func restart(out io.Writer, file string, stop, steps int) (*System, error) {
	s := NewSystem()
	for s.Step < stop {
		s.Advance()
	}
	s.report(out, "saved:")
	if err := pup.ToFile(file, s); err != nil {
		return nil, err
	}
	restored := &System{}
	if err := pup.FromFile(file, restored); err != nil {
		return nil, err
	}
	restored.report(out, "restored:")
	for restored.Step < steps {
		restored.Advance()
	}
	restored.report(out, "restored:")
	return restored, nil
}

func run(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("particles", flag.ContinueOnError)
	steps := flags.Int("steps", 1000, "steps in all")
	stop := flags.Int("stop", 300, "step after which the system is saved")
	file := flags.String("file", "", "where it is saved (default: a file that is removed in the end)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" {
		folder, err := os.MkdirTemp("", "particles")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		*file = filepath.Join(folder, "state.pup")
	}
	whole := NewSystem()
	for whole.Step < *steps {
		whole.Advance()
	}
	whole.report(out, "uninterrupted:")
	restored, err := restart(out, *file, *stop, *steps)
	if err != nil {
		return err
	}
	equal, err := same(whole, restored)
	fmt.Fprintln(out, "every bit is the same:", equal)
	return err
}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
