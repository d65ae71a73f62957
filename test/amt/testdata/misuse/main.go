// Command misuse does what programs must not, by its argument; it is told what, on every transport.
package main

import (
	"errors"
	"os"
	"runtime"

	"github.com/byssus-hpc/byssus/amt"
)

type nothing struct{ _ uint64 }

var (
	panics amt.Handler[nothing]
	exits  amt.Handler[nothing]
	sends  amt.Handler[nothing]
)

func init() {
	panics.Is(func(amt.Context, *nothing) { panic("as it wants") })
	exits.Is(func(amt.Context, *nothing) { runtime.Goexit() })
	sends.Is(func(amt.Context, *nothing) {})
}

func empty(amt.Context) error { return nil }

// all begins collective epochs, one after the other.
func all(c amt.Context, labels ...string) error {
	for _, label := range labels {
		if err := c.Collective(label, empty).Wait(c); err != nil {
			return err
		}
	}
	return nil
}

// to sends a message to rank 1.
func to(c amt.Context, h *amt.Handler[nothing]) error {
	return c.Collective("all", func(c amt.Context) error {
		if c.Rank() == 0 {
			h.Send(c, 1, &nothing{})
		}
		return nil
	}).Wait(c)
}

func main() {
	amt.Main(func(c amt.Context) error {
		odd := c.Rank() == 1
		switch os.Args[1] {
		case "orders":
			if odd {
				return all(c, "b", "a")
			}
			return all(c, "a", "b")
		case "skip":
			if odd {
				return all(c, "b", "c")
			}
			return all(c, "a", "b", "c")
		case "scopes":
			label := "a"
			if odd {
				label = "b"
			}
			_, err := c.Scope(label)
			return err
		case "panic":
			return to(c, &panics)
		case "goexit":
			return to(c, &exits)
		case "captured":
			return c.Collective("all", func(in amt.Context) error {
				over := make(chan struct{})
				if odd {
					in.Go("t", func(amt.Context) error { defer close(over); sends.Send(in, 0, &nothing{}); return nil })
					<-over
				}
				return nil
			}).Wait(c)
		}
		return errors.New("no such misuse")
	})
}
