package amtcheck_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/byssus-hpc/byssus/amt/amtcheck"
)

// TestMisuse runs the analyzer over functions that misuse package amt, each in one way, which their want comments name.
func TestMisuse(t *testing.T) {
	for _, family := range []string{"context", "stored", "captured", "kept", "shared", "role", "elements"} {
		t.Run(family, func(t *testing.T) {
			analysistest.Run(t, analysistest.TestData(), amtcheck.Analyzer, "bad/"+family)
		})
	}
}

// TestGood runs the analyzer over programs in different styles; it has nothing to say about them.
func TestGood(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), amtcheck.Analyzer, "good/...")
}
