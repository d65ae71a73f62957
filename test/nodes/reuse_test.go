package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestWrittenOver: checkpoints of a program whose memory changes all the time are written over the files of dropped ones, images,
// copies and parity; what a lost node held is made again from such files, and the ranks go on from them.
func TestWrittenOver(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t)
	c.program, c.want = changing, c.changes
	for i, r := range []struct {
		scheme string
		files  int // of a checkpoint on a node
	}{{"partner", 2*2 + 1}, {"xor", 2 + 1}} {
		if !harness.Chosen(i) {
			continue
		}
		t.Run(r.scheme, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			defer cancel()
			name := "over-" + r.scheme
			j := c.job(ctx, t, name, harness.MPIs()[i%2], nil, "--keep", "1", "--writers", "2", "--redundancy", r.scheme)
			defer j.Close()
			two := func(commits int) []string {
				if !reach(ctx, j, commits) {
					t.Fatalf("%d checkpoints are not reached\n%s", commits, j.Story())
				}
				var list []string
				err := harness.Poll(ctx, "the files of two checkpoints", func() bool {
					list = c.inodes(t, "node1", name)
					return len(list) >= 2*r.files
				})
				if err != nil {
					t.Fatalf("%v: found %v, wanted %d\n%s", err, list, 2*r.files, j.Story())
				}
				return list
			}
			if before, after := two(3), two(6); !slices.Equal(before, after) {
				t.Errorf("files %v, later %v, wanted the same", before, after)
			}
			c.sandbox(t, "kill", "nodes/node2")
			now := strings.Count(j.Proc().Stderr.String(), "committed after")
			if !reach(ctx, j, now+3) {
				t.Fatalf("no checkpoints after the loss\n%s", j.Story())
			}
			c.sandbox(t, "kill", "nodes/node3")
			c.until(ctx, t, j, "node node3 was lost(.|\n)*the job goes on from checkpoint")
			c.release(t, name)
			c.ends(ctx, t, j)
			for _, node := range []string{"node2", "node3"} {
				c.sandbox(t, "start", "nodes/"+node)
			}
		})
	}
}

// inodes are those of all images, copies and parities of a job in a node's cache, in the order of their numbers.
func (c *cluster) inodes(t *testing.T, node, job string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	find := fmt.Sprintf(`find %s/%s.*/ckpt.* \( -name '*.img' -o -name 'parity.*' \) -printf '%%i\n' | sort -n`, cache, job)
	p, err := harness.Start(ctx, c.dir, harness.Environment(c.env...), c.site.Byssus, "sandbox", "run", "nodes", "--node", node, "--", "sh", "-c", find)
	if err != nil {
		t.Fatal(err)
	}
	p.Took()
	return slices.Compact(strings.Fields(p.Stdout.String()))
}
