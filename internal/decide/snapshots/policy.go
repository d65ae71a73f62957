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

// ParsePolicy reads what a program says: a scheme (single, partner, xor), with xor the size of sets behind a colon; or GPI_CP's words for
// partner: ring, of all nodes, and pairs. Nothing: as the job does.
func ParsePolicy(text string) (Policy, error) {
	word, size, sized := strings.Cut(text, ":")
	p := Policy{}
	switch word {
	case "":
	case "single":
		p.Scheme = redset.Single
	case "partner":
		p.Scheme = redset.Partner
	case "xor":
		p.Scheme = redset.XOR
	case "ring":
		p = Policy{redset.Partner, widest}
	case "pairs":
		p = Policy{redset.Partner, 2}
	default:
		return p, fmt.Errorf("policy %q, wanted single, partner, ring, pairs or xor", text)
	}
	if !sized {
		return p, nil
	}
	n, err := strconv.Atoi(size)
	if err != nil || word != "xor" || n < 2 || n > widest {
		return p, fmt.Errorf("policy %q, wanted a number behind xor alone: nodes of a set, 2 to %d", text, widest)
	}
	p.Size = n
	return p, nil
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
	if nodes > 1 || p.Scheme == 0 || p.Scheme == redset.Single {
		return nil
	}
	return fmt.Errorf("policy %v: all members run on one node, where copies would be lost with what they are of: wanted 2 nodes at least, or policy single", p.Scheme)
}
