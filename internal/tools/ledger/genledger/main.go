// Command genledger writes what is generated from the ledger of system calls: the table of the filter in rank/core, and
// docs/syscalls.md.
//
// It guarantees that the same ledger gives the same bytes.
//
//	genledger [-root dir]         write the files
//	genledger -check [-root dir]  fail if a file is not what would be written
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/tools/ledger"
)

func main() {
	root := flag.String("root", ".", "top of the source tree")
	check := flag.Bool("check", false, "only compare")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "genledger:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	calls, err := ledger.Load()
	if err != nil {
		return err
	}
	var errs []error
	for _, out := range []struct {
		path string
		text []byte
	}{
		{"rank/core/calls/filter_gen.h", header(calls)},
		{"docs/syscalls.md", document(calls)},
	} {
		path := filepath.Join(root, out.path)
		if !check {
			errs = append(errs, os.WriteFile(path, out.text, 0o644))
			continue
		}
		found, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(found, out.text) {
			err = fmt.Errorf("%s is not what internal/tools/ledger/x86_64.txt says: make generate", out.path)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
