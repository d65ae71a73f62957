package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

// written is a plain job, whose program writes its datasets itself: test/apps/scr/steps.c, by SCR's interface, or files.c, as files.
type written struct {
	*cluster
	program   string
	name, mpi string
	steps     int
	flags     []string
	args      []string
	proc      *harness.Proc
}

// want is the last line of a program that nothing has disturbed.
func (w *written) want(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(w.dir, "undisturbed")
	if err != nil {
		t.Fatal(err)
	}
	argv := append([]string{w.site.Byssus, "run", "--plain", "-n", fmt.Sprint(ranks), "--mpi", "mpich", "--"}, w.site.Command(harness.Program{Name: w.program}, "mpich")...)
	argv = append(argv, fmt.Sprint(w.steps), "every=1000000")
	p, err := harness.Start(t.Context(), dir, harness.Environment(w.env...), append(argv, w.args...)...)
	if err != nil {
		t.Fatal(err)
	}
	p.Took()
	line := strings.TrimSpace(p.Stdout.String())
	if p.ExitCode() != 0 || !strings.HasPrefix(line, fmt.Sprintf("step %d of", w.steps)) {
		t.Fatalf("an undisturbed run: exit code %d: %s\n%s", p.ExitCode(), line, p.Stderr.String())
	}
	return line
}

// plain begins a plain job on the nodes, whose program knows SCR's interface.
func (c *cluster) plain(ctx context.Context, t *testing.T, name, mpi string, steps int, env []string, flags []string, args ...string) *written {
	t.Helper()
	return c.plainOf(ctx, t, "scr_steps", name, mpi, steps, env, flags, args...)
}

// plainOf begins one of a program.
func (c *cluster) plainOf(ctx context.Context, t *testing.T, program, name, mpi string, steps int, env, flags []string, args ...string) *written {
	t.Helper()
	dir := filepath.Join(c.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &written{cluster: c, program: program, name: name, mpi: mpi, steps: steps, flags: flags, args: args}
	w.run(ctx, t, env)
	return w
}

// run runs it, again if it has been run before.
func (w *written) run(ctx context.Context, t *testing.T, env []string, more ...string) {
	t.Helper()
	argv := append([]string{w.site.Byssus, "run", "--plain", "-n", fmt.Sprint(ranks), "--mpi", w.mpi, "--sandbox", "nodes", "--silent-after", "3s"}, w.flags...)
	argv = append(append(argv, "--"), w.site.Command(harness.Program{Name: w.program}, w.mpi)...)
	argv = append(append(argv, fmt.Sprint(w.steps), "ms=20", "until="+w.until()), append(w.args, more...)...)
	p, err := harness.Start(ctx, filepath.Join(w.dir, w.name), harness.Environment(append(env, w.env...)...), argv...)
	if err != nil {
		t.Fatal(err)
	}
	w.proc = p
	t.Cleanup(p.Kill)
}

func (w *written) until() string { return filepath.Join(w.dir, w.name, "until") }

func (w *written) story() string {
	return w.proc.Stdout.String() + harness.Tail(w.proc.Stderr.String())
}

// says waits until it says something, on standard error, or has ended.
func (w *written) says(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	re := regexp.MustCompile(text)
	if err := harness.Poll(ctx, text, func() bool { return !w.proc.Running() || re.MatchString(w.proc.Stderr.String()) }); err != nil || !re.MatchString(w.proc.Stderr.String()) {
		t.Fatalf("it does not say %q: %v\n%s", text, err, w.story())
	}
}

// over waits until a program has ended, which may do so now.
func (w *written) over(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := os.WriteFile(w.until(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.proc.Done():
	case <-ctx.Done():
		t.Fatalf("it does not end\n%s", w.story())
	}
}

// ends lets it come to its end, and compares what it prints.
func (w *written) ends(ctx context.Context, t *testing.T) {
	t.Helper()
	w.over(ctx, t)
	if got := strings.TrimSpace(w.proc.Stdout.String()); w.proc.ExitCode() != 0 || got != w.want(t) {
		t.Fatalf("exit code %d: %q, wanted %q\n%s", w.proc.ExitCode(), got, w.want(t), w.story())
	}
}

// counts waits until so many datasets have been written.
func (w *written) counts(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	marks := filepath.Join(w.dir, w.name, ".scr", "scr", "job.json")
	err := harness.Poll(ctx, "datasets", func() bool {
		b, _ := os.ReadFile(marks)
		m := regexp.MustCompile(`"newest_in_caches": (\d+)`).FindSubmatch(b)
		var newest int
		if m != nil {
			fmt.Sscan(string(m[1]), &newest)
		}
		return !w.proc.Running() || newest >= n
	})
	if err != nil || !w.proc.Running() {
		t.Fatalf("no %d datasets: %v\n%s", n, err, w.story())
	}
}

func written1(t *testing.T) (*cluster, context.Context) {
	t.Helper()
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	t.Cleanup(cancel)
	return c, ctx
}

// TestWrittenLife: a program writes datasets in the caches of nodes; a node dies, and it goes on on a spare with what it had; when it has
// ended it is run again, with more to do, under the other MPI, and as one whose files are in the prefix at once.
func TestWrittenLife(t *testing.T) {
	c, ctx := written1(t)
	for i, red := range []string{"xor", "partner", "single"} {
		if !harness.Chosen(i) {
			continue
		}
		mpi := harness.MPIs()[i%2]
		w := c.plain(ctx, t, red, mpi, 30, nil, []string{"--cache", cache, "--redundancy", red, "--flush", "5"}, "size=300000", "files=2", "output=10")
		w.counts(ctx, t, 12)
		if red != "single" {
			c.sandbox(t, "crash", "nodes/node2")
			w.says(ctx, t, "what node2 held, .*, was made again on node5")
			w.says(ctx, t, "steps: restarted at step ")
			c.sandbox(t, "start", "nodes/node2")
		}
		w.ends(ctx, t)
		for _, dir := range []string{"out.10", "out.20", "out.30", "ckpt.30"} {
			if list, _ := filepath.Glob(filepath.Join(c.dir, red, dir, "rank_*")); len(list) != 2*ranks {
				t.Errorf("%s: %d files in the prefix, wanted %d", dir, len(list), 2*ranks)
			}
		}
		w.mpi, w.steps = harness.Other(mpi), 40
		w.run(ctx, t, []string{"SCR_CACHE_BYPASS=1"})
		w.says(ctx, t, "steps: restarted at step 30 from ckpt.30")
		w.ends(ctx, t)
	}
}

// writtenRow is a crash point in the life of a dataset that a program writes, and whose agent dies there; empty: byssus run.
type writtenRow struct{ point, node string }

func writtenRows() []writtenRow {
	return []writtenRow{
		{faults.WrittenOpen + ":3", "node2"}, {faults.WrittenSaid + ":3", "node2"}, {faults.WrittenSealed + ":3", "node2"},
		{faults.EncodeBegun + ":3", "node2"}, {faults.EncodeDone + ":3", "node3"}, {faults.CommitManifest + ":3", "node2"}, {faults.CommitRenamed + ":3", "node4"},
		{faults.FlushBegun, "node2"}, {faults.FlushDone, "node1"},
		{faults.WrittenOpen + ":3", ""}, {faults.WrittenCounts + ":3", ""}, {faults.WrittenFlushed, ""},
	}
}

// TestWrittenMoments lets an agent, or byssus itself, die at each named point in the life of a dataset that lies in caches.
func TestWrittenMoments(t *testing.T) {
	c, ctx := written1(t)
	for i, row := range writtenRows() {
		if !harness.ChosenOf(6, i) {
			continue
		}
		t.Run(row.point+"@"+row.node, func(t *testing.T) {
			value := row.point
			if row.node != "" {
				value += "@" + row.node
			}
			w := c.plain(ctx, t, fmt.Sprintf("moment%d", i), harness.MPIs()[i%2], 12, []string{"BYSSUS_FAULT=" + value}, []string{"--cache", cache, "--flush", "2", "--scavenge", "1m"}, "size=200000")
			if row.node == "" {
				select {
				case <-w.proc.Done():
				case <-ctx.Done():
					t.Fatalf("byssus does not die\n%s", w.story())
				}
				w.run(ctx, t, nil)
			} else {
				w.says(ctx, t, "node "+row.node+" was lost")
			}
			w.says(ctx, t, "steps: restarted at step ")
			w.ends(ctx, t)
			if row.node != "" {
				c.sandbox(t, "kill", "nodes/"+row.node)
				c.sandbox(t, "start", "nodes/"+row.node)
			}
		})
	}
}

// TestWrittenRankDies: a rank that is killed lets the program restart where it was; under both MPIs, and started by its own launcher.
func TestWrittenRankDies(t *testing.T) {
	c, ctx := written1(t)
	for i, mpi := range harness.MPIs() {
		if !harness.Chosen(i) {
			continue
		}
		w := c.plain(ctx, t, "dies-"+mpi, mpi, 12, nil, []string{"--cache", cache}, "die=2@8")
		w.says(ctx, t, "steps: restarted at step 7 from ckpt.7")
		w.args = nil // which makes no difference to what it prints
		w.ends(ctx, t)
		script := filepath.Join(c.dir, "job."+mpi)
		exe := strings.Join(w.site.Command(harness.Program{Name: "scr_steps"}, mpi), " ")
		text := fmt.Sprintf("#!/bin/sh\nfor try in 1 2; do mpirun.%s -n %d %s 12 die=1@8 until=$PWD/until && break; done\nmpirun.%s -n %d %s 15\n",
			mpi, ranks, exe, mpi, ranks+1, exe)
		if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		c.scripted(ctx, t, "script-"+mpi, mpi, script)
	}
}

// scripted runs a command that starts launchers by itself: the first program loses a rank and goes on, the second has another number of
// ranks, for which nothing of the first is meant.
func (c *cluster) scripted(ctx context.Context, t *testing.T, name, mpi, script string) {
	t.Helper()
	dir := filepath.Join(c.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "until"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(c.env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	p, err := harness.Start(ctx, dir, harness.Environment(env...), c.site.Byssus, "run", "--script", "--mpi", mpi, "--sandbox", "nodes", "--cache", cache, "--", script)
	if err != nil {
		t.Fatal(err)
	}
	p.Took()
	w := &written{cluster: c, program: "scr_steps", name: name, mpi: mpi, steps: 12}
	lines := strings.Split(strings.TrimSpace(p.Stdout.String()), "\n")
	if p.ExitCode() != 0 || !slices.Contains(lines, w.want(t)) || !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "step 15 of 15: ") }) {
		t.Fatalf("exit code %d: %q, wanted %q and one more\n%s", p.ExitCode(), lines, w.want(t), harness.Tail(p.Stderr.String()))
	}
}

// TestWrittenDamage: a bit that is flipped in a cache is found before a restart, and repaired; one in the prefix is found, and an older
// dataset offered.
func TestWrittenDamage(t *testing.T) {
	c, ctx := written1(t)
	w := c.plain(ctx, t, "damage", "mpich", 12, nil, []string{"--cache", cache}, "size=3000000")
	w.counts(ctx, t, 11)
	flip := `f=$(ls -d %s/scr.*/stream1.*[0-9] | tail -1); g=$(find $f/ -name 'rank_1.0'); printf X | dd of=$g bs=1 seek=1500000 conv=notrunc 2>/dev/null; ` + strings.ReplaceAll(onRanks, "stencil", "scr_steps")
	c.sandbox(t, "run", "nodes", "--node", "node2", "--", "sh", "-c", fmt.Sprintf(flip, cache, "KILL"))
	w.says(ctx, t, `dataset ckpt.11: 1\.0 MiB of what node2 has of it were damaged, and have been repaired`)
	w.ends(ctx, t)
	path := filepath.Join(c.dir, "damage", "ckpt.12", "rank_3.0")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	w.steps, w.args = 14, []string{"size=3000000"}
	w.run(ctx, t, nil)
	w.says(ctx, t, "dataset ckpt.12 cannot be had: .*rank_3.0")
	w.ends(ctx, t)
}

// TestWrittenTransparent: a program that writes datasets is also checkpointed transparently: a node dies, and it goes on from its image.
func TestWrittenTransparent(t *testing.T) {
	c, ctx := written1(t)
	mpi := harness.MPIs()[0]
	w := &written{cluster: c, program: "scr_steps", name: "both", mpi: mpi, steps: 40}
	dir := filepath.Join(c.dir, w.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{w.site.Byssus, "--dir", filepath.Join(dir, "store"), "run", "-v", "-n", fmt.Sprint(ranks), "--mpi", harness.Other(mpi), "--sandbox", "nodes",
		"--silent-after", "3s", "--every", "1s", "--cache", cache, "--"}, w.site.Command(harness.Program{Name: "scr_steps"}, mpi)...)
	p, err := harness.Start(ctx, dir, harness.Environment(w.env...), append(argv, fmt.Sprint(w.steps), "ms=50", "until="+w.until())...)
	if err != nil {
		t.Fatal(err)
	}
	w.proc = p
	t.Cleanup(p.Kill)
	w.says(ctx, t, "checkpoint 2: ")
	c.sandbox(t, "crash", "nodes/node3")
	w.says(ctx, t, "the job goes on from checkpoint")
	w.ends(ctx, t)
}
