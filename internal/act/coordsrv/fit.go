package coordsrv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/internal/act/control"
)

// candidate is a host on which the job may run, as it has shown itself at the start.
type candidate struct {
	name   string
	spare  bool
	came   bool   // its agent has
	why    string // its agent will not come, or is gone again; empty: nothing is known
	traits control.Traits
}

// notYet is why a host is not used whose agent is not waited for any more.
const notYet = "its agent has not come yet"

// against says why a host cannot be used, empty: it can.
func (c candidate) against(first candidate) string {
	switch {
	case c.why != "":
		return c.why
	case !c.came:
		return notYet
	case c.traits.Wrong != "":
		return c.traits.Wrong
	}
	return differs(c.traits, first.traits, first.name)
}

// fit says of each host why it cannot be used, empty: it can. The first is what the others are compared with: a rank that began
// there must be able to go on on any other. An error: of those that are no spares one cannot be used.
func fit(list []candidate) ([]string, error) {
	reasons := make([]string, len(list))
	all, good := map[bool]int{}, map[bool]int{} // by whether they are spares
	var failed, late []string
	for i, c := range list {
		reasons[i] = c.against(list[0])
		all[c.spare]++
		switch text := fmt.Sprintf("node %s: %s", c.name, reasons[i]); {
		case reasons[i] == "":
			good[c.spare]++
		case c.spare:
		case reasons[i] == notYet:
			late = append(late, text)
		default:
			failed = append(failed, text)
		}
	}
	if len(failed) == 0 {
		failed = late
	}
	if len(failed) > 0 {
		return reasons, fmt.Errorf("coordsrv: %s; %d of %d nodes and %d of %d spares can be used", strings.Join(failed, "; "),
			good[false], all[false], good[true], all[true])
	}
	return reasons, nil
}

// differs says why a rank that began on the first node could not go on on this one, empty: it could.
func differs(here, first control.Traits, node string) string {
	var lacks, wrong []string
	for _, f := range first.Processor {
		if !slices.Contains(here.Processor, f) {
			lacks = append(lacks, f)
		}
	}
	if len(lacks) > 0 {
		wrong = append(wrong, fmt.Sprintf("its processor lacks %s, which %s has", strings.Join(lacks, ", "), node))
	}
	for i, p := range first.Programs {
		if found := here.Programs; i < len(found) && found[i].Content != p.Content {
			wrong = append(wrong, fmt.Sprintf("%s is another program than on %s: found %s, wanted %s", found[i].Path, node, found[i].Content, p.Content))
		}
	}
	return strings.Join(wrong, "; ")
}
