package redset_test

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/decide/redset/redsettest"
)

// memory is a place: zeros follow what it holds, and only zeros may be written there.
type memory []byte

func (m memory) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	copy(b, m[min(off, int64(len(m))):])
	return len(b), nil
}

func (m memory) WriteAt(b []byte, off int64) (int, error) {
	n := copy(m[min(off, int64(len(m))):], b)
	if rest := b[n:]; !bytes.Equal(rest, make([]byte, len(rest))) {
		return n, fmt.Errorf("bytes behind the end at %d: %w", len(m), io.ErrShortWrite)
	}
	return len(b), nil
}

func member(part, redundancy memory) redsettest.Member {
	return redsettest.Member{{ReaderAt: part, WriterAt: part}, {ReaderAt: redundancy, WriterAt: redundancy}}
}

// randomParts are parts of unequal lengths, some of them empty, some of lengths where pieces and segments end.
func randomParts(rng *rand.Rand, n int, longest int64) (parts []memory, lengths []int64) {
	for range n {
		length := rng.Int64N(longest + 1)
		switch rng.IntN(4) {
		case 0:
			length = 0
		case 1:
			length = length / redset.SegmentUnit * redset.SegmentUnit
		}
		part := make(memory, length)
		for i := range part {
			part[i] = byte(rng.Uint32())
		}
		parts, lengths = append(parts, part), append(lengths, length)
	}
	return parts, lengths
}

// wanted is the redundancy by its definition. Of parity j: segment s of member i, all of the same length, is in parity
// (i+1+s) mod n.
func wanted(scheme redset.Scheme, parts []memory) []memory {
	n, longest := len(parts), 0
	var list []memory
	for i, p := range parts {
		longest = max(longest, len(p))
		var copies memory
		for d := 1; d <= scheme.Copies(); d++ {
			copies = append(copies, parts[(i-d+n)%n]...)
		}
		list = append(list, copies)
	}
	if scheme != redset.XOR {
		return list
	}
	clear(list)
	list = list[:0]
	segment := (longest + n - 2) / (n - 1)
	segment = (segment + 65535) / 65536 * 65536
	for range n {
		list = append(list, make(memory, segment))
	}
	for i, p := range parts {
		padded := append(bytes.Clone(p), make([]byte, segment*(n-1)-len(p))...)
		for s := range n - 1 {
			parity := list[(i+1+s)%n]
			subtle.XORBytes(parity, parity, padded[s*segment:(s+1)*segment])
		}
	}
	return list
}

// schemes are those with redundancy that n members can follow, with up to three copies.
func schemes(n int) []redset.Scheme {
	list := []redset.Scheme{redset.XOR}
	for copies := 1; copies <= min(3, n-1); copies++ {
		list = append(list, redset.PartnerOf(copies))
	}
	return list
}

// TestPlans makes the redundancy of random parts, compares it with its definition, then loses each member in turn and
// rebuilds it, and counts what is sent.
func TestPlans(t *testing.T) {
	redsettest.Seeds(t, 5, func(t *testing.T, rng *rand.Rand) {
		for n := 2; n <= 9; n++ {
			list := []redset.Scheme{redset.Partner, redset.XOR}
			if n > 2 {
				list = append(list, redset.PartnerOf(2+rng.IntN(min(2, n-2))))
			}
			for _, scheme := range list {
				parts, lengths := randomParts(rng, n, rng.Int64N(5<<20/int64(n*max(1, scheme.Copies())))*int64(n-1))
				l, err := redset.NewLayout(scheme, lengths)
				if err != nil {
					t.Fatal(err)
				}
				tryPlans(t, l, scheme, parts)
				tryRepair(t, rng, l, scheme, parts)
			}
		}
	})
}

func tryPlans(t *testing.T, l redset.Layout, scheme redset.Scheme, parts []memory) {
	n, want := len(parts), wanted(scheme, parts)
	var members []redsettest.Member
	var made []memory
	padded, redundancy := int64(0), int64(0)
	for i, p := range parts {
		made = append(made, make(memory, l.Redundancy(i)))
		members = append(members, member(p, made[i]))
		padded, redundancy = max(padded, int64(len(p))), max(redundancy, l.Redundancy(i))
	}
	if padded *= int64(scheme.Copies()); scheme == redset.XOR {
		padded = redundancy * int64(n-1)
	}
	traffic, err := redsettest.Run(members, l.Encode)
	if err != nil {
		t.Fatalf("%v of %d: %v", scheme, n, err)
	}
	for i, tr := range traffic {
		if !bytes.Equal(made[i], want[i]) {
			t.Fatalf("%v of %d: redundancy of member %d is wrong", scheme, n, i)
		}
		if tr.Sent > padded || tr.Received > padded || scheme == redset.XOR && tr.Sent+tr.Received != 2*padded {
			t.Errorf("%v of %d: member %d: %+v, want at most %d", scheme, n, i, tr, padded)
		}
	}
	for lost := range n {
		part, again := make(memory, len(parts[lost])), make(memory, l.Redundancy(lost))
		with := append([]redsettest.Member{}, members...)
		with[lost] = member(part, again)
		traffic, err := redsettest.Run(with, func(me int) iter.Seq[redset.Step] { return l.Rebuild(lost, me, nil) })
		if err != nil {
			t.Fatalf("%v of %d, rebuild %d: %v", scheme, n, lost, err)
		}
		if !bytes.Equal(part, parts[lost]) || !bytes.Equal(again, want[lost]) {
			t.Fatalf("%v of %d: member %d comes back wrong", scheme, n, lost)
		}
		for i, tr := range traffic {
			if tr.Sent > padded+redundancy || tr.Received > padded+redundancy || i == lost && tr.Sent > 0 {
				t.Errorf("%v of %d, rebuild %d: member %d: %+v, want at most %d", scheme, n, lost, i, tr, padded+redundancy)
			}
		}
	}
}

// TestLosses loses all sets of members that may be lost together, with what they had, and rebuilds them one after the other, in any order:
// those that are not rebuilt yet take no part.
func TestLosses(t *testing.T) {
	losses := 0
	redsettest.Seeds(t, 2, func(t *testing.T, rng *rand.Rand) {
		for n := 2; n <= 8; n++ {
			for _, scheme := range schemes(n) {
				parts, lengths := randomParts(rng, n, 5*redset.Piece/4)
				l, err := redset.NewLayout(scheme, lengths)
				if err != nil {
					t.Fatal(err)
				}
				want := wanted(scheme, parts)
				for mask := 1; mask < 1<<n; mask++ {
					if set := setOf(scheme, n); !set.Survives(bitsOf(mask)) {
						continue
					}
					losses++
					tryLoss(t, rng, l, mask, parts, want)
				}
				if t.Failed() {
					t.Fatalf("%v of %d, parts of %v", scheme, n, lengths)
				}
			}
		}
	})
	t.Logf("%d losses", losses)
}

// setOf is a set of members 0 to n-1.
func setOf(scheme redset.Scheme, n int) redset.Set {
	s := redset.Set{Scheme: scheme}
	for i := range n {
		s.Members = append(s.Members, redset.Member{Node: i})
	}
	return s
}

func bitsOf(mask int) map[int]bool {
	m := map[int]bool{}
	for i := 0; mask>>i != 0; i++ {
		m[i] = mask>>i&1 == 1
	}
	return m
}

func tryLoss(t *testing.T, rng *rand.Rand, l redset.Layout, mask int, parts, redundancy []memory) {
	t.Helper()
	nothing := redsettest.Member{{ReaderAt: gone{}, WriterAt: gone{}}, {ReaderAt: gone{}, WriterAt: gone{}}}
	var members []redsettest.Member
	var lost []int
	for i := range parts {
		members = append(members, member(parts[i], redundancy[i]))
		if mask>>i&1 == 1 {
			members[i], lost = nothing, append(lost, i)
		}
	}
	rng.Shuffle(len(lost), func(i, j int) { lost[i], lost[j] = lost[j], lost[i] })
	for i, who := range lost {
		part, again := make(memory, len(parts[who])), make(memory, len(redundancy[who]))
		members[who] = member(part, again)
		plan := func(me int) iter.Seq[redset.Step] { return l.Rebuild(who, me, lost[i+1:]) }
		if _, err := redsettest.Run(members, plan); err != nil {
			t.Fatalf("lost %v, rebuild %d: %v", lost, who, err)
		}
		if !bytes.Equal(part, parts[who]) || !bytes.Equal(again, redundancy[who]) {
			t.Fatalf("lost %v: member %d comes back wrong", lost, who)
		}
	}
}

// gone is a place of a member that is lost.
type gone struct{}

func (gone) ReadAt([]byte, int64) (int, error)  { return 0, errGone }
func (gone) WriteAt([]byte, int64) (int, error) { return 0, errGone }

var errGone = errors.New("it is lost")

// TestBeyond: where all that have a copy are gone, no plan makes believe: whoever is to be rebuilt would wait for nobody.
func TestBeyond(t *testing.T) {
	l, err := redset.NewLayout(redset.PartnerOf(2), []int64{9, 9, 9, 9, 9})
	if err != nil {
		t.Fatal(err)
	}
	for s := range l.Rebuild(1, 1, []int{2, 3}) {
		if s.Op != redset.Receive || s.Peer != -1 {
			t.Errorf("found %+v, wanted no giver", s)
		}
		break
	}
}

// tryRepair damages a member here and there, and has it repaired: it is as it was, and no more is sent than the pieces that were touched.
func tryRepair(t *testing.T, rng *rand.Rand, l redset.Layout, scheme redset.Scheme, parts []memory) {
	n, want := len(parts), wanted(scheme, parts)
	lost := rng.IntN(n)
	part, kept := bytes.Clone(parts[lost]), bytes.Clone(want[lost])
	var members []redsettest.Member
	for i, p := range parts {
		if i == lost {
			p, want[i] = part, kept
		}
		members = append(members, member(p, want[i]))
	}
	var ranges []redset.Range
	var most int64
	for range rng.IntN(4) {
		in, b := redset.Part, part
		if rng.IntN(2) == 0 {
			in, b = redset.Redundancy, kept
		}
		if len(b) == 0 {
			continue
		}
		from := rng.Int64N(int64(len(b)))
		to := min(int64(len(b)), from+1+rng.Int64N(1<<20))
		for i := from; i < to; i++ {
			b[i] ^= byte(1 + rng.IntN(255))
		}
		ranges, most = append(ranges, redset.Range{In: in, From: from, To: to}), most+to-from+3*redset.Piece
	}
	traffic, err := redsettest.Run(members, func(me int) iter.Seq[redset.Step] { return l.Repair(lost, me, ranges) })
	if err != nil {
		t.Fatalf("%v of %d, repair %d: %v", scheme, n, lost, err)
	}
	if again := wanted(scheme, parts)[lost]; !bytes.Equal(part, parts[lost]) || !bytes.Equal(kept, again) {
		t.Fatalf("%v of %d: member %d is not repaired: %+v", scheme, n, lost, ranges)
	}
	for i, tr := range traffic {
		if tr.Sent > most || tr.Received > most || i == lost && tr.Sent > 0 {
			t.Errorf("%v of %d, repair %d: member %d: %+v, want at most %d", scheme, n, lost, i, tr, most)
		}
	}
}

// TestRebuildInOrder: who is rebuilt writes its part, then its redundancy, each from the first byte to the last.
func TestRebuildInOrder(t *testing.T) {
	for _, scheme := range schemes(4) {
		l, err := redset.NewLayout(scheme, []int64{5 << 20, 7<<20 + 1, 0, 6 << 20})
		if err != nil {
			t.Fatal(err)
		}
		at := [2]int64{}
		for s := range l.Rebuild(1, 1, nil) {
			if s.Op != redset.Write {
				continue
			}
			if s.Offset != at[s.In] || s.In == redset.Part && at[redset.Redundancy] > 0 {
				t.Fatalf("%v: %+v after %v", scheme, s, at)
			}
			at[s.In] += int64(s.Length)
		}
		if at[redset.Part] < 7<<20+1 || at[redset.Redundancy] != l.Redundancy(1) {
			t.Errorf("%v: wrote %v", scheme, at)
		}
	}
}

// TestBlocks: every stripe has one block on every member, and every block of a member is in one stripe.
func TestBlocks(t *testing.T) {
	for n := 2; n <= 9; n++ {
		lengths := make([]int64, n)
		lengths[n-1] = int64(n-1) * 3 * redset.SegmentUnit
		l, err := redset.NewLayout(redset.XOR, lengths)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			seen := map[string]bool{}
			for j := range n {
				in, at := l.Block(i, j)
				seen[fmt.Sprint(in, at)] = true
				if (in == redset.Redundancy) != (i == j) || at < 0 || at > lengths[n-1]-l.Redundancy(i) || at%l.Redundancy(i) != 0 {
					t.Errorf("%d members: block of member %d in stripe %d: place %d, offset %d", n, i, j, in, at)
				}
			}
			if len(seen) != n {
				t.Errorf("%d members: member %d has blocks %v", n, i, seen)
			}
		}
	}
}

// TestLinks lets members run in random order over links that hold n-1 pieces: nobody waits for ever, whoever is ahead. With
// less, it happens: the number is not larger than it must be. Copies need links of one piece.
func TestLinks(t *testing.T) {
	redsettest.Seeds(t, 400, func(t *testing.T, rng *rand.Rand) {
		n := 2 + rng.IntN(7)
		lengths := make([]int64, n)
		for i := range lengths {
			lengths[i] = rng.Int64N(int64(n) * 3 << 20)
		}
		for _, scheme := range schemes(n) {
			l, err := redset.NewLayout(scheme, lengths)
			if err != nil {
				t.Fatal(err)
			}
			room := n - 1
			if scheme != redset.XOR {
				room = 1
			}
			if left := walk(rng, n, room, l.Encode); left != "" {
				t.Fatalf("%v of %d: %s", scheme, n, left)
			}
			lost := rng.IntN(n)
			if left := walk(rng, n, n-1, func(me int) iter.Seq[redset.Step] { return l.Rebuild(lost, me, nil) }); left != "" {
				t.Fatalf("%v of %d, rebuild %d: %s", scheme, n, lost, left)
			}
		}
	})
	l, err := redset.NewLayout(redset.XOR, []int64{30 << 20, 0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	stuck := 0
	for seed := range uint64(100) {
		if walk(rand.New(rand.NewPCG(seed, 3)), 4, 2, l.Encode) != "" {
			stuck++
		}
	}
	if stuck == 0 {
		t.Error("links of n-2 pieces were always enough")
	}
}

// walk performs plans without bytes, a step of a random member at a time, and says who waits at the end. Some members are
// slower than others.
func walk(rng *rand.Rand, n, room int, plan func(me int) iter.Seq[redset.Step]) string {
	links := map[[2]int][]int{} // lengths of the pieces in it
	steps := make([]func() (redset.Step, bool), n)
	waiting := make([]redset.Step, n)
	over := make([]bool, n)
	weight := make([]int, n)
	for me := range n {
		next, stop := iter.Pull(plan(me))
		defer stop()
		steps[me], weight[me] = next, 1+rng.IntN(20)*rng.IntN(2)
	}
	for idle := 0; idle < 100*n; idle++ {
		me := rng.IntN(n)
		for k := 0; k < weight[me] && !over[me]; k++ {
			if waiting[me].Op == 0 {
				s, ok := steps[me]()
				if waiting[me], over[me] = s, !ok; !ok {
					idle = 0
					break
				}
			}
			s, from, to := waiting[me], [2]int{waiting[me].Peer, me}, [2]int{me, waiting[me].Peer}
			switch {
			case s.Op == redset.Send && len(links[to]) == room || s.Op == redset.Receive && len(links[from]) == 0:
				continue
			case s.Op == redset.Send:
				links[to] = append(links[to], s.Length)
			case s.Op == redset.Receive && links[from][0] != s.Length:
				return fmt.Sprintf("member %d: %+v: a piece of %d bytes", me, s, links[from][0])
			case s.Op == redset.Receive:
				links[from] = links[from][1:]
			}
			waiting[me], idle = redset.Step{}, 0
		}
	}
	var left []string
	for me, done := range over {
		if !done {
			left = append(left, fmt.Sprintf("member %d waits: %+v", me, waiting[me]))
		}
	}
	for link, pieces := range links {
		if len(pieces) > 0 {
			left = append(left, fmt.Sprintf("%d pieces in link %v", len(pieces), link))
		}
	}
	return strings.Join(left, "; ")
}

// TestNoAllocation: a plan of very many pieces takes no more memory than one of few.
func TestNoAllocation(t *testing.T) {
	for _, scheme := range schemes(5) {
		measure := func(length int64) (steps int, allocs float64) {
			l, err := redset.NewLayout(scheme, []int64{length, length, length, length, length})
			if err != nil {
				t.Fatal(err)
			}
			allocs = testing.AllocsPerRun(3, func() {
				steps = 0
				for range l.Encode(1) {
					steps++
				}
				for range l.Rebuild(3, 2, nil) {
					steps++
				}
			})
			return steps, allocs
		}
		few, least := measure(1 << 20)
		many, most := measure(1 << 34)
		if most > least || many < 1000*few {
			t.Errorf("%v: %d steps: %v allocations; %d steps: %v", scheme, few, least, many, most)
		}
	}
}

// TestPlansEnd: a driver may leave a plan at any step.
func TestPlansEnd(t *testing.T) {
	for _, scheme := range schemes(3) {
		l, err := redset.NewLayout(scheme, []int64{1 << 20, 2 << 20, 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, plan := range []iter.Seq[redset.Step]{l.Encode(1), l.Rebuild(1, 1, nil), l.Rebuild(1, 0, nil), l.Rebuild(1, 2, nil)} {
			all := 0
			for range plan {
				all++
			}
			for most := range all {
				n := 0
				for range plan {
					if n == most {
						break
					}
					n++
				}
			}
		}
	}
}

// TestSegments: as short as the longest part lets them be.
func TestSegments(t *testing.T) {
	const unit = redset.SegmentUnit
	for _, c := range []struct{ members, longest, want int64 }{
		{2, 0, 0}, {2, 1, unit}, {2, unit, unit}, {2, unit + 1, 2 * unit},
		{3, 2 * unit, unit}, {3, 2*unit + 1, 2 * unit}, {4, 3 * unit, unit}, {4, 3*unit + 1, 2 * unit}, {9, 8*unit + 1, 2 * unit},
	} {
		lengths := make([]int64, c.members)
		lengths[c.members/2] = c.longest
		l, err := redset.NewLayout(redset.XOR, lengths)
		if got := l.Redundancy(0); err != nil || got != c.want {
			t.Errorf("%d members, %d bytes: %d, %v, want %d", c.members, c.longest, got, err, c.want)
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	for _, c := range []struct {
		scheme redset.Scheme
		parts  []int64
		want   string
	}{
		{redset.XOR, []int64{5}, "1 members, wanted 2 to 1024"},
		{redset.Partner, make([]int64, 1025), "1025 members, wanted"},
		{redset.XOR, []int64{1, -1}, "part of member 1: -1 bytes"},
		{redset.XOR, []int64{redset.MaxPart + 1, 1}, "part of member 0: 17592186044417 bytes, wanted at most 17592186044416"},
		{redset.Single, []int64{1, 1}, "single: wanted partner or xor"},
		{9, []int64{1, 1}, "scheme 9: wanted partner or xor"},
		{0x103, []int64{1, 1}, "scheme 259: wanted partner or xor"},
		{0x802, make([]int64, 20), "scheme 2050: wanted partner or xor"},
		{redset.PartnerOf(2), []int64{1, 1}, "too few nodes for partner:2: 2, at least 3"},
		{redset.PartnerOf(8), make([]int64, 8), "too few nodes for partner:8: 8, at least 9"},
	} {
		if _, err := redset.NewLayout(c.scheme, c.parts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %d: %v, want %q", c.scheme, len(c.parts), err, c.want)
		}
	}
	l, err := redset.NewLayout(redset.XOR, []int64{redset.MaxPart, redset.MaxPart})
	if err != nil || l.Redundancy(0) != redset.MaxPart {
		t.Errorf("the longest parts: %d bytes of parity, %v", l.Redundancy(0), err)
	}
}

// BenchmarkXOR is what adding a piece to another costs, with a plain copy beside it: crypto/subtle's is as fast as memory,
// so that nothing of our own is needed.
func BenchmarkXOR(b *testing.B) {
	for _, size := range []int{redset.Piece, 64 << 20} {
		dst, src := make([]byte, size), bytes.Repeat([]byte{3}, size)
		for name, f := range map[string]func(){
			"xor":  func() { subtle.XORBytes(dst, dst, src) },
			"copy": func() { copy(dst, src) },
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					f()
				}
			})
		}
	}
}
