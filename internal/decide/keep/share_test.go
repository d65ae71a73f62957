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
		want   int
		err    string
	}{
		{redset.Single, 0, "---", 0, ""},
		{redset.Partner, 0, "--", 1, ""},
		{redset.Partner, 0, "-----", 1, ""},
		{redset.XOR, 0, "--", 1, ""},
		{redset.XOR, 0, "----", 3, ""},
		{redset.XOR, 4, "---------", 4, ""}, // sets of 5 and 4: what the larger one keeps is less
		{redset.XOR, 0, "aabb", 1, ""},
		{redset.XOR, 0, "aab", 0, "keep: of a0, a1, b2: redset: divide: nodes 0 and 1 of failure group a would be in one set"},
		{redset.XOR, 4, "---", 0, "keep: of -0, -1, -2: redset: divide: too few nodes for the set size: 3 nodes, set size 4"},
		{redset.XOR, 0, "-", 0, "too few nodes for xor: 1, at least 2"},
	} {
		k := New(Config{Scheme: c.scheme, Size: c.size}, nil, nil)
		var nodes []int
		for i, g := range c.groups {
			nodes = append(nodes, k.Join(string(g)+string(rune('0'+i)), strings.Trim(string(g), "-"), nil))
		}
		err := k.Check(nodes)
		if got := k.Share(nodes); got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v of %q in sets of %d: found %d, %v, wanted %d, %q", c.scheme, c.groups, c.size, got, err, c.want, c.err)
		}
	}
}
