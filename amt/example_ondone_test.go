package amt_test

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

type query struct{ Number int }

var (
	ask    amt.Handler[query]
	search amt.Handler[query]
	found  amt.Handler[query]
	answer amt.Handler[query]

	divisors amt.Local[int]
)

func init() {
	// The rank that is asked has all ranks search. Its handler does not wait: it says what comes when they have.
	ask.Is(func(c amt.Context, m *query) {
		asker := c.From()
		c.Rooted("search", func(c amt.Context) error {
			search.Broadcast(c, m)
			return nil
		}).OnDone(c, func(c amt.Context) {
			answer.Send(c, asker, &query{*divisors.Of(c)})
		})
	})
	search.Is(func(c amt.Context, m *query) {
		for d := 1 + c.Rank(); d <= m.Number; d += c.Ranks() {
			if m.Number%d == 0 {
				found.Send(c, c.From(), &query{d})
			}
		}
	})
	found.Is(func(c amt.Context, _ *query) { *divisors.Of(c)++ })
	answer.Is(func(_ amt.Context, m *query) { fmt.Println(m.Number, "divisors") })
}

// A handler begins an epoch of its own and goes on when that is over.
func ExampleEpoch_OnDone() {
	err := amt.RunLocal(4, func(c amt.Context) error {
		if c.Rank() != 0 {
			return nil // the rank still handles messages
		}
		return c.Rooted("question", func(c amt.Context) error {
			ask.Send(c, 3, &query{360})
			return nil
		}).Wait(c) // for the search and the answer too
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 24 divisors
}
