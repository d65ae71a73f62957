package nodes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

// TestSnapshotGroups: a program is in three groups, of different members, policies and intervals; a rank, a node, an agent or byssus itself dies
// at some moment, and each group goes on from its own newest snapshot.
func TestSnapshotGroups(t *testing.T) {
	c, ctx := written1(t)
	for i, row := range []struct{ how, says string }{
		{"die=2@10@0", ""}, {"die=1@10@1", ""}, {"die=3@10@2", ""}, {"die=0@10@3", ""}, {"die=1@6@2", ""},
		{"die=2@7@0 die=1@1@4", "field restored"}, {"die=3@11@2 die=2@1@5", "control restored"}, {"die=3@14@6", "field restored at step 10"},
		{"crash node2", "what node2 held, .*, was made again"}, {"crash node4", "what node4 held, .*, was made again"},
		{faults.WrittenSealed + ":7@node2", ""}, {faults.EncodeDone + ":8@node1", ""}, {faults.CommitManifest + ":6@node3", ""},
		{faults.WrittenCounts + ":5", ""}, {"ends=1 die=2@11@0", "field restored at step 10"},
	} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		t.Run(row.how, func(t *testing.T) {
			var env []string
			args := []string{"size=200000"}
			node, hurts := strings.CutPrefix(row.how, "crash ")
			switch {
			case hurts:
			case strings.Contains(row.how, "die="):
				args, node = append(args, strings.Fields(row.how)...), ""
			default:
				env = []string{"BYSSUS_FAULT=" + row.how}
				_, node, _ = strings.Cut(row.how, "@")
			}
			w := c.snaps(ctx, t, "snap_groups", fmt.Sprintf("groups%d", i), harness.MPIs()[i%2], 14, env, []string{"--scavenge", "1m"}, args...)
			switch {
			case hurts:
				w.counts(ctx, t, 11)
				c.sandbox(t, "crash", "nodes/"+node)
			case env != nil && node != "":
				w.says(ctx, t, "node "+node+" was lost")
			case env != nil:
				select {
				case <-w.proc.Done():
				case <-ctx.Done():
					t.Fatalf("byssus does not die\n%s", w.story())
				}
				w.run(ctx, t, nil)
			}
			if strings.Contains(row.how, "@14@") { // which is at the end
				if err := os.WriteFile(w.until(), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if row.says != "" {
				w.says(ctx, t, row.says)
			}
			w.says(ctx, t, "groups: (control|field) restored at step")
			w.ends(ctx, t)
			if node != "" {
				if !hurts { // its agent has died, and no more
					c.sandbox(t, "kill", "nodes/"+node)
				}
				c.sandbox(t, "start", "nodes/"+node)
			}
			for _, e := range w.events(t) {
				if e.Kind == timeline.Committed && !regexp.MustCompile(fmt.Sprintf(`^(field|control|io)\.%d$`, e.Dataset)).MatchString(e.Name) {
					t.Errorf("dataset %d is %s", e.Dataset, e.Name)
				}
			}
		})
	}
}

// TestSnapshotGroupsLater: what was kept of one group is there when the job is run again, and what was not is not; after an error all groups go on.
func TestSnapshotGroupsLater(t *testing.T) {
	if !harness.ChosenOf(2, 0) {
		return
	}
	c, ctx := written1(t)
	w := c.snaps(ctx, t, "snap_groups", "later", harness.MPIs()[0], 14, nil, []string{"--retries", "0"}, "size=200000", "die=1@13@0")
	select {
	case <-w.proc.Done():
	case <-ctx.Done():
		t.Fatalf("it does not end\n%s", w.story())
	}
	if w.proc.ExitCode() == 0 {
		t.Fatalf("nobody has died\n%s", w.story())
	}
	out, _ := exec.CommandContext(ctx, c.site.Byssus, "--dir", filepath.Join(c.dir, w.name, ".scr"), "list").CombinedOutput()
	list := string(out)
	for _, name := range []string{`field\.\d+ .*4 .*prefix.*current`, `control\.\d+ .*4 .*prefix.*current`, `io\.\d+ .*2 .*prefix.*current`} {
		if !regexp.MustCompile(name).MatchString(list) {
			t.Errorf("list has no %s:\n%s", name, list)
		}
	}
	w.run(ctx, t, nil)
	for _, says := range []string{"field restored at step 10", "control restored at step 12", "io restored at step 12"} {
		w.says(ctx, t, says)
	}
	w.ends(ctx, t)
	w.steps, w.mpi = 20, harness.Other(w.mpi)
	w.run(ctx, t, nil)
	w.says(ctx, t, "field restored at step 10")
	w.ends(ctx, t)
	if s := w.proc.Stderr.String(); strings.Contains(s, "control restored") || strings.Contains(s, "io restored") {
		t.Errorf("groups that were finished without keep are restored\n%s", w.story())
	}
}
