// Package house holds the rules of this source tree as tests: who may import whom, comments, formatting, warnings,
// generated code, words that do not belong here. It has no code of its own and nothing imports it.
//
// It guarantees that what it checks is the tree as it stands on disk, tracked or not yet tracked by git, without
// the build directory and without test data.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is this module's path; import paths below it are written without it in lattice.txt.
const module = "github.com/byssus-hpc/byssus"

// root is the top of the source tree, as seen from this package's directory, where go test runs.
const root = "../../.."

// nested are the directories of modules of their own whose packages keep the rules too. What depends on nothing of this tree, as a
// test program, is not among them.
var nested = []string{"bench/pup"}

// A pkg is what `go list` says about one package, as far as the rules need it.
type pkg struct {
	ImportPath   string
	Dir          string
	Name         string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	Module       struct{ Path string }
}

// packages lists every package of this module and of those nested in it.
func packages(t *testing.T) []pkg {
	t.Helper()
	var out strings.Builder
	for _, dir := range append([]string{"."}, nested...) {
		out.WriteString(run(t, "go", "-C", dir, "list", "-json=ImportPath,Dir,Name,GoFiles,TestGoFiles,XTestGoFiles,Imports,Module", "./..."))
	}
	var list []pkg
	for dec := json.NewDecoder(strings.NewReader(out.String())); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// run executes a command at the top of the tree and returns its standard output; a failure ends the test with what
// the command printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return runIn(t, ".", name, args...)
}

// runIn does the same in a directory, which is named relative to the top.
func runIn(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Join(root, dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// files returns the paths, relative to the top, of all files that end in one of the suffixes (all files when none
// is given), without what is built, hidden or test data.
func files(t *testing.T, suffixes ...string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && (slices.Contains([]string{"build", "testdata", "__pycache__"}, d.Name()) || strings.HasPrefix(d.Name(), ".git")) {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && (len(suffixes) == 0 || slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(rel, s) })) {
			list = append(list, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// read returns the content of a file named relative to the top.
func read(t *testing.T, rel string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, rel))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// generated reports whether a source file says at its head that a program wrote it.
func generated(src []byte) bool {
	head := bytes.ToLower(src[:min(len(src), 400)])
	return bytes.Contains(head, []byte("generated")) && bytes.Contains(head, []byte("do not edit"))
}
