package snapshots

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// Policy is what a group's nodes do against the loss of some of them.
type Policy struct {
	Scheme redset.Scheme // 0: none was asked for
	Size   int           // of sets of nodes, at least, or as many as there are; 0: as fits
}

// widest is the largest size that sets may be asked to have.
const widest = redset.MaxMembers / 2

// ParsePolicy reads what a program says: a scheme, as redset has it; xor, with the size of sets behind a colon; or GPI_CP's words for partner:
// ring, of all nodes, and pairs. Nothing: none is asked for.
func ParsePolicy(text string) (Policy, error) {
	switch size, sized := strings.CutPrefix(text, "xor:"); {
	case text == "":
		return Policy{}, nil
	case text == "ring":
		return Policy{redset.Partner, widest}, nil
	case text == "pairs":
		return Policy{redset.Partner, 2}, nil
	case sized:
		n, err := strconv.Atoi(size)
		if err != nil || n < 2 || n > widest {
			return Policy{}, fmt.Errorf("policy %q, wanted the number of nodes of a set behind xor, 2 to %d", text, widest)
		}
		return Policy{redset.XOR, n}, nil
	}
	scheme, err := redset.ParseScheme(text)
	if err != nil {
		return Policy{}, fmt.Errorf("policy %w; or ring, pairs, xor:2 to xor:%d", err, widest)
	}
	return Policy{Scheme: scheme}, nil
}

// Room is how many bytes the cache of a node must have room for: two snapshots of what its members have, with redundancy for as much as the
// members of one node have at most.
func (p Policy) Room(own, most uint64, nodes int) uint64 {
	const whole = 100
	if nodes < 2 {
		return 2 * own
	}
	return 2 * (own + most/whole*uint64(p.Scheme.Percent(p.Size, nodes)))
}

// Fits says whether so many nodes can do what a program has asked for.
func (p Policy) Fits(nodes int) error {
	if p.Scheme == 0 || nodes >= p.Scheme.Members() {
		return nil
	}
	return fmt.Errorf("policy %v: what is kept of a node lies on others: found a number of nodes with members of %d, wanted %d at least", p.Scheme, nodes, p.Scheme.Members())
}

// Unnamed is the name of a group that its program gives none.
const Unnamed = "memory"

// Named says whether a group may have a name: datasets are called by it, and by a number behind a dot.
func Named(name string) bool {
	const longest = 63
	return name != "" && len(name) <= longest && !strings.ContainsAny(name, " \t\n/.\x00")
}
