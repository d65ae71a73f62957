package amt_test

import (
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

type number struct{ X uint64 }

var (
	sink  amt.Handler[number]
	chain amt.Handler[number]
)

func init() {
	sink.Is(func(_ amt.Context, m *number) { m.X++ })
	chain.Is(func(c amt.Context, m *number) {
		if m.X > 0 {
			chain.Send(c, (c.Rank()+1)%c.Ranks(), &number{m.X - 1})
		}
	})
}

// one runs a benchmark on rank 0 of n.
func one(b *testing.B, n int, body func(c amt.Context) error) {
	err := amt.RunLocal(n, func(c amt.Context) error {
		if c.Rank() == 0 {
			b.ResetTimer()
		}
		err := c.Collective("bench", func(c amt.Context) error {
			if c.Rank() == 0 {
				return body(c)
			}
			return nil
		}).Wait(c)
		if c.Rank() == 0 {
			b.StopTimer()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkLocal(b *testing.B) {
	one(b, 1, func(c amt.Context) error {
		for i := range b.N {
			sink.Send(c, 0, &number{uint64(i)})
		}
		return nil
	})
}

func BenchmarkLocalChain(b *testing.B) {
	one(b, 1, func(c amt.Context) error { chain.Send(c, 0, &number{uint64(b.N)}); return nil })
}

func BenchmarkRemote(b *testing.B) {
	one(b, 2, func(c amt.Context) error {
		for i := range b.N {
			sink.Send(c, 1, &number{uint64(i)})
		}
		return nil
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	one(b, 2, func(c amt.Context) error { chain.Send(c, 1, &number{uint64(2 * b.N)}); return nil })
}

func BenchmarkRooted(b *testing.B) {
	one(b, 1, func(c amt.Context) error {
		for range b.N {
			if err := c.Rooted("empty", func(amt.Context) error { return nil }).Wait(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkCollective(b *testing.B) {
	err := amt.RunLocal(2, func(c amt.Context) error {
		for range b.N {
			if err := c.Collective("empty", func(amt.Context) error { return nil }).Wait(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
