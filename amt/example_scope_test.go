package amt_test

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

type share struct{ Op, Value int64 }

var (
	combine amt.Handler[share]
	results amt.Local[[2]int64]
	safely  amt.Local[[2]*amt.Scope]
)

func init() {
	combine.Is(func(c amt.Context, m *share) {
		op, value := m.Op, []int64{m.Value} // the message is the handler's as long as it runs
		result := &results.Of(c)[op]
		safely.Of(c)[op].Do(c, func(comm *mpi.Comm) error {
			err := mpi.Allreduce(comm, nil, value, [...]mpi.Op{mpi.Sum, mpi.Max}[op])
			*result = value[0]
			return err
		})
	})
}

// Handlers ask for two collective operations of MPI, in another order on every other rank.
func ExampleScope_Do() {
	err := amt.RunLocal(4, func(c amt.Context) error {
		for n, label := range []string{"sums", "maxima"} {
			var err error
			if safely.Of(c)[n], err = c.Scope(label); err != nil {
				return err
			}
		}
		err := c.Collective("operations", func(c amt.Context) error {
			for n := range 2 {
				op := int64(n+c.Rank()) % 2
				combine.Send(c, c.Rank(), &share{op, int64(c.Rank())})
			}
			return nil
		}).Wait(c)
		if c.Rank() == 0 {
			fmt.Printf("sum %d, maximum %d\n", results.Of(c)[0], results.Of(c)[1])
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: sum 6, maximum 3
}
