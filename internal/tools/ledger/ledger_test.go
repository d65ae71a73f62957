package ledger

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const tree = "../../.."

func load(t *testing.T) []Call {
	t.Helper()
	calls, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// rows visits all rows, also those of options.
func rows(calls []Call, visit func(r Row)) {
	for _, c := range calls {
		visit(c.Row)
		for _, o := range c.Options {
			visit(o)
		}
	}
}

// named lists the names of all files below a folder of the tree.
func named(t *testing.T, below string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(filepath.Join(tree, below), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			list = append(list, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestFilesExist finds mechanisms that have been renamed.
func TestFilesExist(t *testing.T) {
	files := named(t, "rank/core")
	rows(load(t), func(r Row) {
		for _, f := range r.Files {
			if !slices.Contains(files, f) {
				t.Errorf("x86_64.txt:%d: %s: rank/core has no file %s", r.Line, r.Name, f)
			}
		}
	})
}

// TestTestsExist finds tests that have been renamed: programs, their arguments, Go tests, scripts.
func TestTestsExist(t *testing.T) {
	rows(load(t), func(r Row) {
		for _, test := range r.Tests {
			if err := exists(test); err != "" {
				t.Errorf("x86_64.txt:%d: %s: %s", r.Line, r.Name, err)
			}
		}
	})
}

// exists says what is not there; "" when all is.
func exists(test Test) string {
	pattern := filepath.Join(tree, "test/apps", test.Name+".*")
	contains := `"` + test.Argument + `"`
	switch {
	case strings.HasPrefix(test.Name, "Test"):
		pattern, contains = filepath.Join(tree, "test/*/*_test.go"), "\nfunc "+test.Name+"(t *testing.T)"
	case strings.HasSuffix(test.Name, ".txtar"):
		pattern, contains = filepath.Join(tree, "test/script/testdata", test.Name), ""
	case test.Argument == "":
		contains = ""
	}
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return "there is no test " + test.Name
	}
	for _, f := range files {
		if src, err := os.ReadFile(f); err == nil && strings.Contains(string(src), contains) {
			return ""
		}
	}
	return "test " + test.Name + " " + test.Argument + ": not in " + pattern
}

// TestFirstTrapCounts asks that of the rows of one call the one after a restart comes first in the filter: both have
// conditions.
func TestFirstTrapCounts(t *testing.T) {
	for _, c := range load(t) {
		for _, trap := range c.Traps {
			if len(c.Traps) > 1 && trap.Condition == "always" {
				t.Errorf("x86_64.txt:%d: %s: trapped always, and on another condition", c.Line, c.Name)
			}
		}
	}
}

// TestKernelHeaders compares the names with those that the kernel's headers of this machine give.
func TestKernelHeaders(t *testing.T) {
	text, err := os.ReadFile("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
	if err != nil {
		t.Skip("SKIP: no header asm/unistd_64.h")
	}
	names := map[string]string{}
	for _, m := range regexp.MustCompile(`#define __NR_(\w+) (\d+)`).FindAllStringSubmatch(string(text), -1) {
		names[m[1]] = m[2]
	}
	found := 0
	for _, c := range load(t) {
		if names[c.Name] != "" {
			found++
			if want := names[c.Name]; want != strconv.Itoa(c.Number) {
				t.Errorf("x86_64.txt:%d: %s has number %d, the kernel's header says %s", c.Line, c.Name, c.Number, want)
			}
		}
	}
	if found != len(names) {
		t.Errorf("%d of the header's %d names are in the ledger", found, len(names))
	}
}

// TestParse shows what a ledger must not say, and how that is named.
func TestParse(t *testing.T) {
	const good = "reason asks it asks\n0 read harmless asks\n"
	for _, c := range []struct{ text, want string }{
		{good, ""},
		{good + "1 write saved bytes | fds.c | core_fds\n     O_X noted rules | it was made | untested: no kernel\n", "x86_64.txt:4: O_X: found values \"\", wanted numbers, for it is noted"},
		{good + "     O_X=1+3..0x7 noted rules | it was made | untested: no kernel\n", "x86_64.txt:2: read: O_X is noted, and no line says in which argument it stands"},
		{good + "2 open harmless asks\n", "x86_64.txt:3: found number 2, wanted 1"},
		{good + "0 read harmless asks\n", "x86_64.txt:3: found number 0, wanted 1"},
		{good + "1 read harmless asks\n", "x86_64.txt:3: read stands there twice"},
		{good + "2-5 gap none\n", "x86_64.txt:3: found a gap of 2-5, wanted one from 1"},
		{good + "1 write harmless\n", "x86_64.txt:3: write: harmless, and no word why"},
		{good + "1 write harmless because\n", `x86_64.txt:3: write: no reason has the name "because"`},
		{good + "1 write saved bytes | fds.c\n", "x86_64.txt:3: write: found 2 parts, wanted a state, what sees to it and tests, with | between"},
		{good + "1 write saved bytes | fds.c | \n", "x86_64.txt:3: write: found 2 parts, wanted a state, what sees to it and tests, with | between"},
		{good + "1 write lost bytes\n", "x86_64.txt:3: write lost bytes: neither saved, refused, noted nor harmless"},
		{good + "     trap often\n", "x86_64.txt:3: trap often: no such condition"},
		{good + "     trap set 6\n", `x86_64.txt:3: "set 6": wanted an argument's number, 0 to 5`},
		{good + "     trap in 1\n", "x86_64.txt:3: trap in 1: wanted values"},
		{good + "     trap always 3\n", `x86_64.txt:3: trap always: found "3" behind it, wanted nothing`},
		{good + "1 write noted bytes | never | core_fds\n     trap always\n", "x86_64.txt:3: write: it is noted, and trapped for another reason as well"},
		{"     trap always\n", `x86_64.txt:1: options of no call: "trap"`},
	} {
		_, err := Parse(c.text)
		if found := errorText(err); found != c.want {
			t.Errorf("%q:\nfound %s\nwant  %s", c.text, found, c.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzParse finds texts that end the parser in another way than by an error.
func FuzzParse(f *testing.F) {
	f.Add(text[:2000])
	f.Add("0 read noted a | b | untested: c\n     option 1\n     X=1..2+3 noted a | b | c d where e\n     trap restart in 1 A..B\n")
	f.Fuzz(func(t *testing.T, text string) { Parse(text) })
}
