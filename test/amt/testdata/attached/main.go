// Command attached is a library that attaches the task runtime and enters it in ways that go wrong, one by one: each ends as it should, on
// all ranks, and says so. A program that has an MPI calls it (use/play.c).
package main

import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/byssus-hpc/byssus/amt"
)

type number struct{ X int }

var (
	came amt.Local[int]
	adds amt.Handler[number]
)

func init() { adds.Is(func(c amt.Context, m *number) { *came.Of(c) += m.X }) }

var errBad = errors.New("it is bad")

func nothing(amt.Context) error { return nil }

func bad(amt.Context) error { return errBad }

// has makes sure that an error has some words.
func has(err error, want string) error {
	if err == nil || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("%w: %q is wanted", err, want)
	}
	return nil
}

// within enters the runtime where it is entered; what goes on there is none the worse for it.
func within(a *amt.Attached) error {
	const says = "it is entered within itself"
	err := a.Enter(func(amt.Context) error {
		return errors.Join(has(a.Enter(nothing), says), has(a.Run(nothing), says), has(a.Detach(), says))
	})
	return errors.Join(err, a.Run(func(c amt.Context) error {
		err := has(a.Run(nothing), says)
		return errors.Join(err, c.Collective("all", func(c amt.Context) error { adds.Send(c, 0, &number{1}); return nil }).Wait(c))
	}), a.Detach())
}

// fails has rank 0 fail in its Run, while the others wait for it in the Enter before.
func fails(a *amt.Attached) error {
	rank := -1
	err := a.Enter(func(c amt.Context) error {
		if rank = c.Rank(); rank == 0 {
			return nil
		}
		return c.Rooted("to rank 0", func(c amt.Context) error { adds.Send(c, 0, &number{1}); return nil }).Wait(c) // which handles nothing more
	})
	if rank > 0 {
		return errors.Join(has(err, errBad.Error()), has(a.Detach(), "the runtime has failed before"))
	}
	err = errors.Join(err, has(a.Run(bad), errBad.Error()))
	return errors.Join(err, has(a.Enter(nothing), errBad.Error()), has(a.Detach(), errBad.Error()))
}

// claims begins epochs that fail, and waits for them, in the same Enter.
func claims(a *amt.Attached) error {
	return errors.Join(a.Enter(func(c amt.Context) error {
		b := c.Rooted("bad", bad)
		err := c.Rooted("good", func(c amt.Context) error { adds.Send(c, c.Rank(), &number{1}); return nil }).Wait(c)
		return errors.Join(err, has(b.Wait(c), errBad.Error()))
	}), a.Detach())
}

// leaves begins one that fails, waits for others, and leaves: it is told when all ranks know of the failure, by Detach at the latest.
func leaves(a *amt.Attached) error {
	err := a.Enter(func(c amt.Context) error {
		c.Rooted("bad", bad)
		return c.Rooted("good", func(c amt.Context) error { adds.Send(c, c.Rank(), &number{1}); return nil }).Wait(c)
	})
	return has(errors.Join(err, a.Detach()), errBad.Error())
}

// later waits for an epoch in a later Enter than that which has begun it.
func later(a *amt.Attached) error {
	var ep *amt.Epoch
	err := a.Enter(func(c amt.Context) error {
		ep = c.Rooted("later", func(c amt.Context) error { adds.Send(c, (c.Rank()+1)%c.Ranks(), &number{1}); return nil })
		return nil
	})
	return errors.Join(err, a.Enter(func(c amt.Context) error { return ep.Wait(c) }), a.Detach())
}

// attached_play plays one; 0: it ended as it should.
//
//export attached_play
func attached_play(comm C.int, name *C.char) C.int {
	plays := map[string]func(*amt.Attached) error{"within": within, "fails": fails, "claims": claims, "leaves": leaves, "later": later}
	a, err := amt.Attach(int(comm))
	if err == nil {
		err = plays[C.GoString(name)](a)
	}
	for range 3 { // what the library may still have is not collected, though nobody here knows it any more
		runtime.GC()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func main() {} // is never called
