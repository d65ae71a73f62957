package coordsrv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
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
	"github.com/byssus-hpc/byssus/internal/act/mover"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/keep"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/files"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

// stream is that of the datasets of these tests, which consist of files that ranks have written.
const stream = holding.Stream(1)

// fleet are agents in this process, with their caches, whose keeper keeps datasets of files: nothing of a job runs.
type fleet struct {
	*assembly
	t         *testing.T
	job       *dataset.Job
	caches    []*dataset.Job
	committed map[uint64]string
	said      []string
	trees     map[int]map[string][]byte // by rank: what it has written

	increments int // that nodes were asked to make
}

const (
	fleetNodes = 4
	fleetRanks = 8
)

func newFleet(t *testing.T, scheme redset.Scheme) *fleet {
	t.Helper()
	job, err := dataset.Store{Dir: filepath.Join(t.TempDir(), "store")}.Create(dataset.Meta{Name: "shells", ID: strings.Repeat("ab", 16), Ranks: fleetRanks,
		Fsync: true, State: dataset.StateRunning, Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(job.Unlock)
	f := &fleet{t: t, job: job, committed: map[uint64]string{}, trees: map[int]map[string][]byte{},
		assembly: &assembly{inbox: newInbox(), waiting: map[uint64]func(keep.Answer){}}}
	f.tell = func(node int, m control.Message) {
		if e, ok := m.Body.(control.Encode); ok && e.Base > 0 {
			f.increments++
		}
		f.agents[node].Hear(m)
	}
	f.say = func(text string) { f.said = append(f.said, text) }
	f.orders = newOrders(job, stream, bulk.Authenticated, func(node int) string { return f.names[node] },
		func(node int) string { return f.ports[node].Address() })
	f.kind = holding.Files
	for i := range fleetNodes {
		cache, err := dataset.Store{Dir: filepath.Join(t.TempDir(), "cache")}.Cache(job.Meta, 1, job.Dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cache.Unlock)
		f.caches = append(f.caches, cache)
		f.names = append(f.names, fmt.Sprintf("node%d", i))
	}
	f.begin(scheme)
	t.Cleanup(f.close)
	return f
}

// begin makes agents for the caches, and a keeper that knows what they have.
func (f *fleet) begin(scheme redset.Scheme) {
	f.t.Helper()
	id := [16]byte(bytes.Repeat([]byte{0xab}, 16))
	f.keeper = keep.New(keep.Config{Job: id, Stream: stream, Kind: holding.Files, Ranks: fleetRanks, Scheme: scheme, Size: fleetNodes}, driver{f}, nil)
	f.agents, f.ports = nil, nil
	for i, cache := range f.caches {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			f.t.Fatal(err)
		}
		port := bulk.NewPort(l)
		n := agent.NewNode(agent.NodeConfig{Name: f.names[i], JobID: id, Store: cache, Flush: f.job, Port: port,
			Say: func(m control.Message) { f.inbox.put(said{Message: m}) }})
		f.agents, f.ports = append(f.agents, n), append(f.ports, port)
		held, damaged := n.Held()
		if len(damaged) > 0 {
			f.t.Fatal(damaged)
		}
		f.keeper.Join(f.names[i], "", held)
	}
}

// driver hears of commits.
type driver struct{ *fleet }

func (d driver) Committed(n uint64, why string) { d.committed[n] = why }

// ranksOf are those of a node.
func ranksOf(node int) []int {
	return []int{node * fleetRanks / fleetNodes, node*fleetRanks/fleetNodes + 1}
}

// prepare makes room for a dataset.
func (f *fleet) prepare(n uint64) {
	f.t.Helper()
	prepared := 0
	for i := range f.names {
		f.number++
		f.waiting[f.number] = func(a keep.Answer) {
			if prepared++; a.Err != "" {
				f.t.Fatal(a.Err)
			}
		}
		f.tell(i, control.Message{Body: control.Prepare{Order: f.number, Checkpoint: n, Stream: stream}})
	}
	f.serve(func() bool { return prepared == len(f.names) })
}

// write has all ranks write a dataset, and commits it.
func (f *fleet) write(n uint64, tree func(rank int) map[string][]byte) {
	f.t.Helper()
	f.writeAs(n, tree, keep.How{})
}

func (f *fleet) writeAs(n uint64, tree func(rank int) map[string][]byte, how keep.How) {
	f.t.Helper()
	f.prepare(n)
	for i, cache := range f.caches {
		for _, rank := range ranksOf(i) {
			f.trees[rank] = tree(rank)
			top := filepath.Join(cache.Of(stream).Path(n)+".tmp", files.ContentName(rank))
			must(f.t, os.Mkdir(top, 0o700))
			for path, b := range f.trees[rank] {
				put(f.t, filepath.Join(top, path), b)
			}
		}
	}
	f.commitAs(n, how)
}

// commitAll makes count what all ranks have written.
func (f *fleet) commitAll(n uint64) { f.t.Helper(); f.commitAs(n, keep.How{}) }

func (f *fleet) commitAs(n uint64, how keep.How) {
	f.t.Helper()
	var nodes []int
	var ranks [][]int
	for i := range f.names {
		nodes, ranks = append(nodes, i), append(ranks, ranksOf(i))
	}
	id := holding.ID{Job: [16]byte(bytes.Repeat([]byte{0xab}, 16)), Start: 1, Epoch: n, Dataset: n, Stream: stream}
	f.keeper.Commit(id, holding.Label{}, how, nodes, ranks)
	f.serve(func() bool { _, ok := f.committed[n]; return ok })
	if why := f.committed[n]; why != "" {
		f.t.Fatalf("dataset %d: %s", n, why)
	}
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// trees that ranks write: rank 0 nothing, rank 1 many small files, the others large ones, with holes.
func randomTree(seed uint64) func(rank int) map[string][]byte {
	return func(rank int) map[string][]byte {
		rng := rand.New(rand.NewPCG(seed, uint64(rank)))
		tree := map[string][]byte{}
		switch rank {
		case 0:
		case 1:
			for i := range 300 {
				tree[fmt.Sprintf("many/%d/%03d", i%7, i)] = noise(rng, rng.IntN(2000))
			}
		default:
			tree["empty"] = nil
			for i := range 1 + rng.IntN(4) {
				b := noise(rng, rng.IntN(5<<20))
				if len(b) > 2<<20 {
					clear(b[1<<20 : 2<<20])
				}
				tree[fmt.Sprintf("a/%d/data.%d", rank, i)] = b
			}
		}
		return tree
	}
}

func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// same compares what a rank has in a dataset's directory with what it has written.
func (f *fleet) same(dir string, rank int) {
	f.t.Helper()
	x, err := files.Open(dir, rank)
	if err != nil {
		f.t.Fatal(err)
	}
	if damage, err := x.Verify(f.t.Context(), dir, func(int64) {}); err != nil || len(damage) > 0 {
		f.t.Errorf("rank %d: %+v, %v", rank, damage, err)
	}
	if len(x.Files) != len(f.trees[rank]) {
		f.t.Errorf("rank %d: %d files, wanted %d", rank, len(x.Files), len(f.trees[rank]))
	}
	for path, want := range f.trees[rank] {
		if b, err := os.ReadFile(filepath.Join(dir, files.ContentName(rank), path)); err != nil || !bytes.Equal(b, want) {
			f.t.Errorf("rank %d: %s: %d bytes, wanted %d: %v", rank, path, len(b), len(want), err)
		}
	}
}

// all compares what all nodes that are there have of their ranks.
func (f *fleet) all(n uint64, ranks [][]int) {
	f.t.Helper()
	for i, list := range ranks {
		for _, rank := range list {
			f.same(f.caches[i].Of(stream).Path(n), rank)
		}
	}
}

// resume makes again what is lost, and returns where ranks go on.
func (f *fleet) resume(n uint64) [][]int {
	f.t.Helper()
	r, err := f.keeper.Resume(n)
	if err != nil {
		f.t.Fatal(err)
	}
	over := false
	f.keeper.Rebuild(r, func(err error) {
		if over = true; err != nil {
			f.t.Fatal(err)
		}
	})
	f.serve(func() bool { return over })
	return r.Ranks
}

// inspect looks through a dataset, and returns what was said.
func (f *fleet) inspect(n uint64) string {
	f.t.Helper()
	f.said = nil
	over := false
	f.keeper.Inspect(n, func() { over = true })
	f.serve(func() bool { return over })
	return strings.Join(f.said, "\n")
}

// anyFile picks a file with something in it, of a rank of the node.
func (f *fleet) anyFile(n uint64, node int) string {
	for _, rank := range slices.Backward(ranksOf(node)) {
		for path, b := range f.trees[rank] {
			if len(b) > 100 {
				return filepath.Join(f.caches[node].Of(stream).Path(n), files.ContentName(rank), path)
			}
		}
	}
	f.t.Fatal("no file")
	return ""
}

// flip changes a bit of a file, at a place of its length.
func flip(t *testing.T, path string, place float64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	at := int64(place * float64(st.Size()-1))
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// TestFiles takes datasets that consist of files through their life: written, protected, repaired, made again on another node, copied to the
// store, verified, dropped; beside the job's checkpoints, whose numbers are others.
func TestFiles(t *testing.T) {
	for _, scheme := range []redset.Scheme{redset.XOR, redset.Partner, redset.PartnerOf(2)} {
		t.Run(scheme.String(), func(t *testing.T) {
			f := newFleet(t, scheme)
			f.write(1, randomTree(1))
			f.write(2, randomTree(2))
			place := [][]int{ranksOf(0), ranksOf(1), ranksOf(2), ranksOf(3)}
			f.all(2, place)
			f.repairs(2, place)
			f.loses(scheme, 2)
			f.copies(2)
			f.drops(2)
			if last, err := f.job.Checkpoints().Last(); err != nil || last != 0 {
				t.Errorf("the job's checkpoints: number %d was used, %v", last, err)
			}
		})
	}
}

// TestLargeFile: a file of 5 GiB, most of which is a hole, takes no more room than what is in it, neither where it is protected nor where it
// is made again or copied. BYSSUS_TEST_LONG=1: it reads and sends all of it.
func TestLargeFile(t *testing.T) {
	size := int64(100 << 20)
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		size = 5 << 30
	}
	f := newFleet(t, redset.XOR)
	f.prepare(3)
	for rank := range fleetRanks {
		path := filepath.Join(f.caches[rank*fleetNodes/fleetRanks].Of(stream).Path(3)+".tmp", files.ContentName(rank), "large")
		put(t, path, []byte("begin"))
		if rank == 2 {
			must(t, os.Truncate(path, size))
			end, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			_, err = end.Write([]byte("end"))
			must(t, errors.Join(err, end.Close()))
		}
	}
	f.commitAll(3)
	must(t, os.RemoveAll(f.caches[1].Of(stream).Path(3)))
	f.keeper.Lost(1)
	at := slices.IndexFunc(f.resume(3), func(ranks []int) bool { return slices.Contains(ranks, 2) })
	over := false
	f.keeper.Fetch(3, func(err error) { over = true; must(t, err) })
	f.serve(func() bool { return over })
	for _, j := range []*dataset.Job{f.caches[at], f.job} {
		dir := j.Of(stream).Path(3)
		x, err := files.Open(dir, 2)
		must(t, err)
		if damage, err := x.Verify(t.Context(), dir, func(int64) {}); err != nil || len(damage) > 0 || x.Size != size+3 {
			t.Errorf("%s: %d bytes, %+v, %v", dir, x.Size, damage, err)
		}
	}
	for _, j := range append(slices.Clone(f.caches), f.job) {
		out, err := exec.Command("du", "-sm", j.Dir).Output()
		must(t, err)
		var mib int
		if _, err := fmt.Sscan(string(out), &mib); err != nil || mib > 8 {
			t.Errorf("%s takes %d MiB, %v", j.Dir, mib, err)
		}
	}
}

// TestTwoNeighbours: two nodes that follow each other are gone with what they had, of a dataset that was made of all bytes and of one that is its
// increment. With two copies all of it is made again, on those that are left, and is what these say that they hold; of parity nothing is
// pretended.
func TestTwoNeighbours(t *testing.T) {
	for _, first := range []int{1, 3} {
		f := newFleet(t, redset.PartnerOf(2))
		f.write(1, randomTree(1))
		f.writeAs(2, func(rank int) map[string][]byte {
			tree := randomTree(1)(rank)
			for _, b := range tree {
				if len(b) > 0 {
					b[len(b)/2] ^= 1
				}
			}
			return tree
		}, keep.How{Increments: true})
		if f.increments != fleetNodes {
			t.Errorf("%d members have made an increment, wanted %d", f.increments, fleetNodes)
		}
		for _, i := range []int{first, (first + 1) % fleetNodes} {
			f.keeper.Lost(i)
			must(t, os.RemoveAll(f.caches[i].Of(stream).Path(2)))
		}
		f.all(2, f.resume(2))
		f.close()
		f.begin(redset.PartnerOf(2))
		f.all(2, f.resume(2))
		if said := f.inspect(2); said != "" {
			t.Error(said)
		}
	}
	f := newFleet(t, redset.XOR)
	f.write(1, randomTree(1))
	for i := range 2 {
		f.keeper.Lost(i)
	}
	if _, err := f.keeper.Resume(1); !errors.Is(err, holding.ErrLost) {
		t.Errorf("two of a set with parity are lost: %v", err)
	}
}

// TestKeys: a link's key is told to its two ends alone, is another for each direction, link and transfer, and nothing of it is kept when all
// members have been told.
func TestKeys(t *testing.T) {
	for _, scheme := range []redset.Scheme{redset.XOR, redset.Partner, redset.PartnerOf(2), redset.PartnerOf(3)} {
		for n := scheme.Members(); n <= 8; n++ {
			for _, gone := range []int{-1, 1} {
				tryKeys(t, scheme, n, gone)
			}
		}
	}
}

func tryKeys(t *testing.T, scheme redset.Scheme, n, gone int) {
	t.Helper()
	o := newOrders(nil, 0, bulk.Encrypted, nil, func(node int) string { return fmt.Sprint("node", node) })
	seen := map[bulk.Key]bool{}
	for id := range uint64(2) {
		members, told := make([]int, n), make([]mover.Transfer, n)
		for i := range members {
			if members[i] = 10 + i; i == gone {
				members[i] = -1
			}
		}
		for i := range members {
			if i != gone {
				told[i] = o.transfer(id, members, &holding.Header{Scheme: scheme, Own: i})
			}
		}
		for from := range told {
			for to := range told {
				apart := min((to-from+n)%n, (from-to+n)%n)
				if from == gone || to == gone {
					continue
				}
				out, in := told[from].Peers[to], told[to].Peers[from]
				reached := 0 < apart && apart <= max(1, scheme.Copies())
				if reached != (out.Address == fmt.Sprint("node", 10+to)) || out.Out != in.In || reached == (out.Out == bulk.Key{}) || reached && seen[out.Out] {
					t.Fatalf("%v of %d, %d gone: from %d to %d: found %+v and %+v", scheme, n, gone, from, to, out, in)
				}
				seen[out.Out] = true
			}
		}
	}
	if len(o.keys) > 0 {
		t.Errorf("%v of %d, %d gone: keys of %d transfers are kept", scheme, n, gone, len(o.keys))
	}
}

// TestUnseenDamage: a node is lost, and another has damage that nobody has seen. What would be made again from it is not taken for what was
// written.
func TestUnseenDamage(t *testing.T) {
	for _, scheme := range []redset.Scheme{redset.XOR, redset.Partner, redset.PartnerOf(2)} {
		f := newFleet(t, scheme)
		f.write(1, randomTree(1))
		dir := f.caches[2].Of(stream).Path(1)
		if scheme == redset.XOR {
			flip(t, f.anyFile(1, 2), 0.5)
		} else {
			flip(t, filepath.Join(dir, files.ContentName(3), "a/3/data.0"), 0.5) // the copy of the lost node's
		}
		must(t, os.RemoveAll(f.caches[1].Of(stream).Path(1)))
		f.keeper.Lost(1)
		r, err := f.keeper.Resume(1)
		must(t, err)
		over := false
		f.keeper.Rebuild(r, func(e error) { over, err = true, e })
		f.serve(func() bool { return over })
		if err == nil || !strings.Contains(err.Error(), "crc32c") && !strings.Contains(err.Error(), "wanted 0 behind the end") {
			t.Errorf("%v: %v", scheme, err)
		}
	}
}

// TestScavengedFiles: what nodes have copied of their caches is put together; what a node has lost is made again, what is damaged repaired.
func TestScavengedFiles(t *testing.T) {
	for what, spoil := range map[string]func(f *fleet, i int, dir string){
		"lost": func(f *fleet, i int, dir string) {
			if i == 1 {
				must(f.t, os.RemoveAll(dir))
			}
		},
		"two are lost": func(f *fleet, i int, dir string) {
			if i == 1 || i == 2 {
				must(f.t, os.RemoveAll(dir))
			}
		},
		"damaged": func(f *fleet, i int, dir string) {
			if i == 2 {
				rel, err := filepath.Rel(f.caches[i].Of(stream).Path(2), f.anyFile(2, i))
				must(f.t, err)
				flip(f.t, filepath.Join(dir, rel), 0.5)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			scheme := redset.XOR
			if what == "two are lost" {
				scheme = redset.PartnerOf(2)
			}
			f := newFleet(t, scheme)
			f.write(1, randomTree(1))
			f.write(2, randomTree(2))
			for i, cache := range f.caches {
				place, err := f.job.Scavenged().Place(f.names[i])
				must(t, err)
				to := place.Of(stream).Path(2)
				must(t, os.CopyFS(to, os.DirFS(cache.Of(stream).Path(2))))
				must(t, os.Chmod(to, 0o700))
				spoil(f, i, to)
			}
			must(t, Assemble(f.job, 0, f.say))
			dir := f.job.Of(stream).Path(2)
			if _, err := dataset.Verify(dir, func(int64) {}); err != nil {
				t.Errorf("%v\n%s", err, strings.Join(f.said, "\n"))
			}
			for rank := range fleetRanks {
				f.same(dir, rank)
			}
			if left, err := f.job.Scavenged().Parts(); err != nil || len(left) > 0 {
				t.Errorf("%d are left, %v", len(left), err)
			}
		})
	}
}

// repairs: one flipped bit costs a MiB; files that are gone or short, and what is kept for others, are repaired, too.
func (f *fleet) repairs(n uint64, place [][]int) {
	f.t.Helper()
	dir := f.caches[2].Of(stream).Path(n)
	kept, _ := filepath.Glob(filepath.Join(dir, "parity.*"))
	copies := filepath.Join(dir, files.ContentName(3)) // with Partner: of the rank of the node before
	for what, spoil := range map[string]func(){
		"a bit":       func() { flip(f.t, f.anyFile(n, 2), 0.7) },
		"gone":        func() { must(f.t, os.Remove(f.anyFile(n, 2))) },
		"short":       func() { must(f.t, os.Truncate(f.anyFile(n, 2), 7)) },
		"two nodes":   func() { flip(f.t, f.anyFile(n, 2), 0.1); flip(f.t, f.anyFile(n, 0), 0.9) },
		"all of them": func() { must(f.t, os.RemoveAll(filepath.Join(dir, files.ContentName(5)))) },
		"kept": func() {
			if _, err := os.Stat(copies); err == nil {
				flip(f.t, filepath.Join(copies, "a/3/data.0"), 0.5)
				return
			}
			flip(f.t, kept[0], 0.5)
		},
	} {
		spoil()
		said := f.inspect(n)
		if !strings.Contains(said, "have been repaired") || strings.Contains(said, "counts as lost") {
			f.t.Errorf("%s: %s", what, said)
		}
		var bytes float64
		var unit string
		_, err := fmt.Sscanf(strings.TrimPrefix(said, fmt.Sprintf("checkpoint %d: ", n)), "%f %s", &bytes, &unit)
		if what == "a bit" && (err != nil || unit == "GiB" || unit == "MiB" && bytes > 1) {
			f.t.Errorf("%s: %s", what, said)
		}
		if said := f.inspect(n); said != "" {
			f.t.Errorf("%s, after it was repaired: %s", what, said)
		}
		f.all(n, place)
	}
	flip(f.t, filepath.Join(dir, files.IndexName(5)), 0.5) // nothing is known then
	if said := f.inspect(n); !strings.Contains(said, "counts as lost") {
		f.t.Errorf("a damaged index: %s", said)
	}
	f.all(n, f.resume(n))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// loses: a node is gone with its cache. What it had is made again on another; also for who knows only what nodes say that they hold.
func (f *fleet) loses(scheme redset.Scheme, n uint64) {
	f.t.Helper()
	f.keeper.Lost(1)
	must(f.t, os.RemoveAll(f.caches[1].Of(stream).Path(n)))
	f.all(n, f.resume(n))
	f.close()
	f.begin(scheme)
	f.all(n, f.resume(n))
	f.keeper.Lost(3)
	must(f.t, os.RemoveAll(f.caches[3].Of(stream).Path(n)))
	f.all(n, f.resume(n))
}

// copies: what is damaged when it is copied is repaired first; what the store has is whole, and a changed bit is found there.
func (f *fleet) copies(n uint64) {
	f.t.Helper()
	flip(f.t, f.anyFile(n, 2), 0.3)
	over := false
	f.keeper.Fetch(n, func(err error) {
		if over = true; err != nil {
			f.t.Fatal(err)
		}
	})
	f.serve(func() bool { return over })
	dir := f.job.Of(stream).Path(n)
	if _, err := dataset.Verify(dir, func(int64) {}); err != nil {
		f.t.Error(err)
	}
	for rank := range fleetRanks {
		f.same(dir, rank)
	}
	all, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*"))
	if err != nil || len(all) == 0 {
		f.t.Fatal(err)
	}
	flip(f.t, all[0], 0.4)
	if _, err := dataset.Verify(dir, func(int64) {}); err == nil {
		f.t.Errorf("a flipped bit of %s in the store is not found", all[0])
	}
	flip(f.t, all[0], 0.4)
}

// drops: nothing is left of what is dropped, neither in caches nor in the store.
func (f *fleet) drops(n uint64) {
	f.t.Helper()
	for i := range n {
		f.keeper.Drop(i + 1)
	}
	f.serve(func() bool { return len(f.waiting) == 0 })
	for _, j := range append(slices.Clone(f.caches[:3]), f.job) { // the last node is lost
		err := filepath.WalkDir(j.Dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.Contains(d.Name(), "rank-") {
				err = errors.New(path + " is left")
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.t.Error(err)
		}
	}
}
