// Package mpi is a thin binding of MPI for Go: typed slices, and values that package pup packs, travel between ranks by the MPI
// library that is found when the program runs. One binary runs under MPICH and under Open MPI; without either, and without
// cgo, RunLocal runs ranks as goroutines of one process.
//
// What it guarantees:
//
//   - The library is asked for MPI_THREAD_SERIALIZED. Calls of several goroutines follow one another; one that blocks keeps the
//     others waiting, so those that need each other are to be begun (Isend, Irecv, ...).
//   - Memory of Go is pinned as long as a request on it is open, and never known to the library after it.
//   - Errors of MPI are Go errors (Error), with function, class and all that the library says of them; its error handler returns.
//   - A message that is longer than its receive has room for is an error of class ErrTruncate, and memory beyond that room stays as it
//     was. For that Run has Open MPI 4 copy messages twice on a node, unless OMPI_MCA_btl_vader_single_copy_mechanism and
//     OMPI_MCA_btl_self_flags in the environment say otherwise; it has been no slower. A program in C that has initialized MPI
//     itself, or byssus run, is to be given these: "none" and "send". Of a message of up to 1 KiB of a rank to itself, for which the
//     receive was there before, Open MPI 4 does not tell that it was cut.
//   - Go's own signal handlers stand after the library is initialized: a nil pointer is a panic that can be recovered.
//   - A request that is not completed does no harm before the end; then Run names it.
//   - Where a node has more ranks than processors, a call that blocks looks and rests in turns, so that others can run.
//
// Elements are numbers, bools, and types without pointers, which travel as bytes. Counts are those of the slices; a message
// has at most 2147483647 elements. Names are MPI's without MPI_; functions, not methods, where elements have a type.
//
// What a package of C does with MPI in the same process is its own affair: to know its communicators, see FromFortran.
package mpi
