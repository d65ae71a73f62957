package pupcheck_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/byssus-hpc/byssus/pup/pupcheck"
)

// TestFaults runs the analyzer over types with one fault each, which their want comments name.
func TestFaults(t *testing.T) {
	for _, family := range []string{"missed", "direction", "state", "twice", "plain", "comments", "other", "across", "more", "dot", "loops", "narrow",
		"changed", "reset", "slip", "generated"} {
		t.Run(family, func(t *testing.T) {
			analysistest.Run(t, analysistest.TestData(), pupcheck.Analyzer, "bad/"+family+"/...")
		})
	}
}

// TestGood runs the analyzer over correct types in many styles; it has nothing to say about them.
func TestGood(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), pupcheck.Analyzer, "good/...")
}

// TestFixes applies the suggested fixes.
func TestFixes(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), pupcheck.Analyzer, "fixes")
}
