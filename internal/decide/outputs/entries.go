package outputs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
)

// States of a dataset, as others are told them.
const (
	Writing = "writing" // its ranks write
	Storing = "storing" // they have written, and it is being stored
	Counts  = "counts"
)

// Entry is what a book knows of a dataset, for those who ask.
type Entry struct {
	Dataset uint64 `json:"dataset"`
	holding.Label
	State   string `json:"state"`
	Bytes   uint64 `json:"bytes,omitempty"`   // of its files, as the ranks have said
	Files   uint64 `json:"files,omitempty"`   // their number
	Cached  bool   `json:"cached,omitempty"`  // in the caches of nodes
	Stored  bool   `json:"stored,omitempty"`  // in the prefix
	Copying bool   `json:"copying,omitempty"` // to the prefix, or about to be
	Stuck   bool   `json:"stuck,omitempty"`   // it could not be copied to the prefix
	Bad     bool   `json:"bad,omitempty"`     // a program could not read it
	Current bool   `json:"current,omitempty"` // a program restarts from it
}

// Entries are all datasets that a book knows, ascending, also those that do not count yet.
func Entries(b *Book) []Entry {
	var list []Entry
	current := b.candidate(b.policy.Restart, 0, 0)
	names := map[state]string{open: Writing, written: Storing, counting: Counts}
	for _, d := range b.list {
		list = append(list, Entry{Dataset: d.Number, Label: d.Label, State: names[d.state], Bytes: d.bytes, Files: d.files, Cached: d.Cached,
			Stored: d.Stored, Copying: d.flushing, Stuck: d.tries > 0 && !d.Stored, Bad: d.Bad, Current: d == current})
	}
	return list
}

// Joined is how many ranks of the program that runs now have said that they do.
func Joined(b *Book) int { return len(b.program.at) }

// Reserve is the number of a dataset that is not written by the program, but adopted; Adopt makes it count.
func Reserve(b *Book) uint64 {
	b.last++
	return b.last
}

// Adopt makes a dataset count whose files are in the prefix already. One of its name is forgotten; its files stay. What is in the caches
// stays there: no program has written this.
func Adopt(b *Book, n uint64, l holding.Label) {
	l.InPlace = true
	for _, old := range slices.Clone(b.list) {
		if old.Name == l.Name && old.state == counting && (l.Checkpoint || !old.Checkpoint) {
			b.forget(old, false)
		}
	}
	d := &Dataset{Number: n, Label: l, Stored: true, state: counting}
	at, _ := slices.BinarySearchFunc(b.list, n, func(d *Dataset, n uint64) int { return cmp.Compare(d.Number, n) })
	b.list = slices.Insert(b.list, at, d)
	if d.Checkpoint {
		b.current = 0
		b.driver.Counts(n, true)
	}
	b.driver.Changed()
}

// Insist makes a dataset the one to restart from, before a program has begun: nothing is told of it.
func Insist(b *Book, n uint64) error {
	d := b.find(n)
	if d == nil || d.state != counting || !d.Checkpoint {
		return fmt.Errorf("dataset %d is no checkpoint", n)
	}
	d.Bad, b.current = false, n
	return nil
}

// Offered are the numbers of those that a program can restart from now, ascending: none that is newer than the current one.
func Offered(b *Book) []uint64 {
	current := b.candidate(b.policy.Restart, 0, 0)
	return slices.DeleteFunc(b.Checkpoints(), func(n uint64) bool { return current != nil && n > current.Number })
}

// Edit is what somebody wants done with a dataset that a book knows by its name.
type Edit struct {
	Verb string `json:"verb"` // one of those below
	Name string `json:"name"`
}

// The verbs of Edit.
const (
	EditCurrent   = "current"    // a program restarts from it
	EditDrop      = "drop"       // it is forgotten; its files in the prefix stay
	EditDropAfter = "drop-after" // all that are newer are forgotten
	EditDelete    = "delete"     // it is forgotten, and its files are removed
)

// Apply does it.
func (e Edit) Apply(b *Book) error {
	switch e.Verb {
	case EditCurrent:
		return b.Current(e.Name)
	case EditDrop:
		return b.Drop(e.Name, false)
	case EditDropAfter:
		return b.DropAfter(e.Name)
	case EditDelete:
		return b.Drop(e.Name, true)
	}
	return fmt.Errorf("%.40q is nothing that can be done with a dataset", e.Verb)
}

// Choose is the number of the dataset that a user means by a number or a name, among some.
func Choose(list []Entry, text string, number uint64) (uint64, error) {
	var byNumber, byName uint64
	for _, e := range list {
		if e.State != Counts {
			continue
		}
		if number != 0 && e.Dataset == number {
			byNumber = number
		}
		if e.Name == text {
			byName = e.Dataset
		}
	}
	switch {
	case byNumber != 0 && byName != 0 && byNumber != byName:
		return 0, fmt.Errorf("%s is the number of one dataset, and the name of dataset %d", text, byName)
	case byName != 0:
		return byName, nil
	case byNumber != 0:
		return byNumber, nil
	}
	return 0, fmt.Errorf("there is no dataset %s", text)
}
