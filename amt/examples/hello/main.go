// Command hello is a first program: every rank sends a greeting to rank 0, which prints them in the order of the ranks. It runs on
// goroutines, or under the mpirun of MPICH or of Open MPI:
//
//	go run ./amt/examples/hello
//	go build -o hello ./amt/examples/hello && mpirun -n 2 ./hello
package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/amt"
)

// A greeting is the message. Strings, slices and maps may be in one.
type greeting struct {
	Rank int
	Text string
}

var (
	greet amt.Handler[greeting] // what messages are sent to
	heard amt.Local[[]greeting] // a variable of which every rank has its own
)

// A handler is said what it does before main runs. It runs on the rank that a message was sent to.
func init() {
	greet.Is(func(c amt.Context, m *greeting) {
		list := heard.Of(c)
		*list = append(*list, *m)
	})
}

// program runs on every rank.
func program(c amt.Context) error {
	// An epoch is over when all that was sent in it, by any rank, has been handled.
	err := c.Collective("greetings", func(c amt.Context) error {
		greet.Send(c, 0, &greeting{c.Rank(), fmt.Sprintf("hello from rank %d of %d", c.Rank(), c.Ranks())})
		return nil
	}).Wait(c)
	if err != nil {
		return err
	}
	list := *heard.Of(c) // in the order in which they came: on other ranks than 0, none
	slices.SortFunc(list, func(a, b greeting) int { return cmp.Compare(a.Rank, b.Rank) })
	for _, m := range list {
		fmt.Println(m.Text)
	}
	return nil
}

func main() { amt.Main(program) }
