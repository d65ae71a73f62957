package snapshots

// Bonds connects the groups of a program by the processes that are members of several. A process that restores one group again waits for all who
// are members of that; were one of them waiting in another group, for this process or for one that waits for it, none would ever go on. So an
// epoch ends in all groups that are connected with one in which it ends, by whatever groups between them; who waits in any of them hears so, and
// all begin all of them again, in the order in which they have begun them.
//
// It guarantees that of members which begin their groups in the same order, and begin them again from the first one when they hear that an epoch
// has ended, none waits for ever for others who wait elsewhere.
type Bonds[P comparable] struct {
	ends uint64            // of epochs, in groups that are connected
	at   map[*Group]uint64 // at which of these each has ended last
	seen map[*Group]uint64 // how many epochs of each have
	told map[P]uint64      // of how many ends a process has heard
}

// NewBonds returns those of a program that has no groups yet.
func NewBonds[P comparable]() *Bonds[P] {
	return &Bonds[P]{at: map[*Group]uint64{}, seen: map[*Group]uint64{}, told: map[P]uint64{}}
}

// Bond is a group that is not over, with the processes of its members that live.
type Bond[P comparable] struct {
	*Group
	Members map[int]P
}

// Heard: a process has, that an epoch has ended.
func (b *Bonds[P]) Heard(p P) { b.told[p] = b.ends }

// Look ends epochs where that follows from some that have ended since it was last called. But: a group that a member has just begun again.
func (b *Bonds[P]) Look(all []Bond[P], but *Group, why string) {
	ended, any := make([]bool, len(all)), false
	for i, g := range all {
		ended[i] = g.ends > b.seen[g.Group]
		any = any || ended[i]
	}
	if !any {
		return
	}
	b.ends++
	list := connected(ended, all)
	for _, i := range list {
		g := all[i].Group
		b.at[g] = b.ends
		if len(list) > 1 && g != but {
			g.undone(why)
		}
		b.seen[g] = g.ends
	}
}

func connected[P comparable](ended []bool, all []Bond[P]) (list []int) {
	reached := map[P]bool{}
	for again := true; again; {
		again = false
		for i, g := range all {
			for _, p := range g.Members {
				ended[i] = ended[i] || reached[p]
			}
			for _, p := range g.Members {
				if ended[i] && !reached[p] {
					reached[p], again = true, true
				}
			}
		}
	}
	for i := range all {
		if ended[i] {
			list = append(list, i)
		}
	}
	return list
}

// Begins: a process begins a group, or begins it again; first: of all that it is in. It returns a group whose epoch has ended without its having
// heard so, which it has to begin again before; nil: there is none.
func (b *Bonds[P]) Begins(p P, g *Group, first bool, all []Bond[P]) *Group {
	told := b.told[p]
	b.Heard(p)
	for _, other := range all {
		for member, of := range other.Members {
			if of == p && other.Group != g && !first && told < b.at[other.Group] && owes(other.Group, member) {
				return other.Group
			}
		}
	}
	return nil
}

// owes says whether an epoch has ended in which a member took part, which has not begun again.
func owes(g *Group, member int) bool {
	_, again := g.entrants[member]
	return g.keeps && g.alive[member] && !again && (g.phase == entering && !g.busy || g.broken)
}

// Forget: a group is over, and another may come.
func (b *Bonds[P]) Forget(g *Group) {
	delete(b.at, g)
	delete(b.seen, g)
}

// Strangers are what the members of a program of so many processes have begun with that seem to be of one group, but give it different names:
// groups of all of them, of which none has begun, and whose members that wait are together as many, each once. Nil: there are none. It may be
// that some are just about to begin another.
func Strangers[P comparable](all []Bond[P], processes int) (groups []*Group, likes map[int]string) {
	waiting := 0
	likes = map[int]string{}
	for _, b := range all {
		if b.phase != entering || b.busy || b.run != 0 || b.members != processes {
			continue
		}
		groups = append(groups, b.Group)
		for member, s := range b.entrants {
			likes[member] = s.like
			waiting++
		}
	}
	if len(groups) < 2 || len(likes) < processes || waiting != processes {
		return nil, nil
	}
	return groups, likes
}

// Differ ends groups of strangers, all by the same words.
func Differ(groups []*Group, likes map[int]string) {
	for member := range len(likes) {
		if found, wanted := likes[member], likes[0]; found != wanted {
			for _, g := range groups {
				g.end(differs("init", found, member, wanted))
			}
			return
		}
	}
}
