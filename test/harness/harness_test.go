package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const line = "R 0 3 coll 0123456789abcdef "

func checked(body string) string { return body + " " + checkOf(body) }

func TestResultsTakeWholeLines(t *testing.T) {
	good := checked(strings.TrimSpace(line))
	other := checked("R 1 3 coll 0123456789abcdef")
	r := Results{}
	if err := r.Add("noise\n" + good + "\nR 1 3 coll 0123456789ab" + good + "\n" + other[:len(other)-1] + "\n"); err != nil {
		t.Fatal(err)
	}
	if len(r) != 1 || r[Key{0, 3, "coll"}] != "0123456789abcdef" {
		t.Errorf("found %v, want the one whole line", r)
	}
}

func TestResultsRefuseTwoValues(t *testing.T) {
	r := Results{}
	err := r.Add(checked("R 0 3 coll 0123456789abcdef") + "\n" + checked("R 0 3 coll 0123456789abcdee") + "\n")
	if err == nil || !strings.Contains(err.Error(), "0123456789abcdee") {
		t.Errorf("found %v, want an error that names the second value", err)
	}
}

func TestCompare(t *testing.T) {
	want := Results{{0, 1, "a"}: "1", {0, 2, "a"}: "2"}
	for _, c := range []struct {
		found Results
		says  string
	}{
		{Results{{0, 1, "a"}: "1", {0, 2, "a"}: "2"}, ""},
		{Results{{0, 1, "a"}: "1"}, "1 missing"},
		{Results{{0, 1, "a"}: "1", {0, 2, "a"}: "3"}, "1 wrong"},
		{Results{{0, 1, "a"}: "1", {0, 2, "a"}: "2", {1, 1, "a"}: "1"}, "1 never printed natively"},
	} {
		err := c.found.Compare(want)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: found %v, want %q", c.found, err, c.says)
		}
	}
}

func TestProgress(t *testing.T) {
	text := "iter 0\niter 1\nR 0 1 x\niter 1\nthis is iter 9\n"
	if n := progress(text); n != 3 {
		t.Errorf("found %d progress lines, want 3", n)
	}
	if n := LastIteration(text); n != 1 {
		t.Errorf("found iteration %d, want 1", n)
	}
	if n := progress(""); n != 0 {
		t.Errorf("found %d progress lines, want none", n)
	}
}

func TestProcEndsWithItsDescendants(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := Start(ctx, t.TempDir(), Environment(), "/bin/sh", "-c", "sleep 1000 & echo iter 1; sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Until(ctx, "a line", func(s string) bool { return progress(s) == 1 }); err != nil {
		t.Fatal(err)
	}
	below := Descendants(p.Pid())
	if len(below) == 0 {
		t.Fatal("found no descendants, want the sleeps")
	}
	p.Kill()
	for _, d := range below {
		if err := Poll(ctx, "its end", func() bool { return !d.alive() }); err != nil {
			t.Errorf("pid %d: %v", d.Pid, err)
		}
	}
	if p.ExitCode() != 128+9 {
		t.Errorf("exit code %d, want 137", p.ExitCode())
	}
	if err := p.Until(ctx, "more", func(string) bool { return false }); !errors.Is(err, ErrEnded) {
		t.Errorf("found %v, want %v", err, ErrEnded)
	}
}

func TestOrphansAreKnownByTheirMark(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(t.TempDir(), "orterun")
	if err := os.WriteFile(launcher, sleep, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := Start(ctx, t.TempDir(), Environment("WORK=here"), launcher, "1000")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if err := Poll(ctx, "the launcher", func() bool { return len(Orphans("WORK=here")) == 1 }); err != nil {
		t.Fatal(err)
	}
	KillOrphans("WORK=her")
	Site{}.NewJob("another", t.TempDir()).Close() // what others run beside a job does not end with it
	if n, other := len(Orphans("WORK=here")), len(Orphans("WORK=her")); n != 1 || other != 0 {
		t.Errorf("found %d with its mark and %d with another, want 1 and 0", n, other)
	}
	KillOrphans("WORK=here")
	if n := len(Orphans("WORK=here")); n != 0 {
		t.Errorf("found %d after the kill, want none", n)
	}
}
