// Command mesh saves an unstructured mesh in which everything points to everything, and goes on with the copy.
//
// Heat spreads over cells that know their neighbours by pointers. The mesh is cut into domains. Each domain keeps all
// its cells in one slice: its own ones first, and behind them the halo, copies of those cells of other domains that
// its own ones touch. Two more slices, Own and Halo, are parts of that slice, and each halo cell has a pointer to the
// cell that it copies, in the slice of another domain. So the same memory is reachable on up to four ways.
//
// Stored as a tree, such a value would come back as four copies, and the halo would never hear of its domain again
// (nor would the tree end: neighbours are each other's neighbours). Stored with pup.Graph, memory is stored once and
// every pointer and slice leads into it again: to a cell, to a part of a slice, even to one number inside a cell, as
// Probe does. Three things are asked of the code for that, all below:
//
//   - Visit the pointers themselves, with pup.Ptr, also those into slices, and in any order: a pointer may come before
//     what it points into.
//   - Visit only variables of the value, never copies of pointers in local variables: a pointer into memory that comes
//     later is filled in when that has come.
//   - What is computed from the rest, here the new values of a step, is not saved but skipped, with the reason.
//
// The saved run goes on exactly like the one that was never interrupted: the program compares every bit.
//
//	go run ./pup/examples/mesh -n 24 -domains 3 -stop 40 -steps 100
//
// Without flags it prints
//
//	576 cells in 3 domains with 96 halo cells
//	uninterrupted: after 100 steps, heat 576.000000, the probe reads 0.957
//	restored:      after  40 steps, heat 576.000000, the probe reads 0.937
//	restored:      after 100 steps, heat 576.000000, the probe reads 0.957
//	the halo is a part of the cells again: true
//	every bit is the same: true
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/byssus-hpc/byssus/pup"
)

// Cell is a piece of the mesh. Near leads to cells of the same domain, halo cells among them.
type Cell struct {
	ID    int32
	Value float64
	Near  []*Cell
}

// PUP visits what a cell is; its neighbours by their pointers.
func (c *Cell) PUP(p *pup.Stream) {
	pup.Number(p, &c.ID)
	pup.Number(p, &c.Value)
	pup.Slice(p, &c.Near, visitPointer)
}

// visitPointer visits a pointer to a cell.
func visitPointer(p *pup.Stream, c **Cell) { pup.Ptr(p, c, pup.Object) }

// Domain is a part of the mesh that one process would have.
type Domain struct {
	Cells []Cell    // own cells, then halo cells
	Own   []Cell    // the first part of Cells
	Halo  []Cell    // the other part
	From  []*Cell   // for each halo cell, the cell of another domain that it copies
	next  []float64 // values of the own cells after the step that is being made
}

// PUP visits the slices that share an array like any others.
func (d *Domain) PUP(p *pup.Stream) {
	pup.Slice(p, &d.Cells, pup.Object)
	pup.Slice(p, &d.Own, pup.Object)
	pup.Slice(p, &d.Halo, pup.Object)
	pup.Slice(p, &d.From, visitPointer)
	pup.Skip(p, &d.next, "only of use during a step")
}

// Mesh is the whole.
type Mesh struct {
	Steps   int
	Domains []*Domain
	Probe   *float64 // the value of some cell
}

// PUP visits Probe first, which points into a cell that comes later.
func (m *Mesh) PUP(p *pup.Stream) {
	pup.Number(p, &m.Steps)
	pup.Ptr(p, &m.Probe, pup.Number)
	pup.Slice(p, &m.Domains, func(p *pup.Stream, d **Domain) { pup.Ptr(p, d, pup.Object) })
}

// The names stand in stored files. Without them, types would be known by the path of their package, and a file could
// not be read any more when the package has moved.
var (
	_ = pup.Register[Cell]("mesh.Cell")
	_ = pup.Register[Domain]("mesh.Domain")
	_ = pup.Register[Mesh]("mesh.Mesh")
)

// Step fills the halos and lets heat flow between neighbours.
func (m *Mesh) Step() {
	for _, d := range m.Domains {
		for i, c := range d.From {
			d.Halo[i].Value = c.Value // seen at once by all that point to this cell in Cells
		}
	}
	for _, d := range m.Domains {
		if d.next == nil {
			d.next = make([]float64, len(d.Own))
		}
		for i := range d.Own {
			c, flow := &d.Own[i], 0.0
			for _, n := range c.Near {
				flow += n.Value - c.Value
			}
			d.next[i] = c.Value + flow/16
		}
	}
	for _, d := range m.Domains {
		for i := range d.Own {
			d.Own[i].Value = d.next[i]
		}
	}
	m.Steps++
}

// Heat is the sum over all cells, without the halos.
func (m *Mesh) Heat() (sum float64) {
	for _, d := range m.Domains {
		for i := range d.Own {
			sum += d.Own[i].Value
		}
	}
	return sum
}

// Aliases tells whether parts and halos lead to the memory that they should.
func (m *Mesh) Aliases() bool {
	for _, d := range m.Domains {
		if &d.Own[0] != &d.Cells[0] || &d.Halo[0] != &d.Cells[len(d.Own)] {
			return false
		}
		for i, c := range d.From {
			if c.ID != d.Halo[i].ID || c == &d.Halo[i] {
				return false
			}
		}
	}
	return true
}

// equal compares two meshes cell by cell, bit by bit.
func equal(a, b *Mesh) bool {
	for n, d := range a.Domains {
		for i := range d.Own {
			x, y := &d.Own[i], &b.Domains[n].Own[i]
			if x.ID != y.ID || math.Float64bits(x.Value) != math.Float64bits(y.Value) {
				return false
			}
		}
	}
	return len(a.Domains) == len(b.Domains) && *a.Probe == *b.Probe
}

// Restore stores a mesh and returns the copy that comes back, as a program would that is started again.
func Restore(m *Mesh) (*Mesh, error) {
	data, err := pup.Marshal(m, pup.Graph())
	if err != nil {
		return nil, err
	}
	copied := &Mesh{}
	return copied, pup.Unmarshal(data, copied) // the data says that it is a graph
}

func run(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("mesh", flag.ContinueOnError)
	n := flags.Int("n", 24, "cells along each side")
	domains := flags.Int("domains", 3, "domains")
	steps := flags.Int("steps", 100, "steps in all")
	stop := flags.Int("stop", 40, "step after which the mesh is stored")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *domains < 2 || *n < *domains || *stop > *steps {
		return fmt.Errorf("mesh: %d domains of %d columns, stop at %d of %d", *domains, *n, *stop, *steps)
	}
	whole, first := NewMesh(*n, *domains), NewMesh(*n, *domains)
	advance(whole, *steps)
	advance(first, *stop)
	second, err := Restore(first)
	if err != nil {
		return err
	}
	halo := 0
	for _, d := range whole.Domains {
		halo += len(d.Halo)
	}
	fmt.Fprintf(out, "%d cells in %d domains with %d halo cells\n", *n**n, *domains, halo)
	report(out, "uninterrupted:", whole)
	report(out, "restored:", second)
	advance(second, *steps)
	report(out, "restored:", second)
	fmt.Fprintln(out, "the halo is a part of the cells again:", second.Aliases())
	fmt.Fprintln(out, "every bit is the same:", equal(whole, second))
	return nil
}

func advance(m *Mesh, steps int) {
	for m.Steps < steps {
		m.Step()
	}
}

func report(out io.Writer, what string, m *Mesh) {
	fmt.Fprintf(out, "%-14s after %3d steps, heat %.6f, the probe reads %.3f\n", what, m.Steps, m.Heat(), *m.Probe)
}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
