// Package random makes programs of tasks that are random but for their result, which follows from their seed.
//
// It guarantees that the same seed and number of ranks give the same program, and that one which returns no error has done
// all that it should, and nothing else, at every moment when an epoch was told over.
package random

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/byssus-hpc/byssus/amt"
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
	Blob  []byte // every byte follows from its place and the length: some are longer than a batch
}

// A slab is the same, in a message that lies in memory and is longer than a batch.
type slab struct {
	Sub  grow
	Fill [2500]uint64 // all the seed
}

// blob makes one, of a length that follows from a seed.
func blob(seed uint64) []byte {
	sizes := []uint64{0, 1, 100, 16000, 16384, 20000, 300_000}
	b := make([]byte, sizes[seed%uint64(len(sizes))]+seed>>8%64)
	for i := range b {
		b[i] = byte(i*7 + len(b))
	}
	return b
}

func whole(b []byte) bool {
	for i, v := range b {
		if v != byte(i*7+len(b)) {
			return false
		}
	}
	return true
}

var (
	growing amt.Handler[grow]
	naming  amt.Handler[named]
	leaf    amt.Handler[grow]
	slabs   amt.Handler[slab]
	nothing amt.Handler[grow] // may be handled or not
)

// done is the sum of what the messages of a program have done, by rank; a process runs one program at a time.
var done = new([most]atomic.Uint64)

// most is how many ranks a program may have.
const most = 64

// sums adds numbers of all ranks.
var sums = new(amt.Reduction[uint64])

func init() {
	growing.Is(func(c amt.Context, m *grow) { m.branch(c, m.play(c)) })
	naming.Is(func(c amt.Context, m *named) {
		if len(m.Name) != len(m.Inner) || !whole(m.Blob) {
			c.Fail(fmt.Errorf("%d letters for %d; the blob of %d bytes is whole: %v", len(m.Name), len(m.Inner), len(m.Blob), whole(m.Blob)))
		}
		for _, in := range m.Inner {
			growing.Send(c, int(in.Seed%uint64(c.Ranks())), &in)
		}
	})
	slabs.Is(func(c amt.Context, m *slab) {
		for i, v := range m.Fill {
			if v != m.Sub.Seed {
				c.Fail(fmt.Errorf("word %d of a slab is %#x, want %#x", i, v, m.Sub.Seed))
			}
		}
		growing.Send(c, int(m.Sub.Seed%uint64(c.Ranks())), &m.Sub)
	})
	leaf.Is(func(c amt.Context, m *grow) { done[c.Rank()].Add(m.Seed | 1) })
	nothing.Is(func(amt.Context, *grow) {})
	sums.Is(func(a, b uint64) uint64 { return a + b })
}

// A branch is what a message does with a part of what is left.
type branch struct {
	how int
	to  uint64
	sub grow
}

// play adds what the message itself does, and returns its branches.
func (m *grow) play(c amt.Context) []branch {
	done[c.Rank()].Add(m.Seed | 1)
	return m.branches()
}

func (m *grow) branches() []branch {
	r := rand.New(rand.NewPCG(m.Seed, 1))
	var list []branch
	for left := m.Size; left > 0; {
		part := 1 + r.Int64N(left)
		left -= part
		list = append(list, branch{r.IntN(20), r.Uint64(), grow{r.Uint64(), part - 1}})
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
				done[c.Rank()].Add(-(sub.Seed ^ 2 | 1))
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
			naming.Send(c, to, &named{"x", []grow{sub}, blob(sub.Seed)})
		case 4: // to all
			leaf.Broadcast(c, &grow{Seed: b.to})
			growing.Send(c, to, &sub)
		case 5: // a long one
			s := slab{Sub: sub}
			for i := range s.Fill {
				s.Fill[i] = sub.Seed
			}
			slabs.Send(c, to, &s)
		case 6: // one with a priority
			growing.SendAt(c, to, &sub, amt.Priority(b.to>>32))
		case 7: // a task that says what follows
			c.Go("follows", func(c amt.Context) error {
				c.Rooted("of a task", func(amt.Context) error { return nil }).OnDone(c, func(c amt.Context) { growing.Send(c, to, &sub) })
				return nil
			})
		case 8: // a task that has an epoch fail, and asks for that when something else is done
			c.Go("fails", func(c amt.Context) error {
				bad := c.Rooted("bad", func(c amt.Context) error { return failure(c, to) })
				err := c.Rooted("good", func(c amt.Context) error { growing.Send(c, to, &sub); return nil }).Wait(c)
				if b.to%2 == 0 {
					bad = c.Rooted("after a bad one", func(amt.Context) error { return nil }, amt.After(bad))
				}
				return errors.Join(err, failed(bad.Wait(c)))
			})
		default:
			growing.Send(c, to, &sub)
		}
	}
}

var errBad = errors.New("it is bad")

// failure is an epoch's that fails while a message of it is under way.
func failure(c amt.Context, to int) error {
	nothing.Send(c, to, &grow{})
	return errBad
}

// failed makes sure that an epoch has failed so.
func failed(err error) error {
	if err == nil || !strings.Contains(err.Error(), errBad.Error()) {
		return fmt.Errorf("an epoch that should fail: %w", err)
	}
	return nil
}

// Program is a random program: epochs that are collective or rooted, nested or chained, of trees of messages. It compares
// what was done with what follows from its seed, when all is done and at every end of a collective epoch by which nothing
// else may be under way.
func Program(seed uint64, ranks int) func(amt.Context) error {
	return func(c amt.Context) error {
		done[c.Rank()].Store(0)
		if err := c.Collective("begin", func(amt.Context) error { return nil }).Wait(c); err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(seed, 2)) // the same on all ranks
		var before *amt.Epoch
		var sum uint64
		epochs := 1 + r.IntN(4)
		for e := range epochs {
			var mine grow
			for rank := range ranks {
				g := grow{r.Uint64(), r.Int64N(30)}
				sum += g.sum(ranks)
				if rank == c.Rank() {
					mine = g
				}
			}
			if mine.Seed%3 == 0 {
				c.Poll()
			}
			var bad *amt.Epoch
			if who := r.IntN(4 * ranks); who < ranks { // one rank fails, and all ask for that later
				bad = c.Collective("bad", func(c amt.Context) error {
					if c.Rank() != who {
						return nil
					}
					return failure(c, int(mine.Seed%uint64(ranks)))
				})
			}
			before = begin(c, r, fmt.Sprint("epoch ", e), &mine, before)
			if bad != nil && r.IntN(2) == 0 {
				if err := failed(bad.Wait(c)); err != nil {
					return err
				}
				bad = nil
			}
			if r.IntN(2) == 0 || e == epochs-1 {
				if err := before.Wait(c); err != nil {
					return err
				}
				before = nil
				if err := look(c, sum); err != nil {
					return fmt.Errorf("program %d, epoch %d: %w", seed, e, err)
				}
			}
			if bad != nil {
				if err := failed(bad.Wait(c)); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// begin begins one of its epochs.
func begin(c amt.Context, r *rand.Rand, label string, mine *grow, before *amt.Epoch) *amt.Epoch {
	body := func(c amt.Context) error {
		growing.Send(c, int(mine.Seed%uint64(c.Ranks())), mine)
		return nil
	}
	kind := r.IntN(4)
	var opts []amt.EpochOption
	if chained := r.IntN(2) == 0; chained && before != nil {
		opts = append(opts, amt.After(before))
	} else if before != nil {
		inner := body
		body = func(c amt.Context) error { return errors.Join(inner(c), before.Wait(c)) }
	}
	switch kind {
	case 0:
		return c.Rooted(label, body, opts...)
	case 1:
		return c.Collective(label, func(c amt.Context) error { return c.Rooted("inner", body).Wait(c) }, opts...)
	}
	return c.Collective(label, body, opts...)
}

// look compares what all ranks have done.
func look(c amt.Context, want uint64) error {
	// A rank whose rooted epoch is over may come here while others' are not.
	if err := c.Collective("all are here", func(amt.Context) error { return nil }).Wait(c); err != nil {
		return err
	}
	got, err := sums.All(c, done[c.Rank()].Load())
	if err == nil && got != want {
		err = fmt.Errorf("rank %d: %d was done, want %d", c.Rank(), got, want)
	}
	return err
}

// Any tells all ranks whether one of them says so.
func Any(c amt.Context, so bool) (bool, error) {
	var n uint64
	if so {
		n = 1
	}
	sum, err := sums.All(c, n)
	return sum > 0, err
}
