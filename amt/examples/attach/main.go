// Command attach is a library for programs of C and Fortran that use MPI by themselves: they enter the task runtime once a step,
// on their own thread. attach/use has a program in each language.
//
//	go build -buildmode=c-shared -o libattach.so ./amt/examples/attach
//	mpicc -o steps amt/examples/attach/use/steps.c -L. -lattach -Wl,-rpath,$PWD && mpirun -n 2 ./steps
package main

func main() {} // is never called; and all there is without cgo
