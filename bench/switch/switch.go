package main

import "C"

import (
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/amt"
)

// What the process has attached; it is one rank.
var runtime = &struct{ *amt.Attached }{}

func told(err error) C.int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// switch_begin attaches by a communicator (MPI_Comm_c2f).
//
//export switch_begin
func switch_begin(comm C.int) C.int {
	a, err := amt.Attach(int(comm))
	runtime.Attached = a
	return told(err)
}

func nothing(amt.Context) error { return nil }

// switch_enter enters the runtime and leaves it.
//
//export switch_enter
func switch_enter() C.int { return told(runtime.Enter(nothing)) }

// switch_end detaches.
//
//export switch_end
func switch_end() C.int { return told(runtime.Detach()) }
