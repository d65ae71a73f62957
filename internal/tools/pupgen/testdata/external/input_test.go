package external_test

import (
	"testing"

	"github.com/byssus-hpc/byssus/internal/tools/pupgen/testdata/external"
)

//pup:generate
type fixture struct {
	At    external.Point
	Names []string
}

func TestNothing(t *testing.T) { _ = fixture{} }
