// Command recover goes on after a panic of a nil pointer, also where a method is called by package fmt, and loses a request.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/byssus-hpc/byssus/mpi"
)

type node struct{ name string }

func (n *node) String() string { return n.name }

func fails() (what any) {
	defer func() { what = recover() }()
	var n *node
	n.name = "x"
	return nil
}

func main() {
	err := mpi.Run(func(w *mpi.Comm) error {
		var parent *node
		fmt.Println(fmt.Sprint(parent), fails())
		if _, err := mpi.Isend(w, make([]byte, 1000), w.Rank()^1, 0); err != nil { // nobody waits for it
			return err
		}
		if _, err := mpi.Recv(w, make([]byte, 1000), w.Rank()^1, 0); err != nil {
			return err
		}
		for range 3 {
			runtime.GC()
		}
		return w.Barrier()
	})
	fmt.Println(err)
	if err != nil {
		mpi.Abort(3)
		os.Exit(3)
	}
}
