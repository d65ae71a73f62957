// Package mpi is a thin binding of MPI for Go: typed slices, and values that package pup packs, travel between ranks by the MPI
// library that is found when the program runs. One binary runs under MPICH and under Open MPI; without either, and without
// cgo, RunLocal runs ranks as goroutines of one process.
//
// What it guarantees:
//
//   - The library is asked for MPI_THREAD_SERIALIZED. Calls of several goroutines follow one another; one that blocks keeps the
//     others waiting, so those that need each other are to be begun (Isend, Irecv, ...).
//   - Memory of Go is pinned as long as a request on it is open, and never known to the library after it.
//   - Errors of MPI are Go errors (Error), with function and class; the library's error handler returns.
//   - A message that is longer than its receive has room for is an error of class ErrTruncate, unless the library does not
//     tell: Open MPI 4.1 does not of a receive that was begun before the message came, and writes beyond it if that is a
//     rank's own and long.
//   - Where a node has more ranks than processors, a call that blocks looks and rests in turns, so that others can run.
//
// Elements are numbers, bools, and types without pointers, which travel as bytes. Counts are those of the slices; a message
// has at most 2147483647 elements. Names are MPI's without MPI_; functions, not methods, where elements have a type.
//
// What a package of C does with MPI in the same process is its own affair: to know its communicators, see FromFortran.
package mpi
