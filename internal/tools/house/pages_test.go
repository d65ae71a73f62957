package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	readmeBytes = 8 << 10 // of the page that decides whether to go on reading
	pageColumns = 140     // of a line that is no table's
	ownWords    = 20      // of the glossary, for which the field has none
)

// TestPages: the README is short, lines of pages are not long, and the indexes list every page below them.
func TestPages(t *testing.T) {
	if n := len(read(t, "README.md")); n > readmeBytes {
		t.Errorf("README.md: %d bytes, at most %d", n, readmeBytes)
	}
	for _, file := range files(t, ".md") {
		src := read(t, file)
		if generated(src) {
			continue
		}
		for i, line := range strings.Split(string(src), "\n") {
			if n := utf8.RuneCountInString(line); n > pageColumns && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d: %d columns, at most %d", file, i+1, n, pageColumns)
			}
		}
		dir := "docs"
		if filepath.Dir(file) == "docs/decisions" {
			dir = "docs/decisions"
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(name, "../") && name != "README.md" && !strings.Contains(string(read(t, dir+"/README.md")), "]("+name+")") {
			t.Errorf("%s/README.md: no link to %s", dir, name)
		}
	}
}

// TestAnchors follows links to headings, within a page and from page to page.
func TestAnchors(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)#([^)\s]+)\)`)
	for _, file := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(string(read(t, file)), -1) {
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				continue // TestLinks says so
			}
			if !slices.Contains(anchors(string(read(t, target))), m[2]) {
				t.Errorf("%s: link to %s: no heading #%s", file, target, m[2])
			}
		}
	}
}

// anchors are the names that a code host gives to the headings of a page, without those that occur twice.
func anchors(page string) []string {
	var list []string
	code := false
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if text := strings.TrimLeft(line, "#"); !code && text != line && strings.HasPrefix(text, " ") {
			name := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			list = append(list, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return list
}

// TestOwnWords: of words that only we use, and for which the field has no other, there are few, each with its reason.
func TestOwnWords(t *testing.T) {
	const heading = "## Words without another"
	_, section, found := strings.Cut(string(read(t, "docs/glossary.md")), heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| [^-].*\|$`).FindAllString(section, -1)
	if !found || len(rows) < 2 {
		t.Fatalf("docs/glossary.md: no table below %q", heading)
	}
	if rows = rows[1:]; len(rows) > ownWords {
		t.Errorf("docs/glossary.md: %d words without another, at most %d", len(rows), ownWords)
	}
	for _, row := range rows {
		if cells := strings.Split(strings.Trim(row, "| "), " | "); len(cells) != 3 {
			t.Errorf("docs/glossary.md: %q: %d cells, wanted a word, what it means, and why it has no other name", row, len(cells))
		}
	}
}
