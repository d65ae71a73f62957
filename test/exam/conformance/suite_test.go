package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLines: what a line of a list says, and which are no tests here.
func TestLines(t *testing.T) {
	got, err := parseLine("@comm_overlap@bcast 4 arg=-n=3 arg=x env=A=b timeLimit=30 resultTest=TestStatus # why\n")
	if err != nil || got == nil {
		t.Fatal(got, err)
	}
	if got.Program != "bcast" || got.Ranks != 4 || got.Limit != 30*time.Second || got.Expect != "TestStatus" || got.Skip != "" {
		t.Errorf("found %+v", *got)
	}
	if !slices.Equal(got.Args, []string{"-n=3", "x"}) || !slices.Equal(got.Env, []string{"A=b"}) {
		t.Errorf("arguments %q, environment %q", got.Args, got.Env)
	}
	for _, line := range []string{"\n", "# allred 4\n", "@rmadir@\n"} {
		if got, err := parseLine(line); got != nil || err != nil {
			t.Errorf("%q: found %v, %v, wanted no test", line, got, err)
		}
	}
	for _, line := range []string{"@largetest@big 2\n", "scancel 2 xfail=ticket1\n", "big 3 mem=6.5\n", "die 4 mpiexecarg=-x\n"} {
		if got, err := parseLine(line); err != nil || got == nil || got.Skip == "" {
			t.Errorf("%q: found %v, %v, wanted one that is not run", line, got, err)
		}
	}
	if _, err := parseLine("slow 2 timeLimit=long\n"); err == nil {
		t.Error("a time limit that is no number passes")
	}
}

// TestDescribe: sources and macros from a Makefile, in which lines are continued.
func TestDescribe(t *testing.T) {
	make := "include $(top_srcdir)/Makefile_threads.mtest\nnoinst_PROGRAMS = \\\n a \\\n b\nb_SOURCES = common.c \\\n impl.c\nb_CPPFLAGS = -DSEND $(AM_CPPFLAGS)\n"
	a, b := test{Program: "a"}, test{Program: "b"}
	a.describe(make)
	b.describe(make)
	if !slices.Equal(a.sources, []string{"a.c"}) || len(a.flags) != 0 || !a.threads {
		t.Errorf("a: found %+v", a)
	}
	if !slices.Equal(b.sources, []string{"common.c", "impl.c"}) || !slices.Equal(b.flags, []string{"-DSEND"}) {
		t.Errorf("b: found %+v", b)
	}
}

// TestDescribeFortran: sources that have the directory's ending, headers of a directory beside it, and which compiler makes a program.
func TestDescribeFortran(t *testing.T) {
	make := "AM_DEFAULT_SOURCE_EXT = .f\nAM_FFLAGS += -I../attr\nc2fmult_SOURCES = c2fmult.c\nc2f2cf_SOURCES = c2f2c.c c2f2cf.f\n"
	for program, want := range map[string]struct {
		sources  []string
		language string
	}{
		"sendf":   {[]string{"sendf.f"}, "f77"},
		"c2f2cf":  {[]string{"c2f2c.c", "c2f2cf.f"}, "f77"},
		"c2fmult": {[]string{"c2fmult.c"}, ""},
	} {
		x := test{Dir: "errors/f77/ext", Program: program}
		if x.describe(make); !slices.Equal(x.sources, want.sources) || x.language() != want.language || !slices.Equal(x.include, []string{"../attr"}) {
			t.Errorf("%s: found %+v in language %q", program, x, x.language())
		}
	}
	if x := (test{Dir: "f90x", sources: []string{"a.f90"}}); x.language() != "" {
		t.Error("the beginning of a name counts as a language")
	}
}

// TestConfigure: words between two @, known and not.
func TestConfigure(t *testing.T) {
	if got, want := configure("@F77_MPI_OFFSET@ offset\n@namepub@namepubf 2\na@b\n"), "integer*8 offset\nnamepubf 2\na@b\n"; got != want {
		t.Errorf("found %q, wanted %q", got, want)
	}
}

// TestTemplates: f90's from f77's.
func TestTemplates(t *testing.T) {
	definitions := "<TESTDEFN filename=\"writef.f\">\n        include 'iooffset.h'\n"
	if got, want := freeDefinitions(definitions), "<TESTDEFN filename=\"writef90.f90\">\n        integer (kind=MPI_OFFSET_KIND)offset\n"; got != want {
		t.Errorf("found %q, wanted %q", got, want)
	}
	template := "<fheader/>\n      implicit none\n      include 'mpif.h'\nC a Comment\n"
	if got, want := freeTemplate(template), "<f90header/>\n      use mpi\n! a Comment\n"; got != want {
		t.Errorf("found %q, wanted %q", got, want)
	}
}

// TestRight: the suite's own judgement, and what Byssus says beside it.
func TestRight(t *testing.T) {
	for _, c := range []struct {
		expect string
		code   int
		output string
		want   bool
	}{
		{"", 0, " No Errors\n", true},
		{"", 0, " No Errors\nbyssus: a: calls MPI_Put, which is refused\n", true},
		{"", 1, " No Errors\n", false},
		{"", 0, "", false},
		{"", 0, "oops\n No Errors\n", false},
		{"TestStatus", 7, "", true},
		{"TestStatus", 0, "", false},
		{"TestErrFatal", 7, " No Errors\n", false},
		{"TestStatusNoErrors", 9, "killed\n No Errors\n", true},
	} {
		if got := right(c.expect, c.code, c.output); got != c.want {
			t.Errorf("%q, code %d, %q: found %t", c.expect, c.code, c.output, got)
		}
	}
	line := "byssus: rank 3: called MPI_Put, which is refused: one-sided communication is not supported yet"
	if f, ok := refusal("noise\n" + line + "\n"); !ok || f != "MPI_Put" {
		t.Errorf("refusal: found %q, %t", f, ok)
	}
	if _, ok := refusal("byssus: a: calls MPI_Put, which is refused: one-sided communication is not supported yet\n"); ok {
		t.Error("a function that a program could call counts as called")
	}
}

// TestChosen: by directory, below it, and by name.
func TestChosen(t *testing.T) {
	x := test{Dir: "threads/pt2pt", Program: "alltoall"}
	for _, only := range [][]string{nil, {"threads"}, {"threads/pt2pt"}, {"coll", "threads/pt2pt/alltoall"}} {
		if !x.chosen(only) {
			t.Errorf("%q does not choose it", only)
		}
	}
	if x.chosen([]string{"thread"}) {
		t.Error("the beginning of a name chooses")
	}
}

// TestKnown: each known difference has its row in docs/limits.md, in which its test is named, and is one of its driver alone.
func TestKnown(t *testing.T) {
	text, err := os.ReadFile("../../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "| "+d.row) && strings.Contains(line, d.test)
		}) {
			t.Errorf("docs/limits.md: no row %q that names %s", d.row, d.test)
		}
	}
	allred := &test{Dir: "coll", Program: "allred", Args: []string{"-count=100"}}
	if !known(allred, "openmpi", false) || known(allred, "mpich", false) || known(allred, "openmpi", true) {
		t.Error("coll/allred -count=100: found that it differs with MPICH, or not with Open MPI")
	}
	if allred.Args = []string{"-count=1"}; known(allred, "openmpi", false) {
		t.Error("coll/allred -count=1 is known to differ")
	}
}
