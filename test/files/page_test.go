package files

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestPage compiles the program of docs/files.md as it stands there, and runs it twice: the second time it has nothing left to do.
func TestPage(t *testing.T) {
	root, lib := here(t)
	page, err := os.ReadFile(filepath.Join(root, "docs/files.md"))
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?s)```c\n(.*?)```").FindSubmatch(page)
	if code == nil {
		t.Fatal("docs/files.md has no program")
	}
	harness.Share(t, harness.Spinning)
	for _, mpi := range harness.MPIs() {
		dir := t.TempDir()
		source, exe := filepath.Join(dir, "app.c"), filepath.Join(dir, "app")
		if err := os.WriteFile(source, code[1], 0o600); err != nil {
			t.Fatal(err)
		}
		compile(t, lib, "mpicc."+mpi, "-Wall", source, "-o", exe)
		for _, want := range []string{"step100", ""} {
			before, _ := filepath.Glob(filepath.Join(dir, "step*", "rank*"))
			run(t, dir, exe, mpi)
			after, _ := filepath.Glob(filepath.Join(dir, "step*", "rank*"))
			if want == "" && len(after) != len(before) {
				t.Errorf("%s: the second run has written %d files", mpi, len(after)-len(before))
			}
			if _, err := os.Stat(filepath.Join(dir, "step100", "rank1")); err != nil {
				t.Errorf("%s: %v", mpi, err)
			}
		}
	}
}

// run runs a program under byssus, with an agent that is none of the tests'.
func run(t *testing.T, dir, exe, mpi string) {
	t.Helper()
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	proc, err := harness.Start(ctx, dir, harness.Environment(), site.Byssus, "run", "--plain", "-n", "2", "--mpi", mpi, "--", exe)
	if err != nil {
		t.Fatal(err)
	}
	if code := proc.ExitCode(); code != 0 || strings.TrimSpace(proc.Stdout.String()) != "step 100" {
		t.Fatalf("%s: exit code %d: %s%s", mpi, code, proc.Stdout.String(), proc.Stderr.String())
	}
}
