package amt_test

import (
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/amt"
)

// A greeting may have strings, slices and maps.
type greeting struct{ Text string }

var (
	greet amt.Handler[greeting]
	heard amt.Local[[]string] // every rank has its own
)

func init() {
	greet.Is(func(c amt.Context, m *greeting) {
		list := heard.Of(c)
		*list = append(*list, m.Text)
	})
}

// Every rank sends a message to rank 0. When the epoch is over, all have come, in any order.
func ExampleHandler_Send() {
	err := amt.RunLocal(3, func(c amt.Context) error {
		err := c.Collective("greetings", func(c amt.Context) error {
			greet.Send(c, 0, &greeting{fmt.Sprintf("hello from rank %d", c.Rank())})
			return nil
		}).Wait(c)
		for _, text := range slices.Sorted(slices.Values(*heard.Of(c))) {
			fmt.Println(text)
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// hello from rank 0
	// hello from rank 1
	// hello from rank 2
}
