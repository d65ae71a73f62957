package amttest_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
)

type number struct{ X int64 }

var (
	adds    amt.Handler[number]
	sum     amt.Local[int64]
	keeps   amt.Handler[number]
	kept    amt.Local[[]*number]
	notes   amt.Handler[number]
	order   amt.Local[[]int64]
	exits   amt.Handler[number]
	exiting = &struct {
		sync.Mutex
		t testing.TB
	}{}
)

func init() {
	adds.Is(func(c amt.Context, m *number) { *sum.Of(c) += m.X })
	keeps.Is(func(c amt.Context, m *number) {
		mine := kept.Of(c)
		*mine = append(*mine, m)
	})
	notes.Is(func(c amt.Context, m *number) {
		mine := order.Of(c)
		*mine = append(*mine, int64(c.From())<<32|m.X)
	})
	exits.Is(func(amt.Context, *number) { exiting.t.FailNow() })
}

var errBad = errors.New("bad")

func TestRun(t *testing.T) {
	amttest.Run(t, 5, func(c amt.Context) error {
		err := c.Collective("all", func(c amt.Context) error {
			for to := range c.Ranks() {
				for n := range int64(100) {
					adds.Send(c, to, &number{n})
				}
			}
			return nil
		}).Wait(c)
		if got, want := *sum.Of(c), int64(5*4950); err == nil && got != want {
			err = fmt.Errorf("rank %d has %d, want %d", c.Rank(), got, want)
		}
		return err
	})
}

// TestTry: the error has what it wraps, and the seed.
func TestTry(t *testing.T) {
	err := amttest.Try(t, 3, func(c amt.Context) error {
		if c.Rank() == 2 {
			return errBad
		}
		return nil
	})
	if !errors.Is(err, errBad) || !strings.Contains(err.Error(), amttest.SeedVariable+"=") {
		t.Error(err)
	}
}

// TestPoison: a kept message is seen to be one.
func TestPoison(t *testing.T) {
	amttest.Run(t, 2, func(c amt.Context) error {
		err := c.Collective("all", func(c amt.Context) error {
			keeps.Send(c, 0, &number{7})
			keeps.Send(c, 1, &number{7})
			return nil
		}).Wait(c)
		for _, m := range *kept.Of(c) {
			if m.X == 7 {
				return errors.Join(err, errors.New("a kept message has what was sent"))
			}
		}
		return err
	})
}

// TestOrder: the batches of one sender come in their order, and those of several in any.
func TestOrder(t *testing.T) {
	t.Setenv(amttest.SeedVariable, "")
	seen := map[string]bool{}
	for range 50 {
		amttest.Run(t, 4, func(c amt.Context) error {
			var err error
			for n := range int64(8) {
				err = errors.Join(err, c.Rooted("one", func(c amt.Context) error {
					notes.Send(c, 0, &number{n})
					return nil
				}).Wait(c))
			}
			if err = errors.Join(err, c.Collective("end", func(amt.Context) error { return nil }).Wait(c)); c.Rank() != 0 || err != nil {
				return err
			}
			next := map[int64]int64{}
			for _, m := range *order.Of(c) {
				if from := m >> 32; m&0xffff != next[from] {
					return fmt.Errorf("rank %d's come in the order %x", from, *order.Of(c))
				}
				next[m>>32]++
			}
			seen[fmt.Sprint(*order.Of(c))] = true
			return nil
		})
	}
	if len(seen) < 5 {
		t.Errorf("%d orders of 50 runs", len(seen))
	}
}

func TestWrongSeed(t *testing.T) {
	t.Setenv(amttest.SeedVariable, "x")
	if err := amttest.Try(t, 1, func(amt.Context) error { return nil }); err == nil || !strings.Contains(err.Error(), "a number is wanted") {
		t.Error(err)
	}
}

// A recorder is the TB of a test that fails.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	said   string
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) FailNow() {
	r.mu.Lock()
	r.failed = true
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said += fmt.Sprintf(format, args...) + "\n"
}

func (r *recorder) Fatal(args ...any) {
	r.Logf("%s", fmt.Sprint(args...))
	r.FailNow()
}

func (r *recorder) Helper() {}

// TestFailNow: a test that ends on a rank ends.
func TestFailNow(t *testing.T) {
	for name, program := range map[string]func(r *recorder) func(c amt.Context) error{
		"main function": func(r *recorder) func(c amt.Context) error {
			return func(c amt.Context) error {
				if c.Rank() == 1 {
					r.FailNow()
				}
				return c.Collective("all", func(amt.Context) error { return nil }).Wait(c)
			}
		},
		"body": func(r *recorder) func(c amt.Context) error {
			return func(c amt.Context) error {
				return c.Collective("all", func(c amt.Context) error {
					if c.Rank() == 1 {
						r.FailNow()
					}
					return nil
				}).Wait(c)
			}
		},
		"task": func(r *recorder) func(c amt.Context) error {
			return func(c amt.Context) error {
				c.Go("t", func(amt.Context) error { r.FailNow(); return nil })
				return nil
			}
		},
		"handler": func(r *recorder) func(c amt.Context) error {
			return func(c amt.Context) error {
				exiting.t = r
				exits.Send(c, 0, &number{})
				return nil
			}
		},
	} {
		r := &recorder{TB: t}
		n := 3
		if name == "handler" {
			n = 1
		}
		ended := make(chan bool)
		go func() {
			returned := false
			defer func() { ended <- returned }()
			amttest.Run(r, n, program(r))
			returned = true
		}()
		if <-ended || !r.failed || !strings.Contains(r.said, amttest.SeedVariable+"=") {
			t.Errorf("%s: failed %v, said %q", name, r.failed, r.said)
		}
	}
}
