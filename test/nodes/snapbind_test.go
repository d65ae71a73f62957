package nodes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// memory is where the library of snapshots lies, and what belongs to it.
func (c *cluster) memory() string {
	return filepath.Join(filepath.Dir(filepath.Dir(c.site.Byssus)), "lib/byssus/memory")
}

// TestSnapshotBind: programs in Fortran and Python, and one by protect.h, lose a node or a rank, and end with what steps.c ends with.
func TestSnapshotBind(t *testing.T) {
	c, ctx := written1(t)
	for i, row := range []struct{ program, mpi, die string }{ // die: of a rank; empty: node2 crashes
		{"snap_fortran", "mpich", ""},
		{"snap/steps.py", "openmpi", "die=2@6@1"},
		{"snap_protect", "openmpi", ""},
		{"snap_fortran", "openmpi", "die=1@6@2"},
		{"snap/steps.py", "openmpi", ""}, // mpi4py is Open MPI's
		{"snap_protect", "mpich", "die=3@6@2"},
	} {
		if !harness.ChosenOf(6, i) {
			continue
		}
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			args := []string{"size=20000"}
			if row.die != "" {
				args = append(args, row.die)
			}
			w := c.snaps(ctx, t, row.program, fmt.Sprintf("bind%d", i), row.mpi, 12, nil, nil, args...)
			if row.die == "" {
				w.counts(ctx, t, 4)
				c.sandbox(t, "crash", "nodes/node2")
				w.says(ctx, t, "node node2 was lost")
			}
			w.says(ctx, t, "steps: restored at step ")
			w.program = "snap_steps"
			w.ends(ctx, t)
			if row.die == "" {
				c.sandbox(t, "start", "nodes/node2")
			}
		})
	}
}

// program takes one from docs/memory.md as it stands there: the one in a language that has these words.
func (c *cluster) pageOf(t *testing.T, language, words, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.site.Root, "docs/memory.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(text, -1) {
		if !strings.Contains(string(code[1]), words) {
			continue
		}
		source := filepath.Join(c.dir, file)
		if err := os.WriteFile(source, code[1], 0o600); err != nil {
			t.Fatal(err)
		}
		return source
	}
	t.Fatalf("docs/memory.md has no program in %s with %s", language, words)
	return ""
}

func compiles(ctx context.Context, t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

// bindPages runs the programs of docs/memory.md in other ways than by byssus.h.
func (c *cluster) bindPages(ctx context.Context, t *testing.T) {
	t.Helper()
	lib := c.memory()
	link := []string{"-L" + lib, "-lbyssus", "-Wl,-rpath," + lib}
	for i, name := range []string{"fortran", "python", "protect"} {
		if !harness.ChosenOf(3, i) {
			continue
		}
		mpi, exe := harness.MPIs()[i%2], filepath.Join(c.dir, name)
		argv := []string{exe}
		switch name {
		case "fortran":
			source := c.pageOf(t, "fortran", "use byssus", "page.F90")
			compiles(ctx, t, append([]string{"mpifort." + mpi, "-Wall", "-J", c.dir, "-o", exe, filepath.Join(lib, "byssus.F90"), source}, link...)...)
		case "python": // mpi4py is Open MPI's
			argv = []string{"/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + lib, "/usr/bin/python3", c.pageOf(t, "python", "import byssus", "page.py")}
		case "protect":
			source := c.pageOf(t, "c", "protect.h", "protect.c")
			compiles(ctx, t, append([]string{"mpicc." + mpi, "-Wall", "-Werror", "-I" + lib, source, "-o", exe}, link...)...)
		}
		out := c.snapped(ctx, t, mpi, "page-"+name, argv...)
		if out != "step 100\n" {
			t.Errorf("%s: %q", name, out)
		}
	}
}

// snapped runs a program on the nodes, to its end.
func (c *cluster) snapped(ctx context.Context, t *testing.T, mpi, job string, argv ...string) string {
	t.Helper()
	argv = append([]string{c.site.Byssus, "run", "--plain", "-n", fmt.Sprint(ranks), "--mpi", mpi, "--job", job, "--sandbox", "nodes", "--cache", cache, "--"}, argv...)
	p, err := harness.Start(ctx, c.dir, harness.Environment(c.env...), argv...)
	if err != nil {
		t.Fatal(err)
	}
	if p.Took(); p.ExitCode() != 0 {
		t.Fatalf("%s: exit code %d: %s\n%s", job, p.ExitCode(), p.Stdout.String(), p.Stderr.String())
	}
	return p.Stdout.String()
}

// TestSnapshotBindWrong: what protect.h is not to be used for is a result, and a sentence, in a job and without one; and the programs of the
// page run.
func TestSnapshotBindWrong(t *testing.T) {
	c, ctx := written1(t)
	c.bindPages(ctx, t)
	mpi := harness.MPIs()[harness.Seed()%2]
	exe := c.site.Command(harness.Program{Name: "snap_protect_wrong"}, mpi)
	begun := "found snapshots of other regions that have begun, wanted bys_protect_end first"
	var lines []string
	out := c.snapped(ctx, t, mpi, "wrong", exe...)
	for m := range ranks {
		for _, says := range []string{"nowhere: -1 bys_restart_look: wanted places", "looked: 2 ", "checkpoint of what was looked at: -1 bys_checkpoint: found a call that still waits, wanted bys_restart again first",
			"end of what was looked at: -1 bys_protect_end: found a call", "other name of what was looked at: -1 bys_restart: found b, wanted a", "none of these: -1 bys_restart_some: region 5: found none",
			"looked late: -1 bys_restart_look: found snapshots that have begun", "restart: 2 ", "the same: 0 ", "shorter: -1 bys_protect: region 2: " + begun, "another: -1 bys_protect: region 3: " + begun,
			"one less: -1 bys_unprotect: region 2: " + begun, "group: -1 bys_protect_group: found snapshots that have begun", "restart again: -1 bys_restart: found snapshots that have begun",
			"name: -1 bys_checkpoint: found b, wanted a, with", "late: 0 ", "child: 0 ", "versions: -4 bys_checkpoint: commit: members differ: found \"tag 3\" of member 2, wanted \"tag 2\"", "agree: 0 ", "end: 0 ",
			"one more: 0 ", "other regions: -4 bys_restart: member .: found 3 regions, wanted the snapshot's 2", "without it: 0 ", "anew: 0 ", "has: 4 8 9$", "looked again: 0 ", "found: 2: 80$", "ends: 0 ", "first: [01] ", "then: [0] ", "last: 0 "} {
			lines = append(lines, fmt.Sprintf("^%d: %s", m, says))
		}
		if m > 0 {
			for _, says := range []string{"look: 1 ", "other version: -1 bys_checkpoint: found version 2, wanted 1, which is still waited for", "end in between: -1 bys_protect_end: found a call that still waits, wanted bys_checkpoint again first"} {
				lines = append(lines, fmt.Sprintf("^%d: %s", m, says))
			}
		}
	}
	hears(t, c.dir, 0, 0, out, lines)
	alone, _ := exec.CommandContext(ctx, exe[0], "alone").CombinedOutput()
	hears(t, c.dir, 0, 0, string(alone), []string{"^0: no region: -1 bys_restart: found no region, wanted bys_protect first", "address: -1 .*at .nil., wanted an address", "elements: -1 .*found 0 elements", "size: -1 ",
		"unknown: -1 bys_unprotect: region 1: found none", "in its place: 0 ", "end of nothing: 0 ", "^0: name: -1 bys_checkpoint: found \"a/b\"", "no name: -1 ", "nobody: -1 .*wanted MPI_Init or bys_protect_group first",
		"member: -1 .*found member 3 of 3", "group: 0 ", "no agent: -5 bys_restart: BYSSUS_CLIENTS is not set"})
}

// TestSnapshotBindRefused: what can be a region in Fortran and in Python, and what cannot; no agent is there, and none is needed.
func TestSnapshotBindRefused(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{ground: ground{site: site}, dir: t.TempDir()}
	lib, apps := c.memory(), filepath.Join(c.site.Root, "test/apps/snap")
	exe := filepath.Join(c.dir, "refused")
	build := func(more ...string) ([]byte, error) {
		argv := append([]string{"-Wall", "-J", c.dir, "-o", exe}, more...)
		argv = append(argv, filepath.Join(lib, "byssus.F90"), filepath.Join(apps, "refused.F90"), "-L"+lib, "-lbyssus", "-Wl,-rpath,"+lib)
		return exec.CommandContext(t.Context(), "gfortran", argv...).CombinedOutput()
	}
	for _, wrong := range []string{"-DEXPRESSION", "-DNO_TARGET"} {
		if out, err := build(wrong); err == nil || !strings.Contains(string(out), "refused.F90") {
			t.Errorf("%s: it compiles: %s", wrong, out)
		}
	}
	if out, err := build("-O2", "-Werror"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, _ := exec.CommandContext(t.Context(), exe).CombinedOutput()
	hearsEach(t, string(out), map[string]string{
		"-5 BYSSUS_CLIENTS is not set": "scalar array element section columns column allocated complex logical text pointer component derived assumed_shape assumed_size",
		"-1 region 2: found a section whose elements do not lie one behind the other": "stride backward row rows components real_parts parts_of_components one_of_them letters " +
			"pointer_to_components assumed_shape_of_rows",
		"-1 region 3: found an array without elements":               "none no_bytes",
		"-1 region 3: found nothing that is allocated or associated": "not_allocated not_associated no_address",
	})
	out, _ = exec.CommandContext(t.Context(), "/usr/bin/python3", filepath.Join(apps, "refused.py")).CombinedOutput()
	hearsEach(t, string(out), map[string]string{
		"AgentError: BYSSUS_CLIENTS is not set":            "array bytearray slice shape ctypes structures map function",
		"UseError: region 1: found a .* that is read-only": "bytes view",
		"UseError: region 1: found elements that do not":   "stride backward",
		"UseError: region 1: found references":             "objects",
		"UseError: region 1: found no elements":            "none",
		"UseError: region 1: found .*, wanted an object":   "list number",
		"UseError: wanted a group, and a member":           "member",
		"UseError: member: found -1":                       "negative",
		"UseError: wanted a name":                          "name names",
		"UseError: only: found .2., wanted numbers":        "only",
		"BufferError":                            "held",
		"UseError: found nothing that has begun": "order",
		"UseError: found a child after fork":     "child",
	})
}

// hearsEach asks for a line of each of the words, with a blank for _, that goes on with a sentence, and for no other lines of them.
func hearsEach(t *testing.T, said string, words map[string]string) {
	t.Helper()
	wanted := map[string]string{}
	for sentence, list := range words {
		for word := range strings.FieldsSeq(list) {
			wanted[strings.ReplaceAll(word, "_", " ")] = sentence
		}
	}
	for line := range strings.Lines(said) {
		word, rest, _ := strings.Cut(line, ": ")
		if s := wanted[word]; s == "" || !regexp.MustCompile("^"+s).MatchString(rest) {
			t.Errorf("%s, wanted %q", line, s)
		}
		words[word] = "said"
	}
	for word := range wanted {
		if words[word] != "said" {
			t.Errorf("nothing is said of %q:\n%s", word, said)
		}
	}
}
