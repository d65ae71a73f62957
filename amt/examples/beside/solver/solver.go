// Package solver solves systems of linear equations on the ranks of a communicator. It is a library as there are many: it knows
// MPI and nothing of tasks, and its calls block until all ranks have made them.
//
// It guarantees that it uses no other communicator than that which it is given, and that all ranks get the same error, if it does
// not converge.
package solver

import (
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/mpi"
)

const most = 1000 // iterations

// Solve solves A x = b by conjugate gradients. A has one number all along its diagonal, above 2, and -1 beside that. Each rank has
// some elements of b, at least one, in the order of the ranks, and gets those of x. The residual's norm is below the tolerance.
func Solve(comm *mpi.Comm, diagonal float64, b []float64, tolerance float64) ([]float64, error) {
	x, r, p := make([]float64, len(b)), slices.Clone(b), slices.Clone(b)
	rr, err := dot(comm, r, r)
	if err != nil {
		return nil, err
	}
	for range most {
		if rr < tolerance*tolerance {
			return x, nil
		}
		q, err := times(comm, diagonal, p)
		if err != nil {
			return nil, err
		}
		pq, err := dot(comm, p, q)
		if err != nil {
			return nil, err
		}
		for i := range x {
			x[i] += rr / pq * p[i]
			r[i] -= rr / pq * q[i]
		}
		next, err := dot(comm, r, r)
		if err != nil {
			return nil, err
		}
		for i := range p {
			p[i] = r[i] + next/rr*p[i]
		}
		rr = next
	}
	return nil, fmt.Errorf("solver: the squared residual is %g after %d iterations, wanted below %g", rr, most, tolerance*tolerance)
}

// dot is the scalar product of two vectors.
func dot(comm *mpi.Comm, a, b []float64) (float64, error) {
	sum := []float64{0}
	for i := range a {
		sum[0] += a[i] * b[i]
	}
	if err := mpi.Allreduce(comm, nil, sum, mpi.Sum); err != nil {
		return 0, fmt.Errorf("solver: a scalar product: %w", err)
	}
	return sum[0], nil
}

// times is A times a vector. Ranks that are neighbours exchange the elements at their ends.
func times(comm *mpi.Comm, diagonal float64, p []float64) ([]float64, error) {
	left, right, last := comm.Rank()-1, comm.Rank()+1, len(p)-1
	if left < 0 {
		left = mpi.ProcNull
	}
	if right == comm.Size() {
		right = mpi.ProcNull
	}
	ends := make([]float64, 2) // zero beyond the first and the last rank
	if _, err := mpi.Sendrecv(comm, p[last:], right, 0, ends[:1], left, 0); err != nil {
		return nil, fmt.Errorf("solver: an end of a vector: %w", err)
	}
	if _, err := mpi.Sendrecv(comm, p[:1], left, 0, ends[1:], right, 0); err != nil {
		return nil, fmt.Errorf("solver: an end of a vector: %w", err)
	}
	q := make([]float64, len(p))
	for i := range q {
		before, after := ends[0], ends[1]
		if i > 0 {
			before = p[i-1]
		}
		if i < last {
			after = p[i+1]
		}
		q[i] = diagonal*p[i] - before - after
	}
	return q, nil
}
