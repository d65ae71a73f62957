package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A test is a line of one of the suite's lists, and what was found of it.
type test struct {
	Face    string   // the MPI that it is built against
	Dir     string   // below the suite
	Program string   // its name in the Makefile of its directory
	Ranks   int      //
	Args    []string `json:",omitempty"`
	Env     []string `json:",omitempty"`
	Limit   time.Duration
	Expect  string            // how success is told: "" or one of the suite's words (resultTest)
	Skip    string            `json:",omitempty"` // why it is not run
	Unbuilt string            `json:",omitempty"` // what the compiler said
	Native  *run              `json:",omitempty"`
	Under   map[string]result `json:",omitempty"` // by driver
	root    string            // the suite, or the directory with its tests in Fortran
	sources []string          // of the program, in its directory
	flags   []string          // for the preprocessor
	include []string          // directories whose headers it includes, from its own
	threads bool              // it is linked with what the suite has for threads
}

// name is how a test is asked for and reported.
func (t *test) name() string { return t.Dir + "/" + t.Program }

// chosen says whether the test is one of those, or lies in one of those directories; all are without any.
func (t *test) chosen(only []string) bool {
	return len(only) == 0 || slices.ContainsFunc(only, func(o string) bool {
		return t.name() == o || t.Dir == o || strings.HasPrefix(t.Dir, o+"/")
	})
}

// read collects the tests of all lists below a directory, in the order of directories; those of C++ are left out, as are those of faults
// that the suite makes by itself (its configuration leaves them out as well), and those in other directories of such names.
func read(root string, without []string) ([]*test, error) {
	var tests []*test
	without = append([]string{"cxx", "faults"}, without...)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(without, d.Name()) {
			return filepath.SkipDir
		}
		if d.IsDir() || d.Name() != "testlist" && d.Name() != "testlist.in" {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		found, err := readDirectory(path, dir)
		tests = append(tests, found...)
		return err
	})
	if err == nil && len(tests) == 0 {
		err = fmt.Errorf("%s: found no lists of tests, wanted the directory test/mpi of MPICH's source (-suite)", root)
	}
	for _, t := range tests {
		t.root = root
	}
	return tests, err
}

// readDirectory reads one list and the Makefile beside it.
func readDirectory(list, dir string) ([]*test, error) {
	b, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	make, err := os.ReadFile(filepath.Join(filepath.Dir(list), "Makefile.am"))
	if err != nil {
		return nil, err
	}
	var tests []*test
	for line := range strings.Lines(string(b)) {
		t, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list, err)
		}
		if t == nil {
			continue
		}
		if info, err := os.Stat(filepath.Join(filepath.Dir(list), t.Program)); err == nil && info.IsDir() {
			continue // its list is read by itself
		}
		t.Dir = filepath.Join(dir, filepath.Dir(t.Program))
		t.Program = filepath.Base(t.Program)
		t.describe(string(make))
		tests = append(tests, t)
	}
	return tests, nil
}

// A macro is a word that the suite's configuration replaces: by nothing, or by a sign of a comment.
var macro = regexp.MustCompile(`^@\w+@\s*`)

// parseLine reads `program ranks key=value...`; nil: a line without a test.
func parseLine(line string) (*test, error) {
	line, _, _ = strings.Cut(line, "#")
	large := strings.HasPrefix(line, "@largetest@")
	words := strings.Fields(macro.ReplaceAllString(line, ""))
	if len(words) == 0 {
		return nil, nil
	}
	t := &test{Program: words[0], Ranks: 2}
	if large {
		t.Skip = "large"
	}
	for i, word := range words[1:] {
		key, value, ok := strings.Cut(word, "=")
		if n, err := strconv.Atoi(word); err == nil && i == 0 {
			t.Ranks = n
		} else if ok {
			if err := t.option(key, value); err != nil {
				return nil, fmt.Errorf("%s: %w", t.Program, err)
			}
		}
	}
	return t, nil
}

// option takes one key of a line. Those that only the suite's own runner needs are passed by.
func (t *test) option(key, value string) error {
	const room = 2.0 // GB: tests that say they need more are not for this machine
	switch key {
	case "arg":
		t.Args = append(t.Args, value)
	case "env":
		t.Env = append(t.Env, value)
	case "resultTest":
		t.Expect = value
	case "xfail":
		t.Skip = "expected to fail: " + value
	case "mpiexecarg":
		t.Skip = "needs the launcher's " + value
	case "timeLimit":
		seconds, err := strconv.Atoi(value)
		t.Limit = time.Duration(seconds) * time.Second
		return err
	case "mem":
		gb, err := strconv.ParseFloat(value, 64)
		if gb > room {
			t.Skip = "needs " + value + " GB"
		}
		return err
	}
	return nil
}

// describe finds in the Makefile what the program is made of: NAME_SOURCES and NAME_CPPFLAGS, where it is not NAME alone with the
// ending that the directory's sources have as a rule.
func (t *test) describe(make string) {
	make = strings.ReplaceAll(make, "\\\n", " ")
	t.threads = strings.Contains(make, "Makefile_threads.mtest")
	ending := ".c"
	for line := range strings.Lines(make) {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		switch strings.TrimSpace(name) {
		case t.Program + "_SOURCES":
			t.sources = strings.Fields(value)
		case t.Program + "_CPPFLAGS":
			t.flags = slices.DeleteFunc(strings.Fields(value), func(f string) bool { return !strings.HasPrefix(f, "-D") })
		case "AM_DEFAULT_SOURCE_EXT":
			ending = strings.TrimSpace(value)
		case "AM_FFLAGS +":
			t.include = append(t.include, strings.TrimPrefix(strings.TrimSpace(value), "-I"))
		}
	}
	if t.sources == nil {
		t.sources = []string{t.Program + ending}
	}
}
