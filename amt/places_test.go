package amt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

// TestPlaces: messages find elements however few places are remembered, and what is no number of places is an error.
func TestPlaces(t *testing.T) {
	visit := func(c amt.Context) error {
		if err := newStorm(c, 1); err != nil {
			return err
		}
		var err error
		for n := range uint64(3) { // what is learnt is used, and forgotten
			err = errors.Join(err, c.Phase(amt.Random(n)), c.Collective("visits", func(c amt.Context) error {
				for k := range stormExtent.X * stormExtent.Y {
					stormStep.Send(c, stormExtent.At(uint64(k)), &step{Left: 3, Move: 30})
				}
				return nil
			}).Wait(c))
		}
		return err
	}
	for _, good := range []string{"", "1", "4", "5", "1024", "1000000"} {
		t.Setenv(amt.PlacesVariable, good)
		if err := amt.RunLocal(3, visit); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"0", "-4", "many", "4K", "16777217", "99999999999999999999"} {
		t.Setenv(amt.PlacesVariable, bad)
		want := fmt.Sprintf("amt: %s=%s: a number of places is wanted, such as 1024: at least 1", amt.PlacesVariable, bad)
		if err := amt.RunLocal(2, visit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, wanted %s", err, want)
		}
	}
}
