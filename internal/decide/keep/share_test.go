package keep

import (
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// TestShare: how much nodes keep for each other is known before a checkpoint; which cannot protect each other is said by name.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		scheme redset.Scheme
		size   int
		groups string // one letter for each node; -: none
		want   redset.Share
		err    string
	}{
		{redset.Single, 0, "---", redset.Share{}, ""},
		{redset.Partner, 0, "--", redset.Share{Times: 1, Less: 1}, ""},
		{redset.Partner, 0, "-----", redset.Share{Times: 1, Less: 1}, ""},
		{redset.PartnerOf(2), 0, "-----", redset.Share{Times: 2, Less: 1}, ""},
		{redset.PartnerOf(2), 0, "--", redset.Share{}, "keep: of -0, -1: redset: divide: too few nodes for partner:2: 2, at least 3"},
		{redset.PartnerOf(2), 2, "------", redset.Share{}, "redset: divide: too few nodes in a set for partner:2: set size 2, at least 3"},
		{redset.XOR, 0, "--", redset.Share{Times: 1, Less: 1}, ""},
		{redset.XOR, 0, "----", redset.Share{Times: 1, Less: 3}, ""},
		{redset.XOR, 4, "---------", redset.Share{Times: 1, Less: 4}, ""}, // sets of 5 and 4: what the larger one keeps is less
		{redset.XOR, 0, "aabb", redset.Share{Times: 1, Less: 1}, ""},
		{redset.XOR, 0, "aab", redset.Share{}, "keep: of a0, a1, b2: redset: divide: nodes 0 and 1 of failure group a would be in one set"},
		{redset.XOR, 4, "---", redset.Share{}, "keep: of -0, -1, -2: redset: divide: too few nodes for the set size: 3 nodes, set size 4"},
		{redset.XOR, 0, "-", redset.Share{}, "too few nodes for xor: 1, at least 2"},
	} {
		k := New(Config{Scheme: c.scheme, Size: c.size}, nil, nil)
		var nodes []int
		for i, g := range c.groups {
			nodes = append(nodes, k.Join(string(g)+string(rune('0'+i)), strings.Trim(string(g), "-"), nil))
		}
		err := k.Check(nodes)
		if got := k.Share(nodes); got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v of %q in sets of %d: found %+v, %v, wanted %+v, %q", c.scheme, c.groups, c.size, got, err, c.want, c.err)
		}
	}
}
