package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/tools/pupgen"
	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/examples/internal/shown"
)

func TestPrintsWhatTheTextSays(t *testing.T) {
	var out strings.Builder
	if err := run(&out, nil); err != nil {
		t.Fatal(err)
	}
	shown.Output(t, "main.go", out.String())
}

// TestGenerated fails when go generate would change the committed methods.
func TestGenerated(t *testing.T) {
	var out strings.Builder
	if code := pupgen.Main([]string{"-check"}, &out, &out); code != 0 {
		t.Errorf("pupgen -check: exit code %d\n%s", code, &out)
	}
}

func TestCheck(t *testing.T) {
	s := NewSystem()
	for range 60 {
		s.Advance()
	}
	if err := pup.Check(s); err != nil {
		t.Error(err)
	}
}

// TestEveryStop restarts at many moments.
func TestEveryStop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.pup")
	for _, stop := range []string{"0", "1", "50", "399", "400"} {
		var out strings.Builder
		if err := run(&out, []string{"-file", file, "-steps", "400", "-stop", stop}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), "every bit is the same: true\n") {
			t.Errorf("stop at %s: %s", stop, &out)
		}
	}
}

// TestSkipped asks that a restored system finds its particles by number.
func TestSkipped(t *testing.T) {
	s, restored := NewSystem(), &System{}
	s.ByID(3)
	data, err := pup.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := pup.Unmarshal(data, restored); err != nil {
		t.Fatal(err)
	}
	if restored.byID != nil || restored.ByID(3).Place() != s.ByID(3).Place() {
		t.Errorf("found %v, want %v", restored.ByID(3), s.ByID(3))
	}
}
