// Package outputs decides what becomes of the datasets that a program writes itself, through SCR's interface: their numbers and names, when
// they count, what is copied to the prefix, what is dropped, and what a program restarts from.
//
// It guarantees: a dataset counts only when every rank has said that it has written its part, all of them valid, and those who store it have
// said that it is stored; until then the one before it stays, whatever the size of the cache. Every request is answered, once; those of a
// program that is over are refused by name. Nothing is dropped from the caches that is not in the prefix or older than enough that
// count; a dataset that a program could not read is not offered again.
//
// It is pure: a Driver carries out what is decided and calls back, never from within a call. Nothing here is safe for concurrent use.
package outputs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
)

// Policy is what the settings of a program say.
type Policy struct {
	Prefix    string               `json:"prefix"`               // below which its files have their names
	Bypass    bool                 `json:"bypass,omitempty"`     // there are no caches: files are written there at once
	Keep      int                  `json:"keep"`                 // how many checkpoints stay in the caches, at least 1
	Flush     int                  `json:"flush"`                // every so many checkpoints one is copied to the prefix; 0: none, but by the end
	FlushWait bool                 `json:"flush_wait,omitempty"` // an output is in the prefix when its completion is answered
	InPrefix  int                  `json:"in_prefix,omitempty"`  // how many checkpoints stay in the prefix, 0: all
	Every     Need                 `json:"every,omitzero"`       // when a checkpoint is due
	Restart   Restart              `json:"restart,omitzero"`
	Kept      settings.Descriptors `json:"kept"` // which datasets bypass caches, and how the others are protected
}

// Restart is how a program restarts.
type Restart struct {
	NotCaches bool `json:"not_caches,omitempty"` // not from what caches have alone
	NotPrefix bool `json:"not_prefix,omitempty"` // not from what the prefix has alone
	InPrefix  bool `json:"in_prefix,omitempty"`  // it reads there, wherever it may be had
	Flush     bool `json:"flush,omitempty"`      // what it restarts from is copied to the prefix
	DropAfter bool `json:"drop_after,omitempty"` // those that are newer than what is made current are dropped
}

// First is what a program wants done before it restarts.
type First struct {
	Purge    bool   // first all datasets are removed from the caches
	PurgeAll bool   // and from the prefix
	Current  string // the name of the one to restart from; empty: the newest
}

// Need says when a checkpoint is due: when any of these is reached; always, if none is given.
type Need struct {
	Calls    int           `json:"calls,omitempty"`    // so many calls since the last
	After    time.Duration `json:"after_ns,omitempty"` // so long after the last
	Overhead float64       `json:"overhead,omitempty"` // of the time, in percent, that checkpoints may take
}

// Driver carries out what is decided. What is answered later is answered once.
type Driver interface {
	// Answer answers a request.
	Answer(ask Ask, a Answer)
	// Place makes room for a dataset on the nodes of the ranks; the directory is told. If there is room already, it is returned, and nothing
	// follows.
	Place(n uint64, bypass bool, at []int, then func(dir string, err error)) (dir string, ready bool)
	// Commit makes a dataset count that ranks have written, on these nodes; why not, if it cannot be.
	Commit(n uint64, label holding.Label, how settings.Pick, at []int, then func(why string))
	// Discard removes what was written of a dataset that does not count.
	Discard(n uint64, bypass bool)
	// Flush copies a dataset from the caches to the prefix.
	Flush(n uint64, then func(err error))
	// Evict removes a dataset from the caches, where the prefix has it, or does not need it.
	Evict(n uint64)
	// Forget removes all that is known of a dataset; with files also those in the prefix.
	Forget(n uint64, files bool)
	// Restore has all parts of a dataset, as they were written, where the program's ranks find them, which run on these nodes: in the
	// caches, or in the prefix; there by all means if prefix is true.
	Restore(d Dataset, at []int, prefix bool, then func(inPrefix bool, err error))
	// Changed: what Memory returns has changed, and is to be stored.
	Changed()
	// Counts: a checkpoint counts from now on; or does not any more.
	Counts(n uint64, counts bool)
	// Heeded: the program was told to end.
	Heeded()
	// Await has GiveUp called when ranks of the program before have had time enough to end.
	Await(ask Ask)
	// Say tells the user.
	Say(text string)
	// Now is the time since the driver began.
	Now() time.Duration
}

// Ask is a request of a program, which is answered by this number.
type Ask struct {
	Number uint64
	Node   int
}

// Answer is what it is answered with.
type Answer struct {
	Refused string // why not; empty: it is done
	Run     uint64
	Dataset uint64
	Label   holding.Label
	Dir     string
	Yes     bool
	Why     string
}

// state of a dataset.
type state int

const (
	open     state = iota // ranks write
	written               // all have, and it is being stored
	counting              // it counts
)

// Dataset is one that the book knows.
type Dataset struct {
	Number uint64
	holding.Label
	Cached  bool // in the caches of nodes
	Stored  bool // in the prefix
	Bad     bool // a program could not read it
	state   state
	said    map[int]int // the node of each rank that has written its part
	how     settings.Pick
	invalid []int // ranks whose parts are not valid
	bytes   uint64
	files   uint64
	unfit   uint64 // the program that could not read it, with another number of ranks
	copied
}

// copied is what is known of the copy of a dataset in the prefix.
type copied struct {
	waiting  []Ask // answered when it is there
	flushing bool
	tries    int  // to make it, that have failed
	owed     bool // it ought to be there
}

// Memory is what outlives the process that decides.
type Memory struct {
	Current uint64   `json:"current,omitempty"` // to restart from, 0: the newest
	Bad     []uint64 `json:"bad,omitempty"`     // that a program could not read
	Run     uint64   `json:"run,omitempty"`     // the last program
	Policy  *Policy  `json:"policy,omitempty"`  // of that
}

// Book knows the datasets of a job. It hears the program; its parts are what there is (shelf), what is copied to the prefix (copies), and
// what is dropped (retention).
type Book struct {
	desk
	shelf
	*copies
	*retention
	policy   Policy
	stem     string // of the names of datasets whose program gives them none
	began    bool   // a program has, since there is this book: before, the prefix may have been moved
	program  program
	beginner *beginning // waits until the ranks of the program before are gone
	opener   *opening   // waits until fewer are being stored
	ender    *Ask       // waits until nothing is under way
	readers  []Ask      // wait until nothing is being stored
	commits  int        // of checkpoints
	halt     string     // why programs are to end; empty: they are not
}

// desk is where requests are answered.
type desk struct{ driver Driver }

func (d desk) refuse(ask Ask, format string, args ...any) {
	d.driver.Answer(ask, Answer{Refused: fmt.Sprintf(format, args...)})
}

// program is the one that runs now.
type program struct {
	run   uint64 // 0: none has begun
	back  bool   // it has been restored from an image: it may say the number of an earlier one, which it was then
	ranks int
	at    map[int]int  // the node of each rank that has joined
	alive map[int]bool // of these; nil: nothing is known
	reads uint64       // the dataset that it restarts from now
	ended bool         // it has said that it uses this no more
	need  pace
}

// beginning is a program that waits for the end of the one before.
type beginning struct {
	ask    Ask
	ranks  int
	policy Policy
	first  First
}

// opening is a dataset that a program wants to begin.
type opening struct {
	ask   Ask
	label holding.Label
}

// New returns a book that knows of these, in any order; last is the highest number that was used.
func New(driver Driver, known []Dataset, last uint64, m Memory) *Book {
	return newBook(driver, "scr.dataset", known, &counters{last: last, runs: m.Run}, m)
}

func newBook(driver Driver, stem string, known []Dataset, c *counters, m Memory) *Book {
	b := &Book{desk: desk{driver}, stem: stem, shelf: shelf{counters: c, current: m.Current}}
	b.retention = &retention{desk: b.desk, shelf: &b.shelf, policy: &b.policy}
	b.copies = &copies{desk: b.desk, shelf: &b.shelf, policy: &b.policy, thinOut: b.retention.prune, settled: b.settled}
	b.retention.waits = b.copies.waits
	b.program.run = m.Run
	if m.Policy != nil {
		b.policy = *m.Policy
	}
	b.policy.Keep = max(b.policy.Keep, 1)
	for _, d := range known {
		d.state = counting
		d.Bad = slices.Contains(m.Bad, d.Number)
		b.list = append(b.list, &d)
		b.last = max(b.last, d.Number)
	}
	slices.SortFunc(b.list, func(x, y *Dataset) int { return int(int64(x.Number) - int64(y.Number)) })
	return b
}

// Memory is what is to be stored.
func (b *Book) Memory() Memory {
	m := Memory{Current: b.current, Run: b.runs}
	if b.runs > 0 {
		p := b.policy
		m.Policy = &p
	}
	for _, d := range b.list {
		if d.Bad {
			m.Bad = append(m.Bad, d.Number)
		}
	}
	return m
}

func (d *Dataset) offered() bool { return d.state == counting && d.Checkpoint && !d.Bad }

// Halt has programs told that they are to end, and why.
func (b *Book) Halt(why string) { b.halt = why }

// Begin: a program begins, with so many ranks. What the one before it has left unfinished does not count.
func (b *Book) Begin(ask Ask, ranks int, p Policy, first First) {
	if ranks < 1 {
		b.refuse(ask, "%d ranks, wanted at least 1", ranks)
		return
	}
	if b.began && p.Prefix != b.policy.Prefix && len(b.List()) > 0 { // what is copied later would come to the wrong place
		b.refuse(ask, "the datasets of this job are below %s, those of this program below %s: another prefix needs another job (byssus run --job)",
			b.policy.Prefix, p.Prefix)
		return
	}
	if len(b.program.alive) > 0 {
		if b.beginner != nil {
			b.refuse(ask, "%s", b.program.stays())
			return
		}
		b.beginner = &beginning{ask, ranks, p, first}
		b.driver.Await(ask)
		return
	}
	b.Over()
	first = b.reduced(first, b.began, b.program.ended)
	b.policy, b.began = p, true
	b.policy.Keep = max(p.Keep, 1)
	b.runs++
	b.program = program{run: b.runs, ranks: ranks, at: map[int]int{}, alive: map[int]bool{}, need: pace{Need: p.Every}}
	b.prepare(first)
	b.copyWaiting()
	b.driver.Changed()
	b.driver.Answer(ask, Answer{Run: b.program.run})
}

// GiveUp ends the wait for the ranks of the program before, as Await has asked for.
func (b *Book) GiveUp(ask Ask) {
	if w := b.beginner; w != nil && w.ask == ask {
		b.beginner = nil
		b.refuse(ask, "%s", b.program.stays())
	}
}

// Left: the process of a rank has ended. When all have, the program is over.
func (b *Book) Left(run uint64, rank int) {
	if run != b.program.run || !b.program.alive[rank] {
		return
	}
	delete(b.program.alive, rank)
	b.gone()
}

// Lost: a node is gone, with its ranks.
func (b *Book) Lost(node int) {
	for rank := range b.program.alive {
		if b.program.at[rank] == node {
			delete(b.program.alive, rank)
		}
	}
	b.gone()
}

func (b *Book) gone() {
	if len(b.program.alive) > 0 || b.program.back {
		return
	}
	b.Over()
	if w := b.beginner; w != nil {
		b.beginner = nil
		b.Begin(w.ask, w.ranks, w.policy, w.first)
	}
}

// prepare does what a program wants done before it restarts.
func (b *Book) prepare(r First) {
	for _, d := range slices.Clone(b.list) {
		switch {
		case d.state != counting || d.flushing:
		case r.PurgeAll && d.Stored:
			b.forget(d, true)
		case r.Purge && d.Cached:
			b.evict(d)
		}
	}
	if r.Current == "" {
		return
	}
	if err := b.Current(r.Current); err != nil {
		b.driver.Say(fmt.Sprintf("SCR_CURRENT: %v", err))
	}
}

// Run is the number of the program that runs now, or was the last.
func (b *Book) Run() uint64 { return b.program.run }

// Prefix is the directory below which the last program's files have their names.
func (b *Book) Prefix() string { return b.policy.Prefix }

// Over: the program has ended, well or not. What it was writing does not count.
func (b *Book) Over() {
	if d := b.opened(); d != nil {
		b.discard(d)
	}
	if o := b.opener; o != nil {
		b.opener = nil
		b.refuse(o.ask, "the program is over")
	}
	b.program.ranks, b.program.at, b.program.alive, b.program.back = 0, nil, nil, false
}

// Back: the program is restored from an image, with its ranks on these nodes. What it was writing when it was lost does not count; what it
// has written since then does.
func (b *Book) Back(at []int) {
	b.Over()
	b.program.back, b.program.ranks, b.program.at = true, len(at), map[int]int{}
	b.program.need = pace{Need: b.policy.Every}
	for rank, node := range at {
		b.program.at[rank] = node
	}
}

// here says whether a request is of the program that runs now, and refuses it if not.
func (b *Book) here(ask Ask, run uint64) bool {
	if b.program.back && run > 0 && run <= b.runs {
		b.program.run, b.program.back = run, false
	}
	if run == b.program.run && b.program.ranks > 0 {
		return true
	}
	b.refuse(ask, "program %d of this job is over", run)
	return false
}

// Join: a rank runs on the node that asks.
func (b *Book) Join(ask Ask, run uint64, rank int) {
	if !b.here(ask, run) {
		return
	}
	if rank < 0 || rank >= b.program.ranks {
		b.refuse(ask, "rank %d of %d", rank, b.program.ranks)
		return
	}
	b.program.at[rank] = ask.Node
	if b.program.alive != nil {
		b.program.alive[rank] = true
	}
	b.driver.Answer(ask, Answer{})
}

// Using says what the program has open of a dataset, so that an image of it could not be restored: it is gone, or another, then. Empty:
// nothing.
func (b *Book) Using() string {
	if d := b.opened(); d != nil {
		return fmt.Sprintf("dataset %s is being written", d.Name)
	}
	if d := b.find(b.program.reads); d != nil {
		return fmt.Sprintf("the program restarts from dataset %s", d.Name)
	}
	return ""
}

// mostUnsettled are being stored before a program waits that begins another.
const mostUnsettled = 2

// maxName is how long a name may be.
const maxName = 1023

// Open: the program begins a dataset. An empty name: one is made up.
func (b *Book) Open(ask Ask, run uint64, l holding.Label) {
	if !b.here(ask, run) {
		return
	}
	bad := func(r rune) bool { return r < 0x20 || r == 0x7f }
	switch d := b.opened(); {
	case d != nil:
		b.refuse(ask, "dataset %s is not complete, so that another can begin", d.Name)
	case b.opener != nil:
		b.refuse(ask, "another dataset begins already")
	case len(b.program.at) < b.program.ranks:
		b.refuse(ask, "%d of %d ranks have joined", len(b.program.at), b.program.ranks)
	case len(l.Name) > maxName || strings.ContainsFunc(l.Name, bad):
		b.refuse(ask, "the name of a dataset, %.40q, wanted at most %d bytes without control characters", l.Name, maxName)
	default:
		l.Ranks = b.program.ranks
		b.opener, b.program.reads = &opening{ask, l}, 0
		b.openNext()
	}
}

// openNext begins the dataset that is waited for, when there is room.
func (b *Book) openNext() {
	if b.opener == nil || b.unsettled() >= mostUnsettled {
		return
	}
	o := b.opener
	b.opener = nil
	b.last++
	d := &Dataset{Number: b.last, Label: o.label, said: map[int]int{}}
	nth := uint64(0)
	if d.Checkpoint {
		nth = uint64(b.commits) + 1
	}
	d.how = b.policy.Kept.Descriptor(nth, d.Output)
	d.InPlace = b.policy.Bypass || d.how.Bypass
	if d.Name == "" {
		d.Name = fmt.Sprintf("%s.%d", b.stem, d.Number)
	}
	b.list = append(b.list, d)
	b.program.need.open(b.driver.Now())
	placed := func(dir string, err error) {
		if err != nil {
			b.discard(d)
			b.refuse(o.ask, "%v", err)
			return
		}
		b.driver.Answer(o.ask, Answer{Dataset: d.Number, Label: d.Label, Dir: dir})
	}
	if dir, ready := b.driver.Place(d.Number, d.InPlace, b.program.places(), placed); ready {
		placed(dir, nil)
	}
}

// discard gives a dataset up that does not count.
func (b *Book) discard(d *Dataset) {
	b.remove(d)
	b.driver.Discard(d.Number, d.InPlace)
	for _, ask := range d.waiting {
		b.refuse(ask, "dataset %s is given up", d.Name)
	}
	d.waiting = nil
}

// Part is what a rank says of its part of a dataset.
type Part struct {
	Run, Dataset uint64
	Rank         int
	Valid        bool
	Bytes, Files uint64
}

// Written: a rank has written its part.
func (b *Book) Written(ask Ask, p Part) {
	if !b.here(ask, p.Run) {
		return
	}
	d := b.find(p.Dataset)
	if d == nil || d.state != open {
		b.refuse(ask, "dataset %d is not being written", p.Dataset)
		return
	}
	if _, twice := d.said[p.Rank]; twice || p.Rank < 0 || p.Rank >= d.Ranks {
		b.refuse(ask, "rank %d of %d has written its part of dataset %s already, or is none of them", p.Rank, d.Ranks, d.Name)
		return
	}
	d.said[p.Rank], d.bytes, d.files = ask.Node, d.bytes+p.Bytes, d.files+p.Files
	if !p.Valid {
		d.invalid = append(d.invalid, p.Rank)
	}
	if b.policy.FlushWait && !d.InPlace && p.Valid && b.due(d, b.commits) {
		d.waiting = append(d.waiting, ask)
	} else {
		b.driver.Answer(ask, Answer{})
	}
	if len(d.said) == d.Ranks {
		b.program.need.closed(b.driver.Now())
		b.complete(d)
	}
}

// complete stores a dataset whose ranks have all written their parts.
func (b *Book) complete(d *Dataset) {
	if len(d.invalid) > 0 {
		b.driver.Say(d.unwell())
		b.discard(d)
		return
	}
	d.state = written
	at := make([]int, d.Ranks)
	for rank, node := range d.said {
		at[rank] = node
	}
	b.driver.Commit(d.Number, d.Label, d.how, at, func(why string) {
		if why != "" {
			b.driver.Say(fmt.Sprintf("dataset %s does not count: %s", d.Name, why))
			b.discard(d)
		} else {
			b.counts(d)
		}
		b.settled()
	})
}

// unwell says why a dataset does not count that ranks have not written well.
func (d *Dataset) unwell() string {
	text := fmt.Sprintf("dataset %s does not count: rank %d", d.Name, slices.Min(d.invalid))
	if n := len(d.invalid) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more of %d,", n, d.Ranks)
	}
	return text + " says that its part is not valid"
}

// counts: a dataset is stored.
func (b *Book) counts(d *Dataset) {
	d.state, d.Cached, d.Stored = counting, !d.InPlace, d.InPlace
	// A program gives a name again: the new one takes the place of the old, but a result not that of a checkpoint.
	for _, old := range slices.Clone(b.list) {
		if old != d && old.Name == d.Name && old.state == counting && (d.Checkpoint || !old.Checkpoint) {
			b.forget(old, false)
		}
	}
	if d.Checkpoint {
		b.commits++
		if b.current != 0 {
			b.current = 0
			b.driver.Changed()
		}
		b.driver.Counts(d.Number, true)
	}
	if d.Cached && (d.Output || b.policy.Flush > 0 && b.commits%b.policy.Flush == 0) {
		b.flush(d)
	} else {
		b.answered(d)
	}
	b.retention.prune()
}

// settled: one is stored, or copied, or cannot be: what waited for that goes on.
func (b *Book) settled() {
	b.openNext()
	if b.unsettled() > 0 {
		return
	}
	readers := b.readers
	b.readers = nil
	for _, ask := range readers {
		b.offer(ask)
	}
	b.end()
}

// Newest: the program asks for the newest dataset to restart from. What is being stored is waited for.
func (b *Book) Newest(ask Ask, run uint64) {
	if !b.here(ask, run) {
		return
	}
	if b.unsettled() > 0 {
		b.readers = append(b.readers, ask)
		return
	}
	b.offer(ask)
}

// offer answers with the newest dataset that can be had. What cannot be had now may be later.
func (b *Book) offer(ask Ask) {
	b.offerBelow(ask, b.below)
}

func (b *Book) offerBelow(ask Ask, below uint64) {
	d := b.candidate(b.policy.Restart, b.program.run, below)
	switch {
	case d == nil:
		b.driver.Answer(ask, Answer{})
		return
	case d.flushing: // what is copied, and what it was made from again, is not to be had twice at a time
		b.readers = append(b.readers, ask)
		return
	}
	b.driver.Restore(*d, b.program.places(), b.policy.Restart.InPrefix, func(inPrefix bool, err error) {
		if err == nil {
			if b.policy.Restart.Flush {
				b.flush(d)
			}
			l := d.Label
			l.InPlace = inPrefix
			b.program.reads = d.Number
			b.driver.Answer(ask, Answer{Dataset: d.Number, Label: l})
			return
		}
		b.driver.Say(fmt.Sprintf("dataset %s cannot be had: %v", d.Name, err))
		if b.current == d.Number {
			b.current = 0
			b.driver.Changed()
		}
		b.offerBelow(ask, d.Number)
	})
}

// Read: all ranks have read a dataset; if it is not valid, it is not offered again.
func (b *Book) Read(ask Ask, run, n uint64, valid bool) {
	if !b.here(ask, run) {
		return
	}
	b.program.reads = 0
	d := b.find(n)
	if d == nil {
		b.refuse(ask, "there is no dataset %d", n)
		return
	}
	switch {
	case valid:
		b.below = 0
	case b.program.ranks != d.Ranks:
		d.unfit = run
		b.driver.Say(fmt.Sprintf("dataset %s, of %d ranks, could not be read by a program of %d", d.Name, d.Ranks, b.program.ranks))
	default:
		d.Bad = true
		b.driver.Say(fmt.Sprintf("dataset %s could not be read by the program, and is not offered again", d.Name))
		if d.Checkpoint {
			b.driver.Counts(d.Number, false)
		}
		if b.current == d.Number {
			b.current = 0
		}
		b.driver.Changed()
	}
	b.driver.Answer(ask, Answer{})
}

// End: the program uses this no more. It is answered when all that it has written counts, and is where the policy wants it.
func (b *Book) End(ask Ask, run uint64) {
	if !b.here(ask, run) {
		return
	}
	b.ender = &ask
	b.end()
}

// end answers who waits for the end, when nothing is under way any more.
func (b *Book) end() {
	waits := b.ender
	if waits == nil || b.unsettled() > 0 {
		return
	}
	b.ender = nil // what Settle begins may be over at once, and come here
	if b.Settle(false); b.Busy() {
		b.ender = waits
		return
	}
	ask := *waits
	b.program.alive, b.program.ended = nil, true // it may do other things yet
	if b.Stuck() {
		b.refuse(ask, "not all that was written could be copied to %s: it stays in the caches", b.policy.Prefix)
		return
	}
	b.driver.Answer(ask, Answer{})
}
