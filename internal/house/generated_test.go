package house

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedCodeIsCurrent runs the generators and asks that they would change nothing.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	run(t, "go", "run", "./cmd/mpistubgen", "-check", "-root", ".")

	header := filepath.Join(t.TempDir(), "abi_gen.h")
	run(t, "go", "run", "./internal/abi/gencheader", "-defs", "internal/abi/defs.go", "-o", header)
	found, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(found, read(t, "rank/core/abi_gen.h")) {
		t.Error("rank/core/abi_gen.h is not what internal/abi says: make generate")
	}

	pages := t.TempDir()
	run(t, "go", "run", "./internal/cli/genman", "-o", pages)
	list, err := os.ReadDir(pages)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range list {
		want, err := os.ReadFile(filepath.Join(pages, page.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if found := read(t, filepath.Join("docs/man", page.Name())); !bytes.Equal(found, want) {
			t.Errorf("docs/man/%s is not what internal/cli says: make generate", page.Name())
		}
	}
}
