package amt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
)

// A ledger is what each rank has.
type ledger struct {
	Rows []uint64
	Name string
}

var (
	ledgers amt.Group[ledger]
	fixed   amt.Group[uint64]
	rows    amt.Reduction[[]uint64]
)

func init() {
	ledgers.Is("ledgers", func(into, other *ledger) {
		into.Rows, into.Name = append(into.Rows, other.Rows...), into.Name+"+"+other.Name
	}, func(of *ledger, n int) (all []ledger) {
		for i := range n {
			all = append(all, ledger{of.Rows[i*len(of.Rows)/n : (i+1)*len(of.Rows)/n], fmt.Sprintf("%s/%d", of.Name, i)})
		}
		return all
	})
	fixed.Is("fixed", nil, nil)
	rows.Is(func(a, b []uint64) []uint64 { return append(slices.Clip(a), b...) })
}

// TestGroup: what ranks have is theirs again on as many, merged on fewer, and split on more, in the order of ranks; elements beside it are
// restored as well.
func TestGroup(t *testing.T) {
	counts := []int{1, 2, 3, 4, 7}
	for _, from := range counts {
		for _, to := range counts {
			store := amt.Directory(t.TempDir())
			amttest.Run(t, from, func(c amt.Context) error {
				l := ledgers.Of(c)
				l.Name = fmt.Sprint(c.Rank())
				for k := c.Rank() * 210 / from; k < (c.Rank()+1)*210/from; k++ {
					l.Rows = append(l.Rows, uint64(k*k))
				}
				if err := workers.Create(c, amt.Index1{X: 5}, func(i amt.Index1) (worker, error) { return worker{i.X}, nil }); err != nil {
					return err
				}
				return amt.Save(c, store, &workers, &ledgers)
			})
			amttest.Run(t, to, func(c amt.Context) error {
				if found, err := amt.Restore(c, store, &workers, &ledgers); err != nil || !found {
					return fmt.Errorf("%v, %w", found, err)
				}
				l := ledgers.Of(c)
				if from == to && l.Name != fmt.Sprint(c.Rank()) || from > to && !strings.HasPrefix(l.Name, fmt.Sprint((c.Rank()*from+to-1)/to)) {
					return fmt.Errorf("%d to %d: rank %d has that of %s", from, to, c.Rank(), l.Name)
				}
				all, err := rows.All(c, l.Rows)
				for k := range all {
					if all[k] != uint64(k*k) {
						return fmt.Errorf("%d to %d: row %d is %d", from, to, k, all[k])
					}
				}
				if err == nil && len(all) != 210 {
					err = fmt.Errorf("%d to %d: %d rows", from, to, len(all))
				}
				return err
			})
		}
	}
}

// TestGroupWrong: what cannot be restored is an error on all ranks, and changes nothing.
func TestGroupWrong(t *testing.T) {
	store := amt.Directory(t.TempDir())
	amttest.Run(t, 3, func(c amt.Context) error {
		*fixed.Of(c) = uint64(c.Rank())
		return amt.Save(c, store, &fixed)
	})
	for ranks, want := range map[int]string{
		2: `the group "fixed" was saved on 3 ranks, here are 2: it is not said how it is merged`,
		4: `the group "fixed" was saved on 3 ranks, here are 4: it is not said how it is split`,
		3: "",
	} {
		err := amttest.Try(t, ranks, func(c amt.Context) error {
			*fixed.Of(c) = 99
			_, err := amt.Restore(c, store, &fixed)
			if v := *fixed.Of(c); err != nil && v != 99 || err == nil && v != uint64(c.Rank()) {
				return fmt.Errorf("rank %d has %d", c.Rank(), v)
			}
			return err
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d ranks: %v, wanted %q", ranks, err, want)
		}
	}
	var none amt.Group[uint64]
	err := amttest.Try(t, 2, func(c amt.Context) error { return amt.Save(c, store, &none) })
	if err == nil || !strings.Contains(err.Error(), "a group: ") {
		t.Errorf("found %v", err)
	}
}
