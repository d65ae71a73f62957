package routed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// State is what a node has of a dataset.
type State struct {
	Key   string
	Order int    // of the first opening of a file of it, among the keys of this node
	Files int    // that it consists of there
	Open  int    // of these are open for writing, or may be
	Done  bool   // its marker has been written there
	Given string // why it cannot count; empty: it can
}

// Watch knows what is under way. It is pure: times are handed to it.
type Watch struct {
	quiet time.Duration // for so long nothing must happen
	keys  map[string]*key
	usual map[int]int // how many files nodes had of the last one that was complete
	last  map[int]int // highest order heard of each node
}

type key struct {
	on      map[int]State // by node
	first   time.Duration // when it was first heard of
	changed time.Duration
	taken   bool // it is being stored, until it changes
}

// NewWatch returns one; quiet is for how long nothing must happen to a dataset that is complete.
func NewWatch(quiet time.Duration) *Watch {
	return &Watch{quiet: quiet, keys: map[string]*key{}, usual: map[int]int{}, last: map[int]int{}}
}

// Hear takes in what a node says.
func (w *Watch) Hear(node int, s State, now time.Duration) {
	w.last[node] = max(w.last[node], s.Order)
	k := w.keys[s.Key]
	if k == nil {
		k = &key{on: map[int]State{}, first: now}
		w.keys[s.Key] = k
	}
	if s.Files == 0 && s.Given == "" && !s.Done {
		delete(k.on, node)
	} else {
		k.on[node] = s
	}
	k.changed, k.taken = now, false
	if len(k.on) == 0 {
		delete(w.keys, s.Key)
	}
}

// Over forgets a dataset: it counts, or never will.
func (w *Watch) Over(name string) { delete(w.keys, name) }

// Counted remembers what a dataset consisted of, which counts.
func (w *Watch) Counted(on map[int]int) { w.usual = on }

// Again: a dataset that was complete could not be stored, and is looked at again when something happens, or after some time.
func (w *Watch) Again(name string, now time.Duration) {
	if k := w.keys[name]; k != nil {
		k.changed, k.taken = now, false
	}
}

// Complete is a dataset that is, with the files on each node.
type Complete struct {
	Key   string
	Files map[int]int
	Fewer string // what it lacks of the one before; empty: nothing
}

// Next returns what is complete now, oldest first, each once until it changes; those that cannot count, and why; and when to ask again, 0: when
// something is heard. ended: the program has ended well, so that nothing follows.
func (w *Watch) Next(now time.Duration, ended bool) (list []Complete, never map[string]string, at time.Duration) {
	never = map[string]string{}
	names := slices.SortedFunc(maps.Keys(w.keys), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.keys[a].first, w.keys[b].first), cmp.Compare(a, b))
	})
	for _, name := range names {
		k := w.keys[name]
		files, open, done, given := k.sum()
		switch {
		case given != "":
			if open == 0 {
				never[name] = given
			}
			continue
		case k.taken || open > 0 || len(files) == 0:
			continue
		}
		fewer := w.fewer(files)
		wait := w.quiet
		if fewer != "" {
			wait *= 10
		}
		if due := k.changed + wait; !ended && !done && now < due && (fewer != "" || !w.newer(k)) {
			if at == 0 || due < at {
				at = due
			}
			continue
		}
		k.taken = true
		list = append(list, Complete{Key: name, Files: files, Fewer: fewer})
	}
	return list, never, at
}

func (k *key) sum() (files map[int]int, open int, done bool, given string) {
	files = map[int]int{}
	for node, s := range k.on {
		if s.Files > 0 {
			files[node] = s.Files
		}
		open += s.Open
		done = done || s.Done
		given = cmp.Or(given, s.Given)
	}
	return files, open, done, given
}

// newer says whether each node that has files of a dataset has begun a later one.
func (w *Watch) newer(k *key) bool {
	for node, s := range k.on {
		if w.last[node] <= s.Order {
			return false
		}
	}
	return true
}

// fewer says what a dataset lacks of the one before.
func (w *Watch) fewer(files map[int]int) string {
	had, has := 0, 0
	lacks := false
	for node, n := range w.usual {
		had, has = had+n, has+files[node]
		lacks = lacks || files[node] < n
	}
	if !lacks {
		return ""
	}
	return fmt.Sprintf("%d files, where the one before had %d", has, had)
}
