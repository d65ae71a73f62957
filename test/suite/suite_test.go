package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlaky: what fails once is run again, does not fail the suite, is listed last, and its log is kept; what fails again does.
func TestFlaky(t *testing.T) {
	for _, always := range []string{"", "yes"} {
		dir := t.TempDir()
		t.Setenv("FLAKY_FILE", filepath.Join(dir, "file"))
		t.Setenv("FLAKY_ALWAYS", always)
		var out bytes.Buffer
		err := suite([]phase{{name: "some", packages: []string{"./testdata/flaky"}}}, filepath.Join(dir, "kept"), "../budget.txt", &out)
		if always == "" && err != nil || always != "" && !errors.Is(err, errFailed) {
			t.Errorf("always=%q: found %v\n%s", always, err, out.String())
		}
		_, end, _ := strings.Cut(out.String(), "FLAKY ")
		if !strings.HasPrefix(end, "test/suite/testdata/flaky TestOnce/sub: failed, and passed") || strings.Contains(end, "TestAlways") {
			t.Errorf("found %q last", end)
		}
		if !strings.Contains(out.String(), "skipped: test/suite/testdata/flaky TestSkips: SKIP: nothing to do\n\n1 tests were skipped") {
			t.Errorf("does not say what was skipped and why:\n%s", out.String())
		}
		log, err := os.ReadFile(filepath.Join(dir, "kept/flaky/test-suite-testdata-flaky.TestOnce-sub.log"))
		if err != nil || !strings.Contains(string(log), "the first time is the wrong time") {
			t.Errorf("found %q, %v, wanted the log of the run that failed", log, err)
		}
	}
}

// TestCosts: a test costs what its share of the machine was, also if that was for its subtests, or half of its time.
func TestCosts(t *testing.T) {
	events := filepath.Join(t.TempDir(), "events.json")
	text := `{"Action":"output","Package":"github.com/byssus-hpc/byssus/p","Test":"A/x","Output":"    share: waited 3.00 s, held 4.00 s, 1 of 4 units\\n"}
{"Action":"pass","Package":"github.com/byssus-hpc/byssus/p","Test":"A/x","Elapsed":7}
{"Action":"pass","Package":"github.com/byssus-hpc/byssus/p","Test":"A","Elapsed":7}
{"Action":"pass","Package":"github.com/byssus-hpc/byssus/p","Test":"B","Elapsed":5}
{"Action":"pass","Package":"github.com/byssus-hpc/byssus/p","Test":"C/x","Elapsed":3}
{"Action":"pass","Package":"github.com/byssus-hpc/byssus/p","Test":"C/y","Elapsed":3}
{"Action":"output","Package":"github.com/byssus-hpc/byssus/p","Test":"C","Output":"    share: waited 0.00 s, held 4.00 s, 1 of 4 units\n"}
{"Action":"pass","Package":"github.com/byssus-hpc/byssus/p","Test":"C","Elapsed":4}
{"Action":"pass","Package":"github.com/byssus-hpc/byssus/p","Elapsed":12}
`
	if err := os.WriteFile(events, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var r results
	if err := r.read(events); err != nil {
		t.Fatal(err)
	}
	if costs := r.top()["p"]; len(costs) != 3 || costs["A"] != 1 || costs["B"] != 2.5 || costs["C"] != 1 {
		t.Errorf("found %v, wanted A 1, B 2.5, C 1", costs)
	}
	if s := r.slowest(1)[0]; s.Test != "B" || s.Seconds != 5 {
		t.Errorf("found %s with %.1f s as the slowest, wanted B with 5", s.Test, s.Seconds)
	}
}
