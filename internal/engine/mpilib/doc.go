// Package mpilib calls the MPI library that is found when the program runs: one binary runs under MPICH and under Open MPI, and
// is built without either.
//
// It guarantees that no memory of Go is kept by C after a request on it is complete (longs), and none at all of batches,
// which are copied. All calls are made by one goroutine at a time; the library is told so (MPI_THREAD_SERIALIZED).
//
// A program that was built without cgo has no MPI: every function says so.
package mpilib
