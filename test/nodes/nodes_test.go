// Package nodes tests jobs on several nodes whose agents, nodes and links fail at every moment that has a name, and at random
// ones: the job ends with the numbers of an undisturbed run, or says what was lost. The nodes are those of a sandbox.
package nodes

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

var (
	seed  = flag.Uint64("seed", 0, "of the random schedules; 0: from the clock")
	first = flag.Int("first", 0, "schedule to begin with")
	count = flag.Int("count", 0, "random schedules; 0: a few, or 60 in a long test")
)

// atMost bounds a job: it is for hangs.
const atMost = 4 * time.Minute

// cluster is a sandbox of four nodes and two spares, and what jobs on it need.
type cluster struct {
	ground
	program harness.Program // of jobs
	dir     string          // prefix
	env     []string
}

var (
	program  = harness.Program{Name: "stencil", Args: []string{"--iters", "240", "--pace", "5000"}}
	changing = harness.Program{Name: "memory", Args: []string{"--iters", "400", "--pace", "5000"}} // all its memory, all the time
)

const (
	ranks = 4
	cache = "/run/byssus/cache"
)

// ground is what all tests need, which run beside each other: it is made once, before any job is there.
type ground struct {
	site    harness.Site
	want    []string // last lines of an undisturbed run
	changes []string // of one of changing
}

var prepared = sync.OnceValues(func() (ground, error) {
	g := ground{}
	var err error
	if g.site, err = harness.Here(); err == nil {
		err = g.site.Build()
	}
	if err == nil {
		g.want, err = native(g.site, "mpich", ranks, program)
	}
	if err == nil {
		g.changes, err = native(g.site, "mpich", ranks, changing)
	}
	return g, err
})

// native is what an undisturbed run of a program ends with, whatever its pace.
func native(site harness.Site, mpi string, n int, program harness.Program) ([]string, error) {
	program.Args = append(slices.Clone(program.Args), "--pace", "0")
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	p, err := harness.Start(ctx, os.TempDir(), harness.Environment(), site.NativeCommand(mpi, n, site.Command(program, mpi))...)
	if err != nil {
		return nil, err
	}
	p.Took()
	list := last(p.Stdout.String())
	if p.ExitCode() != 0 || len(list) != n {
		return nil, fmt.Errorf("native run: exit code %d: %v\n%s", p.ExitCode(), list, harness.Tail(p.Stderr.String()))
	}
	return list, nil
}

func prepare(t *testing.T) ground {
	t.Helper()
	g, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newCluster(t *testing.T, flags ...string) *cluster {
	t.Helper()
	g := prepare(t)
	dir, err := os.MkdirTemp("", "byssus-nodes.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	c := &cluster{ground: g, program: program, dir: filepath.Join(dir, "prefix"), env: []string{"XDG_RUNTIME_DIR=" + run}}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.create(t, "nodes", append([]string{"--nodes", "4", "--spares", "2"}, flags...)...)
	return c
}

// create makes a sandbox of the same prefix.
func (c *cluster) create(t *testing.T, name string, flags ...string) {
	t.Helper()
	said, code := c.command(t, append([]string{"create", name, "--prefix", c.dir}, flags...)...)
	if strings.Contains(said, "memory limit: needs") {
		t.Skipf("SKIP: %s", said)
	}
	if code != 0 {
		t.Fatalf("sandbox create: exit code %d: %s", code, said)
	}
	t.Cleanup(func() { c.sandbox(t, "destroy", name) })
}

// sandbox gives a command about the sandbox.
func (c *cluster) sandbox(t *testing.T, args ...string) {
	t.Helper()
	if said, code := c.command(t, args...); code != 0 {
		t.Fatalf("sandbox %v: exit code %d: %s", args, code, said)
	}
}

// command gives one, and returns what it says on standard error.
func (c *cluster) command(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	p, err := harness.Start(ctx, c.dir, harness.Environment(c.env...), append([]string{c.site.Byssus, "sandbox"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	p.Took()
	return p.Stderr.String(), p.ExitCode()
}

// job begins one with caches.
func (c *cluster) job(ctx context.Context, t *testing.T, name, mpi string, env []string, flags ...string) *harness.Job {
	t.Helper()
	j := c.place(t, name, env)
	c.run(ctx, t, j, name, mpi, flags...)
	return j
}

// place makes a job's directory.
func (c *cluster) place(t *testing.T, name string, env []string) *harness.Job {
	t.Helper()
	dir := filepath.Join(c.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return c.site.NewJob(name, dir, append(env, c.env...)...)
}

func (c *cluster) run(ctx context.Context, t *testing.T, j *harness.Job, name, mpi string, flags ...string) {
	t.Helper()
	flags = append([]string{"-v", "--sandbox", "nodes", "--every", "1s", "--cache", cache}, flags...)
	argv := append(c.site.Command(c.program, mpi), "--until", filepath.Join(c.dir, name, "until"))
	if err := j.Run(ctx, mpi, ranks, flags, argv...); err != nil {
		t.Fatal(err)
	}
}

// release lets the ranks of a job come to their end; before, they stay there.
func (c *cluster) release(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name, "until.end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// until waits until a job says it, or is over.
func (c *cluster) until(ctx context.Context, t *testing.T, j *harness.Job, text string) {
	t.Helper()
	re := regexp.MustCompile(text)
	err := harness.Poll(ctx, text, func() bool { return !j.Proc().Running() || re.MatchString(j.Proc().Stderr.String()) })
	if err != nil {
		t.Fatalf("%v\n%s", err, j.Story())
	}
}

// reach waits until so many checkpoints are committed; false: the job is over.
func reach(ctx context.Context, j *harness.Job, n int) bool {
	err := harness.Poll(ctx, "checkpoints", func() bool {
		return !j.Proc().Running() || strings.Count(j.Proc().Stderr.String(), "committed after") >= n
	})
	return err == nil && j.Proc().Running()
}

// ends waits for a good end, with the right numbers. What ranks print in between is not compared: when a peer has died, MPICH
// over TCP may complete a receive from it without an error, also natively, before the others are ended.
func (c *cluster) ends(ctx context.Context, t *testing.T, j *harness.Job) {
	t.Helper()
	select {
	case <-j.Proc().Done():
	case <-ctx.Done():
		t.Fatalf("it does not end\n%s", j.Story())
	}
	if code := j.Proc().ExitCode(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, j.Story())
	}
	if found := last(j.Proc().Stdout.String()); !slices.Equal(found, c.want) {
		t.Fatalf("found %v, wanted %v\n%s", found, c.want, j.Story())
	}
}

// last are the lines with the final values of all ranks, in their order; once, when a node was lost after some had said theirs.
func last(stdout string) []string {
	var list []string
	for line := range strings.Lines(stdout) {
		if strings.Contains(line, " end ") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func says(t *testing.T, j *harness.Job, text string) {
	t.Helper()
	if !regexp.MustCompile(text).MatchString(j.Proc().Stderr.String()) {
		t.Errorf("it does not say %q:\n%s", text, j.Story())
	}
}

// row is a crash point in the life of a checkpoint in caches.
type row struct {
	point, node string // whose agent dies there; empty: byssus run, or a rank
	rank        bool
	kill        string   // a node that is killed before, for points of a rebuild, after two checkpoints
	flags       []string // of the job
	say         string
}

// rows: with parity over four nodes, and two spares.
func rows() []row {
	lost := "node node2 was lost"
	flush := []string{"--flush", "2"}
	return []row{
		{point: faults.EncodeBegun + ":2", node: "node2", say: lost},
		{point: faults.EncodeDone + ":2", node: "node2", say: lost},
		{point: faults.CommitSynced + ":2", node: "node2", say: lost},
		{point: faults.CommitManifest + ":2", node: "node2", say: lost},
		{point: faults.CommitRenamed + ":2", node: "node2", say: lost},
		{point: faults.RetentionDrop, node: "node2", say: lost},
		{point: faults.NodeImage + ":5", node: "node2", say: lost}, // written over what was dropped
		{point: faults.EncodeDone + ":5", node: "node2", flags: []string{"--redundancy", "partner"}, say: lost},
		{point: faults.FlushBegun, node: "node2", flags: flush, say: lost},
		{point: faults.FlushDone, node: "node2", flags: flush, say: lost},
		{point: faults.RebuildBegun, node: "node5", kill: "node1", say: "what node1 held, .* was made again on node6"},
		{point: faults.RebuildDone, node: "node5", kill: "node1", say: "what node1 held, .* was made again on node6"},
		{point: faults.RebuildBegun, node: "node3", kill: "node1", flags: []string{"--flush", "1"}, say: "lost are node1, node3, of 4 with xor"},
		{point: faults.RebuildBegun, node: "node4", kill: "node1", flags: []string{"--redundancy", "partner"}, say: "what node1 held, .* was made again on node5"},
		{point: faults.NodeClocks + ":3", node: "node2", say: lost},
		{point: faults.NodeDrain + ":2", node: "node2", say: lost},
		{point: faults.NodeImage + ":2", node: "node2", say: lost},
		{point: faults.NodeRestored, node: "node5", kill: "node1", say: "node node5 was lost"},
		{point: faults.NodeRestored, node: "node3", kill: "node1", flags: []string{"--flush", "1"}, say: "node node3 was lost"},
		{point: "rank-requested:3@1", rank: true, say: "rank 1 "},
		{point: "rank-chunk:40@2", rank: true, say: "rank 2 "},
		{point: "rank-header:2@3", rank: true, say: "rank 3 "},
		{point: "rank-image:2@0", rank: true, say: "rank 0 "},
		{point: "rank-rebuilt@2", rank: true, kill: "node1", say: "rank 2 "},
		{point: faults.DrainSent + ":2"},
		{point: faults.CommitManifest, flags: flush},
		{point: faults.CommitRenamed, flags: flush},
	}
}

// TestFaults lets an agent, or byssus itself, die at each named point in the life of a checkpoint that lies in caches.
func TestFaults(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t)
	named := map[string]bool{}
	for i, r := range rows() {
		point, _, _ := strings.Cut(r.point, ":")
		named[point] = true
		if !harness.Chosen(i) {
			continue
		}
		t.Run(r.point+"@"+r.node, func(t *testing.T) {
			c.fault(t, fmt.Sprintf("fault%d", i), harness.MPIs()[i%2], r)
		})
	}
	for _, r := range writtenRows() {
		point, _, _ := strings.Cut(r.point, ":")
		named[point] = true
	}
	for _, p := range faults.All {
		if p.Side != faults.Rank && !named[p.Name] {
			t.Errorf("%s has no row", p.Name)
		}
	}
}

func (c *cluster) fault(t *testing.T, name, mpi string, r row) {
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	value := r.point
	if r.node != "" {
		value += "@" + r.node
	}
	j := c.job(ctx, t, name, mpi, []string{"BYSSUS_FAULT=" + value}, r.flags...)
	defer j.Close()
	if r.kill != "" {
		if !reach(ctx, j, 2) {
			t.Fatalf("no checkpoint\n%s", j.Story())
		}
		c.sandbox(t, "kill", "nodes/"+r.kill)
		defer c.sandbox(t, "start", "nodes/"+r.kill)
	}
	if r.node == "" && !r.rank {
		c.lives(ctx, t, j, name, harness.Other(mpi))
	} else {
		c.until(ctx, t, j, r.say)
		c.release(t, name)
	}
	c.ends(ctx, t, j)
	if r.say != "" {
		says(t, j, r.say)
	}
}

// lives: byssus dies there in each of its lives, and the job comes further in each.
func (c *cluster) lives(ctx context.Context, t *testing.T, j *harness.Job, name, mpi string) {
	t.Helper()
	deaths := 0
	for {
		select {
		case <-j.Proc().Done():
		case <-ctx.Done():
			t.Fatalf("it does not end\n%s", j.Story())
		}
		if code := j.Proc().ExitCode(); code != -1 && code != 137 {
			break
		}
		if deaths++; deaths == 1 {
			c.release(t, name)
		}
		if err := j.Restart(ctx, mpi, "--sandbox", "nodes", "-v"); err != nil {
			t.Fatal(err)
		}
	}
	if deaths == 0 {
		t.Errorf("it did not die\n%s", j.Story())
	}
}

// onAgent sends a signal to the agent of the node that it runs on.
const onAgent = `for p in /proc/[0-9]*; do if grep -qzx agent $p/cmdline; then kill -%s ${p#/proc/}; fi; done; true`

// onRanks sends a signal to the ranks of the node that it runs on.
const onRanks = `for p in /proc/[0-9]*; do if grep -qx stencil $p/comm; then kill -%s ${p#/proc/}; fi; done; true`

// spoil damages all that a cache has of the newest checkpoint of a job.
const spoil = `for f in $(ls -d %s/%s.*/ckpt.?????? | tail -n 1)/[rp]a*.*; do
	dd if=/dev/urandom of=$f bs=64 count=1 conv=notrunc status=none oflag=seek_bytes seek=$(($(stat -c %%s $f) / 2)); done; `

// ranksLeft fails while there are ranks on the node that it runs on.
const ranksLeft = `! grep -qx stencil /proc/[0-9]*/comm`

// TestComesBack lets a node, its link, or its agent alone stop for longer than they are waited for, and go on: what ran there has ended by
// then, or ends at once, beside those that have taken its place.
func TestComesBack(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t)
	for i, r := range []struct{ stop, back string }{{"freeze", "thaw"}, {"cut", "heal"}, {"agent", ""}} {
		t.Run(r.stop, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			defer cancel()
			name := "back-" + r.stop
			j := c.job(ctx, t, name, harness.MPIs()[i%2], nil)
			defer j.Close()
			if !reach(ctx, j, 1) {
				t.Fatalf("no checkpoint\n%s", j.Story())
			}
			if r.stop == "agent" {
				c.sandbox(t, "run", "nodes", "--node", "node2", "--", "sh", "-c", fmt.Sprintf(onAgent, "STOP"))
			} else {
				c.sandbox(t, r.stop, "nodes/node2")
			}
			c.until(ctx, t, j, "the job goes on from checkpoint")
			c.listed(ctx, t, j)
			c.release(t, name)
			if r.back != "" {
				c.sandbox(t, r.back, "nodes/node2")
			}
			err := harness.Poll(ctx, "the end of its ranks", func() bool { return c.quiet(t, "node2") })
			if err != nil {
				t.Fatalf("%v\n%s", err, j.Story())
			}
			c.ends(ctx, t, j)
			says(t, j, "node node2 was lost: ")
		})
	}
}

// listed compares what ps tells of the nodes: one is lost, and a spare has its rank.
func (c *cluster) listed(ctx context.Context, t *testing.T, j *harness.Job) {
	t.Helper()
	var jobs []struct {
		Job   string `json:"job"`
		Nodes []struct {
			Node  string `json:"node"`
			State string `json:"state"`
			Ranks []int  `json:"ranks"`
		} `json:"nodes"`
	}
	out, errs, code := j.Command(ctx, "ps", "--json")
	if err := json.Unmarshal([]byte(out), &jobs); err != nil || code != 0 {
		t.Fatalf("ps: exit code %d, %v: %s%s", code, err, out, errs)
	}
	found := ""
	for _, job := range jobs {
		for _, n := range job.Nodes {
			if job.Job == j.Name {
				found += fmt.Sprintf("%s %s %d\n", n.Node, n.State, len(n.Ranks))
			}
		}
	}
	want := "node1 computing 1\nnode2 lost 0\nnode3 computing 1\nnode4 computing 1\nnode5 computing 1\nnode6 spare 0\n"
	if found != want {
		t.Errorf("ps: found\n%swanted\n%s", found, want)
	}
}

// quiet says whether no rank runs on a node.
func (c *cluster) quiet(t *testing.T, node string) bool {
	t.Helper()
	return c.true(t, node, ranksLeft)
}

// true says whether a shell's commands are, on a node.
func (c *cluster) true(t *testing.T, node, commands string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	args := []string{c.site.Byssus, "sandbox", "run", "nodes", "--node", node, "--", "sh", "-c", commands}
	p, err := harness.Start(ctx, c.dir, harness.Environment(c.env...), args...)
	if err != nil {
		t.Fatal(err)
	}
	return p.ExitCode() == 0
}

// TestSchedules lets nodes die, hang, and be cut off, agents, ranks and byssus itself die, and files be damaged, at random moments,
// never more than parity and what is in the store cover.
func TestSchedules(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t)
	random(t, 4, func(t *testing.T, i int, rng *rand.Rand) { c.schedule(t, fmt.Sprintf("random%d", i), rng) })
}

// random runs so many tests, 60 in a long test, each with random numbers of its own.
func random(t *testing.T, few int, test func(t *testing.T, i int, rng *rand.Rand)) {
	t.Helper()
	from, many := *seed, *count
	if from == 0 {
		from = harness.Seed()
	}
	if many == 0 {
		many = few
		if os.Getenv("BYSSUS_TEST_LONG") != "" {
			many = 60
		}
	}
	t.Logf("-seed %d", from)
	for i := *first; i < *first+many; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) { test(t, i, rand.New(rand.NewPCG(from, uint64(i)))) })
	}
}

// schedule runs a job and does something to it two times, each time to another node, when it has gone on from the last.
func (c *cluster) schedule(t *testing.T, name string, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	scheme := []string{"xor", "partner"}[rng.IntN(2)]
	transport := []string{"encrypted", "authenticated"}[rng.IntN(2)]
	flags := []string{"--redundancy", scheme, "--transport", transport, "--flush", fmt.Sprint(1 + rng.IntN(3))}
	mpi := harness.MPIs()[rng.IntN(2)]
	t.Log(mpi, flags)
	j := c.job(ctx, t, name, mpi, nil, flags...)
	defer j.Close()
	c.release(t, name)
	order := rng.Perm(4)
	for k := range 2 {
		if !reach(ctx, j, 1+2*k) {
			break
		}
		pause(ctx, time.Duration(rng.IntN(1500))*time.Millisecond)
		if !j.Proc().Running() {
			break
		}
		if c.disturb(ctx, t, j, rng, fmt.Sprintf("nodes/node%d", order[k]+1)) {
			return
		}
	}
	c.ends(ctx, t, j)
}

// pause lets a job come to a moment that nothing tells of.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// disturb does one of the things that can happen; the node is there again for the next schedule. It tells whether the job was
// over by then.
func (c *cluster) disturb(ctx context.Context, t *testing.T, j *harness.Job, rng *rand.Rand, node string) (over bool) {
	t.Helper()
	kind := []string{"kill", "crash", "freeze", "cut", "byssus", "agent", "rank", "damage"}[rng.IntN(8)]
	t.Log(kind, node)
	_, name, _ := strings.Cut(node, "/")
	undo := map[string]string{"kill": "start", "crash": "start", "freeze": "thaw", "cut": "heal"}
	switch kind {
	case "byssus":
		return c.killed(ctx, t, j, harness.MPIs()[rng.IntN(2)])
	case "damage":
		c.true(t, name, fmt.Sprintf(spoil, cache, j.Name)+fmt.Sprintf(onRanks, "KILL")) // or it is being dropped
	case "agent", "rank":
		to := map[string]string{"agent": onAgent, "rank": onRanks}[kind]
		c.sandbox(t, "run", "nodes", "--node", name, "--", "sh", "-c", fmt.Sprintf(to, "KILL"))
	default:
		c.sandbox(t, kind, node)
		t.Cleanup(func() { c.sandbox(t, undo[kind], node) })
	}
	return false
}

// killed kills byssus and has another one go on with the job, and tells whether that had done all its work already.
func (c *cluster) killed(ctx context.Context, t *testing.T, j *harness.Job, mpi string) (over bool) {
	t.Helper()
	j.Proc().Kill()
	<-j.Proc().Done()
	over = slices.Equal(last(j.Proc().Stdout.String()), c.want)
	if err := j.Restart(ctx, mpi, "--sandbox", "nodes", "-v"); err != nil {
		t.Fatal(err)
	}
	if over {
		finished(ctx, t, j)
	}
	return over
}

// finished: a job that had done all its work before byssus died ends well, or byssus says that it has finished.
func finished(ctx context.Context, t *testing.T, j *harness.Job) {
	t.Helper()
	select {
	case <-j.Proc().Done():
	case <-ctx.Done():
		t.Fatalf("it does not end\n%s", j.Story())
	}
	if j.Proc().ExitCode() != 0 && !strings.Contains(j.Proc().Stderr.String(), ": it has finished, and ") {
		t.Fatalf("exit code %d\n%s", j.Proc().ExitCode(), j.Story())
	}
}

// TestKilledAtTheEnd: byssus is killed when the ranks have ended, while it waits for a node that does not answer, and before. The
// job can be gone on with, or is known to have finished.
func TestKilledAtTheEnd(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t)
	for k, when := range []string{"values", "forgotten"} {
		t.Run(when, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			defer cancel()
			name := fmt.Sprint("end", k)
			j := c.job(ctx, t, name, harness.MPIs()[k%2], nil, "--flush", "2")
			defer j.Close()
			if !reach(ctx, j, 1) {
				t.Fatalf("no checkpoint\n%s", j.Story())
			}
			c.sandbox(t, "freeze", "nodes/node4")
			defer c.sandbox(t, "thaw", "nodes/node4")
			c.until(ctx, t, j, "the job goes on from checkpoint")
			now := strings.Count(j.Proc().Stderr.String(), "committed after")
			if !reach(ctx, j, now+2) {
				t.Fatalf("no checkpoint after the loss\n%s", j.Story())
			}
			c.release(t, name)
			err := harness.Poll(ctx, "the last values", func() bool { return slices.Equal(last(j.Proc().Stdout.String()), c.want) })
			if err != nil {
				t.Fatalf("%v\n%s", err, j.Story())
			}
			if when == "forgotten" {
				gone := fmt.Sprintf("! ls -d %s/%s.*/ckpt.*", cache, name)
				err := harness.Poll(ctx, "the end of the checkpoints on node1", func() bool { return c.true(t, "node1", gone) })
				if err != nil || !j.Proc().Running() {
					t.Fatalf("%v; byssus waits no more for node4\n%s", err, j.Story())
				}
			}
			if !c.killed(ctx, t, j, harness.MPIs()[(k+1)%2]) {
				t.Fatalf("it had not ended\n%s", j.Story())
			}
		})
	}
}
