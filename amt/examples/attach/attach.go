package main

// typedef struct { long value; } attach_number;
import "C"

import (
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/amt"
)

// A number goes to the rank that it is for, which adds it up.
type number struct{ Value int64 }

// A state is what a process keeps between steps.
type state struct {
	runtime *amt.Attached
	put     int64 // of others, by attach_put
}

var (
	add   amt.Handler[number]
	put   amt.Handler[number]
	total amt.Reduction[int64]
	sums  amt.Local[int64]
	here  = &state{}
)

func init() {
	add.Is(func(c amt.Context, m *number) { *sums.Of(c) += m.Value })
	put.Is(func(_ amt.Context, m *number) { here.put += m.Value })
	total.Is(func(a, b int64) int64 { return a + b })
}

// told says what went wrong, and tells the program that something did.
func told(err error) C.int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// attach_begin makes the runtime on the ranks of a communicator (MPI_Comm_c2f); 0: it is there.
//
//export attach_begin
func attach_begin(comm C.int) C.int {
	var err error
	here.runtime, err = amt.Attach(int(comm))
	return told(err)
}

// attach_step sends a number to every rank, in tasks, and gives back what all ranks have had so far; 0: it has.
//
//export attach_step
func attach_step(n *C.attach_number) C.int {
	return told(here.runtime.Run(func(c amt.Context) error {
		err := c.Collective("step", func(c amt.Context) error {
			for to := range c.Ranks() {
				add.Send(c, to, &number{int64(n.value)})
			}
			return nil
		}).Wait(c)
		if err != nil {
			return err
		}
		all, err := total.All(c, *sums.Of(c))
		n.value = C.long(all)
		return err
	}))
}

// attach_put sends a number to the next rank, and does not wait for it; 0: it has left.
//
//export attach_put
func attach_put(value C.long) C.int {
	return told(here.runtime.Enter(func(c amt.Context) error {
		put.Send(c, (c.Rank()+1)%c.Ranks(), &number{int64(value)})
		return nil
	}))
}

// attach_had is what the rank before has put here; all of it after attach_end.
//
//export attach_had
func attach_had() C.long { return C.long(here.put) }

// attach_end does what is left to be done, and gives everything back to MPI; 0: it has.
//
//export attach_end
func attach_end() C.int { return told(here.runtime.Detach()) }
