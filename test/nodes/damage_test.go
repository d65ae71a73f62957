package nodes

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/test/harness"
)

// harm is what becomes of files of a checkpoint in a node's cache, in shell commands about $f, which has $n bytes.
type harm struct{ node, file, how string }

const (
	noise   = "dd if=/dev/urandom of=$f bs=64 count=1 conv=notrunc status=none oflag=seek_bytes seek=" // a place follows
	image   = "rank-*.0.img"
	kept    = "parity.*"
	middle  = noise + "$((n / 2))"
	tables  = noise + "$((n - 64))"
	head    = noise + "100"
	cut     = "truncate -s $((n / 2)) $f"
	removed = "rm $f"
)

// harm does it to a checkpoint of a job.
func (c *cluster) harm(t *testing.T, job string, checkpoint int, list ...harm) {
	t.Helper()
	for _, h := range list {
		c.sandbox(t, "run", "nodes", "--node", h.node, "--", "sh", "-ec", fmt.Sprintf(
			"for f in %s/%s.*/ckpt.%06d/%s; do n=$(stat -c %%s $f); %s; done", cache, job, checkpoint, h.file, h.how))
	}
}

// TestDamage: files in caches are not as they were written, or gone. What is found damaged, when ranks go on from it or it is copied
// to the store, is repaired from what other nodes have, where it is known what is damaged; else all that the node has of it is made
// again. Where more is damaged than that covers, the job goes on from what is whole.
func TestDamage(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t)
	for i, scheme := range []redset.Scheme{redset.XOR, redset.Partner} {
		if !harness.Chosen(i) {
			continue
		}
		t.Run(scheme.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*atMost)
			defer cancel()
			name := "harm-" + scheme.String()
			j := c.job(ctx, t, name, harness.MPIs()[i], nil, "--every", "0", "--flush", "0", "--redundancy", scheme.String())
			defer j.Close()
			d := &damaged{c, ctx, t, j, name, 0, time.Now()}
			if err := harness.Poll(ctx, "the first iterations", func() bool { return strings.Contains(j.Proc().Stdout.String(), "iter ") }); err != nil {
				t.Fatalf("%v\n%s", err, j.Story())
			}
			for _, how := range []string{middle, tables, head, cut, removed} {
				n := d.checkpoint()
				c.harm(t, name, n, harm{"node2", image, how})
				d.goesOn("node3", n, "[0-9.]+ .?i?B of what node2 has of it were damaged, and have been repaired")
				if how == middle && d.repaired() > 2<<20 {
					t.Errorf("%d bytes were repaired for 64 that were damaged\n%s", d.repaired(), j.Story())
				}
			}
			n := d.checkpoint()
			c.harm(t, name, n, harm{"node2", image, middle}, harm{"node2", kept, removed}) // nothing says what the node is in its set
			d.goesOn("node3", n, "what node2 has of it is damaged, and counts as lost", "what node2 held, .* was made again on node2 in")
			d.beyond(scheme)
			d.leaves(harness.MPIs()[1-i])
		})
	}
}

// beyond is longer than what a job does again here that goes back to its last checkpoint.
const beyond = 2 * time.Second

// damaged is a job whose checkpoints are harmed.
type damaged struct {
	c    *cluster
	ctx  context.Context
	t    *testing.T
	j    *harness.Job
	name string
	told int       // bytes on standard error until the last checkpoint
	ran  time.Time // when the ranks went on
}

func (d *damaged) checkpoint() int {
	d.t.Helper()
	// Only a checkpoint beyond the death before it is progress, without which an older one would be used.
	err := harness.Poll(d.ctx, "work", func() bool { return time.Since(d.ran) > beyond })
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.j.Story())
	}
	found, err := d.j.Checkpoint(d.ctx)
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.j.Story())
	}
	d.told = len(d.j.Proc().Stderr.String())
	return int(found.Number)
}

// goesOn: a rank dies, and the job goes on from that checkpoint, when it has said all that.
func (d *damaged) goesOn(node string, checkpoint int, texts ...string) {
	d.t.Helper()
	d.c.sandbox(d.t, "run", "nodes", "--node", node, "--", "sh", "-c", fmt.Sprintf(onRanks, "KILL"))
	over := func() bool {
		return !d.j.Proc().Running() || strings.Contains(d.said(), "the job goes on from checkpoint")
	}
	if err := harness.Poll(d.ctx, "the job goes on", over); err != nil {
		d.t.Fatalf("%v\n%s", err, d.j.Story())
	}
	d.says(append(texts, fmt.Sprintf("the job goes on from checkpoint %d\n", checkpoint))...)
	d.ran = time.Now()
}

// repaired is how many bytes the job says that it has repaired since the last checkpoint.
func (d *damaged) repaired() int {
	found := regexp.MustCompile("([0-9.]+) (.?i?B) of what node").FindStringSubmatch(d.said())
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return int(n * map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[found[2]])
}

// said is what the job has since the last checkpoint.
func (d *damaged) said() string { return d.j.Proc().Stderr.String()[d.told:] }

func (d *damaged) says(texts ...string) {
	d.t.Helper()
	for _, text := range texts {
		if !regexp.MustCompile(text).MatchString(d.said()) {
			d.t.Fatalf("%q: not said\n%s", text, d.j.Story())
		}
	}
}

// beyond: two nodes have damage, all of an image, and all that one keeps for others. With copies they are in two sets, with parity in one.
// What is damaged here and there is in different stripes, and is repaired.
func (d *damaged) beyond(scheme redset.Scheme) {
	d.t.Helper()
	whole := d.checkpoint()
	n := d.checkpoint()
	d.c.harm(d.t, d.name, n, harm{"node1", image, head}, harm{"node2", kept, removed})
	if scheme == redset.XOR {
		d.goesOn("node4", whole, fmt.Sprintf("checkpoint %d cannot be used: .*lost are node1, node2, of 4 with xor", n))
		return
	}
	d.goesOn("node4", n, "what node1 has of it were damaged, and have been repaired", "what node2 held, .* was made again on node2 in")
}

// leaves: an interrupted job takes its newest checkpoint along, made whole.
func (d *damaged) leaves(mpi string) {
	d.t.Helper()
	n := d.checkpoint()
	d.c.harm(d.t, d.name, n, harm{"node4", image, middle})
	if err := d.j.Proc().Signal(syscall.SIGINT); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-d.j.Proc().Done():
	case <-d.ctx.Done():
		d.t.Fatalf("it does not leave\n%s", d.j.Story())
	}
	d.says("what node4 has of it were damaged, and have been repaired", fmt.Sprintf("checkpoint %d was copied to", n))
	if err := d.j.Verify(d.ctx); err != nil {
		d.t.Error(err)
	}
	d.c.release(d.t, d.name)
	if err := d.j.Restart(d.ctx, mpi, "-v"); err != nil {
		d.t.Fatal(err)
	}
	d.c.ends(d.ctx, d.t, d.j)
	if found := d.j.Proc().Stderr.String(); !strings.Contains(found, fmt.Sprintf("the job goes on from checkpoint %d\n", n)) {
		d.t.Errorf("not from checkpoint %d\n%s", n, d.j.Story())
	}
}

// TestDamagedBeforeCopy: what a node has of a checkpoint is damaged before it is copied to the store. That is found on the way, and made
// again while the job runs; the copy is whole.
func TestDamagedBeforeCopy(t *testing.T) {
	f := newFar(t)
	for i, scheme := range []redset.Scheme{redset.XOR, redset.Partner} {
		if !harness.Chosen(i) {
			continue
		}
		t.Run(scheme.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			defer cancel()
			name := "copied-" + scheme.String()
			j := f.start(ctx, t, name, harness.MPIs()[i], "--every", "0", "--redundancy", scheme.String())
			first := f.commit(ctx, t, j)
			f.copied(ctx, t, j, first)
			f.fs.Stop(t)
			defer f.fs.Continue(t)
			n := f.commit(ctx, t, j)
			f.harm(t, name, n, harm{"node2", image, middle})
			f.fs.Continue(t)
			f.copied(ctx, t, j, n)
			says(t, j, fmt.Sprintf("checkpoint %d: [0-9.]+ .?i?B of what node2 has of it were damaged, and have been repaired", n))
			if err := j.Verify(ctx); err != nil {
				t.Error(err)
			}
			f.release(t, name)
			f.ends(ctx, t, j)
			if strings.Contains(j.Proc().Stderr.String(), "the job goes on from") {
				t.Errorf("it has gone back\n%s", j.Story())
			}
		})
	}
}

// copied waits until the store has a checkpoint.
func (f *far) copied(ctx context.Context, t *testing.T, j *harness.Job, checkpoint int) {
	t.Helper()
	err := harness.Poll(ctx, "a copy in the store", func() bool {
		found, err := filepath.Glob(filepath.Join(j.Dir, "*", fmt.Sprintf("ckpt.%06d", checkpoint)))
		return err == nil && len(found) == 1 || !j.Proc().Running()
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, j.Story())
	}
}

// commit asks for a checkpoint in a way that needs no store, and tells its number when it counts.
func (f *far) commit(ctx context.Context, t *testing.T, j *harness.Job) int {
	t.Helper()
	if err := harness.Poll(ctx, "iterations", func() bool { return strings.Contains(j.Proc().Stdout.String(), "iter ") }); err != nil {
		t.Fatalf("%v\n%s", err, j.Story())
	}
	before := strings.Count(j.Proc().Stderr.String(), "committed after")
	if err := j.Proc().Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if !reach(ctx, j, before+1) {
		t.Fatalf("no checkpoint\n%s", j.Story())
	}
	all := regexp.MustCompile(`checkpoint (\d+): .* committed after`).FindAllStringSubmatch(j.Proc().Stderr.String(), -1)
	n, err := strconv.Atoi(all[len(all)-1][1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
