package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestOlder: the newest checkpoints are damaged, one to three of four, wherever they lie: a restart finds the newest that is whole by
// itself.
func TestOlder(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t)
	for i, where := range []string{"store", "caches", "caches and store", "scavenged"} {
		for damaged := 1; damaged <= 3; damaged++ {
			if !harness.Chosen(i) || !harness.Chosen(damaged) {
				continue
			}
			t.Run(fmt.Sprint(where, damaged), func(t *testing.T) { c.older(t, where, damaged, harness.MPIs()[(i+damaged)%2]) })
		}
	}
}

func (c *cluster) older(t *testing.T, where string, bad int, mpi string) {
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	const all = 4
	name := fmt.Sprint("older-", strings.ReplaceAll(where, " ", ""), bad)
	j := c.place(t, name, nil)
	defer j.Close()
	flags := []string{"-v", "--sandbox", "nodes", "--keep", fmt.Sprint(all)}
	switch where {
	case "caches":
		flags = append(flags, "--cache", cache, "--flush", "0", "--scavenge", "0")
	case "caches and store":
		flags = append(flags, "--cache", cache, "--flush", "1", "--scavenge", "0")
	case "scavenged":
		flags = append(flags, "--cache", cache, "--flush", "0", "--scavenge", "1s")
	}
	argv := append(c.site.Command(c.program, mpi), "--until", filepath.Join(c.dir, name, "until"))
	if err := j.Run(ctx, mpi, ranks, flags, argv...); err != nil {
		t.Fatal(err)
	}
	if err := harness.Poll(ctx, "the first iterations", func() bool { return strings.Contains(j.Proc().Stdout.String(), "iter ") }); err != nil {
		t.Fatalf("%v\n%s", err, j.Story())
	}
	for range all {
		if _, err := j.Checkpoint(ctx); err != nil {
			t.Fatalf("%v\n%s", err, j.Story())
		}
	}
	dir := filepath.Join(j.Dir, name)
	if where == "caches and store" {
		c.await(ctx, t, filepath.Join(dir, fmt.Sprintf("ckpt.%06d", all)), 1)
	}
	j.Proc().Kill()
	<-j.Proc().Done()
	if where == "scavenged" {
		c.await(ctx, t, filepath.Join(dir, "scavenged", "*", "ckpt.00000?"), all*ranks)
	}
	for n := all - bad + 1; n <= all; n++ {
		c.damage(t, where, dir, name, n)
	}
	back := []string{"-v"}
	if where != "scavenged" {
		back = append(back, "--sandbox", "nodes")
	}
	if err := j.Restart(ctx, harness.Other(mpi), back...); err != nil {
		t.Fatal(err)
	}
	c.release(t, name)
	c.ends(ctx, t, j)
	says(t, j, fmt.Sprintf("the job goes on from checkpoint %d\n", all-bad))
}

// await waits until so many files of a pattern are there.
func (c *cluster) await(ctx context.Context, t *testing.T, pattern string, n int) {
	t.Helper()
	err := harness.Poll(ctx, pattern, func() bool {
		found, _ := filepath.Glob(pattern) // the pattern is sound
		return len(found) == n
	})
	if err != nil {
		t.Fatal(err)
	}
}

// damage spoils a checkpoint beyond what can be mended.
func (c *cluster) damage(t *testing.T, where, dir, job string, n int) {
	t.Helper()
	if strings.Contains(where, "store") {
		spoilFile(t, filepath.Join(dir, fmt.Sprintf("ckpt.%06d", n), "rank-00001.0.img"))
	}
	if strings.Contains(where, "caches") {
		c.harm(t, job, n, harm{"node1", image, middle}, harm{"node2", image, middle})
	}
	if where == "scavenged" {
		for _, node := range []string{"node1", "node2"} {
			found, err := filepath.Glob(filepath.Join(dir, "scavenged", node, fmt.Sprintf("ckpt.%06d", n), image))
			if err != nil || len(found) == 0 {
				t.Fatalf("%v: nothing of %s", err, node)
			}
			spoilFile(t, found[0])
		}
	}
}

// spoilFile turns a bit in the middle of a file.
func spoilFile(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
