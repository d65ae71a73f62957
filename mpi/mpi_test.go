package mpi_test

import (
	"testing"

	"github.com/byssus-hpc/byssus/mpi"
	"github.com/byssus-hpc/byssus/mpi/internal/battery"
)

func TestLocal(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 8} {
		if err := mpi.RunLocal(n, battery.Run); err != nil {
			t.Errorf("%d ranks: %v", n, err)
		}
	}
}
