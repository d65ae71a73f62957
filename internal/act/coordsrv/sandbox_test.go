package coordsrv

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/keep"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/host/sandbox"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/files"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
	"github.com/byssus-hpc/byssus/test/harness"
)

// nodeCache is where each node has its cache: in a memory of its own.
const nodeCache = "/run/byssus/cache"

// fleetOnNodes are agents as `byssus run` starts them, on nodes of a sandbox: in network and mount namespaces of their own.
type fleetOnNodes struct {
	*fleet
	byssus  string
	cluster *sandbox.Cluster
	conns   []*control.Conn
	pieces  []string
}

// onNodes makes a sandbox of four nodes and a spare, with agents that have joined.
func onNodes(t *testing.T, scheme redset.Scheme) *fleetOnNodes {
	t.Helper()
	site, err := harness.Here()
	must(t, err)
	if _, err := os.Stat(site.Byssus); err != nil {
		t.Skip("SKIP: no build: make build")
	}
	dir, err := os.MkdirTemp("", "byssus-fleet.")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "prefix"), 0o700))
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	name := "fleet"
	if out, err := exec.Command(site.Byssus, "sandbox", "create", name, "--nodes", "4", "--spares", "1", "--prefix", filepath.Join(dir, "prefix")).CombinedOutput(); err != nil {
		t.Skipf("SKIP: no sandbox: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(site.Byssus, "sandbox", "destroy", name).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	job, err := dataset.Store{Dir: filepath.Join(dir, "prefix", "store")}.Create(dataset.Meta{Name: "shells", ID: strings.Repeat("ab", 16),
		Ranks: fleetRanks, Fsync: true, State: dataset.StateRunning, Started: time.Now()})
	must(t, err)
	t.Cleanup(job.Unlock)
	f := &fleetOnNodes{byssus: site.Byssus, fleet: &fleet{t: t, job: job, committed: map[uint64]string{}, trees: map[int]map[string][]byte{},
		assembly: &assembly{inbox: newInbox(), waiting: map[uint64]func(keep.Answer){}}}}
	f.cluster, err = sandbox.Open(name)
	must(t, err)
	f.say = func(text string) { f.said = append(f.said, text) }
	f.tell = func(node int, m control.Message) {
		if err := f.conns[node].Send(m); err != nil {
			f.inbox.put(said{Message: control.Message{Body: control.Done{Order: orderOf(m.Body), Err: "lost"}}})
		}
	}
	f.orders = newOrders(job, stream, bulk.Encrypted, func(node int) string { return f.names[node] }, func(node int) string { return f.pieces[node] })
	f.kind = holding.Files
	f.keeper = keep.New(keep.Config{Job: [16]byte(bytes.Repeat([]byte{0xab}, 16)), Stream: stream, Kind: holding.Files, Ranks: fleetRanks,
		Scheme: scheme, Size: fleetNodes}, driver{f.fleet}, nil)
	f.join(site)
	return f
}

// orderOf is the number that an answer to an order has.
func orderOf(body any) uint64 {
	b, err := json.Marshal(body)
	var o struct{ Order uint64 }
	if err != nil || json.Unmarshal(b, &o) != nil {
		return 0
	}
	return o.Order
}

// join starts the agents and takes them in, in the order of their nodes' names.
func (f *fleetOnNodes) join(site harness.Site) {
	f.t.Helper()
	authority, err := control.NewAuthority()
	must(f.t, err)
	self, err := authority.Coordinator()
	must(f.t, err)
	l, address, err := f.cluster.Listen(sandbox.Login)
	must(f.t, err)
	f.t.Cleanup(func() { l.Close() })
	for i := range fleetNodes + 1 {
		name := fmt.Sprintf("node%d", i+1)
		id, err := authority.Node(name)
		must(f.t, err)
		brief, err := json.Marshal(agent.Brief{Byssus: version(f.t, f.byssus), Coordinator: []string{address}, Identity: id, Job: f.job.Meta, Dir: f.job.Dir,
			Cache: nodeCache, Term: f.job.Term, RunDir: "/run/byssus/fleet", Node: name, Rank: filepath.Join(site.Root, "build/lib/byssus/byssus-rank"),
			Patience: control.Patience(time.Minute)})
		must(f.t, err)
		in, words := io.Pipe()
		go words.Write(append(brief, '\n')) // it stays open as long as the agent lives
		p, err := f.cluster.Start(context.Background(), name, sandbox.Command{Args: []string{f.byssus, "agent"}, Stdin: in, Stdout: os.Stderr, Stderr: os.Stderr})
		must(f.t, err)
		go func() {
			_, _ = p.Wait() // it ends when its connection does; before that, nobody comes
			l.Close()
		}()
		f.t.Cleanup(func() { words.Close() })
		f.accept(l, self, name)
	}
}

// version is what the program under test says of itself.
func version(t *testing.T, byssus string) string {
	t.Helper()
	out, err := exec.Command(byssus, "version").Output()
	must(t, err)
	words := strings.Fields(string(out))
	if len(words) < 2 {
		t.Fatalf("version: %q", out)
	}
	return words[1]
}

func (f *fleetOnNodes) accept(l net.Listener, self control.Identity, name string) {
	f.t.Helper()
	c, err := l.Accept()
	must(f.t, err)
	conn, who, err := control.Accept(f.t.Context(), c, self, control.Patience(time.Minute))
	if err != nil || who != name {
		f.t.Fatalf("%s, %v", who, err)
	}
	f.t.Cleanup(func() { conn.Close() })
	m, err := firstWord(conn)
	must(f.t, err)
	joined, ok := m.Body.(control.Joined)
	if !ok {
		f.t.Fatalf("%+v", m.Body)
	}
	f.names, f.conns, f.pieces = append(f.names, name), append(f.conns, conn), append(f.pieces, joined.Pieces)
	f.keeper.Join(name, "", joined.Held)
	done := make(chan struct{})
	f.t.Cleanup(func() { close(done) })
	go conn.Heartbeat(done)
	go func() {
		for {
			m, err := conn.Receive()
			if err != nil {
				return
			}
			f.inbox.put(said{Message: m})
		}
	}()
}

// on runs a command on a node and returns what it prints.
func (f *fleetOnNodes) on(node int, in io.Reader, command string, args ...string) string {
	f.t.Helper()
	var out, errs bytes.Buffer
	p, err := f.cluster.Start(f.t.Context(), f.names[node], sandbox.Command{Args: append([]string{"sh", "-ec", command, "sh"}, args...), Stdin: in,
		Stdout: &out, Stderr: &errs})
	must(f.t, err)
	if code, err := p.Wait(); code != 0 || err != nil {
		f.t.Fatalf("%s on %s: exit code %d, %v: %s", command, f.names[node], code, err, errs.String())
	}
	return out.String()
}

// dirOn is a dataset's directory on the nodes.
func (f *fleetOnNodes) dirOn(n uint64) string {
	j := dataset.Job{Record: dataset.Record{Dir: dataset.Store{Dir: nodeCache}.CachePath(f.job.Meta)}}
	return j.Of(stream).Path(n)
}

// writeOn has the ranks write a dataset on the first four nodes, and commits it.
func (f *fleetOnNodes) writeOn(n uint64, tree func(rank int) map[string][]byte) {
	f.t.Helper()
	f.prepare(n)
	var nodes []int
	var ranks [][]int
	for i := range fleetNodes {
		nodes, ranks = append(nodes, i), append(ranks, ranksOf(i))
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, rank := range ranksOf(i) {
			f.trees[rank] = tree(rank)
			must(f.t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: files.ContentName(rank), Mode: 0o700}))
			for path, b := range f.trees[rank] {
				must(f.t, w.WriteHeader(&tar.Header{Name: filepath.Join(files.ContentName(rank), path), Mode: 0o600, Size: int64(len(b))}))
				_, err := w.Write(b)
				must(f.t, err)
			}
		}
		must(f.t, w.Close())
		f.on(i, &archive, `tar -xC "$1"`, f.dirOn(n)+".tmp")
	}
	id := holding.ID{Job: [16]byte(bytes.Repeat([]byte{0xab}, 16)), Start: 1, Epoch: n, Dataset: n, Stream: stream}
	f.keeper.Commit(id, holding.Label{}, keep.How{}, nodes, ranks)
	f.serve(func() bool { _, ok := f.committed[n]; return ok })
	if why := f.committed[n]; why != "" {
		f.t.Fatalf("dataset %d: %s", n, why)
	}
}

// allOn compares what nodes have of their ranks with what these have written.
func (f *fleetOnNodes) allOn(n uint64, ranks [][]int) {
	f.t.Helper()
	for i, list := range ranks {
		for _, rank := range list {
			out := f.on(i, nil, `cd "$1" && find . -type f -print0 | sort -z | xargs -0r sha256sum -bz | tr '\0' '\n'`, filepath.Join(f.dirOn(n), files.ContentName(rank)))
			var want []string
			for path, b := range f.trees[rank] {
				want = append(want, fmt.Sprintf("%x *./%s", sha256.Sum256(b), path))
			}
			found := strings.Split(strings.TrimSpace(out), "\n")
			slices.Sort(want)
			slices.Sort(found)
			if len(want) > 0 && !slices.Equal(found, want) || len(want) == 0 && out != "" {
				f.t.Errorf("rank %d on %s: found\n%s\nwanted\n%s", rank, f.names[i], strings.Join(found, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// TestFilesOnNodes takes datasets of files through their life on nodes that are lost: written, protected, a MiB repaired, a node's part
// rebuilt on a spare, copied to the store, verified, dropped.
func TestFilesOnNodes(t *testing.T) {
	harness.Share(t, harness.Light)
	for _, scheme := range []redset.Scheme{redset.XOR, redset.Partner} {
		t.Run(scheme.String(), func(t *testing.T) {
			f := onNodes(t, scheme)
			f.writeOn(1, randomTree(1))
			f.writeOn(2, randomTree(2))
			f.allOn(2, [][]int{ranksOf(0), ranksOf(1), ranksOf(2), ranksOf(3)})
			f.on(2, nil, `f=$(find "$1"/rank-*.files -size +100k | head -1)
				printf '\125' | dd of="$f" bs=1 seek=5000 conv=notrunc status=none; printf '\252' | dd of="$f" bs=1 seek=5001 conv=notrunc status=none`, f.dirOn(2))
			if said := f.inspect(2); !strings.Contains(said, "have been repaired") || strings.Contains(said, "counts as lost") {
				t.Error(said)
			}
			f.allOn(2, [][]int{ranksOf(0), ranksOf(1), ranksOf(2), ranksOf(3)})
			must(t, f.cluster.Kill(f.names[1]))
			f.keeper.Lost(1)
			place := f.resume(2)
			f.allOn(2, place)
			if len(place[fleetNodes]) == 0 {
				t.Errorf("nothing goes on on the spare: %v", place)
			}
			over := false
			f.keeper.Fetch(2, func(err error) { over = true; must(t, err) })
			f.serve(func() bool { return over })
			dir := f.job.Of(stream).Path(2)
			if _, err := dataset.Verify(dir, func(int64) {}); err != nil {
				t.Error(err)
			}
			for rank := range fleetRanks {
				f.same(dir, rank)
			}
			f.keeper.Drop(1)
			f.keeper.Drop(2)
			f.serve(func() bool { return len(f.waiting) == 0 })
			for _, i := range []int{0, 2, 3, 4} {
				if left := f.on(i, nil, `find "$1" -name 'rank-*'`, nodeCache); left != "" {
					t.Errorf("left on %s: %s", f.names[i], left)
				}
			}
		})
	}
}
