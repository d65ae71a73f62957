package house

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// warnings are the flags that every C file of this tree is compiled with.
var warnings = []string{"-Wall", "-Wextra", "-Werror"}

// mpichHeader silences what MPICH's own mpi.h provokes: it declares an array parameter and gives a constant for it.
const mpichHeader = "-Wno-stringop-overflow"

// TestOpeningComments asks every C file to open with its name, its purpose and the rules of its context; a test
// program opens with the line that the test runner prints about it.
func TestOpeningComments(t *testing.T) {
	for _, file := range files(t, ".c", ".h", ".S") {
		src := read(t, file)
		if generated(src) {
			continue
		}
		head, _, closed := bytes.Cut(src, []byte("*/"))
		base, _, _ := strings.Cut(filepath.Base(file), ".")
		switch {
		case !bytes.HasPrefix(src, []byte("/* ")) || !closed:
			t.Errorf("%s: does not open with a comment", file)
		case !bytes.HasPrefix(src, []byte("/* "+base)) && !bytes.HasPrefix(src, []byte("/* test_doc: ")):
			t.Errorf("%s: its opening comment does not begin with %q", file, base)
		case len(bytes.Fields(head)) < 8:
			t.Errorf("%s: its opening comment says too little: %q", file, head)
		}
	}
}

// TestMakefilesCompileWithWarnings reads the compiler's command lines from make and asks that each that compiles C treats
// warnings as errors, and that no C or assembly file is left out.
func TestMakefilesCompileWithWarnings(t *testing.T) {
	source := regexp.MustCompile(`[\w./-]+\.(c|S)\b`)
	for _, dir := range made {
		plan := run(t, "make", "-C", dir, "-n", "-B", "BUILD="+t.TempDir(), "all", map[string]string{"rank": "all", "client": "all", "test/apps": "core"}[dir])
		compiled := map[string]bool{}
		for _, line := range strings.Split(plan, "\n") {
			for _, name := range source.FindAllString(line, -1) {
				compiled[filepath.Base(name)] = true
				for _, w := range warnings {
					if strings.HasSuffix(name, ".c") && !slices.Contains(strings.Fields(line), w) {
						t.Errorf("compiled without %s: %s", w, line)
					}
				}
			}
		}
		for _, file := range files(t, ".c", ".S") {
			if ofMakefile(file) == dir && !strings.HasSuffix(file, ".inc.c") && !compiled[filepath.Base(file)] {
				t.Errorf("%s: %s/Makefile does not compile it", file, dir)
			}
		}
	}
}

// made are the directories whose C files their Makefiles compile, for each test that runs them.
var made = []string{"rank", "client", "test/apps"}

// ofMakefile is the directory among them whose Makefile compiles a file, or "". Programs that need libraries which `make deps` does
// not install have a Makefile of their own, which asks for the same.
func ofMakefile(file string) string {
	if strings.HasPrefix(file, "test/apps/exam/") {
		return "test/apps/exam"
	}
	for _, dir := range made {
		if strings.HasPrefix(file, dir+"/") {
			return dir
		}
	}
	return ""
}

// TestProgramsCompileWithoutWarnings compiles the other C programs for both MPIs.
func TestProgramsCompileWithoutWarnings(t *testing.T) {
	for _, file := range files(t, ".c") {
		if ofMakefile(file) != "" {
			continue
		}
		for _, cc := range []string{"mpicc.mpich", "mpicc.openmpi"} {
			run(t, cc, append(slices.Clone(warnings), mpichHeader, "-Irank", "-Iclient/scr", "-Iclient/snap", "-std=gnu11", "-O2", "-fopenmp", "-c", "-o", "/dev/null", file)...)
		}
	}
}
