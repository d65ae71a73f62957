package faults

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if v := os.Getenv("FAULTS_TEST_HIT"); v != "" {
		s, err := Parse(v, "")
		if err != nil {
			os.Exit(2)
		}
		s.Hit(DrainSent)
		s.Hit(CommitRenamed)
		s.Hit(CommitRenamed)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestHit runs itself with a point armed and sees how it ends.
func TestHit(t *testing.T) {
	for value, dies := range map[string]bool{
		"commit-renamed": true, "commit-renamed:2": true, "commit-renamed:3": false, "drain-sent:2": false, "rank-image": false,
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FAULTS_TEST_HIT="+value)
		err := cmd.Run()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if killed != dies {
			t.Errorf("%s: killed %v, want %v (%v)", value, killed, dies, err)
		}
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"nothing", "commit-renamed:0", "commit-renamed:x", ":1"} {
		if _, err := Parse(bad, ""); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if s, err := Parse("", ""); s != nil || err != nil {
		t.Error(s, err)
	}
	var none *Set
	none.Hit(DrainSent)
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All {
		if seen[p.Name] || p.Doc == "" || p.Side != Rank && p.Side != Coord && p.Side != Agent {
			t.Errorf("point %+v", p)
		}
		seen[p.Name] = true
	}
}

func TestForRanks(t *testing.T) {
	for _, c := range []struct {
		value   string
		start   int
		restart bool
		before  int
		want    string
	}{
		{"rank-image:2@1", 0, false, 0, "rank-image:2@1"},
		{"rank-image:2@1", 1, true, 0, ""},
		{"rank-mapped", 0, false, 0, ""},
		{"rank-mapped", 1, true, 0, "rank-mapped"},
		{"rank-mapped", 2, true, 1, ""},
		{"commit-synced", 0, false, 0, ""},
		{"", 0, false, 0, ""},
	} {
		if got := ForRanks(c.value, c.start, c.restart, c.before); got != c.want {
			t.Errorf("ForRanks(%q, %d, %v, %d) = %q, want %q", c.value, c.start, c.restart, c.before, got, c.want)
		}
	}
}
