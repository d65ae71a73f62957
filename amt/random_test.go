package amt_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

var (
	seed     = flag.Uint64("seed", 1, "of the first random program")
	programs = flag.Int("programs", 1000, "how many")
)

// A grow message is the root of a random tree of Size messages: what it does follows from its seed alone, so that the sum of
// all that is done can be computed without the runtime.
type grow struct {
	Seed uint64
	Size int64
}

// A named one is the same, in a message that is packed.
type named struct {
	Name  string
	Inner []grow
}

var (
	growing amt.Handler[grow]
	naming  amt.Handler[named]
	leaf    amt.Handler[grow]
)

// done is the sum of what the messages of a program have done; one program runs at a time.
var done = new(atomic.Uint64)

func init() {
	growing.Is(func(c amt.Context, m *grow) { m.branch(c, m.play(c)) })
	naming.Is(func(c amt.Context, m *named) {
		if len(m.Name) != len(m.Inner) {
			c.Fail(fmt.Errorf("%d letters for %d", len(m.Name), len(m.Inner)))
		}
		for _, in := range m.Inner {
			growing.Send(c, int(in.Seed%uint64(c.Ranks())), &in)
		}
	})
	leaf.Is(func(_ amt.Context, m *grow) { done.Add(m.Seed | 1) })
}

// A branch is what a message does with a part of what is left.
type branch struct {
	how int
	to  uint64
	sub grow
}

// play adds what the message itself does, and returns its branches.
func (m *grow) play(amt.Context) []branch {
	done.Add(m.Seed | 1)
	return m.branches()
}

func (m *grow) branches() []branch {
	r := rand.New(rand.NewPCG(m.Seed, 1))
	var list []branch
	for left := m.Size; left > 0; {
		part := 1 + r.Int64N(left)
		left -= part
		list = append(list, branch{r.IntN(12), r.Uint64(), grow{r.Uint64(), part - 1}})
	}
	return list
}

// sum is what the whole tree does on so many ranks, computed without the runtime.
func (m *grow) sum(ranks int) uint64 {
	s := m.Seed | 1
	for _, b := range m.branches() {
		s += b.sub.sum(ranks)
		if b.how == 4 {
			s += uint64(ranks) * (b.to | 1)
		}
	}
	return s
}

func (m *grow) branch(c amt.Context, list []branch) {
	for _, b := range list {
		to := int(b.to % uint64(c.Ranks()))
		sub := b.sub
		switch b.how {
		case 0: // a task that sends
			c.Go("grow", func(c amt.Context) error {
				growing.Send(c, to, &sub)
				return nil
			})
		case 1: // an epoch within, after which it goes on
			c.Rooted("in", func(c amt.Context) error {
				leaf.Send(c, to, &grow{Seed: sub.Seed ^ 2})
				return nil
			}).OnDone(c, func(c amt.Context) {
				done.Add(-(sub.Seed ^ 2 | 1))
				growing.Send(c, to, &sub)
			})
		case 2: // an epoch that a task waits for
			c.Go("waits", func(c amt.Context) error {
				return c.Rooted("of a task", func(c amt.Context) error {
					growing.Send(c, to, &sub)
					return nil
				}).Wait(c)
			})
		case 3: // a message that is packed
			naming.Send(c, to, &named{"x", []grow{sub}})
		case 4: // to all
			leaf.Broadcast(c, &grow{Seed: b.to})
			growing.Send(c, to, &sub)
		default:
			growing.Send(c, to, &sub)
		}
	}
}

// program is a random program: a few epochs, collective and rooted, nested and chained.
func program(n uint64, ranks int) (main func(amt.Context) error) {
	return func(c amt.Context) error {
		r := rand.New(rand.NewPCG(n, 2)) // the same on all ranks
		var before *amt.Epoch
		for e := range 1 + r.IntN(4) {
			seeds := make([]grow, ranks)
			for rank := range seeds {
				seeds[rank] = grow{r.Uint64(), r.Int64N(30)}
			}
			mine := seeds[c.Rank()]
			body := func(c amt.Context) error {
				growing.Send(c, int(mine.Seed%uint64(ranks)), &mine)
				return nil
			}
			var opts []amt.EpochOption
			kind := r.IntN(4)
			if before != nil && r.IntN(2) == 0 {
				opts = append(opts, amt.After(before))
			}
			label := fmt.Sprint("epoch ", e)
			switch kind {
			case 0:
				before = c.Rooted(label, body, opts...)
			case 1:
				before = c.Collective(label, func(c amt.Context) error { return c.Rooted("inner", body).Wait(c) }, opts...)
			default:
				before = c.Collective(label, body, opts...)
			}
			if r.IntN(2) == 0 {
				if err := before.Wait(c); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// want is the sum of a random program.
func want(n uint64, ranks int) (sum uint64) {
	r := rand.New(rand.NewPCG(n, 2))
	for e := range 1 + r.IntN(4) {
		for range ranks {
			g := grow{r.Uint64(), r.Int64N(30)}
			sum += g.sum(ranks)
		}
		r.IntN(4)
		if e > 0 {
			r.IntN(2)
		}
		r.IntN(2)
	}
	return sum
}

func TestRandomPrograms(t *testing.T) {
	t.Logf("seed %d, %d programs", *seed, *programs)
	for n := *seed; n < *seed+uint64(*programs); n++ {
		ranks := 1 + int(n%5)
		done.Store(0)
		if err := amt.RunLocal(ranks, program(n, ranks)); err != nil {
			t.Fatalf("program %d on %d ranks: %v", n, ranks, err)
		}
		if w := want(n, ranks); done.Load() != w {
			t.Fatalf("program %d on %d ranks: %d, want %d", n, ranks, done.Load(), w)
		}
	}
}

// TestNeverEarly looks at the sum at the moment when an epoch is told over.
func TestNeverEarly(t *testing.T) {
	for n := *seed; n < *seed+uint64(*programs); n++ {
		ranks := 2 + int(n%4)
		done.Store(0)
		err := amt.RunLocal(ranks, func(c amt.Context) error {
			r := rand.New(rand.NewPCG(n, 3))
			var sum uint64
			for range 3 {
				var mine grow
				for rank := range ranks {
					g := grow{r.Uint64(), r.Int64N(12)}
					sum += g.sum(ranks)
					if rank == c.Rank() {
						mine = g
					}
				}
				err := c.Collective("all", func(c amt.Context) error {
					growing.Send(c, int(mine.Seed%uint64(ranks)), &mine)
					return nil
				}).Wait(c)
				if err != nil {
					return err
				}
				if done.Load() != sum {
					return fmt.Errorf("rank %d: %d when the epoch was told over, want %d", c.Rank(), done.Load(), sum)
				}
				if err := c.Collective("nobody goes on", func(amt.Context) error { return nil }).Wait(c); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("program %d: %v", n, err)
		}
	}
}
