package nodes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

// online is a program whose survivors go on when a member dies: test/apps/online, in Go or in C.
func (c *cluster) online(ctx context.Context, t *testing.T, program, mpi, name string, steps int, env []string, flags []string, args ...string) *written {
	t.Helper()
	if err := os.MkdirAll(addresses(c, name), 0o700); err != nil {
		t.Fatal(err)
	}
	w := &written{cluster: c, program: program, name: name, mpi: mpi, steps: steps, args: args,
		flags: append([]string{"--cache", cache, "--survivors", "keep"}, flags...)}
	w.run(ctx, t, env)
	return w
}

// addresses is where members that speak over sockets leave theirs.
func addresses(c *cluster, name string) string { return filepath.Join(c.dir, name, "addresses") }

// endsTogether lets it come to its end, and compares what all members print with what they would, undisturbed.
func (w *written) endsTogether(ctx context.Context, t *testing.T, size string, more ...string) {
	t.Helper()
	w.over(ctx, t)
	exe := w.site.Command(harness.Program{Name: "online_go"}, w.mpi)
	want, err := exec.CommandContext(ctx, exe[0], append(append(exe[1:], fmt.Sprintf("alone=%d", ranks), fmt.Sprint(w.steps), size), more...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	sorted := func(s string) string {
		lines := strings.Split(strings.TrimSpace(s), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	if got := w.proc.Stdout.String(); w.proc.ExitCode() != 0 || sorted(got) != sorted(string(want)) {
		t.Fatalf("exit code %d: %s\nwanted %s\n%s", w.proc.ExitCode(), got, want, w.story())
	}
	if !regexp.MustCompile(`the others go on|no spare is left`).MatchString(w.proc.Stderr.String()) {
		t.Errorf("nobody has died\n%s", w.story())
	}
}

// heard compares the members of which each survivor says that they have died, with those that have.
func (w *written) heard(t *testing.T, dead string) {
	t.Helper()
	survivors := map[string]bool{}
	for _, m := range regexp.MustCompile(`online: member (\d+) hears that \[?(\d+)\]? died`).FindAllStringSubmatch(w.proc.Stderr.String(), -1) {
		if survivors[m[1]] = true; m[2] != dead {
			t.Errorf("member %s hears that %s died, wanted %s", m[1], m[2], dead)
		}
	}
	if len(survivors) == 0 { // those that notice by their connections may restore before they have looked
		t.Logf("no member has heard of it before it had noticed\n%s", w.story())
	}
}

// TestOnline: a member dies at some moment, alone or with its node; the others restore the newest snapshot with the process that takes its
// place, and all come to the same end.
func TestOnline(t *testing.T) {
	c, ctx := written1(t)
	const size = "size=200000"
	for i, row := range []struct{ how, dead string }{
		{"die=2@6@0", "2"}, {"die=1@6@1", "1"}, {"die=0@6@2", "0"}, {"die=3@6@1", "3"},
		{"kill node2", "1"}, {"crash node3", "2"},
		{faults.WrittenSealed + ":3@node2", "1"}, {faults.EncodeBegun + ":3@node3", "2"}, {faults.EncodeDone + ":3@node4", "3"}, {faults.CommitManifest + ":3@node2", "1"},
		{faults.WrittenOpen + ":4@node4", "3"}, {"kill node2 die=1@0@6", "1"}, // the newcomer between bys_look and bys_restore, too
	} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		t.Run(row.how, func(t *testing.T) {
			program, name := []string{"online_go", "online_c"}[i%2], fmt.Sprintf("online%d", i)
			var env []string
			args := []string{size, "dir=" + addresses(c, name)}
			how, die, dies := strings.Cut(row.how, " die=")
			verb, node, hurts := strings.Cut(how, " ")
			switch {
			case dies:
				args = append(args, "die="+die)
			case strings.HasPrefix(row.how, "die"):
				args = append(args, row.how)
			case !hurts:
				env = []string{"BYSSUS_FAULT=" + row.how}
				_, node, _ = strings.Cut(row.how, "@")
			}
			w := c.online(ctx, t, program, harness.MPIs()[0], name, 14, env, []string{"--redundancy", []string{"xor", "partner"}[i%2]}, args...)
			if hurts {
				w.counts(ctx, t, 4)
				c.sandbox(t, verb, "nodes/"+node)
			}
			w.says(ctx, t, fmt.Sprintf("member %s.* restored at step", row.dead))
			w.endsTogether(ctx, t, size)
			w.heard(t, row.dead)
			if env != nil { // its agent has died, and no more
				c.sandbox(t, "kill", "nodes/"+node)
			}
			if node != "" {
				c.sandbox(t, "start", "nodes/"+node)
			}
		})
	}
}

// TestOnlineGroups: a member of two groups dies, also between the beginning of one and of the other; the second group has as many members, or
// fewer. Each goes on from its own newest snapshot.
func TestOnlineGroups(t *testing.T) {
	c, ctx := written1(t)
	const size = "size=200000"
	for i, row := range []struct{ how, dead string }{
		{"die=2@6@4", "2"}, {"die=1@6@1", "1"}, {"die=0@6@2", "0"}, {"die=1@9@4", "1"}, {"die=1@0@5", ""}, {"die=2@0@5", ""},
		{"kill node2", "1"}, {"crash node3", "2"}, {"kill node3 die=0@1@5", "0"}, {"kill node2 die=3@1@5", "3"},
		{faults.WrittenSealed + ":5@node2", "1"}, {faults.EncodeDone + ":6@node4", "3"}, {faults.WrittenOpen + ":7@node2", "1"},
	} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		t.Run(row.how, func(t *testing.T) {
			name := fmt.Sprintf("both%d", i)
			group := []string{"side=3", fmt.Sprint("sides=", []int{ranks, 2}[i%2])}
			var env []string
			args := append([]string{size, "dir=" + addresses(c, name)}, group...)
			how, die, _ := strings.Cut(row.how, "die=")
			verb, node, hurts := strings.Cut(strings.TrimSpace(how), " ")
			switch {
			case die != "":
				args = append(args, "die="+die)
			case !hurts:
				env = []string{"BYSSUS_FAULT=" + row.how}
				_, node, _ = strings.Cut(row.how, "@")
			}
			w := c.online(ctx, t, "online_go", harness.MPIs()[0], name, 14, env, []string{"--redundancy", []string{"xor", "partner"}[i/2%2]}, args...)
			if hurts {
				w.counts(ctx, t, 6)
				c.sandbox(t, verb, "nodes/"+node)
			}
			if row.dead != "" {
				w.says(ctx, t, fmt.Sprintf("member %s.* restored at step", row.dead))
			}
			w.endsTogether(ctx, t, size, group...)
			if env != nil { // its agent has died, and no more
				c.sandbox(t, "kill", "nodes/"+node)
			}
			if node != "" {
				c.sandbox(t, "start", "nodes/"+node)
			}
		})
	}
}

// TestOnlineMPI: members that speak by Open MPI go on when one has died, alone or with its node; a process that has waited takes its place, or, if
// there is none, all are started again.
func TestOnlineMPI(t *testing.T) {
	c, ctx := written1(t)
	const size = "size=200000"
	for i, row := range []struct{ how, processes, says string }{
		{"die=2@6@1", "5", "member 2 has died; the others go on, and process 4 takes its place"},
		{"crash node2", "5", "member 2 has died; the others go on, and process 4 takes its place"},
		{"die=1@6@2", "4", "member 1 has died, and no spare is left; going back to checkpoint"},
		{"kill node1", "5", "node node1 was lost.*going back to checkpoint"}, // with its launcher
	} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		t.Run(row.how, func(t *testing.T) {
			args := []string{size, "members=4"}
			verb, node, hurts := strings.Cut(row.how, " ")
			if !hurts {
				args = append(args, row.how)
			}
			w := c.online(ctx, t, "snap_survive", "openmpi", fmt.Sprintf("mpi%d", i), 14, nil, []string{"-n", row.processes}, args...)
			if hurts {
				w.counts(ctx, t, 4)
				c.sandbox(t, verb, "nodes/"+node)
			}
			w.says(ctx, t, row.says)
			w.says(ctx, t, `survive: member \d restored at step`)
			w.endsTogether(ctx, t, size)
			if hurts {
				c.sandbox(t, "start", "nodes/"+node)
			}
		})
	}
}

// TestOnlineWrong: what is lost for good is an error, and no other bytes; and what --survivors cannot be for is said before anything runs.
func TestOnlineWrong(t *testing.T) {
	c, ctx := written1(t)
	w := c.online(ctx, t, "online_go", harness.MPIs()[0], "lost", 100, nil, []string{"--redundancy", "single"}, "size=1000", "dir="+addresses(c, "lost"))
	w.counts(ctx, t, 3)
	c.sandbox(t, "kill", "nodes/node2")
	w.says(ctx, t, `restore: memory.\d+ counts, but it cannot be had: more is lost, or damaged, than its redundancy covers`)
	if w.over(ctx, t); w.proc.ExitCode() != 7 {
		t.Errorf("exit code %d, wanted the program's, 7\n%s", w.proc.ExitCode(), w.story())
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--plain", "--survivors", "some"}, `--survivors "some", wanted end or keep`},
		{[]string{"--survivors", "keep"}, `wanted --plain, and neither --script nor --files`},
		{[]string{"--plain", "--survivors", "keep"}, `wanted --hosts or --sandbox, and --cache`},
		{[]string{"--plain", "--survivors", "keep", "--sandbox", "nodes", "--cache", cache, "--", w.site.Command(harness.Program{Name: "snap_steps"}, "mpich")[0]}, `found a program of mpich, wanted one of Open MPI, or without MPI`},
	} {
		args := append([]string{"run"}, row.args...)
		if !slices.Contains(args, "--") {
			args = append(args, "--", "/bin/true")
		}
		cmd := exec.CommandContext(ctx, w.site.Byssus, args...)
		cmd.Env = harness.Environment(c.env...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), row.want) {
			t.Errorf("%v: %v: %s, wanted %q", row.args, err, out, row.want)
		}
	}
}
