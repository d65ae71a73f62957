package nodes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// page compiles the program of docs/memory.md as it stands there, and runs it.
func (c *cluster) page(ctx context.Context, t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.site.Root, "docs/memory.md"))
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?s)```c\n(.*?)```").FindSubmatch(text)
	if code == nil {
		t.Fatal("docs/memory.md has no program")
	}
	mpi := harness.MPIs()[0]
	source, exe := filepath.Join(c.dir, "page.c"), filepath.Join(c.dir, "page")
	if err := os.WriteFile(source, code[1], 0o600); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(filepath.Dir(filepath.Dir(c.site.Byssus)), "lib/byssus/memory")
	argv := []string{"mpicc." + mpi, "-Wall", "-Werror", "-I" + lib, source, "-o", exe, "-L" + lib, "-lbyssus", "-Wl,-rpath," + lib}
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	p, err := harness.Start(ctx, c.dir, harness.Environment(c.env...), c.site.Byssus, "run", "--plain", "-n", fmt.Sprint(ranks), "--mpi", mpi, "--job", "page", "--sandbox", "nodes", "--cache", cache, "--", exe)
	if err != nil {
		t.Fatal(err)
	}
	if p.Took(); p.ExitCode() != 0 || p.Stdout.String() != "step 100\n" {
		t.Fatalf("exit code %d: %q\n%s", p.ExitCode(), p.Stdout.String(), p.Stderr.String())
	}
}

// TestSnapshotWrong: what is wrong with how a program uses snapshots is a result, and a sentence, for those whom it concerns (wrong.c).
func TestSnapshotWrong(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t, "--disk", "16M")
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	c.page(ctx, t)
	plain, nodes := []string{"--plain"}, []string{"--plain", "--sandbox", "nodes", "--cache", cache}
	all, alone := ranks, 1
	for i, row := range []struct {
		how   string
		flags []string
		ranks int
		says  []string // of each member: M
	}{
		{"order", nodes, all, []string{"M: commit first: -1 commit: found nothing that was started", "M: start twice: -1 start: found one that is not committed",
			"M: finish in between: -1 finish: found a snapshot that is not committed", "M: commit: 0 ", "M: init again: -1 this description has begun already", "M: finish: 0 "}},
		{"arguments", nodes, all, []string{"M: member: -1 wanted a group, and a member below the number of members", "M: regions: -1 wanted 1 to 4096 regions", "M: ids: -1 wanted each id once",
			"M: capture: -1 wanted a capture of BYS_COPY", "M: address: -1 wanted regions with an address", "M: name: -1 wanted a name of 1 to 63 bytes", "M: place: -1 wanted a place for the description"}},
		{"child", nodes, all, []string{"M: child: 0 ", "M: commit: 0 ", "M: finish: 0 "}},
		{"threads", nodes, all, []string{"[123]: look: 1 ", "[123]: wait: 1 ", "[123]: at the same time: -1 ", "M: commit: 0 ", "M: finish: 0 "}},
		{"names", nodes, all, []string{"M: begin: -4 init: members differ: found \"group a of 4 members, restored\" of member 1, wanted \"group b of 4 members, restored\" as of member 0"}},
		{"look", nodes, all, []string{"M: nowhere: -1 wanted places for what there is to say", "M: no number: -1 wanted places", "M: no regions: -1 wanted places", "M: no group: -1 wanted a group", "M: look: 2 ",
			"M: start: -1 found a description that has not begun yet: .* bys_restore has not followed bys_look", "M: commit: -1 ", "M: finish: -1 found a description that has not begun yet", "M: init: -1 found bys_init, wanted",
			"M: another: -1 found member [0-3] of b, wanted member [0-3] of group memory", "M: twice: -1 found another description of member", "M: again: 2 ", "M: restore: 2 ",
			"M: afterwards: -1 found a description that has begun otherwise", "M: count: 0 ", "M: finish: 0 "}},
		{"looks", nodes, all, []string{"M: has: 0 2 80 3", "M: begin: -4 member 2: found region 2 of 8 bytes, wanted the snapshot's 2 of 80"}},
		{"tags", nodes, all, []string{"M: commit: -4 commit: members differ: found \"tag 1\" of member 2, wanted \"tag 0\" as of member 0", "M: again: 0 ", "M: finish: 0 "}},
		{"regions", nodes, all, []string{"M: commit: 0 ", "M: begin: -4 member 2: found region 2 of 8 bytes, wanted the snapshot's 2 of 80"}},
		{"room", nodes, all, []string{"M: commit: 0 ", "M: full: -2 node node2: its cache, .*, is full, wanted room", "M: again: 0 ", "M: finish: 0 "}},
		{"large", nodes, all, []string{"M: begin: -3 agent: cache .* on node node[1-4]: too small: wanted 24.1 MiB, for two snapshots with their redundancy, found 16.0 MiB free"}},
		{"second=same", nodes, all, []string{"M: same: -1 found another description of member [0-3] of group memory in this process, wanted that, or a group of another name", "M: commit: 0 ", "M: finish: 0 "}},
		{"second=renamed", nodes, all, []string{"M: renamed: -1 found member [0-3] of b, wanted member [0-3] of group memory, as which this description has begun", "M: finish: 0 "}},
		{"second=tags", nodes, all, []string{"M: second: 0 ", "M: tags: -4 commit: members differ: found \"tag 1\" of member 1, wanted \"tag 0\" as of member 0 \\(group b\\)", "M: commit: 0 ", "M: second finish: 0 ", "M: again: 0 ", "M: anew: 0 ", "M: third finish: 0 ", "M: finish: 0 "}},
		{"second=large", nodes, all, []string{"M: second: -3 agent: cache .* on node node[1-4]: too small: wanted 16.1 MiB, for two snapshots with their redundancy.*\\(group b\\)", "M: commit: 0 ", "M: finish: 0 "}},
		{"policies", nodes, all, []string{"M: begin: -4 init: members differ: found \"group memory of 4 members, policy partner, restored\" of member 1, wanted \"group memory of 4 members, policy xor, restored\" as of member 0"}},
		{"policy=mirror", nodes, all, []string{"M: begin: -1 policy \"mirror\", wanted single, partner, partner:2 to partner:8, or xor; or ring, pairs, xor:2 to xor:512"}},
		{"policy=xor:many", nodes, all, []string{"M: begin: -1 policy \"xor:many\", wanted the number of nodes of a set behind xor, 2 to 512"}},
		{"policy=ring", nodes, all, []string{"M: commit: 0 ", "M: finish: 0 "}},
		{"policy=partner", nodes, alone, []string{"0: begin: -1 policy partner: what is kept of a node lies on others: found a number of nodes with members of 1, wanted 2 at least"}},
		{"finish", plain, all, []string{"M: begin: -5 snapshots are kept in the memory of nodes: wanted byssus run with --hosts or --sandbox, and --cache"}},
		{"finish", nil, all, []string{"M: begin: -5 BYSSUS_CLIENTS is not set: this needs `byssus run`"}},
	} {
		if !harness.Chosen(i) {
			continue
		}
		mpi := harness.MPIs()[i%2]
		exe := c.site.Command(harness.Program{Name: "snap_wrong"}, mpi)
		argv := append([]string{c.site.Byssus, "run", "-n", fmt.Sprint(row.ranks), "--mpi", mpi, "--job", fmt.Sprintf("wrong%d", i)}, row.flags...)
		argv = append(append(argv, "--"), append(exe, row.how)...)
		if row.flags == nil {
			argv = c.site.NativeCommand(mpi, row.ranks, append(exe, row.how))
		}
		p, err := harness.Start(ctx, c.dir, harness.Environment(append(c.env, "FILL="+cache+"/fill")...), argv...)
		if err != nil {
			t.Fatal(err)
		}
		p.Took()
		var lines []string
		for _, says := range row.says {
			for m := range row.ranks {
				if line := regexp.MustCompile(`^M:`).ReplaceAllString(says, fmt.Sprint(m, ":")); line != says || m == 0 {
					lines = append(lines, "^"+line)
				}
			}
		}
		hears(t, c.dir, p.ExitCode(), 0, p.Stdout.String(), lines)
		if t.Failed() {
			t.Fatalf("%s:\n%s", row.how, p.Stderr.String())
		}
	}
}
