package outputs

import (
	"cmp"
	"maps"
	"slices"
)

// Library is all books of a job: that of the datasets which its program writes as one, and one for each group that makes snapshots. Each has
// a life of its own: what one of them begins, commits, drops or ends changes nothing in another. Numbers of datasets and of programs are the
// job's, and are used once.
type Library struct {
	*Book  // of the program
	driver Driver
	groups map[string]*Book
}

// NewLibrary returns the books of a job that has these datasets, in any order; last is the highest number that was used.
func NewLibrary(driver Driver, known []Dataset, last uint64, m Memory) *Library {
	l := &Library{driver: driver, groups: map[string]*Book{}}
	snapshots := m.Policy == nil || m.Policy.Prefix == "" // a program that has a prefix gives what names it likes
	of := map[string][]Dataset{}
	for _, d := range known {
		group := d.Group(d.Number)
		if !snapshots {
			group = ""
		}
		of[group] = append(of[group], d)
		last = max(last, d.Number)
	}
	l.Book = New(driver, of[""], last, m)
	delete(of, "")
	for group, list := range of {
		l.groups[group] = newBook(driver, group, list, l.counters, Memory{Current: m.Current, Bad: m.Bad})
		if l.groups[group].find(m.Current) == nil {
			l.groups[group].current = 0
		} else {
			l.current = 0
		}
	}
	return l
}

// Group is the book of a group's snapshots.
func (l *Library) Group(name string) *Book {
	if l.groups[name] == nil {
		l.groups[name] = newBook(l.driver, name, nil, l.counters, Memory{})
	}
	return l.groups[name]
}

// Groups are the names of the groups that have books.
func (l *Library) Groups() []string { return slices.Sorted(maps.Keys(l.groups)) }

// Each calls for all books: the program's, then the groups' by name.
func (l *Library) Each(what func(*Book)) {
	what(l.Book)
	for _, name := range l.Groups() {
		what(l.groups[name])
	}
}

// any says whether something is so of any book.
func (l *Library) any(is func(*Book) bool) bool {
	found := false
	l.Each(func(b *Book) { found = found || is(b) })
	return found
}

// Memory is what is to be stored.
func (l *Library) Memory() Memory {
	m := l.Book.Memory()
	m.Bad = nil
	l.Each(func(b *Book) {
		of := b.Memory()
		m.Current = cmp.Or(m.Current, of.Current)
		m.Bad = append(m.Bad, of.Bad...)
	})
	slices.Sort(m.Bad)
	return m
}

// Entries are all datasets that the books know, ascending, also those that do not count yet.
func (l *Library) Entries() []Entry {
	var list []Entry
	l.Each(func(b *Book) { list = append(list, Entries(b)...) })
	slices.SortFunc(list, func(x, y Entry) int { return cmp.Compare(x.Dataset, y.Dataset) })
	return list
}

// Joined is how many ranks have said that they run, or members of the largest group.
func (l *Library) Joined() int {
	most := 0
	l.Each(func(b *Book) { most = max(most, Joined(b)) })
	return most
}

// Offered are the numbers of the datasets that the job as a whole may be said to go on from, ascending: of one book all that its program can
// restart from; of several, each of which has its own newest one, the newest of all.
func (l *Library) Offered() []uint64 {
	var list []uint64
	several := false
	l.Each(func(b *Book) {
		own := Offered(b)
		several = several || len(own) > 0 && len(list) > 0
		list = append(list, own...)
	})
	if several {
		return []uint64{slices.Max(list)}
	}
	return list
}

// Heads are the newest datasets to restart from, one of each book that has any, the newest first.
func (l *Library) Heads() []Dataset {
	var list []Dataset
	l.Each(func(b *Book) {
		if d := b.candidate(b.policy.Restart, 0, 0); d != nil {
			list = append(list, *d)
		}
	})
	slices.SortFunc(list, func(x, y Dataset) int { return cmp.Compare(y.Number, x.Number) })
	return list
}

// Limit lets only datasets up to this one be offered of the book that has it, as long as no program has restarted. 0: all, of all.
func (l *Library) Limit(n uint64) {
	l.Each(func(b *Book) {
		b.Limit(0)
		if all := b.Checkpoints(); n != 0 && slices.Contains(all, n) && n != all[len(all)-1] {
			b.Limit(n)
		}
	})
}

// of is the book that has a dataset; the program's, if none has it.
func (l *Library) of(has func(*Book) bool) *Book {
	for _, b := range l.groups {
		if has(b) {
			return b
		}
	}
	return l.Book
}

// Insist makes a dataset the one to restart from, before a program has begun.
func (l *Library) Insist(n uint64) error {
	return Insist(l.of(func(b *Book) bool { return b.find(n) != nil }), n)
}

// Apply does what somebody wants done.
func (l *Library) Apply(e Edit) error {
	return e.Apply(l.of(func(b *Book) bool { return b.shelf.named(e.Name) != nil }))
}

// Stored: the prefix has a dataset from now on.
func (l *Library) Stored(n uint64) { l.Each(func(b *Book) { b.Stored(n) }) }

// GiveUp ends the wait for the ranks of a program, as Await has asked for.
func (l *Library) GiveUp(ask Ask) { l.Each(func(b *Book) { b.GiveUp(ask) }) }

// Lost: a node is gone.
func (l *Library) Lost(node int) { l.Each(func(b *Book) { b.Lost(node) }) }

// Over: all programs have ended.
func (l *Library) Over() { l.Each((*Book).Over) }

// Busy says whether anything is being stored or copied.
func (l *Library) Busy() bool { return l.any((*Book).Busy) }

// Stuck says whether something could not be copied to the prefix.
func (l *Library) Stuck() bool { return l.any((*Book).Stuck) }

// Settle has copied to the prefix what ought to be there when no more follows, of each book.
func (l *Library) Settle(unsafe bool) { l.Each(func(b *Book) { b.Settle(unsafe) }) }
