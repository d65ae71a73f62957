// Command genman writes the man pages of byssus from its command tree, one page per verb.
//
// The pages are committed; a test of this package says when they are stale.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/byssus-hpc/byssus/internal/cli"
)

func main() {
	out := flag.String("o", "", "directory to write to")
	flag.Parse()
	if err := pages(*out); err != nil {
		fmt.Fprintln(os.Stderr, "genman:", err)
		os.Exit(1)
	}
}

// pages writes all pages into a directory.
func pages(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := cli.Root()
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	date := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
	return doc.GenManTree(root, &doc.GenManHeader{Title: "BYSSUS", Section: "1", Source: "byssus " + cli.Version, Manual: "Byssus", Date: &date}, dir)
}
