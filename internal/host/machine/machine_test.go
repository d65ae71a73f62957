package machine

import "testing"

// TestChecks: on a machine that runs the tests everything that is needed is there.
func TestChecks(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		t.Logf("%-14s %v %s", c.Name, c.OK, c.Detail)
		if c.Fatal || c.Name == "" || c.Detail == "" || seen[c.Name] {
			t.Errorf("check %+v", c)
		}
		seen[c.Name] = true
	}
}
