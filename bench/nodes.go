package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/job"
	"github.com/byssus-hpc/byssus/bench/internal/report"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

const (
	nodeCount = 4 // of the sandbox, each with one rank; and a spare
	nodeCache = "/run/byssus/cache"
	lostNode  = 2
)

// cluster is a sandbox, and what is run on it.
type cluster struct {
	*bench
	name   string
	dir    string            // prefix: the nodes see it
	copies map[string]string // of programs, by name
}

// nodes measures a job on four nodes and a spare: checkpoints in their memory and the redundancy of these, beside plain writes there,
// and the loss of a node.
func (b *bench) nodes(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "byssus-bench.")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	c := &cluster{bench: b, name: fmt.Sprintf("bench-%d", os.Getpid()), dir: dir, copies: map[string]string{}}
	c.tree.Dir = filepath.Join(dir, "store")
	if err := c.sandbox(ctx, "create", c.name, "--nodes", strconv.Itoa(nodeCount), "--spares", "1", "--prefix", dir); err != nil {
		return err
	}
	defer func() {
		if err := c.sandbox(context.WithoutCancel(ctx), "destroy", c.name); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	for _, mpi := range b.mpis {
		for _, scheme := range []string{"partner", "xor"} {
			for _, transport := range []string{"authenticated", "encrypted"} {
				if err := c.encode(ctx, mpi, scheme, transport); err != nil {
					return err
				}
			}
		}
		for _, kind := range []string{"kill", "crash"} {
			if err := c.death(ctx, mpi, kind); err != nil {
				return err
			}
		}
		if err := c.slowdown(ctx, mpi); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) sandbox(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, c.tree.Exe, append([]string{"sandbox"}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("bench: byssus sandbox %s: %w: %s", args[0], err, out)
	}
	return nil
}

func (c *cluster) node(i int) string { return fmt.Sprintf("node%d", i) }

// on is a command on a node.
func (c *cluster) on(ctx context.Context, node int, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.tree.Exe, append([]string{"sandbox", "run", c.name, "--node", c.node(node), "--"}, argv...)...)
	cmd.Dir, cmd.Stderr = c.dir, os.Stderr
	return cmd
}

// visible is where the nodes see a compiled program.
func (c *cluster) visible(name, mpi string) (string, error) {
	from := c.program(name, mpi)
	to := filepath.Join(c.dir, filepath.Base(from))
	if c.copies[from] != "" {
		return to, nil
	}
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o700)
	}
	c.copies[from] = to
	return to, err
}

// held is a job whose ranks hold memory, one on each node.
type held struct {
	*job.Proc
	name string
	out  job.Output
	end  string // a file that ends it
}

// hold starts one, and waits until the memory is filled.
func (c *cluster) hold(ctx context.Context, mpi string, mib int, flags ...string) (*held, error) {
	program, err := c.visible("hold", mpi)
	if err != nil {
		return nil, err
	}
	h := &held{name: c.newJob()}
	h.end = filepath.Join(c.dir, h.name+".end")
	flags = append([]string{"--sandbox", c.name, "--cache", nodeCache, "--flush", "0", "--keep", "1"}, flags...)
	const pause = "500" // microseconds: what else is done on the node has the processors
	h.Proc, err = c.tree.Run(ctx, mpi, nodeCount, h.name, c.dir, &h.out, flags, program, strconv.Itoa(mib), h.end, pause)
	if err != nil {
		return nil, err
	}
	err = h.out.WaitFor(ctx, h.Proc, "ready", func(s string) bool { return strings.Count(s, "ready") == nodeCount })
	if err != nil {
		h.Stop()
		return nil, err
	}
	return h, nil
}

// finish lets it go to its end, where it checks its memory.
func (h *held) finish() error {
	if err := os.WriteFile(h.end, nil, 0o600); err != nil {
		return fmt.Errorf("bench: nodes: %w", err)
	}
	_, err := h.Wait()
	return err
}

// encode measures the stall and the making of redundancy, each beside plain writes of as many bytes to new files in the nodes'
// memory; then the rebuilding of what a lost node held. Before each checkpoint that is measured is another: what the kernel sends
// and receives with is memory then that the machine has already, and there are files to write over, as there are in a job that
// goes on.
func (c *cluster) encode(ctx context.Context, mpi, scheme, transport string) error {
	const mib = 256
	const most = (2*nodeCount + 1) * mib << 20 // of memory: images, with partner a copy of each, and what else there is
	name := fmt.Sprintf("%s/%s/%s", scheme, transport, mpi)
	h, err := c.hold(ctx, mpi, mib, "--redundancy", scheme, "--transport", transport)
	if err != nil {
		return err
	}
	defer h.Stop()
	limit := map[string]string{"authenticated": "3.5", "encrypted": "4.5"}[transport]
	stall := sample{name: "NodesStall/" + name, unit: "ms", limit: "1.3"}
	encode := sample{name: "NodesEncode/" + name, unit: "ms", limit: limit}
	floor := sample{name: "NodesEncodeFloor/" + name, unit: "ms", limit: "1.3 (native is the floor)"}
	cached := sample{name: "NodesEncodeCached/" + name, unit: "ms", limit: "none (native is the floor with pieces that stay in the cache)"}
	for range c.rounds {
		if err := warm(most); err != nil {
			return err
		}
		plain, err := c.plainOnNodes(ctx, mib)
		if err != nil {
			return err
		}
		settle(ctx)
		if _, err := c.tree.Checkpoint(ctx, h.name); err != nil {
			return err
		}
		cp, err := c.tree.Checkpoint(ctx, h.name)
		if err != nil {
			return err
		}
		behind := float64(cp.Took.Nanoseconds()-cp.StallNS) / 1e6
		parts := slices.Repeat([]int64{cp.Bytes / nodeCount}, nodeCount)
		for f, bytes := range map[*sample]int{&floor: calibrated, &cached: redset.Piece} {
			costs, err := c.calibrate(bytes)
			if err != nil {
				return err
			}
			least, err := costs.floor(schemeOf(scheme), transport, parts)
			if err != nil {
				return err
			}
			f.native, f.byssus = append(f.native, least), append(f.byssus, behind)
		}
		stall.native, stall.byssus = append(stall.native, plain), append(stall.byssus, gapSince(ctx, &h.out, h.Proc, cp))
		encode.native, encode.byssus = append(encode.native, plain), append(encode.byssus, behind)
	}
	for _, s := range []sample{stall, encode, floor, cached} {
		s.print(c.out)
	}
	if err := c.agents(ctx, name); err != nil {
		return err
	}
	return c.rebuild(ctx, h, name)
}

func schemeOf(name string) redset.Scheme {
	if name == "partner" {
		return redset.Partner
	}
	return redset.XOR
}

// plainOnNodes lets a process on each node write as much at the same time and returns the slowest one's milliseconds.
func (c *cluster) plainOnNodes(ctx context.Context, mib int) (float64, error) {
	program, err := c.visible("plain", "none")
	if err != nil {
		return 0, err
	}
	var in [nodeCount]io.WriteCloser
	var out [nodeCount]*bufio.Reader
	var procs [nodeCount]*exec.Cmd
	for i := range procs {
		procs[i] = c.on(ctx, i+1, "sh", "-c", `"$0" write /run/byssus/plain "$1"; code=$?; rm -f /run/byssus/plain; exit $code`, program, strconv.Itoa(mib))
		pipe, err1 := procs[i].StdoutPipe()
		var err2 error
		in[i], err2 = procs[i].StdinPipe()
		if err := errors.Join(err1, err2, procs[i].Start()); err != nil {
			return 0, fmt.Errorf("bench: plain write on a node: %w", err)
		}
		out[i] = bufio.NewReader(pipe)
	}
	var word string
	for i := range procs {
		if _, err := fmt.Fscan(out[i], &word); err != nil {
			return 0, fmt.Errorf("bench: plain write on a node: %w", err)
		}
	}
	for i := range procs {
		if _, err := fmt.Fprintln(in[i]); err != nil {
			return 0, fmt.Errorf("bench: plain write on a node: %w", err)
		}
	}
	var slowest float64
	for i := range procs {
		var ns float64
		if _, err := fmt.Fscan(out[i], &ns); err != nil {
			return 0, fmt.Errorf("bench: plain write on a node: %w", err)
		}
		if err := procs[i].Wait(); err != nil {
			return 0, fmt.Errorf("bench: plain write on a node: %w", err)
		}
		slowest = max(slowest, ns/1e6)
	}
	return slowest, nil
}

// agents tells the most memory that an agent has used.
func (c *cluster) agents(ctx context.Context, name string) error {
	const peak = `for p in /proc/[0-9]*; do if grep -qzx agent $p/cmdline; then grep VmHWM $p/status; fi; done`
	most := 0
	for i := range nodeCount {
		out, err := c.on(ctx, i+1, "sh", "-c", peak).Output()
		if err != nil {
			return fmt.Errorf("bench: agents' memory: %w", err)
		}
		for line := range strings.Lines(string(out)) {
			kib, err := strconv.Atoi(strings.Fields(line)[1])
			if err != nil {
				return fmt.Errorf("bench: agents' memory: %w", err)
			}
			most = max(most, kib)
		}
	}
	fmt.Fprintf(c.out, "BenchmarkNodesAgent/%s\t1\t%.1f MiB\t# limit 64\n", name, float64(most)/1024)
	return nil
}

var rebuiltIn = regexp.MustCompile(`was made again on \S+ in (\S+)`)

// rebuild kills a node, and tells how long what it held took to be made again.
func (c *cluster) rebuild(ctx context.Context, h *held, name string) error {
	_, took, err := c.lose(ctx, h, "kill")
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "BenchmarkNodesRebuild/%s\t1\t%.4g ms\t# limit 2000\n", name, float64(took)/1e6)
	return nil
}

// lose kills a node, waits until all ranks go on, and lets the job end. It returns how long that took since the node's
// death, and how much of it the rebuilding.
func (c *cluster) lose(ctx context.Context, h *held, kind string) (back, rebuild time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	node := fmt.Sprintf("%s/node%d", c.name, lostNode)
	begin := time.Now()
	if err := c.sandbox(ctx, kind, node); err != nil {
		return 0, 0, err
	}
	var last time.Time
	err = h.out.WaitFor(ctx, h.Proc, "the ranks to go on", func(text string) bool {
		first := map[int]time.Time{}
		for _, g := range gaps(text) {
			if _, ok := first[g.rank]; !ok && g.end.Add(-time.Duration(g.ms*1e6)).Before(begin) && g.end.After(begin) {
				first[g.rank] = g.end
				if g.end.After(last) {
					last = g.end
				}
			}
		}
		return len(first) == nodeCount
	})
	if err == nil {
		err = h.finish()
	}
	if err != nil {
		return 0, 0, err
	}
	text := h.Stderr()
	m := rebuiltIn.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, fmt.Errorf("bench: nodes: nothing was rebuilt: %s", text)
	}
	if rebuild, err = time.ParseDuration(m[1]); err != nil {
		return 0, 0, fmt.Errorf("bench: nodes: %w", err)
	}
	return last.Sub(begin), rebuild, c.sandbox(ctx, "start", node)
}

// death measures the time from a node's death to the moment when the last rank runs again, without the rebuilding; with small
// images, so that it is that of everything else.
func (c *cluster) death(ctx context.Context, mpi, kind string) error {
	limit := map[string]string{"killmpich": "1500", "killopenmpi": "2500"}[kind+mpi]
	if kind == "crash" {
		limit = "5000"
	}
	const mib = 8
	var times, rebuilds []float64
	for range c.rounds {
		h, err := c.hold(ctx, mpi, mib)
		if err != nil {
			return err
		}
		defer h.Stop()
		if _, err := c.tree.Checkpoint(ctx, h.name); err != nil {
			return err
		}
		back, rebuild, err := c.lose(ctx, h, kind)
		if err != nil {
			return err
		}
		times, rebuilds = append(times, float64(back-rebuild)/1e6), append(rebuilds, float64(rebuild)/1e6)
	}
	fmt.Fprintf(c.out, "BenchmarkNodesDeath/%s/%s\t%d\t%.4g ms-best\t%.4g ms-median\t%.4g ms-rebuild\t# limit %s\n", kind, mpi, len(times),
		report.Best(times), report.Median(times), report.Median(rebuilds), limit)
	return nil
}

// slowdown compares the loop time of LAMMPS on the nodes with a checkpoint and parity every second and without; all processors
// are busy.
func (c *cluster) slowdown(ctx context.Context, mpi string) error {
	input := filepath.Join(c.dir, "in.melt")
	if err := os.WriteFile(input, melt, 0o600); err != nil {
		return fmt.Errorf("bench: lammps: %w", err)
	}
	argv := []string{"lmp", "-in", input, "-var", "steps", "1600", "-log", "none"}
	s := sample{name: "NodesLAMMPS/xor/" + mpi, unit: "s", limit: "none: every second (native is without checkpoints)"}
	for range c.rounds {
		for every, into := range map[string]*[]float64{"0s": &s.native, "1s": &s.byssus} {
			var out job.Output
			flags := []string{"--sandbox", c.name, "--cache", nodeCache, "--flush", "0", "--every", every}
			p, err := c.tree.Run(ctx, mpi, nodeCount, c.newJob(), c.dir, &out, flags, argv...)
			if err != nil {
				return err
			}
			if _, err := p.Wait(); err != nil {
				return err
			}
			loop, err := loopTime(out.String())
			if err != nil {
				return err
			}
			*into = append(*into, loop)
		}
	}
	s.print(c.out)
	return nil
}
