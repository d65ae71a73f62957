// Command edges sends messages whose records are about as long as a batch, in all ways there are, and has ranks enter an operation of all
// while much more is on its way to them than the transport takes.
package main

import (
	"errors"
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

const (
	near = 72 // sizes that far below and above a batch
	step = 3
)

// A count is what has come to a rank.
type count struct{ messages, bytes, floods int }

var (
	had   amt.Local[count]
	texts amt.Handler[[]byte]
	flood amt.Handler[[1000]uint64]
	all   amt.Reduction[int]
)

func init() {
	texts.Is(func(c amt.Context, m *[]byte) {
		for i, v := range *m {
			if v != byte(i*7+len(*m)) {
				c.Fail(fmt.Errorf("byte %d of %d is %d", i, len(*m), v))
				return
			}
		}
		n := had.Of(c)
		n.messages++
		n.bytes += len(*m)
	})
	flood.Is(func(c amt.Context, m *[1000]uint64) {
		if m[0] != m[999] {
			c.Fail(errors.New("a message is not whole"))
		}
		had.Of(c).floods++
	})
	all.Is(func(a, b int) int { return a + b })
}

func text(n int) *[]byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + n)
	}
	return &b
}

// lengths are about those of a batch, of each transport.
func lengths() []int {
	var list []int
	for _, batch := range []int{8 << 10, 16 << 10} {
		for n := batch - near; n < batch+near; n += step {
			list = append(list, n)
		}
	}
	return list
}

// sizes sends a message of each size to the next rank in every way, and to all.
func sizes(c amt.Context) (messages, bytes int, err error) {
	next := (c.Rank() + 1) % c.Ranks()
	before := c.Collective("before", func(amt.Context) error { return nil })
	gated := c.Collective("gated", func(c amt.Context) error {
		for _, n := range lengths() {
			texts.Send(c, next, text(n))
		}
		return nil
	}, amt.After(before))
	err = c.Collective("sizes", func(c amt.Context) error {
		for _, n := range lengths() {
			messages += 4 + c.Ranks()
			bytes += n * (4 + c.Ranks())
			texts.Send(c, next, text(n))
			texts.SendAt(c, next, text(n), amt.Priority(n%3))
			texts.Broadcast(c, text(n))
			c.Go("send", func(c amt.Context) error { texts.Send(c, next, text(n)); return nil })
		}
		return nil
	}).Wait(c)
	return messages, bytes, errors.Join(err, gated.Wait(c))
}

// floods sends much to every rank, and asks for an operation while it is on its way.
func floods(c amt.Context, s *amt.Scope, each int) error {
	sum := []int{1}
	err := c.Collective("floods", func(c amt.Context) error {
		m := new([1000]uint64)
		for n := range each {
			m[0], m[999] = uint64(n), uint64(n)
			flood.Send(c, (c.Rank()+n)%c.Ranks(), m)
		}
		s.Do(c, func(comm *mpi.Comm) error { return mpi.Allreduce(comm, nil, sum, mpi.Sum) })
		return nil
	}).Wait(c)
	if err == nil && sum[0] != c.Ranks() {
		err = fmt.Errorf("a sum of %d", sum[0])
	}
	return err
}

func main() {
	amt.Main(func(c amt.Context) error {
		s, err := c.Scope("s")
		if err != nil {
			return err
		}
		messages, bytes, err := sizes(c)
		if err != nil {
			return err
		}
		const each, times = 1000, 3
		for range times {
			if err := floods(c, s, each); err != nil {
				return err
			}
		}
		n := had.Of(c)
		wrong := 0
		if n.messages != messages || n.bytes != bytes {
			wrong = 1
		}
		missing, err := all.All(c, each*times-n.floods)
		if err != nil {
			return err
		}
		if wrong, err = all.All(c, wrong); err == nil && wrong+missing != 0 {
			err = fmt.Errorf("rank %d: %d messages of %d bytes, want %d of %d; %d of all floods are missing", c.Rank(), n.messages, n.bytes, messages, bytes, missing)
		}
		if err == nil && c.Rank() == 0 {
			fmt.Println("all has come")
		}
		return err
	})
}
