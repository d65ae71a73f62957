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
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/parity"
	"github.com/byssus-hpc/byssus/internal/redset"
	"github.com/byssus-hpc/byssus/internal/redset/redsettest"
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
	where map[parity.Loss]*node // who is which member of which set
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
	n, racks, size := 2+rng.IntN(12), 0, 0
	if rng.IntN(2) == 0 {
		racks = 1 + (n+1)/2 + rng.IntN(n)
	} else {
		size = rng.IntN(2) * min(n, 2+rng.IntN(4))
	}
	c := &cluster{t: t, rng: rng, where: map[parity.Loss]*node{}}
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
func (c *cluster) describe(number, count int, set redset.Set) parity.Header {
	h := parity.Header{ID: testID, Scheme: set.Scheme, Set: number, Sets: count}
	for i, m := range set.Members {
		n := c.nodes[m.Node]
		c.where[parity.Loss{Set: number, Member: i}] = n
		member := parity.Member{Node: n.name, Group: m.Group}
		for _, name := range slices.Sorted(maps.Keys(n.files)) {
			b := n.files[name].now
			member.Files = append(member.Files, parity.File{Name: name, Size: int64(len(b)), Digest: digest(b)})
		}
		h.Members = append(h.Members, member)
	}
	return h
}

// part is those of the files on a node that are a member's part. Those that are not there are made.
func (n *node) part(t *testing.T, m parity.Member) redsettest.Store {
	var bodies []parity.Body
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

// join makes a node ready to take part in a plan: with a Writer, and a new file, if it makes its redundancy, else with a
// Reader of the one that it has.
func (c *cluster) join(n *node, h parity.Header, own int, makes bool) (redsettest.Member, *parity.Writer) {
	h.Own = own
	m := redsettest.Member{n.part(c.t, h.Members[own])}
	if h.Scheme == redset.Partner {
		m[redset.Redundancy] = n.part(c.t, h.Members[(own+len(h.Members)-1)%len(h.Members)])
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
func (c *cluster) perform(h parity.Header, makes func(member int) bool, plan func(me int) iter.Seq[redset.Step]) error {
	members := make([]redsettest.Member, len(h.Members))
	var writers []*parity.Writer
	for i := range h.Members {
		n := c.where[parity.Loss{Set: h.Set, Member: i}]
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
func (c *cluster) survey() []parity.Header {
	var list []parity.Header
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
	slices.SortFunc(list, func(a, b parity.Header) int { return cmp.Or(a.Set-b.Set, a.Own-b.Own) })
	c.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// whole compares the digests of a node's files: its part, and the copies that it holds.
func (n *node) whole(h parity.Header) bool {
	members := h.Members[h.Own : h.Own+1]
	if h.Scheme == redset.Partner {
		members = append(slices.Clone(members), h.Members[(h.Own+len(h.Members)-1)%len(h.Members)])
	}
	for _, m := range members {
		for _, f := range m.Files {
			if d := n.files[f.Name]; d == nil || int64(len(d.now)) != f.Size || digest(d.now) != f.Digest {
				return false
			}
		}
	}
	return true
}

// snapshot is all that the members hold, by their places.
func (c *cluster) snapshot() map[parity.Loss]map[string][]byte {
	all := map[parity.Loss]map[string][]byte{}
	for at, n := range c.where {
		all[at] = map[string][]byte{"set": n.set.now}
		for name, d := range n.files {
			all[at][name] = bytes.Clone(d.now)
		}
	}
	return all
}

// repair does what the report says, on new nodes, and compares the digests of what came back.
func (c *cluster) repair(r parity.Report) error {
	for _, loss := range r.Lost {
		h := r.Sets[loss.Set]
		l, err := h.Layout()
		if err != nil {
			return err
		}
		plan := func(me int) iter.Seq[redset.Step] { return l.Rebuild(loss.Member, me) }
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
func (c *cluster) lose(sets []redset.Set) (lost []parity.Loss, beyond []int) {
	chance := 1 + c.rng.IntN(12)
	for number, set := range sets {
		n, gone := len(set.Members), map[int]bool{}
		for i := range n {
			if c.rng.IntN(chance) == 0 {
				at := parity.Loss{Set: number, Member: i}
				gone[i], lost = true, append(lost, at)
				c.harm(at)
			}
		}
		both := false
		for i := range gone {
			both = both || gone[(i+1)%n]
		}
		if set.Scheme == redset.XOR && len(gone) > 1 || set.Scheme == redset.Partner && both {
			beyond = append(beyond, number)
		}
	}
	return lost, beyond
}

// harm loses a member with all that it holds, or damages one of its files: which counts as much.
func (c *cluster) harm(at parity.Loss) {
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
func same(a, b map[parity.Loss]map[string][]byte) bool {
	return maps.EqualFunc(a, b, func(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) })
}

// TestRecovery: random datasets over random sets lose random nodes. What is within the redundancy comes back byte for byte,
// the files that describe the sets too, and can lose again; what is not is refused by the names of the lost.
func TestRecovery(t *testing.T) {
	repaired, refused := 0, 0
	redsettest.Seeds(t, 150, func(t *testing.T, rng *rand.Rand) {
		for _, scheme := range []redset.Scheme{redset.Partner, redset.XOR} {
			c, sets := newCluster(t, rng, scheme)
			c.encode(sets)
			before := c.snapshot()
			for range 3 {
				lost, beyond := c.lose(sets)
				r, err := parity.Recoverable(testID, c.survey())
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
func (c *cluster) refused(err error, lost []parity.Loss) {
	c.t.Helper()
	named := false
	for _, at := range lost {
		named = named || err != nil && (strings.Contains(err.Error(), c.where[at].name) || strings.Contains(err.Error(), fmt.Sprintf("set %d of", at.Set)) ||
			strings.Contains(err.Error(), "nothing of it was found"))
	}
	if !errors.Is(err, parity.ErrLost) || !named || !strings.Contains(err.Error(), "dataset 7") {
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
		{"flipped behind the end of the lost", "byte 924288 is 0x1, wanted 0 behind the end at 900000", redset.XOR, func(n []*node) { n[2].files["c.img"].now[400000] ^= 1 }},
		{"flipped in a copy", "b.img: digest", redset.Partner, func(n []*node) { n[2].files["b.img"].now[10] ^= 1 }},
		{"flipped in a parity", "parity: chunk 0: crc32c", redset.XOR, func(n []*node) { n[0].set.now[5000] ^= 1 }},
		{"part is short", "parity: part: a.img: 37856 bytes at 786432, wanted 213568: truncated", redset.XOR,
			func(n []*node) { n[0].files["a.img"].now = n[0].files["a.img"].now[:824288] }},
		{"copy is short", "parity: part: b.img: 175712 bytes at 524288, wanted 262144: truncated", redset.Partner,
			func(n []*node) { n[2].files["b.img"].now = n[2].files["b.img"].now[:700000] }},
	} {
		var nodes []*node
		set := redset.Set{Scheme: c.scheme}
		for i, length := range []int{1e6, 9e5, 5e5} {
			name := string(rune('a' + i))
			nodes = append(nodes, &node{name: "node" + name, files: map[string]*disk{name + ".img": {now: bytes.Repeat([]byte(name), length)}}})
			set.Members = append(set.Members, redset.Member{Node: i})
		}
		cl := &cluster{t: t, rng: rand.New(rand.NewPCG(1, 1)), nodes: nodes, where: map[parity.Loss]*node{}}
		cl.encode([]redset.Set{set})
		cl.where[parity.Loss{Member: 1}] = &node{files: map[string]*disk{}}
		r, err := parity.Recoverable(testID, cl.survey())
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
	all := func(scheme redset.Scheme) []parity.Header {
		var list []parity.Header
		for own := range 3 {
			h := sample(scheme, own)
			h.Set, h.Sets = 0, 1
			list = append(list, h)
		}
		return list
	}
	other := sample(redset.XOR, 0)
	other.Set, other.Sets = 1, 2
	other.Members = []parity.Member{{Node: "node8"}, {Node: "node9"}}
	for _, c := range []struct {
		name, want string
		lost       bool
		headers    func() []parity.Header
	}{
		{"all", "[]", false, func() []parity.Header { return all(redset.XOR) }},
		{"one found twice", "[{0 2}]", false, func() []parity.Header {
			return []parity.Header{all(redset.XOR)[0], all(redset.XOR)[1], all(redset.XOR)[0]}
		}},
		{"none", "parity: dataset 7: nothing of it was found: more is lost", true, func() []parity.Header { return nil }},
		{"two of three", "parity: dataset 7: set 0: lost are node7, node3, of 3 with xor: more is lost", true,
			func() []parity.Header { return all(redset.XOR)[:1] }},
		{"neighbours", "set 0: lost are node1, node3, of 3 with partner: more is lost", true, func() []parity.Header { return all(redset.Partner)[1:2] }},
		{"a whole set", "parity: dataset 7: set 0 of 2: nothing was found: more is lost", true, func() []parity.Header { return []parity.Header{other} }},
		{"other job", "parity: file of node7: found job 09020300", false, func() []parity.Header { h := all(redset.XOR); h[1].Job[0] = 9; return h }},
		{"other epoch", "parity: file of node3: found job 010203000000000000000000000000ff, epoch 3, start 4, dataset 7, wanted job 010203000000000000000000000000ff, epoch 2, start 4",
			false, func() []parity.Header { h := all(redset.XOR); h[2].Epoch = 3; return h }},
		{"other start", "start 5, dataset 7, wanted", false, func() []parity.Header { h := all(redset.XOR); h[2].Start = 5; return h }},
		{"other dataset", "dataset 8, wanted", false, func() []parity.Header { h := all(redset.XOR); h[0].Dataset = 8; return h }},
		{"number of sets", "files of node1 and node3 disagree: 1 and 2 sets", false, func() []parity.Header { h := all(redset.XOR); h[2].Sets = 2; return h }},
		{"number of sets, in another set", "files of node8 and node1 disagree: 2 and 1 sets", false,
			func() []parity.Header { return append([]parity.Header{other}, all(redset.XOR)...) }},
		{"scheme", "files of node1 and node7 disagree: set 0: xor and partner", false, func() []parity.Header { h := all(redset.XOR); h[1].Scheme = redset.Partner; return h }},
		{"members", "files of node1 and node7 disagree: set 0: 3 and 2 members", false,
			func() []parity.Header { h := all(redset.XOR); h[1].Members = h[1].Members[:2]; return h }},
		{"group", `disagree: set 0: member 1: node7 of group "" and node7 of group "rack9"`, false,
			func() []parity.Header { h := all(redset.XOR); h[1].Members[1].Group = "rack9"; return h }},
		{"node", `disagree: set 0: member 0: node1 of group "rack0" and node5 of group "rack0"`, false,
			func() []parity.Header { h := all(redset.XOR); h[2].Members[0].Node = "node5"; return h }},
		{"file", "disagree: set 0: files of node1: {Name:rank-00001.0.img Size:1000 Digest:2} and {Name:rank-00001.0.img Size:1000 Digest:3}", false,
			func() []parity.Header { h := all(redset.XOR); h[1].Members[0].Files[1].Digest = 3; return h }},
		{"files", "disagree: set 0: files of node1: 2 and 1", false,
			func() []parity.Header {
				h := all(redset.XOR)
				h[1].Members[0].Files = h[1].Members[0].Files[:1]
				return h
			}},
		{"no sense", "set 0 of 1, member 3 of 3", false, func() []parity.Header { h := all(redset.XOR); h[1].Own = 3; return h }},
	} {
		r, err := parity.Recoverable(testID, c.headers())
		found := fmt.Sprint(r.Lost)
		if err != nil {
			found = err.Error()
		}
		if !strings.Contains(found, c.want) || errors.Is(err, parity.ErrLost) != c.lost || (err == nil) != strings.HasPrefix(c.want, "[") {
			t.Errorf("%s: found %s, want %s", c.name, found, c.want)
		}
	}
}
