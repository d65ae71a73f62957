package house

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedCodeIsCurrent runs the generators and asks that they would change nothing. The man pages are
// checked by the tests of internal/cli, what pupgen writes by the tests of the packages that it is written into.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	run(t, "go", "run", "./cmd/mpistubgen", "-check", "-root", ".")
	run(t, "go", "run", "./internal/tools/ledger/genledger", "-check", "-root", ".")

	methods := filepath.Join(t.TempDir(), "msgp_gen.go")
	runIn(t, "bench/pup", "go", "tool", "msgp", "-file", "models.go", "-io=false", "-tests=false", "-o", methods)
	same(t, "bench/pup/msgp_gen.go", methods, "bench/pup/models.go")

	header := filepath.Join(t.TempDir(), "abi_gen.h")
	run(t, "go", "run", "./internal/wire/abi/gencheader", "-defs", "internal/wire/abi/defs.go", "-o", header)
	same(t, "rank/core/base/abi_gen.h", header, "internal/wire/abi")

	header = filepath.Join(t.TempDir(), "client_gen.h")
	run(t, "go", "run", "./internal/wire/abi/gencheader", "-package", "client", "-defs", "internal/wire/client/defs.go", "-o", header)
	same(t, "client/c/client_gen.h", header, "internal/wire/client")
}

// same compares a committed file with what its generator has just written.
func same(t *testing.T, committed, fresh, source string) {
	t.Helper()
	found, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(found, read(t, committed)) {
		t.Errorf("%s is not what %s says: make generate", committed, source)
	}
}
