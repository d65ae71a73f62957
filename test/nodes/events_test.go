package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// box is a sandbox that a job is on, or was.
type box struct {
	name   string
	nodes  int            // with spares
	before []string       // what was on each when there had been no job
	ended  map[int]string // nodes to which something has happened, from 0, and what
}

// onBox notes how the nodes of the present sandbox are before a job is there.
func (c *course) onBox(t *testing.T) {
	t.Helper()
	b := &box{c.box, c.nodes + c.spares, nil, map[int]string{}}
	for i := range b.nodes {
		b.before = append(b.before, c.there(t, b, i))
	}
	c.boxes = append(c.boxes, b)
}

// present is what is on the node that it runs on: processes, but for those that hold it up and look, and files, but for those of the
// program itself, which it leaves when it is killed.
const present = `for p in /proc/[0-9]*; do c=$(tr '\0' ' ' <$p/cmdline 2>/dev/null); case "$c" in *sandbox-init*|"sh -c "*|"tr "*|"") ;; *) echo "process $c";; esac; done
for d in /tmp /var/tmp /dev/shm /run/byssus/cache; do ls -A $d 2>/dev/null | grep -v '^%s[.]' | sed "s:^:$d/:"; done; grep -c . /proc/mounts`

func (c *course) there(t *testing.T, b *box, node int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	p, err := harness.Start(ctx, c.dir, harness.Environment(c.env...), c.site.Byssus, "sandbox", "run", b.name, "--node", node1(node), "--", "sh", "-c",
		strings.Replace(present, "%s", c.work.Name, 1))
	if err != nil {
		t.Fatal(err)
	}
	p.Took()
	return p.Stdout.String() + p.Stderr.String()
}

// node1 is the name of a node.
func node1(i int) string { return fmt.Sprintf("node%d", 1+i) }

// nothingLeft: when a job is over, what it made on its nodes is gone, also from those that were cut off or stood still meanwhile.
func (c *course) nothingLeft(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost) // caches may wait for a minute and a half for somebody who goes on
	defer cancel()
	undo := map[string]string{"freeze": "thaw", "cut": "heal"}
	for _, b := range c.boxes {
		for i := range b.nodes {
			what := b.ended[i]
			if what == "kill" || what == "crash" {
				continue // nothing is there any more
			}
			if undo[what] != "" {
				c.sandbox(t, undo[what], b.name+"/"+node1(i))
			}
			found := ""
			err := harness.Poll(ctx, "the end of what the job made", func() bool {
				found = c.there(t, b, i)
				return found == b.before[i]
			})
			if err != nil {
				t.Errorf("%s/%s (%s): %v: found\n%swanted\n%s", b.name, node1(i), what, err, found, b.before[i])
			}
		}
	}
}

// happens lets one thing happen to the job, and tells whether it had come to its end by then.
func (c *course) happens(ctx context.Context, t *testing.T) (over bool) {
	t.Helper()
	what := []string{"byssus", "leave"}
	if c.box != "" {
		what = append(what, "rank", "hiccup", "away", "full")
		if c.protected() {
			what = append(what, "damage")
		}
		if c.nodes-len(c.up) < c.spares && len(c.up) > 1 {
			what = append(what, "kill", "crash", "freeze", "cut", "agent")
		}
	}
	kind := what[c.rng.IntN(len(what))]
	switch kind {
	case "byssus":
		t.Log(kind)
		return c.killed(ctx, t)
	case "leave":
		t.Log(kind)
		return c.leaves(ctx, t)
	case "away":
		c.away(ctx, t)
		return false
	}
	c.strike(ctx, t, kind)
	return false
}

// protected says whether damage on a node can be mended from what others have.
func (c *course) protected() bool {
	return slices.Contains(c.flags, "xor") || slices.Contains(c.flags, "partner")
}

// strike does something to a node.
func (c *course) strike(ctx context.Context, t *testing.T, kind string) {
	t.Helper()
	node := c.up[0]
	t.Log(kind, node1(node))
	name := c.box + "/" + node1(node)
	onNode := func(commands string) {
		c.sandbox(t, "run", c.box, "--node", node1(node), "--", "sh", "-c", commands)
	}
	endRanks := fmt.Sprintf(strings.ReplaceAll(onRanks, "stencil", c.work.Name[:min(15, len(c.work.Name))]), "KILL") // its comm
	switch kind {
	case "rank":
		onNode(endRanks)
		return
	case "damage": // or it is being dropped
		_, _ = c.command(t, "run", c.box, "--node", node1(node), "--", "sh", "-c", fmt.Sprintf(spoil, cache, c.j.Name)+endRanks)
		return
	case "full":
		c.sandbox(t, "disk-full", name)
		pause(ctx, time.Duration(c.rng.IntN(3000))*time.Millisecond)
		c.sandbox(t, "disk-full", name, cache, "off")
		return
	case "agent":
		onNode(fmt.Sprintf(onAgent, "KILL"))
	case "hiccup": // shorter than what counts as a loss, though a machine that has much to do may see one
		c.sandbox(t, "cut", name)
		pause(ctx, time.Duration(c.rng.IntN(900))*time.Millisecond)
		c.sandbox(t, "heal", name)
	default:
		c.sandbox(t, kind, name)
		c.last().ended[node] = kind
	}
	c.up = c.up[1:]
}

// last is the sandbox that the job is on.
func (c *course) last() *box { return c.boxes[len(c.boxes)-1] }

// away cuts all nodes off at once, for longer than they may be silent; the job waits for them, and goes on.
func (c *course) away(ctx context.Context, t *testing.T) {
	t.Helper()
	b := c.last()
	var list []string
	for i := range b.nodes {
		if b.ended[i] == "" {
			list = append(list, b.name+"/"+node1(i))
		}
	}
	t.Log("away", list)
	for _, name := range list {
		c.sandbox(t, "cut", name)
	}
	pause(ctx, time.Duration(500+c.rng.IntN(5000))*time.Millisecond)
	for _, name := range list {
		c.sandbox(t, "heal", name)
	}
}
