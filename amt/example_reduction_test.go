package amt_test

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
)

type span struct{ Low, High int }

var around amt.Reduction[span]

func init() {
	around.Is(func(a, b span) span { return span{min(a.Low, b.Low), max(a.High, b.High)} })
}

// All ranks combine what each of them has, and all get the result.
func ExampleReduction_All() {
	err := amt.RunLocal(5, func(c amt.Context) error {
		n := (c.Rank() - 2) * (c.Rank() - 1) // 2 0 0 2 6
		s, err := around.All(c, span{n, n})
		if c.Rank() == 1 {
			fmt.Printf("from %d to %d\n", s.Low, s.High)
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: from 0 to 6
}
