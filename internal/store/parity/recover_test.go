package parity_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/decide/redset/redsettest"
	"github.com/byssus-hpc/byssus/internal/store/parity"
)

// node is what one node holds of a dataset, by name: files of its part, the copies, and the file that describes the set.
type node struct {
	name  string
	files map[string]*disk
	set   *disk
}

// cluster is a job's nodes, with a dataset on them.
type cluster struct {
	t     *testing.T
	rng   *rand.Rand
	nodes []*node
	where map[holding.Loss]*node // who is which member of which set
}

func digest(b []byte) uint64 { return crc64.Checksum(b, crc64.MakeTable(crc64.ECMA)) }

// random returns n random bytes.
func random(rng *rand.Rand, n int) []byte {
	b, seed := make([]byte, n), [32]byte{}
	binary.LittleEndian.PutUint64(seed[:], rng.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(b) // which never fails
	return b
}

// newCluster writes random parts on nodes in random failure groups.
func newCluster(t *testing.T, rng *rand.Rand, scheme redset.Scheme) (*cluster, []redset.Set) {
	least := scheme.Members()
	n, racks, size := least+rng.IntN(12), 0, 0
	if rng.IntN(2) == 0 {
		racks = least - 1 + (n+1)/2 + rng.IntN(n)
	} else {
		size = rng.IntN(2) * min(n, least+rng.IntN(4))
	}
	c := &cluster{t: t, rng: rng, where: map[holding.Loss]*node{}}
	var members []redset.Member
	for i := range n {
		m := redset.Member{Node: i}
		if racks > 0 {
			m.Group = fmt.Sprint("rack", i%racks)
		}
		members = append(members, m)
		c.nodes = append(c.nodes, c.newNode(i))
	}
	sets, err := redset.Divide(members, scheme, size)
	if err != nil {
		t.Fatal(err)
	}
	return c, sets
}

func (c *cluster) newNode(i int) *node {
	n := &node{name: fmt.Sprint("node", i), files: map[string]*disk{}}
	for rank := range c.rng.IntN(4) {
		b := random(c.rng, c.rng.IntN(3)*c.rng.IntN(300000))
		n.files[fmt.Sprintf("rank-%05d.%d.img", i, rank)] = &disk{now: b}
	}
	return n
}

// describe makes the header of a set.
func (c *cluster) describe(number, count int, set redset.Set) holding.Header {
	h := holding.Header{ID: testID, Scheme: set.Scheme, Set: number, Sets: count}
	for i, m := range set.Members {
		n := c.nodes[m.Node]
		c.where[holding.Loss{Set: number, Member: i}] = n
		member := holding.Member{Node: n.name, Group: m.Group}
		for _, name := range slices.Sorted(maps.Keys(n.files)) {
			b := n.files[name].now
			member.Files = append(member.Files, holding.File{Name: name, Size: int64(len(b)), Digest: digest(b)})
		}
		h.Members = append(h.Members, member)
	}
	return h
}

// part is those of the files on a node that are members' parts, one behind the other. Those that are not there are made.
func (n *node) part(t *testing.T, members ...holding.Member) redsettest.Store {
	var bodies []parity.Body
	m := holding.Member{Node: n.name}
	for _, one := range members {
		m.Files = append(m.Files, one.Files...)
	}
	for _, f := range m.Files {
		if n.files[f.Name] == nil {
			n.files[f.Name] = &disk{}
		}
		bodies = append(bodies, n.files[f.Name])
	}
	p, err := parity.NewPart(m, bodies)
	if err != nil {
		t.Fatal(err)
	}
	return redsettest.Store{ReaderAt: p, WriterAt: p}
}

// copied are the members of whose parts a member has copies.
func copied(h holding.Header) []holding.Member {
	var list []holding.Member
	for d := 1; d <= h.Scheme.Copies(); d++ {
		list = append(list, h.Members[(h.Own-d+len(h.Members))%len(h.Members)])
	}
	return list
}

// join makes a node ready to take part in a plan: with a Writer, and a new file, if it makes its redundancy, else with a
// Reader of the one that it has.
func (c *cluster) join(n *node, h holding.Header, own int, makes bool) (redsettest.Member, *parity.Writer) {
	h.Own = own
	m := redsettest.Member{n.part(c.t, h.Members[own])}
	if of := copied(h); len(of) > 0 {
		m[redset.Redundancy] = n.part(c.t, of...)
	}
	if !makes {
		r, err := parity.Open(n.set, int64(len(n.set.now)))
		if err != nil {
			c.t.Fatal(err)
		}
		if h.Scheme == redset.XOR {
			m[redset.Redundancy].ReaderAt = r
		}
		return m, nil
	}
	n.set = &disk{}
	w, err := parity.Create(n.set, h)
	if err != nil {
		c.t.Fatal(err)
	}
	if h.Scheme == redset.XOR {
		m[redset.Redundancy].WriterAt = w
	}
	return m, w
}

// perform runs a plan in which those members make their redundancy. One that is lost too has no steps in it.
func (c *cluster) perform(h holding.Header, makes func(member int) bool, plan func(me int) iter.Seq[redset.Step]) error {
	members := make([]redsettest.Member, len(h.Members))
	var writers []*parity.Writer
	for i := range h.Members {
		n := c.where[holding.Loss{Set: h.Set, Member: i}]
		if !makes(i) && n.set == nil {
			continue
		}
		m, w := c.join(n, h, i, makes(i))
		if members[i] = m; w != nil {
			writers = append(writers, w)
		}
	}
	_, err := redsettest.Run(members, plan)
	for _, w := range writers {
		if err == nil {
			err = w.Finish()
		}
	}
	return err
}

// encode makes the redundancy of all sets.
func (c *cluster) encode(sets []redset.Set) {
	for number, set := range sets {
		h := c.describe(number, len(sets), set)
		l, err := h.Layout()
		if err == nil {
			err = c.perform(h, func(int) bool { return true }, l.Encode)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// survey reads the headers on the nodes whose files are all as they should be.
func (c *cluster) survey() []holding.Header {
	var list []holding.Header
	for at, n := range c.where {
		if n.set == nil {
			continue
		}
		r, err := check(n.set.now)
		if err == nil && n.whole(r.Header) {
			list = append(list, r.Header)
		} else {
			c.where[at] = &node{name: n.name, files: map[string]*disk{}}
		}
	}
	slices.SortFunc(list, func(a, b holding.Header) int { return cmp.Or(a.Set-b.Set, a.Own-b.Own) })
	c.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// whole compares the digests of a node's files: its part, and the copies that it holds.
func (n *node) whole(h holding.Header) bool {
	for _, m := range append(copied(h), h.Members[h.Own]) {
		for _, f := range m.Files {
			if d := n.files[f.Name]; d == nil || int64(len(d.now)) != f.Size || digest(d.now) != f.Digest {
				return false
			}
		}
	}
	return true
}

// snapshot is all that the members hold, by their places.
func (c *cluster) snapshot() map[holding.Loss]map[string][]byte {
	all := map[holding.Loss]map[string][]byte{}
	for at, n := range c.where {
		all[at] = map[string][]byte{"set": n.set.now}
		for name, d := range n.files {
			all[at][name] = bytes.Clone(d.now)
		}
	}
	return all
}

// repair does what the report says, on new nodes, and compares the digests of what came back.
func (c *cluster) repair(r holding.Report) error {
	for i, loss := range r.Lost {
		var gone []int
		for _, other := range r.Lost[i+1:] {
			if other.Set == loss.Set {
				gone = append(gone, other.Member)
			}
		}
		h := r.Sets[loss.Set]
		l, err := h.Layout()
		if err != nil {
			return err
		}
		plan := func(me int) iter.Seq[redset.Step] { return l.Rebuild(loss.Member, me, gone) }
		if err := c.perform(h, func(i int) bool { return i == loss.Member }, plan); err != nil {
			return err
		}
		for _, f := range h.Members[loss.Member].Files {
			if got := digest(c.where[loss].files[f.Name].now); got != f.Digest {
				return fmt.Errorf("%s: digest %x, want %x", f.Name, got, f.Digest)
			}
		}
	}
	return nil
}

// lose takes members away at random, often few, and says which sets cannot stand that.
func (c *cluster) lose(sets []redset.Set) (lost []holding.Loss, beyond []int) {
	chance := 1 + c.rng.IntN(12)
	for number, set := range sets {
		n, gone := len(set.Members), map[int]bool{}
		for i := range n {
			if c.rng.IntN(chance) == 0 {
				at := holding.Loss{Set: number, Member: i}
				gone[i], lost = true, append(lost, at)
				c.harm(at)
			}
		}
		row := false // of members that have all copies of a part, and that part
		for i := range gone {
			all := true
			for d := 1; d <= set.Scheme.Copies(); d++ {
				all = all && gone[(i+d)%n]
			}
			row = row || all
		}
		if set.Scheme == redset.XOR && len(gone) > 1 || set.Scheme != redset.XOR && row {
			beyond = append(beyond, number)
		}
	}
	return lost, beyond
}

// harm loses a member with all that it holds, or damages one of its files: which counts as much.
func (c *cluster) harm(at holding.Loss) {
	n := c.where[at]
	if c.rng.IntN(2) == 0 {
		c.where[at] = &node{name: n.name, files: map[string]*disk{}}
		return
	}
	files := []*disk{n.set}
	for _, name := range slices.Sorted(maps.Keys(n.files)) {
		if d := n.files[name]; len(d.now) > 0 {
			files = append(files, d)
		}
	}
	d := files[c.rng.IntN(len(files))]
	d.now = bytes.Clone(d.now)
	if i := c.rng.IntN(len(d.now)); c.rng.IntN(2) == 0 {
		d.now[i] ^= 1 << c.rng.IntN(8)
	} else {
		d.now = d.now[:i]
	}
}

// same compares what members hold.
func same(a, b map[holding.Loss]map[string][]byte) bool {
	return maps.EqualFunc(a, b, func(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) })
}

// TestRecovery: random datasets over random sets lose random nodes. What is within the redundancy comes back byte for byte,
// the files that describe the sets too, and can lose again; what is not is refused by the names of the lost.
func TestRecovery(t *testing.T) {
	repaired, refused := 0, 0
	redsettest.Seeds(t, 60, func(t *testing.T, rng *rand.Rand) {
		for _, scheme := range []redset.Scheme{redset.PartnerOf(1 + rng.IntN(3)), redset.XOR} {
			c, sets := newCluster(t, rng, scheme)
			c.encode(sets)
			before := c.snapshot()
			for range 3 {
				lost, beyond := c.lose(sets)
				r, err := holding.Recoverable(testID, c.survey())
				if len(beyond) > 0 {
					c.refused(err, lost)
					refused++
					break
				}
				if err != nil {
					t.Fatalf("%v, lost %v: %v", scheme, lost, err)
				}
				if !slices.Equal(lost, r.Lost) {
					t.Fatalf("%v: lost %v, reported %v", scheme, lost, r.Lost)
				}
				if err := c.repair(r); err != nil {
					t.Fatal(err)
				}
				if !same(before, c.snapshot()) {
					t.Fatalf("%v: after the loss of %v: not the bytes that were there", scheme, lost)
				}
				repaired += len(lost)
			}
		}
	})
	t.Logf("%d members rebuilt, %d datasets refused", repaired, refused)
}

// refused wants an error that names the dataset and a lost node.
func (c *cluster) refused(err error, lost []holding.Loss) {
	c.t.Helper()
	named := false
	for _, at := range lost {
		for _, name := range []string{c.where[at].name, fmt.Sprintf("set %d of", at.Set), "nothing of it was found"} {
			named = named || err != nil && strings.Contains(err.Error(), name)
		}
	}
	if !errors.Is(err, holding.ErrLost) || !named || !strings.Contains(err.Error(), "dataset 7") {
		c.t.Fatalf("lost %v: %v", lost, err)
	}
}

// TestDamageInRebuild: what is wrong on a survivor makes the rebuild of another member fail, by name.
func TestDamageInRebuild(t *testing.T) {
	for _, c := range []struct {
		name, want string
		scheme     redset.Scheme
		harm       func(survivors []*node)
	}{
		{"flipped in a part", "b.img: digest", redset.XOR, func(n []*node) { n[0].files["a.img"].now[600000] ^= 1 }},
		{"flipped behind the end of the lost", "byte 924288 is 0x1, wanted 0 behind the end at 900000", redset.XOR,
			func(n []*node) { n[2].files["c.img"].now[400000] ^= 1 }},
		{"flipped in a copy", "b.img: digest", redset.Partner, func(n []*node) { n[2].files["b.img"].now[10] ^= 1 }},
		{"flipped in a parity", "parity: chunk 0: crc32c", redset.XOR, func(n []*node) { n[0].set.now[5000] ^= 1 }},
		{"part is short", "parity: part: a.img: 300000 bytes at 524288, wanted 475712: truncated", redset.XOR,
			func(n []*node) { n[0].files["a.img"].now = n[0].files["a.img"].now[:824288] }},
		{"copy is short", "parity: part: b.img: 175712 bytes at 524288, wanted 375712: truncated", redset.Partner,
			func(n []*node) { n[2].files["b.img"].now = n[2].files["b.img"].now[:700000] }},
	} {
		var nodes []*node
		set := redset.Set{Scheme: c.scheme}
		for i, length := range []int{1e6, 9e5, 5e5} {
			name := string(rune('a' + i))
			files := map[string]*disk{name + ".img": {now: bytes.Repeat([]byte(name), length)}}
			nodes = append(nodes, &node{name: "node" + name, files: files})
			set.Members = append(set.Members, redset.Member{Node: i})
		}
		cl := &cluster{t: t, rng: rand.New(rand.NewPCG(1, 1)), nodes: nodes, where: map[holding.Loss]*node{}}
		cl.encode([]redset.Set{set})
		cl.where[holding.Loss{Member: 1}] = &node{files: map[string]*disk{}}
		r, err := holding.Recoverable(testID, cl.survey())
		if err != nil {
			t.Fatal(err)
		}
		c.harm(nodes)
		if err := cl.repair(r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestRecoverable(t *testing.T) {
	type headers = []holding.Header
	all := func(scheme redset.Scheme) headers {
		list := headers{sample(scheme, 0), sample(scheme, 1), sample(scheme, 2)}
		for i := range list {
			list[i].Set, list[i].Sets = 0, 1
		}
		return list
	}
	with := func(edit func(h headers)) headers {
		h := all(redset.XOR)
		edit(h)
		return h
	}
	other := sample(redset.XOR, 0)
	other.Set, other.Sets = 1, 2
	other.Members = []holding.Member{{Node: "node8"}, {Node: "node9"}}
	xor, partner := all(redset.XOR), all(redset.Partner)
	for _, c := range []struct {
		name, want string // what is lost, or a part of the error
		headers    headers
	}{
		{"all", "[]", xor},
		{"one found twice", "[{0 2}]", headers{xor[0], xor[1], xor[0]}},
		{"none", "holding: dataset 7: nothing of it was found: more is lost", nil},
		{"two of three", "holding: dataset 7: set 0: lost are node7, node3, of 3 with xor: more is lost", xor[:1]},
		{"neighbours", "set 0: lost are node1, node3, of 3 with partner: more is lost", partner[1:2]},
		{"a whole set", "holding: dataset 7: set 0 of 2: nothing was found: more is lost", headers{other}},
		{"other job", "holding: file of node7: found job 09020300", with(func(h headers) { h[1].Job[0] = 9 })},
		{"other epoch", "00ff, epoch 3, start 4, dataset 7, wanted job 010203000000000000000000000000ff, epoch 2, start 4, dataset 7",
			with(func(h headers) { h[2].Epoch = 3 })},
		{"other start", "start 5, dataset 7, wanted", with(func(h headers) { h[2].Start = 5 })},
		{"other dataset", "dataset 8, wanted", with(func(h headers) { h[0].Dataset = 8 })},
		{"number of sets", "files of node1 and node3 disagree: 1 and 2 sets", with(func(h headers) { h[2].Sets = 2 })},
		{"number, in another set", "files of node8 and node1 disagree: 2 and 1 sets", append(headers{other}, xor...)},
		{"scheme", "files of node1 and node7 disagree: set 0: xor and partner", with(func(h headers) { h[1].Scheme = redset.Partner })},
		{"members", "disagree: set 0: 3 and 2 members", with(func(h headers) { h[1].Members = h[1].Members[:2] })},
		{"group", `disagree: set 0: member 1: node7 of group "" and node7 of group "rack9"`,
			with(func(h headers) { h[1].Members[1].Group = "rack9" })},
		{"node", `disagree: set 0: member 0: node1 of group "rack0" and node5 of group "rack0"`,
			with(func(h headers) { h[2].Members[0].Node = "node5" })},
		{"file", "set 0: files of node1: {Name:rank-00001.0.img Size:1000 Digest:2 Rank:1 Kind:image} and {Name:rank-00001.0.img Size:1000 Digest:3 Rank:1 Kind:image}",
			with(func(h headers) { h[1].Members[0].Files[1].Digest = 3 })},
		{"files", "disagree: set 0: files of node1: 2 and 1", with(func(h headers) { m := h[1].Members; m[0].Files = m[0].Files[:1] })},
		{"no sense", "set 0 of 1, member 3 of 3", with(func(h headers) { h[1].Own = 3 })},
	} {
		r, err := holding.Recoverable(testID, c.headers)
		found, lost := fmt.Sprint(r.Lost), strings.HasSuffix(c.want, "more is lost")
		if err != nil {
			found = err.Error()
		}
		if !strings.Contains(found, c.want) || errors.Is(err, holding.ErrLost) != lost || (err == nil) != (c.want[0] == '[') {
			t.Errorf("%s: found %s, want %s", c.name, found, c.want)
		}
	}
}

// TestFiles makes redundancy in real files, loses a directory and makes it again.
func TestFiles(t *testing.T) {
	parts := [][]byte{bytes.Repeat([]byte("mussel "), 300000), []byte("x"), bytes.Repeat([]byte("thread"), 250000)}
	h := holding.Header{ID: testID, Scheme: redset.XOR, Sets: 1}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for i, b := range parts {
		f := holding.File{Name: fmt.Sprintf("rank-%05d.0.img", i), Size: int64(len(b)), Digest: digest(b)}
		h.Members = append(h.Members, holding.Member{Node: fmt.Sprint("node", i), Files: []holding.File{f}})
		if err := os.WriteFile(filepath.Join(dirs[i], f.Name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := h.Layout()
	if err != nil {
		t.Fatal(err)
	}
	filesRun(t, h, dirs, func(int) bool { return true }, l.Encode)
	want, err := os.ReadFile(filepath.Join(dirs[2], "parity"))
	if err != nil {
		t.Fatal(err)
	}
	dirs[2] = t.TempDir()
	filesRun(t, h, dirs, func(i int) bool { return i == 2 }, func(me int) iter.Seq[redset.Step] { return l.Rebuild(2, me, nil) })
	part, err := os.ReadFile(filepath.Join(dirs[2], h.Members[2].Files[0].Name))
	again, err2 := os.ReadFile(filepath.Join(dirs[2], "parity"))
	if err != nil || err2 != nil || !bytes.Equal(part, parts[2]) || !bytes.Equal(again, want) {
		t.Errorf("%d bytes of part, %d of parity, want %d, %d: %v, %v", len(part), len(again), len(parts[2]), len(want), err, err2)
	}
}

// filesRun performs a plan on directories, in some of which the file with the parity is made.
func filesRun(t *testing.T, h holding.Header, dirs []string, makes func(i int) bool, plan func(me int) iter.Seq[redset.Step]) {
	t.Helper()
	open := func(i int, name string, flags int) *os.File {
		f, err := os.OpenFile(filepath.Join(dirs[i], name), flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	var members []redsettest.Member
	var writers []*parity.Writer
	for i, m := range h.Members {
		part, err := parity.NewPart(m, []parity.Body{open(i, m.Files[0].Name, os.O_RDWR|os.O_CREATE)})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, redsettest.Member{{ReaderAt: part, WriterAt: part}})
		if h.Own = i; makes(i) {
			w, err := parity.Create(open(i, "parity", os.O_WRONLY|os.O_CREATE|os.O_EXCL), h)
			if err != nil {
				t.Fatal(err)
			}
			writers, members[i][redset.Redundancy].WriterAt = append(writers, w), w
			continue
		}
		f := open(i, "parity", os.O_RDONLY)
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if members[i][redset.Redundancy].ReaderAt, err = parity.Open(f, st.Size()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := redsettest.Run(members, plan); err != nil {
		t.Fatal(err)
	}
	for _, w := range writers {
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeviceFull: what the kernel says of a full disk comes through.
func TestDeviceFull(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := parity.Create(f, sample(redset.XOR, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(make([]byte, 4096), 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("found %v, want no space", err)
	}
}
