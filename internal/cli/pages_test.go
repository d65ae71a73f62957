package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/cli"
)

// TestPages: each command of byssus that the README and the pages below docs show, on a line of its own or between backquotes, has a
// verb and flags that there are.
func TestPages(t *testing.T) {
	const root = "../.."
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commandsIn(string(text)) {
			shown++
			if err := known(c); err != nil {
				t.Errorf("%s: %q: %v", page, strings.Join(c, " "), err)
			}
		}
	}
	if shown < 30 {
		t.Errorf("%d commands in all pages: they are not found", shown)
	}
}

// commandsIn are the words of commands behind "byssus", as far as they are byssus's own.
func commandsIn(page string) [][]string {
	var found [][]string
	for _, m := range regexp.MustCompile("(?m)^ {4}(?:.*&& )?byssus ([^#\n]*)|`byssus ([^`\n]*)`").FindAllStringSubmatch(page, -1) {
		words := strings.Fields(m[1] + m[2])
		for i, w := range words {
			if w == "--" || w == "&&" || w == `\` {
				words = words[:i]
				break
			}
		}
		if len(words) > 0 && !strings.HasSuffix(words[0], ":") { // what byssus says begins with "byssus: "
			found = append(found, words)
		}
	}
	return found
}

// known says what of a command there is not.
func known(words []string) error {
	root := cli.Root()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err != nil || cmd.Name() == "help" {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 {
		return fmt.Errorf("no verb %s of %s", rest[0], cmd.Name())
	}
	cmd.InitDefaultHelpFlag()
	for _, w := range rest {
		name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
		if strings.HasPrefix(w, "-") && cmd.Flag(name) == nil && (len(name) != 1 || cmd.Flags().ShorthandLookup(name) == nil) {
			return fmt.Errorf("no flag %s of %s", w, cmd.Name())
		}
	}
	return nil
}
