package amt_test

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

type vote struct{}

var (
	cast  amt.Handler[vote]
	tell  amt.Handler[vote]
	votes amt.Local[int]
)

func init() {
	cast.Is(func(c amt.Context, _ *vote) { *votes.Of(c)++ })
	tell.Is(func(c amt.Context, _ *vote) { fmt.Println(*votes.Of(c), "votes") })
}

// The second epoch is begun while the first runs. Its message leaves when all votes have been cast, on all ranks.
func ExampleAfter() {
	err := amt.RunLocal(4, func(c amt.Context) error {
		poll := c.Collective("poll", func(c amt.Context) error {
			for range 25 {
				cast.Send(c, 0, &vote{})
			}
			return nil
		})
		return c.Collective("count", func(c amt.Context) error {
			if c.Rank() == c.Ranks()-1 {
				tell.Send(c, 0, &vote{})
			}
			return nil
		}, amt.After(poll)).Wait(c)
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 100 votes
}
