package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

// snaps begins a plain job whose program makes snapshots of its memory.
func (c *cluster) snaps(ctx context.Context, t *testing.T, program, name, mpi string, steps int, env, flags []string, args ...string) *written {
	t.Helper()
	return c.plainOf(ctx, t, program, name, mpi, steps, env, append([]string{"--cache", cache}, flags...), args...)
}

// TestSnapshotLife: a node crashes, and the program goes on on a spare, with the memory of its last committed snapshot; when it has ended, it is
// run again under the other MPI, with more to do.
func TestSnapshotLife(t *testing.T) {
	c, ctx := written1(t)
	for i, red := range []string{"xor", "partner"} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		mpi := harness.MPIs()[i%2]
		w := c.snaps(ctx, t, "snap_steps", red, mpi, 20, nil, []string{"--redundancy", red}, "size=3000000", fmt.Sprint("look=", i))
		w.counts(ctx, t, 4)
		c.sandbox(t, "crash", "nodes/node2")
		w.says(ctx, t, "what node2 held, .*, was made again on node5")
		w.says(ctx, t, "steps: restored at step ")
		c.sandbox(t, "start", "nodes/node2")
		w.ends(ctx, t)
		w.mpi, w.steps = harness.Other(mpi), 30
		w.run(ctx, t, nil)
		w.says(ctx, t, "steps: restored at step 20")
		w.ends(ctx, t)
	}
}

// TestSnapshotCopies: two neighbours of the ring crash at once. With two copies of each part the program goes on, on the spares, with the bytes of
// its last committed snapshot, which is an increment; with parity that much is lost, and said.
func TestSnapshotCopies(t *testing.T) {
	c, ctx := written1(t)
	for i, red := range []string{"partner:2", "xor"} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		mpi := harness.MPIs()[i%2]
		w := c.snaps(ctx, t, "snap_steps", "copies"+red[:3], mpi, 20, nil, []string{"--redundancy", red, "--wait-for-nodes", "3s"}, "size=3000000", "few=100", "capture=1")
		w.counts(ctx, t, 4)
		c.sandbox(t, "crash", "nodes/node2")
		c.sandbox(t, "crash", "nodes/node3")
		if red == "xor" {
			w.says(ctx, t, "lost are .*, of 4 with xor: more is lost than its redundancy covers")
			w.proc.Kill()
			continue
		}
		w.says(ctx, t, "what node2 held, .*, was made again on node5")
		w.says(ctx, t, "what node3 held, .*, was made again on node6")
		w.says(ctx, t, "steps: restored at step ")
		c.sandbox(t, "start", "nodes/node2")
		c.sandbox(t, "start", "nodes/node3")
		w.ends(ctx, t)
		w.mpi, w.steps = harness.Other(mpi), 30
		w.run(ctx, t, nil)
		w.says(ctx, t, "steps: restored at step 20")
		w.ends(ctx, t)
	}
}

// TestSnapshotMoments lets a rank, an agent, or byssus itself, die at each named point in the life of a snapshot.
func TestSnapshotMoments(t *testing.T) {
	c, ctx := written1(t)
	rows := []struct{ point, node string }{
		{"die=2@6@0", ""}, {"die=2@6@1", ""}, {"die=2@6@2", ""},
		{faults.WrittenOpen + ":3", "node2"}, {faults.WrittenSealed + ":3", "node2"},
		{faults.EncodeBegun + ":3", "node2"}, {faults.EncodeDone + ":3", "node3"}, {faults.CommitManifest + ":3", "node2"}, {faults.CommitRenamed + ":3", "node4"},
		{faults.WrittenOpen + ":3", ""}, {faults.WrittenCounts + ":3", ""},
	}
	for i, row := range rows {
		if !harness.ChosenOf(5, i) {
			continue
		}
		t.Run(row.point+"@"+row.node, func(t *testing.T) {
			var env []string
			args := []string{"size=200000"}
			switch {
			case strings.HasPrefix(row.point, "die"):
				args = append(args, row.point)
			case row.node == "":
				env = []string{"BYSSUS_FAULT=" + row.point}
			default:
				env = []string{"BYSSUS_FAULT=" + row.point + "@" + row.node}
			}
			program := []string{"snap_steps", "snap_go"}[i/2%2] // in C with MPI, and in Go without
			if program == "snap_steps" {
				args = append(args, "few=30", fmt.Sprintf("capture=%d", i%3)) // snapshots are increments
			}
			w := c.snaps(ctx, t, program, fmt.Sprintf("snapshot%d", i), harness.MPIs()[i%2], 12, env, []string{"--scavenge", "1m"}, args...)
			w.outlives(ctx, t, row.node, env != nil)
		})
	}
}

// outlives waits until a node has died of a fault, or byssus, which is run again then, or a rank, and lets the program come to its end from what
// it has stored. The node is there again afterwards.
func (w *written) outlives(ctx context.Context, t *testing.T, node string, fault bool) {
	t.Helper()
	switch {
	case node != "":
		w.says(ctx, t, "node "+node+" was lost")
	case fault:
		select {
		case <-w.proc.Done():
		case <-ctx.Done():
			t.Fatalf("byssus does not die\n%s", w.story())
		}
		w.run(ctx, t, nil)
	}
	w.says(ctx, t, "steps: restored at step ")
	w.ends(ctx, t)
	if node != "" {
		w.sandbox(t, "kill", "nodes/"+node)
		w.sandbox(t, "start", "nodes/"+node)
	}
}

// TestSnapshotIncrement: of a program that changes little between two snapshots little is sent; what a node that crashes held is made again from
// that; what a node has of the snapshot before is damaged, unseen, and the next one has all bytes from the ranks again.
func TestSnapshotIncrement(t *testing.T) {
	c, ctx := written1(t)
	for i, red := range []string{"xor", "partner"} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		const size = 3000000
		w := c.snaps(ctx, t, "snap_steps", "increments"+red, harness.MPIs()[i%2], 16, nil, []string{"--redundancy", red}, fmt.Sprint("size=", size), "few=100")
		w.counts(ctx, t, 5)
		c.sandbox(t, "crash", "nodes/node3")
		w.says(ctx, t, "what node3 held, .*, was made again on node5")
		w.says(ctx, t, "steps: restored at step ")
		c.sandbox(t, "start", "nodes/node3")
		w.says(ctx, t, "steps: waits")
		of := map[string]string{"xor": "parity.*", "partner": "rank-*.files/member-*"}[red]
		flip := "f=$(ls -d %s/scr.*/stream1.*[0-9] | tail -1); for g in $f/%s; do printf X | dd of=$g bs=1 seek=500000 conv=notrunc 2>/dev/null; done"
		c.sandbox(t, "run", "nodes", "--node", "node2", "--", "sh", "-c", fmt.Sprintf(flip, cache, of))
		w.ends(ctx, t)
		w.says(ctx, t, `what node2 has of it is damaged, and counts as lost: .* crc32c `)
		few := 0
		for _, e := range w.events(t) {
			if e.Kind == timeline.Encoded && 0 < e.Bytes && e.Bytes < size/40 {
				few++
			}
		}
		if wanted := ranks * 6; few < wanted {
			t.Errorf("%s: %d times a node has sent less than one in forty bytes, wanted %d at least\n%s", red, few, wanted, w.story())
		}
		w.steps = 20
		w.run(ctx, t, nil)
		w.says(ctx, t, "steps: restored at step 16")
		w.ends(ctx, t)
	}
}

// events are those of its timeline.
func (w *written) events(t *testing.T) []timeline.Event {
	t.Helper()
	list, _, err := timeline.Read(filepath.Join(w.dir, w.name, ".scr", "scr"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestSnapshotTransparent: a program makes snapshots of its memory while checkpoints of its processes are taken; a node crashes, and it goes on from
// the newest of these under the other MPI, with the snapshots that it makes from then on.
func TestSnapshotTransparent(t *testing.T) {
	for i, program := range []string{"snap_steps", "snap_groups"} {
		if harness.ChosenOf(6, i) {
			t.Run(program, func(t *testing.T) {
				c, ctx := written1(t)
				c.transparent(ctx, t, program, harness.MPIs()[i])
			})
		}
	}
}

func (c *cluster) transparent(ctx context.Context, t *testing.T, program, mpi string) {
	t.Helper()
	w := &written{cluster: c, program: program, name: "both", mpi: mpi, steps: 60, args: []string{"size=200000"}}
	dir := filepath.Join(c.dir, w.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "store")
	argv := append([]string{w.site.Byssus, "--dir", store, "run", "-v", "-n", fmt.Sprint(ranks), "--mpi", mpi, "--sandbox", "nodes", "--job", "both",
		"--silent-after", "3s", "--every", "1s", "--cache", cache, "--flush", "1", "--"}, w.site.Command(harness.Program{Name: w.program}, mpi)...)
	p, err := harness.Start(ctx, dir, harness.Environment(w.env...), append(argv, fmt.Sprint(w.steps), "ms=50", "until="+w.until(), "size=200000")...)
	if err != nil {
		t.Fatal(err)
	}
	w.proc = p
	t.Cleanup(p.Kill)
	w.says(ctx, t, "checkpoint 2: ")
	c.sandbox(t, "crash", "nodes/node3")
	w.says(ctx, t, "the job goes on from checkpoint")
	w.says(ctx, t, "restored from a checkpoint of its processes since it was begun|checkpoint 4: ")
	if err := w.proc.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.proc.Done():
	case <-ctx.Done():
		t.Fatalf("it does not leave\n%s", w.story())
	}
	if w.proc.ExitCode() != 123 {
		t.Fatalf("exit code %d, wanted 123, after a checkpoint\n%s", w.proc.ExitCode(), w.story())
	}
	c.sandbox(t, "start", "nodes/node3")
	if w.proc, err = harness.Start(ctx, dir, harness.Environment(w.env...), w.site.Byssus, "--dir", store, "restart", "both", "--mpi", harness.Other(mpi), "--sandbox", "nodes"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.proc.Kill)
	w.ends(ctx, t)
}

// TestSnapshotComesBack: a node stands still, or is cut off, and comes back when its members have been started again elsewhere: what was there
// ends, and changes nothing.
func TestSnapshotComesBack(t *testing.T) {
	c, ctx := written1(t)
	for i, row := range []struct{ stop, back, program string }{
		{"freeze", "thaw", "snap_steps"}, {"cut", "heal", "snap_go"}, {"freeze", "thaw", "online_c"}, {"cut", "heal", "online_go"},
	} {
		if !harness.ChosenOf(4, i) {
			continue
		}
		t.Run(row.stop+" "+row.program, func(t *testing.T) {
			const size = "size=200000"
			online, name, mpi := strings.HasPrefix(row.program, "online"), fmt.Sprintf("back%d", i), harness.MPIs()[i/2%2]
			var w *written
			if online {
				w = c.online(ctx, t, row.program, mpi, name, 20, nil, nil, size, "dir="+addresses(c, name))
			} else {
				w = c.snaps(ctx, t, row.program, name, mpi, 20, nil, nil, size)
			}
			w.counts(ctx, t, 4)
			c.sandbox(t, row.stop, "nodes/node2")
			w.says(ctx, t, "node node2 was lost")
			w.says(ctx, t, "restored at step")
			c.sandbox(t, row.back, "nodes/node2")
			gone := fmt.Sprintf(`! grep -qx %s /proc/[0-9]*/comm`, row.program)
			if err := harness.Poll(ctx, "the end of its members", func() bool { return c.true(t, "node2", gone) }); err != nil {
				t.Fatalf("%v\n%s", err, w.story())
			}
			if online {
				w.endsTogether(ctx, t, size)
			} else {
				w.ends(ctx, t)
			}
		})
	}
}

// TestSnapshotPairs: four members on two nodes, of which one crashes: both its members go on from the copies, or the parity, of the other.
func TestSnapshotPairs(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t, "--nodes", "2", "--spares", "1")
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	for i, red := range []string{"xor", "partner"} {
		if !harness.ChosenOf(2, i) {
			continue
		}
		w := c.snaps(ctx, t, "snap_steps", "pairs"+red, harness.MPIs()[i], 20, nil, []string{"--redundancy", red}, "size=300000")
		w.counts(ctx, t, 4)
		c.sandbox(t, "crash", "nodes/node2")
		w.says(ctx, t, "what node2 held, .*, was made again on node3")
		w.says(ctx, t, "steps: restored at step ")
		c.sandbox(t, "start", "nodes/node2")
		w.ends(ctx, t)
	}
}
