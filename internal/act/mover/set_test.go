package mover

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"iter"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/parity"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

// hang is how long a test may stand still.
const hang = 5 * time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

func random(rng *rand.Rand, n int64) []byte {
	b, seed := make([]byte, n), [32]byte{}
	binary.LittleEndian.PutUint64(seed[:], rng.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(b) // which never fails
	return b
}

// ports are those of the agents.
func ports(t testing.TB, n int) []*bulk.Port {
	t.Helper()
	var list []*bulk.Port
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p := bulk.NewPort(l)
		t.Cleanup(p.Close)
		list = append(list, p)
	}
	return list
}

// transfers is what the coordinator tells the members, of which at has the ports.
func transfers(id uint64, mode bulk.Mode, at []*bulk.Port) []Transfer {
	n := len(at)
	list := make([]Transfer, n)
	for me := range list {
		list[me] = Transfer{ID: id, Me: me, Mode: mode, Peers: make([]Peer, n)}
	}
	for from := range n {
		for to := range n {
			key := bulk.NewKey()
			list[from].Peers[to].Out, list[to].Peers[from].In = key, key
			list[from].Peers[to].Address = at[to].Address()
		}
	}
	return list
}

// together performs the plans of all members. The first error ends the others, as a coordinator does.
func together(ctx context.Context, list []Transfer, at []*bulk.Port, plan func(me int) iter.Seq[redset.Step],
	places []Places) []error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for me := range list {
		wg.Go(func() {
			if _, errs[me] = Run(ctx, at[me], list[me], plan(me), places[me]); errs[me] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errs
}

// set is a redundancy set whose members have files in directories.
type set struct {
	t    *testing.T
	h    holding.Header
	l    redset.Layout
	dir  string
	at   []*bulk.Port // of the members
	mode bulk.Mode
	id   uint64 // of the last transfer
	open []*os.File
}

// newSet writes parts of these lengths, each in some files.
func newSet(t *testing.T, rng *rand.Rand, scheme redset.Scheme, lengths []int64, at []*bulk.Port) *set {
	t.Helper()
	s := &set{t: t, dir: t.TempDir(), at: at, mode: bulk.Encrypted + bulk.Mode(rng.IntN(2)),
		h: holding.Header{ID: holding.ID{Start: 1, Epoch: 1, Dataset: 1}, Scheme: scheme, Sets: 1}}
	for i, length := range lengths {
		m := holding.Member{Node: fmt.Sprint("node", i)}
		for left, k := length, 0; k == 0 || left > 0; k++ {
			size := left
			if k < 3 {
				size = rng.Int64N(left + 1)
			}
			b, name := random(rng, size), fmt.Sprintf("rank-%d.%d.img", i, k)
			s.must(os.MkdirAll(s.path(i, ""), 0o700))
			s.must(os.WriteFile(s.path(i, name), b, 0o600))
			m.Files = append(m.Files, holding.File{Name: name, Size: size, Digest: crc64.Checksum(b, crc64.MakeTable(crc64.ECMA))})
			left -= size
		}
		s.h.Members = append(s.h.Members, m)
	}
	l, err := s.h.Layout()
	s.must(err)
	s.l = l
	return s
}

func (s *set) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *set) path(member int, name string) string {
	return filepath.Join(s.dir, fmt.Sprint("node", member), name)
}

func (s *set) file(member int, name string) *os.File {
	f, err := os.OpenFile(s.path(member, name), os.O_RDWR|os.O_CREATE, 0o600)
	s.must(err)
	s.open = append(s.open, f)
	return f
}

// part is the parts of members, one behind the other, whose files lie in the directory of one.
func (s *set) part(in int, of ...int) *parity.Part {
	var bodies []parity.Body
	all := holding.Member{Node: "all"}
	for _, m := range of {
		all.Files = append(all.Files, s.h.Members[m].Files...)
	}
	for _, f := range all.Files {
		bodies = append(bodies, s.file(in, f.Name))
	}
	p, err := parity.NewPart(all, bodies)
	s.must(err)
	return p
}

// places opens what a member has, or will have when it makes its redundancy.
func (s *set) places(me int, makes bool) (Places, *parity.Writer) {
	part := s.part(me, me)
	var at Places
	at.Read[redset.Part], at.Write[redset.Part] = part, part
	h := s.h
	h.Own = me
	if of := h.Scheme.Copied(me, len(h.Members)); len(of) > 0 {
		kept := s.part(me, of...)
		at.Read[redset.Redundancy], at.Write[redset.Redundancy] = kept, kept
	}
	if makes {
		w, err := parity.Create(s.file(me, "set"), h)
		s.must(err)
		if h.Scheme == redset.XOR {
			at.Write[redset.Redundancy] = w
		}
		return at, w
	}
	f := s.file(me, "set")
	info, err := f.Stat()
	s.must(err)
	r, err := parity.Open(f, info.Size())
	s.must(err)
	if h.Scheme == redset.XOR {
		at.Read[redset.Redundancy] = r
	}
	return at, nil
}

// perform performs a plan; those members make their redundancy, and those others have nothing.
func (s *set) perform(makes, nothing []int, plan func(me int) iter.Seq[redset.Step]) {
	s.t.Helper()
	all := make([]Places, len(s.at))
	var writers []*parity.Writer
	for me := range all {
		if slices.Contains(nothing, me) {
			continue
		}
		var w *parity.Writer
		if all[me], w = s.places(me, slices.Contains(makes, me)); w != nil {
			writers = append(writers, w)
		}
	}
	s.id++
	for me, err := range together(within(s.t), transfers(s.id, s.mode, s.at), s.at, plan, all) {
		if err != nil {
			s.t.Errorf("member %d: %v", me, err)
		}
	}
	for _, w := range writers {
		s.must(w.Finish())
	}
	for _, f := range s.open {
		s.must(f.Close())
	}
	s.open = nil
}

func (s *set) encode() {
	all := make([]int, len(s.at))
	for i := range all {
		all[i] = i
	}
	s.perform(all, nil, s.l.Encode)
}

// content is all files of a member.
func (s *set) content(me int) map[string]string {
	list, err := os.ReadDir(s.path(me, ""))
	s.must(err)
	m := map[string]string{}
	for _, e := range list {
		b, err := os.ReadFile(s.path(me, e.Name()))
		s.must(err)
		m[e.Name()] = string(b)
	}
	return m
}

// lose wipes members, rebuilds them one after the other, and compares all bytes.
func (s *set) lose(lost ...int) {
	s.t.Helper()
	was := map[int]map[string]string{}
	for _, me := range lost {
		was[me] = s.content(me)
		s.must(os.RemoveAll(s.path(me, "")))
	}
	for i, me := range lost {
		s.must(os.Mkdir(s.path(me, ""), 0o700))
		left := lost[i+1:]
		s.perform([]int{me}, left, func(i int) iter.Seq[redset.Step] { return s.l.Rebuild(me, i, left) })
	}
	for me, want := range was {
		if !maps.Equal(s.content(me), want) {
			s.t.Errorf("%v of %d, lost %v: member %d comes back wrong", s.h.Scheme, len(s.at), lost, me)
		}
	}
}

// someLosses are as many of losses as that.
func (s *set) someLosses(rng *rand.Rand, most int) [][]int {
	list := s.losses()
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(len(list), most)]
}

// losses are all sets of members that may be lost together.
func (s *set) losses() [][]int {
	all := redset.Set{Scheme: s.h.Scheme}
	for i := range s.at {
		all.Members = append(all.Members, redset.Member{Node: i})
	}
	var list [][]int
	for mask := 1; mask < 1<<len(s.at); mask++ {
		var lost []int
		gone := map[int]bool{}
		for i := range s.at {
			if mask>>i&1 == 1 {
				lost, gone[i] = append(lost, i), true
			}
		}
		if all.Survives(gone) {
			list = append(list, lost)
		}
	}
	return list
}
