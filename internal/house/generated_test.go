package house

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedCodeIsCurrent runs the generators and asks that they would change nothing. The man pages are
// checked by the tests of internal/cli.
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
}
