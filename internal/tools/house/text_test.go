package house

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestForbiddenText looks for what must not be committed. The character classes keep this file from finding itself.
func TestForbiddenText(t *testing.T) {
	forbidden := []struct {
		re  *regexp.Regexp
		why string
	}{
		{regexp.MustCompile(`\b(TO[D]O|FI[X]ME|X[X]X|H[A]CK)\b`), "unfinished work is not committed"},
		{regexp.MustCompile(`(^|[\s"'=(:])/(ho[m]e|ro[o]t|wo[r]k|Us[e]rs)/[a-z]`), "a path of one machine"},
		{regexp.MustCompile(`(?i)\bissu[e] #?[0-9]`), "an issue's number says nothing to the reader"},
		{regexp.MustCompile(`(?i)\b(p[k]ill|k[i]llall)\b`), "end processes that you started, by pid"},
		{regexp.MustCompile(`^(<{7}|>{7}|={7})( |$)`), "a merge left this"},
	}
	for _, file := range files(t) {
		src := read(t, file)
		if !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0 || file == "LICENSE" || file == "go.sum" {
			continue
		}
		for n, line := range strings.Split(string(src), "\n") {
			for _, f := range forbidden {
				if m := f.re.FindString(line); m != "" {
					t.Errorf("%s:%d: %q: %s", file, n+1, m, f.why)
				}
			}
			if !strings.HasSuffix(file, ".md") && !generated(src) && strings.TrimRight(line, " \t") != line {
				t.Errorf("%s:%d: blanks at the end of the line", file, n+1)
			}
		}
	}
}

// TestLinks follows the relative links of every Markdown file.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	for _, file := range files(t, ".md") {
		for _, m := range link.FindAllSubmatch(read(t, file), -1) {
			target := filepath.Join(filepath.Dir(file), string(m[1]))
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: link to %s: %v", file, m[1], err)
			}
		}
	}
}

// TestNoBinaries keeps compiled files out of the tree.
func TestNoBinaries(t *testing.T) {
	for _, file := range files(t) {
		info, err := os.Stat(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&fs.ModePerm&0o111 != 0 && !bytes.HasPrefix(read(t, file), []byte("#!")) {
			t.Errorf("%s: executable and not a script", file)
		}
	}
}
