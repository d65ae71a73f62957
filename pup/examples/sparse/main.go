// Command sparse solves a system of linear equations, is interrupted by a checkpoint, and goes on from it.
//
// The matrix is built as rows of maps, which is easy to fill, and then packed as compressed rows (CSR), which is fast
// to use. Both forms have a PUP method written by hand, and each shows a few of pup's helpers:
//
//   - Builder holds maps of maps. pup.Map stores entries in the order of their keys, so that equal matrices have equal
//     bytes although a map's own order is another each time.
//   - CSR holds long slices of numbers. pup.PlainSlice copies each as one piece of memory.
//   - CSR.Start holds, for each row, where it begins: a sum of lengths. The lengths say the same and are small, so they
//     are what is stored, by pup.Length, and Start is computed again. Length is also what makes it safe: a count that
//     exceeds the bytes that are left is refused before memory is made for it. pup.Skip says that Start itself is
//     left out on purpose, or pup.Check would report it as forgotten.
//   - What was unpacked is checked where the type's own rules go beyond what bytes can say: a column outside of the
//     matrix would fault much later, in Mul. pup.Stream.Fail refuses it with the path of the value.
//
// The solver is the method of conjugate gradients. Its state is four vectors and two numbers. R could be computed anew
// from X, but would be rounded otherwise, and P holds what all former steps have found. Saved as they are, the rest of the
// run is the same to the last bit.
//
//	go run ./pup/examples/sparse -n 40 -stop 30 -file solve.pup
//
// Without flags it prints
//
//	a matrix of 1600 rows with 7840 entries
//	uninterrupted: residual 9.97e-11 after 142 iterations
//	interrupted:   residual 5.52e-02 after 30 iterations
//	resumed:       residual 9.97e-11 after 142 iterations
//	every bit is the same: true
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/byssus-hpc/byssus/pup"
)

// Solve is a solution on its way.
type Solve struct {
	A    *CSR
	B    []float64 // the right-hand side
	X    []float64 // the solution so far
	R    []float64 // B - A X
	P    []float64 // the direction of the next step
	RR   float64   // R R
	Iter int
	ap   []float64
}

var _ = pup.Register[Solve]("sparse.Solve")

// PUP visits all that the next step depends on.
func (s *Solve) PUP(p *pup.Stream) {
	pup.Ptr(p, &s.A, pup.Object)
	pup.PlainSlice(p, &s.B)
	pup.PlainSlice(p, &s.X)
	pup.PlainSlice(p, &s.R)
	pup.PlainSlice(p, &s.P)
	pup.Number(p, &s.RR)
	pup.Number(p, &s.Iter)
	pup.Skip(p, &s.ap, "only of use during a step")
}

// NewSolve begins with zero.
func NewSolve(a *CSR, b []float64) *Solve {
	return &Solve{A: a, B: b, X: make([]float64, len(b)), R: slices.Clone(b), P: slices.Clone(b), RR: dot(b, b)}
}

// Step makes one iteration.
func (s *Solve) Step() {
	s.ap = s.A.Mul(s.ap, s.P)
	alpha := s.RR / dot(s.P, s.ap)
	for i := range s.X {
		s.X[i] += float64(alpha * s.P[i])
		s.R[i] -= float64(alpha * s.ap[i])
	}
	rr := dot(s.R, s.R)
	beta := rr / s.RR
	for i := range s.P {
		s.P[i] = s.R[i] + float64(beta*s.P[i])
	}
	s.RR = rr
	s.Iter++
}

// Run goes on until the residual is small, or up to an iteration.
func (s *Solve) Run(most int) {
	for s.Iter < most && s.Residual() > 1e-10 {
		s.Step()
	}
}

// Residual is how far B - A X is from zero.
func (s *Solve) Residual() float64 { return math.Sqrt(s.RR) }

// dot is the product of two vectors. The conversion keeps processors that can from fusing product and sum, which would
// round otherwise than those that cannot.
func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}

// poisson is the matrix of a square of n by n points, each joined to its neighbours.
func poisson(n int) *Builder {
	b := NewBuilder(n * n)
	for i := range n * n {
		b.Add(i, i, 4)
		if i%n > 0 {
			b.Add(i, i-1, -1)
			b.Add(i-1, i, -1)
		}
		if i >= n {
			b.Add(i, i-n, -1)
			b.Add(i-n, i, -1)
		}
	}
	return b
}

func run(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("sparse", flag.ContinueOnError)
	n := flags.Int("n", 40, "points along each side")
	stop := flags.Int("stop", 30, "iteration after which the solution is saved")
	file := flags.String("file", "", "where it is saved (default: a file that is removed in the end)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" {
		folder, err := os.MkdirTemp("", "sparse")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		*file = filepath.Join(folder, "solve.pup")
	}
	a := poisson(*n).CSR()
	b := make([]float64, *n**n)
	b[len(b)/3], b[len(b)/2] = 1, -0.5
	fmt.Fprintf(out, "a matrix of %d rows with %d entries\n", a.Rows(), len(a.Val))
	whole, first := NewSolve(a, b), NewSolve(a, b)
	whole.Run(math.MaxInt)
	report(out, "uninterrupted:", whole)
	first.Run(*stop)
	report(out, "interrupted:", first)
	if err := pup.ToFile(*file, first); err != nil {
		return err
	}
	second := &Solve{}
	if err := pup.FromFile(*file, second); err != nil {
		return err
	}
	second.Run(math.MaxInt)
	report(out, "resumed:", second)
	fmt.Fprintln(out, "every bit is the same:", slices.EqualFunc(whole.X, second.X, sameBits))
	return nil
}

func sameBits(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }

func report(out io.Writer, what string, s *Solve) {
	fmt.Fprintf(out, "%-14s residual %.2e after %d iterations\n", what, s.Residual(), s.Iter)
}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
