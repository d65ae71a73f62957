package coord

import (
	"fmt"
	"strings"

	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// late are the ranks that an agreement waits for, and what they do, for people to read.
type late struct {
	all       []int  // that have not answered, or not met
	computing []int  // of these: they stand in no call
	inCall    []int  // of these: they stand in that call
	call      string // in which the first one that names its call stands
	message   bool   // and that one waits for a message
	elsewhere int    // number of those that stand in other calls
}

func (a *agreement) late() late {
	var l late
	for i, r := range a.ranks {
		if a.version == 0 && r.reported || a.version != 0 && r.met == a.version {
			continue
		}
		l.all = append(l.all, i)
		if a.version == 0 {
			continue
		}
		if l.call == "" {
			l.call, l.message = r.call, r.message
		}
		switch {
		case r.call != "" && r.call == l.call:
			l.inCall = append(l.inCall, i)
		case r.call != "":
			l.elsewhere++
		case !r.waiting && r.where == abi.WhereRun:
			l.computing = append(l.computing, i)
		}
	}
	return l
}

// waitedFor are the ranks that hold the others up: those that compute, while there are some.
func (l late) waitedFor() []int {
	if len(l.computing) > 0 {
		return l.computing
	}
	return l.all
}

// describe says in one sentence what the agreement waits for.
func (a *agreement) describe() string {
	l := a.late()
	switch {
	case len(l.all) == 0:
		return "all ranks agree"
	case l.call != "":
		return l.inCalls()
	case len(l.all) == 1:
		return fmt.Sprintf("rank %d %s", l.all[0], a.doing(l.all[0]))
	case len(l.all) > 8:
		return fmt.Sprintf("%d ranks have not reached a common point yet", len(l.all))
	}
	return numbered(l.all, 8) + " have not reached a common point yet"
}

// inCalls is the sentence when it is known in which call somebody waits.
func (l late) inCalls() string {
	text := numbered(l.inCall, 4) + verb(l.inCall, " waits in ", " wait in ") + l.call
	switch {
	case l.elsewhere == 1:
		text += " and 1 more in another call"
	case l.elsewhere > 1:
		text += fmt.Sprintf(" and %d more in other calls", l.elsewhere)
	}
	switch {
	case len(l.computing) > 0:
		text += " for " + numbered(l.computing, 4) + ", which " + verb(l.computing, "computes", "compute")
	case l.message:
		text += " for a message"
	}
	return text
}

// doing is what a rank does that has not answered or not met.
func (a *agreement) doing(rank int) string {
	switch r := a.ranks[rank]; {
	case a.version == 0:
		return "has not answered yet"
	case r.message || r.where == abi.WhereP2P:
		return "waits for a message"
	case r.waiting || r.where == abi.WhereCollective:
		return "is in a collective"
	}
	return "computes; waiting for its next collective"
}

func verb(ranks []int, one, several string) string {
	if len(ranks) == 1 {
		return one
	}
	return several
}

// numbered names the first ranks of a list, and counts the rest.
func numbered(ranks []int, most int) string {
	var names []string
	for _, r := range ranks[:min(len(ranks), most)] {
		names = append(names, fmt.Sprint(r))
	}
	text := verb(ranks, "rank ", "ranks ") + strings.Join(names, ", ")
	if len(ranks) > most {
		text += fmt.Sprintf(" and %d more", len(ranks)-most)
	}
	return text
}
