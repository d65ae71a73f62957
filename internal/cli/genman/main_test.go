package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const committed = "../../../docs/man"

func TestPagesAreCurrent(t *testing.T) {
	fresh := t.TempDir()
	if err := pages(fresh); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(read(t, fresh), read(t, committed)); d != "" {
		t.Error("docs/man is stale (go generate ./internal/cli): fresh, committed:\n" + d)
	}
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "byssus*.1"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = string(b)
	}
	return out
}
