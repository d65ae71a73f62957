package redset_test

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/decide/redset/redsettest"
)

// groupings calls f with every way to put n nodes into groups. Groups of one have no name, as by default.
func groupings(n int, f func(members []redset.Member)) {
	labels := make([]int, n)
	var choose func(i, used int)
	choose = func(i, used int) {
		if i == n {
			f(label(labels))
			return
		}
		for g := range used + 1 {
			labels[i] = g
			choose(i+1, max(used, g+1))
		}
	}
	choose(0, 0)
}

func label(labels []int) []redset.Member {
	size := map[int]int{}
	for _, g := range labels {
		size[g]++
	}
	var members []redset.Member
	for node, g := range labels {
		m := redset.Member{Node: node}
		if size[g] > 1 {
			m.Group = fmt.Sprint("rack", g)
		}
		members = append(members, m)
	}
	return members
}

// key is what a member fails with.
func key(m redset.Member) string {
	if m.Group != "" {
		return m.Group
	}
	return fmt.Sprint("node ", m.Node)
}

// possible searches all ways to deal members to count sets of equal size, or one more.
func possible(members []redset.Member, count int) bool {
	n := len(members)
	sets, longer := make([][]string, count), 0
	var deal func(i int) bool
	deal = func(i int) bool {
		if i == n {
			return true
		}
		for s := range sets {
			full := len(sets[s]) == n/count
			if full && (longer == n%count || n%count == 0) || len(sets[s]) > n/count || slices.Contains(sets[s], key(members[i])) {
				continue
			}
			if full {
				longer++
			}
			sets[s] = append(sets[s], key(members[i]))
			if deal(i + 1) {
				return true
			}
			if sets[s] = sets[s][:len(sets[s])-1]; full {
				longer--
			}
		}
		return false
	}
	return deal(0)
}

// checkSets says what is wrong with a division.
func checkSets(members []redset.Member, sets []redset.Set, scheme redset.Scheme) error {
	var nodes []int
	shortest, longest := len(members), 0
	for _, s := range sets {
		seen := map[string]bool{}
		for _, m := range s.Members {
			if nodes = append(nodes, m.Node); seen[key(m)] {
				return fmt.Errorf("group %q is twice in %v", m.Group, s)
			}
			seen[key(m)] = true
		}
		shortest, longest = min(shortest, len(s.Members)), max(longest, len(s.Members))
		if s.Scheme != scheme || len(s.Members) < scheme.Members() {
			return fmt.Errorf("set %v", s)
		}
	}
	slices.Sort(nodes)
	for i, m := range members {
		if i >= len(nodes) || nodes[i] != m.Node {
			return fmt.Errorf("nodes %v in sets", nodes)
		}
	}
	if len(nodes) != len(members) || longest > shortest+1 {
		return fmt.Errorf("%d nodes of %d, sets of %d to %d", len(nodes), len(members), shortest, longest)
	}
	return nil
}

// TestDivideAll divides up to eight nodes in all groupings by all sizes: it succeeds exactly where a search does.
func TestDivideAll(t *testing.T) {
	divided, refused := 0, 0
	for n := range 9 {
		groupings(n, func(members []redset.Member) {
			for size := range n + 2 {
				for _, scheme := range []redset.Scheme{redset.Partner, redset.PartnerOf(2), redset.PartnerOf(3), redset.XOR} {
					sets, err := redset.Divide(members, scheme, size)
					want := size >= scheme.Members() && n >= size && possible(members, n/size)
					for count := 1; size == 0 && count <= n/scheme.Members(); count++ {
						want = want || possible(members, count)
					}
					if (err == nil) != want {
						t.Fatalf("%v, %v, size %d: %v, %v, want it possible: %v", members, scheme, size, sets, err, want)
					}
					if err != nil {
						refused++
						continue
					}
					divided++
					if err := checkSets(members, sets, scheme); err != nil {
						t.Fatalf("%v, %v, size %d: %v", members, scheme, size, err)
					}
					for _, s := range sets {
						if len(s.Members) < size || size > 0 && len(s.Members) >= 2*size {
							t.Fatalf("%v, %v, size %d: a set of %d", members, scheme, size, len(s.Members))
						}
					}
				}
			}
		})
	}
	t.Logf("%d divided, %d refused", divided, refused)
}

// TestDivideRandom: larger numbers; the order in which the nodes come does not matter.
func TestDivideRandom(t *testing.T) {
	redsettest.Seeds(t, 300, func(t *testing.T, rng *rand.Rand) {
		n := 2 + rng.IntN(300)
		labels := make([]int, n)
		groups := 1 + rng.IntN(n)
		for i := range labels {
			labels[i] = rng.IntN(groups)
		}
		members := label(labels)
		largest := 0
		for _, g := range labels {
			largest = max(largest, len(slices.DeleteFunc(slices.Clone(labels), func(l int) bool { return l != g })))
		}
		size := rng.IntN(20)
		if size == 1 {
			size = 0
		}
		shuffled := slices.Clone(members)
		rng.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		sets, err := redset.Divide(members, redset.XOR, size)
		again, err2 := redset.Divide(shuffled, redset.XOR, size)
		if d := cmp.Diff(sets, again); d != "" || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("in another order: %v, %v\n%s", err, err2, d)
		}
		want := largest <= n/2
		if size > 0 {
			want = n >= size && largest <= n/size
		}
		if (err == nil) != want {
			t.Fatalf("%d nodes, largest group %d, size %d: %v", n, largest, size, err)
		}
		if err != nil {
			return
		}
		if err := checkSets(members, sets, redset.XOR); err != nil {
			t.Fatal(err)
		}
		if size == 0 && len(sets) != max(1, n/8) && largest <= n/8 {
			t.Fatalf("%d nodes in %d sets, though no group is larger than %d", n, len(sets), largest)
		}
	})
}

func TestDivide(t *testing.T) {
	nodes := func(n int, group func(i int) string) []redset.Member {
		var list []redset.Member
		for i := range n {
			list = append(list, redset.Member{Node: i, Group: group(i)})
		}
		return list
	}
	const inOne = "nodes 0 and 1 of failure group rack0 would be in one set: "
	alone := func(int) string { return "" }
	racks := func(each int) func(int) string { return func(i int) string { return fmt.Sprint("rack", i/each) } }
	for _, c := range []struct {
		name    string
		members []redset.Member
		scheme  redset.Scheme
		size    int
		want    string // the nodes of the sets, or a part of the error
		err     error
	}{
		{"single", nodes(3, alone), redset.Single, 0, "[0] [1] [2]", nil},
		{"four of the default size", nodes(4, alone), redset.XOR, 0, "[0 1 2 3]", nil},
		{"sixteen", nodes(16, alone), redset.XOR, 0, "[0 2 4 6 8 10 12 14] [1 3 5 7 9 11 13 15]", nil},
		{"fifteen", nodes(15, alone), redset.XOR, 0, "[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14]", nil},
		{"pairs", nodes(5, alone), redset.Partner, 0, "[0 2 4] [1 3]", nil},
		{"threes", nodes(7, alone), redset.PartnerOf(2), 0, "[0 2 4 6] [1 3 5]", nil},
		{"nine of nine", nodes(9, alone), redset.PartnerOf(8), 0, "[0 1 2 3 4 5 6 7 8]", nil},
		{"two copies in sets of four", nodes(9, alone), redset.PartnerOf(2), 4, "[0 2 4 6 8] [1 3 5 7]", nil},
		{"racks of two, two copies", nodes(8, racks(2)), redset.PartnerOf(2), 0, "[0 2 4 6] [1 3 5 7]", nil},
		{"too few for two copies", nodes(2, alone), redset.PartnerOf(2), 0, "too few nodes for partner:2: 2, at least 3", redset.ErrTooFew},
		{"sets too small for two copies", nodes(6, alone), redset.PartnerOf(2), 2, "too few nodes in a set for partner:2: set size 2, at least 3", redset.ErrTooFew},
		{"racks of half, two copies", nodes(4, racks(2)), redset.PartnerOf(2), 0,
			inOne + "too many nodes of one failure group: 2 of 4, wanted at most 1 for partner:2", redset.ErrGroups},
		{"racks of two", nodes(8, racks(2)), redset.XOR, 4, "[0 2 4 6] [1 3 5 7]", nil},
		{"racks make smaller sets", nodes(12, racks(4)), redset.XOR, 0, "[0 4 8] [1 5 9] [2 6 10] [3 7 11]", nil},
		{"a rack of half", nodes(4, racks(2)), redset.XOR, 0, "[0 2] [1 3]", nil},
		{"none", nil, redset.XOR, 0, "too few nodes for xor: 0, at least 2", redset.ErrTooFew},
		{"one", nodes(1, alone), redset.Partner, 0, "too few nodes for partner: 1, at least 2", redset.ErrTooFew},
		{"fewer than asked for", nodes(3, alone), redset.XOR, 4,
			"too few nodes for the set size: 3 nodes, set size 4", redset.ErrTooFew},
		{"size 1", nodes(3, alone), redset.XOR, 1, "set size 1, wanted 2 to 512", nil},
		{"negative size", nodes(3, alone), redset.XOR, -2, "set size -2, wanted", nil},
		{"huge size", nodes(3, alone), redset.XOR, 513, "set size 513, wanted", nil},
		{"twice", append(nodes(3, alone), redset.Member{Node: 2}), redset.XOR, 0, "node 2 is there twice", nil},
		{"unknown scheme", nodes(3, alone), 7, 0, "scheme 7: wanted single, partner or xor", nil},
		{"nine copies", nodes(20, alone), redset.PartnerOf(9), 0, "scheme 0: wanted single, partner or xor", nil},
		{"one rack", nodes(4, racks(4)), redset.XOR, 0,
			inOne + "too many nodes of one failure group: 4 of 4, more than half", redset.ErrGroups},
		{"racks too large for the size", nodes(12, racks(4)), redset.XOR, 8,
			inOne + "too many nodes of one failure group: 4 of 12, set size 8, wanted at most 3", redset.ErrGroups},
	} {
		sets, err := redset.Divide(c.members, c.scheme, c.size)
		var got []string
		for _, s := range sets {
			var list []int
			for _, m := range s.Members {
				list = append(list, m.Node)
			}
			got = append(got, fmt.Sprint(list))
		}
		switch found := strings.Join(got, " "); {
		case err == nil && found != c.want:
			t.Errorf("%s: found %s, want %s", c.name, found, c.want)
		case err != nil && (!strings.Contains(err.Error(), c.want) || c.err != nil && !errors.Is(err, c.err)):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// TestSurvives tries all losses of sets of up to ten: by where each part is, and what else is needed to have it again. And
// all sets of members that may hold a commit's record: Needs is the least number that is enough, whoever they are.
func TestSurvives(t *testing.T) {
	for n := 2; n <= 10; n++ {
		for _, scheme := range append(schemes(n), redset.Single, redset.PartnerOf(8)) {
			s := redset.Set{Scheme: scheme}
			for i := range n {
				s.Members = append(s.Members, redset.Member{Node: 100 - i})
			}
			survives, most := make([]bool, 1<<n), 0
			for mask := range uint(1 << n) {
				lost, want := map[int]bool{7: true}, true
				for i := range n {
					gone, next := mask>>i&1 == 1, true
					for d := 1; d <= scheme.Copies(); d++ {
						next = next && mask>>((i+d)%n)&1 == 1
					}
					lost[100-i] = gone
					other := mask&^(1<<i) != 0
					want = want && (!gone || scheme.Copies() > 0 && !next || scheme == redset.XOR && !other)
				}
				if survives[mask] = s.Survives(lost); survives[mask] != want {
					t.Fatalf("%v of %d, lost %b: %v, want %v", scheme, n, mask, survives[mask], want)
				}
				if want {
					most = max(most, bits.OnesCount(mask))
				}
			}
			if s.Needs() != most+1 {
				t.Errorf("%v of %d: needs %d, may lose %d", scheme, n, s.Needs(), most)
			}
			for held := range uint(1 << n) {
				holds := true
				for lost := range uint(1 << n) {
					holds = holds && !(survives[lost] && held&^lost == 0)
				}
				if enough := bits.OnesCount(held) >= s.Needs(); enough && !holds || holds == survives[held] {
					t.Fatalf("%v of %d: the record on %b holds: %v, survives their loss: %v", scheme, n, held, holds, survives[held])
				}
			}
		}
	}
}

// TestSchemes: their names, the bytes that are stored, and what follows from them.
func TestSchemes(t *testing.T) {
	for name, c := range map[string]struct {
		stored          redset.Scheme
		copies, members int
	}{
		"single": {1, 0, 1}, "partner": {2, 1, 2}, "xor": {3, 0, 2}, "partner:2": {0x102, 2, 3}, "partner:3": {0x202, 3, 4}, "partner:8": {0x702, 8, 9},
	} {
		s, err := redset.ParseScheme(name)
		if err != nil || s != c.stored || s.String() != name || s.Copies() != c.copies || s.Members() != c.members {
			t.Errorf("%s: found %#x, %v, %d copies, at least %d members, %v, wanted %+v", name, uint32(s), s, s.Copies(), s.Members(), err, c)
		}
		if c.copies > 0 && redset.PartnerOf(c.copies) != s {
			t.Errorf("%d copies: found %v", c.copies, redset.PartnerOf(c.copies))
		}
	}
	if s, err := redset.ParseScheme("partner:1"); err != nil || s != redset.Partner {
		t.Errorf("partner:1: %v, %v", s, err)
	}
	for _, name := range []string{"", "raid", "Partner", "partner:", "partner:0", "partner:9", "partner:02", "partner:+2", "partner:2 ", "partner:-1", "xor:2", "scheme 0"} {
		if s, err := redset.ParseScheme(name); err == nil || !strings.Contains(err.Error(), "wanted single, partner, partner:2 to partner:8, or xor") {
			t.Errorf("%q: found %v, %v", name, s, err)
		}
	}
	for _, s := range []redset.Scheme{0, 4, 0x101, 0x103, 0x802, 0x10002, redset.PartnerOf(0), redset.PartnerOf(-1), redset.PartnerOf(9)} {
		if s.Copies() != 0 || s.String() != fmt.Sprintf("scheme %d", uint32(s)) {
			t.Errorf("%#x: found %v, %d copies", uint32(s), s, s.Copies())
		}
	}
}

// TestAmong: with fewer nodes there are fewer copies, or none; what all keep follows.
func TestAmong(t *testing.T) {
	for _, c := range []struct {
		scheme  redset.Scheme
		nodes   int
		want    redset.Scheme
		percent int
	}{
		{redset.PartnerOf(3), 5, redset.PartnerOf(3), 300}, {redset.PartnerOf(3), 4, redset.PartnerOf(3), 300}, {redset.PartnerOf(3), 3, redset.PartnerOf(2), 200},
		{redset.PartnerOf(3), 2, redset.Partner, 100}, {redset.PartnerOf(3), 1, redset.Single, 100}, {redset.Partner, 2, redset.Partner, 100},
		{redset.XOR, 2, redset.XOR, 100}, {redset.XOR, 1, redset.Single, 100}, {redset.XOR, 4, redset.XOR, 34}, {redset.Single, 3, redset.Single, 0},
	} {
		if got, percent := c.scheme.Among(c.nodes), c.scheme.Percent(0, c.nodes); got != c.want || percent != c.percent {
			t.Errorf("%v of %d nodes: found %v, %d percent, wanted %v, %d", c.scheme, c.nodes, got, percent, c.want, c.percent)
		}
	}
	for share, want := range map[redset.Share]int64{{}: 0, {Times: 1, Less: 1}: 10, {Times: 3, Less: 1}: 30, {Times: 1, Less: 3}: 4} {
		if got := share.Of(10); got != want {
			t.Errorf("%+v of 10: found %d, wanted %d", share, got, want)
		}
	}
}
