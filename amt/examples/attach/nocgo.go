//go:build !cgo

// Command attach is a library for programs of C and Fortran, which only cgo can build.
package main

func main() {}
