package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

// tasks begins a plain job whose elements are saved in the memory of the nodes.
func (c *cluster) tasks(ctx context.Context, t *testing.T, name, mpi string, steps int, env, flags []string, args ...string) *written {
	t.Helper()
	return c.plainOf(ctx, t, "tasks_steps", name, mpi, steps, env, append([]string{"--cache", cache}, flags...), args...)
}

// TestTasksLife: a node crashes, and the program goes on on a spare, with its elements as they were saved last; when it has ended, it is run again
// under the other MPI, on other numbers of ranks, with more to do.
func TestTasksLife(t *testing.T) {
	c, ctx := written1(t)
	for i, red := range []string{"xor", "partner"} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		mpi := harness.MPIs()[i%2]
		w := c.tasks(ctx, t, "tasks"+red, mpi, 20, nil, []string{"--redundancy", red}, "size=30000")
		w.counts(ctx, t, 4)
		c.sandbox(t, "crash", "nodes/node2")
		w.says(ctx, t, "what node2 held, .*, was made again on node5")
		w.says(ctx, t, "steps: restored at step ")
		c.sandbox(t, "start", "nodes/node2")
		w.ends(ctx, t)
		for k, n := range []string{"3", "7"} {
			before := w.steps
			w.mpi, w.steps, w.flags = harness.Other(w.mpi), 30+k*5, append(w.flags, "-n", n)
			w.run(ctx, t, nil)
			w.says(ctx, t, fmt.Sprintf("steps: restored at step %d\n", before))
			w.ends(ctx, t)
		}
	}
}

// TestTasksShrink: nodes are lost for which there is no spare: the program goes on on fewer ranks, once more, and its results are the same.
func TestTasksShrink(t *testing.T) {
	c, ctx := written1(t)
	for _, spare := range []string{"nodes/node5", "nodes/node6"} {
		c.sandbox(t, "kill", spare)
	}
	for i, red := range []string{"partner", "xor"} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		w := c.tasks(ctx, t, "shrink"+red, harness.MPIs()[i%2], 20, nil, []string{"--redundancy", red, "--shrink"}, "size=30000")
		for k, node := range []string{"node2", "node4"} {
			w.counts(ctx, t, 4+4*k)
			c.sandbox(t, []string{"kill", "crash"}[k], "nodes/"+node)
			w.says(ctx, t, fmt.Sprintf("going on with %d ranks on the nodes that are left", 3-k))
			w.says(ctx, t, "what "+node+" held, .*, was made again on node")
			w.says(ctx, t, fmt.Sprintf("(steps: restored at step (?s:.*)){%d}", k+1))
		}
		w.ends(ctx, t)
		for _, node := range []string{"nodes/node2", "nodes/node4"} {
			c.sandbox(t, "start", node)
		}
	}
}

// TestTasksMoments lets a rank, an agent, or byssus itself, die at each named point in the life of a checkpoint of elements: the program goes on
// from this one, or from the one before.
func TestTasksMoments(t *testing.T) {
	c, ctx := written1(t)
	rows := []struct{ point, node string }{
		{"die=2@6", ""}, {faults.WrittenOpen + ":3", "node2"}, {faults.WrittenSealed + ":3", "node3"}, {faults.EncodeBegun + ":3", "node2"},
		{faults.EncodeDone + ":3", "node4"}, {faults.CommitManifest + ":3", "node2"}, {faults.CommitRenamed + ":3", "node1"},
		{faults.WrittenOpen + ":3", ""}, {faults.WrittenCounts + ":3", ""},
	}
	for i, row := range rows {
		if !harness.ChosenOf(4, i) {
			continue
		}
		t.Run(row.point+"@"+row.node, func(t *testing.T) {
			var env []string
			args, flags := []string{"size=20000"}, []string{"--scavenge", "1m"}
			switch {
			case row.node != "":
				env, flags = []string{"BYSSUS_FAULT=" + row.point + "@" + row.node}, append(flags, "--shrink")
			case row.point[:3] == "die":
				args = append(args, row.point)
			default:
				env = []string{"BYSSUS_FAULT=" + row.point}
			}
			w := c.tasks(ctx, t, fmt.Sprintf("moment%d", i), harness.MPIs()[i%2], 12, env, flags, args...)
			w.outlives(ctx, t, row.node, env != nil)
		})
	}
}

// TestTasksWrong: what cannot be is an error that says so.
func TestTasksWrong(t *testing.T) {
	c, ctx := written1(t)
	w := c.plainOf(ctx, t, "tasks_steps", "nocache", harness.MPIs()[0], 5, nil, nil)
	w.fails(ctx, t, "snapshots are kept in the memory of nodes: wanted byssus run with --hosts or --sandbox, and --cache")
	for _, wrong := range [][]string{{"--script"}, {"--survivors", "keep"}} {
		w = c.tasks(ctx, t, "wrong", harness.MPIs()[0], 5, nil, append(wrong, "--shrink"))
		w.fails(ctx, t, "--shrink is for a program that goes on on fewer ranks by itself")
	}
}

// fails waits until it has failed, and has said why.
func (w *written) fails(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	w.over(ctx, t)
	if w.proc.ExitCode() == 0 || !strings.Contains(w.proc.Stderr.String(), text) {
		t.Fatalf("exit code %d, wanted %q\n%s", w.proc.ExitCode(), text, w.story())
	}
}
