package snapshots

import (
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// TestPolicy: what a program may say, what it means, and what it is told otherwise.
func TestPolicy(t *testing.T) {
	for text, want := range map[string]Policy{"": {}, "single": {Scheme: redset.Single}, "partner": {Scheme: redset.Partner}, "xor": {Scheme: redset.XOR},
		"xor:4": {redset.XOR, 4}, "xor:512": {redset.XOR, 512}, "partner:2": {Scheme: redset.PartnerOf(2)}, "ring": {redset.Partner, 512}, "pairs": {redset.Partner, 2}} {
		if p, err := ParsePolicy(text); err != nil || p != want {
			t.Errorf("%q: found %+v, %v, wanted %+v", text, p, err, want)
		}
	}
	for _, text := range []string{"mirror", "XOR", "xor:", "xor:1", "xor:513", "xor:four", "xor:4:4", "ring:4", "pairs:2", "single:1", " partner", "partner:0", "partner:9"} {
		if _, err := ParsePolicy(text); err == nil || !strings.Contains(err.Error(), "wanted") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFits: what one node would have alone is no redundancy.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		text  string
		nodes int
		fits  bool
	}{{"", 1, true}, {"single", 1, true}, {"partner", 1, false}, {"xor", 1, false}, {"xor:4", 1, false}, {"ring", 1, false}, {"partner", 2, true}, {"partner:2", 2, false}, {"partner:2", 3, true}, {"xor:4", 2, true}} {
		p, err := ParsePolicy(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Fits(c.nodes); (err == nil) != c.fits {
			t.Errorf("%q on %d nodes: %v", c.text, c.nodes, err)
		}
	}
}

// TestNeeded: what a node must have room for.
func TestNeeded(t *testing.T) {
	for _, c := range []struct {
		text            string
		own, most, want uint64
		nodes           int
	}{{"single", 100, 300, 200, 4}, {"partner", 100, 300, 800, 4}, {"ring", 100, 100, 400, 4}, {"xor", 300, 300, 804, 4}, {"partner", 100, 100, 200, 1}, {"partner:2", 100, 100, 600, 4}} {
		p, err := ParsePolicy(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Room(c.own, c.most, c.nodes); got != c.want {
			t.Errorf("%q on %d nodes: found %d, wanted %d", c.text, c.nodes, got, c.want)
		}
	}
}
