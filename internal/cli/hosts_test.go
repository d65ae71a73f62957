package cli

import (
	"strings"
	"testing"
)

// TestOutward: agents are told an address that they can reach.
func TestOutward(t *testing.T) {
	for _, c := range []struct {
		found []string
		want  string // empty: there is none
	}{
		{[]string{"10.1.2.3"}, "10.1.2.3"},
		{[]string{"127.0.1.1", "10.1.2.3"}, "10.1.2.3"},
		{[]string{"::1", "fd00::1"}, "fd00::1"},
		{[]string{"127.0.1.1"}, ""},
		{[]string{"::1", "127.0.0.1"}, ""},
		{nil, ""},
	} {
		got, err := outward("me", c.found)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: found %q, %v, wanted %q", c.found, got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "its name me leads to "+strings.Join(c.found, ", ")) {
			t.Errorf("%v: %v", c.found, err)
		}
	}
}
