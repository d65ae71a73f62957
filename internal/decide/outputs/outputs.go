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
)

// Policy is what the settings of a program say.
type Policy struct {
	Prefix    string // below which its files have their names
	Bypass    bool   // they are written there at once
	Keep      int    // how many checkpoints stay in the caches, at least 1
	Flush     int    // every so many checkpoints one is copied to the prefix; 0: none, but by the end
	FlushWait bool   // an output is in the prefix when its completion is answered
	InPrefix  int    // how many checkpoints stay in the prefix, 0: all
	Every     Need   // when a checkpoint is due
}

// Need says when a checkpoint is due: when any of these is reached; always, if none is given.
type Need struct {
	Calls    int           // so many calls since the last
	After    time.Duration // so long after the last
	Overhead float64       // of the time, in percent, that checkpoints may take
}

// Driver carries out what is decided. What is answered later is answered once.
type Driver interface {
	// Answer answers a request.
	Answer(ask Ask, a Answer)
	// Place makes room for a dataset on the nodes of the ranks; the directory is told.
	Place(n uint64, bypass bool, at []int, then func(dir string, err error))
	// Commit makes a dataset count that ranks have written, on these nodes; why not, if it cannot be.
	Commit(n uint64, label holding.Label, at []int, then func(why string))
	// Discard removes what was written of a dataset that does not count.
	Discard(n uint64, bypass bool)
	// Flush copies a dataset from the caches to the prefix.
	Flush(n uint64, then func(err error))
	// Evict removes a dataset from the caches, where the prefix has it, or does not need it.
	Evict(n uint64)
	// Forget removes all that is known of a dataset; with files also those in the prefix.
	Forget(n uint64, files bool)
	// Restore has all parts of a dataset, as they were written, where the program's ranks find them, which run on these nodes: in the
	// caches, or in the prefix.
	Restore(d Dataset, at []int, then func(inPrefix bool, err error))
	// Changed: what Memory returns has changed, and is to be stored.
	Changed()
	// Counts: a checkpoint counts from now on; or does not any more.
	Counts(n uint64, counts bool)
	// Heeded: the program was told to end.
	Heeded()
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
	Cached   bool // in the caches of nodes
	Stored   bool // in the prefix
	Bad      bool // a program could not read it
	state    state
	said     map[int]int // the node of each rank that has written its part
	invalid  bool
	bytes    uint64
	files    uint64
	waiting  []Ask // answered when it is in the prefix
	flushing bool
	stuck    bool // it could not be copied to the prefix
}

// Memory is what outlives the process that decides.
type Memory struct {
	Current uint64   `json:"current,omitempty"` // to restart from, 0: the newest
	Bad     []uint64 `json:"bad,omitempty"`     // that a program could not read
}

// Book knows the datasets of a job.
type Book struct {
	driver  Driver
	policy  Policy
	list    []*Dataset // ascending
	last    uint64     // highest number used
	current uint64     // to restart from, 0: the newest
	below   uint64     // only older ones are offered, 0: all
	program program
	opener  *opening // waits until fewer are being stored
	ender   *Ask     // waits until nothing is under way
	readers []Ask    // wait until nothing is being stored
	flushes []uint64 // that are to be copied to the prefix, one after the other
	commits int      // of checkpoints
	halt    string   // why programs are to end; empty: they are not
}

// program is the one that runs now.
type program struct {
	run   uint64 // 0: none has begun
	ranks int
	at    map[int]int // the node of each rank that has joined
	need  pace
}

// opening is a dataset that a program wants to begin.
type opening struct {
	ask   Ask
	label holding.Label
}

// New returns a book that knows of these, in any order; last is the highest number that was used.
func New(driver Driver, known []Dataset, last uint64, m Memory) *Book {
	b := &Book{driver: driver, last: last, current: m.Current}
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
	m := Memory{Current: b.current}
	for _, d := range b.list {
		if d.Bad {
			m.Bad = append(m.Bad, d.Number)
		}
	}
	return m
}

// List is what counts, ascending.
func (b *Book) List() []Dataset {
	var list []Dataset
	for _, d := range b.list {
		if d.state == counting {
			list = append(list, *d)
		}
	}
	return list
}

// Checkpoints are the numbers of those to restart from, ascending.
func (b *Book) Checkpoints() []uint64 {
	var list []uint64
	for _, d := range b.list {
		if d.offered() {
			list = append(list, d.Number)
		}
	}
	return list
}

func (d *Dataset) offered() bool { return d.state == counting && d.Checkpoint && !d.Bad }

// Limit lets only datasets up to this one be offered, as long as no program has restarted; 0: all.
func (b *Book) Limit(n uint64) {
	b.below = 0
	if n != 0 {
		b.below = n + 1
	}
}

// Halt has programs told that they are to end, and why.
func (b *Book) Halt(why string) { b.halt = why }

func (b *Book) refuse(ask Ask, format string, args ...any) {
	b.driver.Answer(ask, Answer{Refused: fmt.Sprintf(format, args...)})
}

// Begin: a program begins, with so many ranks. What the one before it has left unfinished does not count.
func (b *Book) Begin(ask Ask, ranks int, p Policy) {
	if ranks < 1 {
		b.refuse(ask, "%d ranks, wanted at least 1", ranks)
		return
	}
	b.Over()
	b.policy = p
	b.policy.Keep = max(p.Keep, 1)
	b.program = program{run: b.program.run + 1, ranks: ranks, at: map[int]int{}, need: pace{Need: p.Every}}
	b.driver.Answer(ask, Answer{Run: b.program.run})
}

// Run is the number of the program that runs now, or was the last.
func (b *Book) Run() uint64 { return b.program.run }

// Stored: the prefix has a dataset from now on.
func (b *Book) Stored(n uint64) {
	if d := b.find(n); d != nil {
		d.Stored = true
	}
}

// Over: the program has ended, well or not. What it was writing does not count.
func (b *Book) Over() {
	if d := b.opened(); d != nil {
		b.discard(d)
	}
	if o := b.opener; o != nil {
		b.opener = nil
		b.refuse(o.ask, "the program is over")
	}
	b.program.ranks, b.program.at = 0, nil
}

// here says whether a request is of the program that runs now, and refuses it if not.
func (b *Book) here(ask Ask, run uint64) bool {
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
	b.driver.Answer(ask, Answer{})
}

// opened is the dataset that the program writes now; nil: none.
func (b *Book) opened() *Dataset {
	if n := len(b.list); n > 0 && b.list[n-1].state == open {
		return b.list[n-1]
	}
	return nil
}

// unsettled is how many are being stored.
func (b *Book) unsettled() int {
	n := 0
	for _, d := range b.list {
		if d.state == written {
			n++
		}
	}
	return n
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
		l.Ranks, l.InPlace = b.program.ranks, b.policy.Bypass
		b.opener = &opening{ask, l}
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
	if d.Name == "" {
		d.Name = fmt.Sprintf("scr.dataset.%d", d.Number)
	}
	b.list = append(b.list, d)
	b.program.need.open(b.driver.Now())
	b.driver.Place(d.Number, d.InPlace, b.places(), func(dir string, err error) {
		if err != nil {
			b.discard(d)
			b.refuse(o.ask, "%v", err)
			return
		}
		b.driver.Answer(o.ask, Answer{Dataset: d.Number, Label: d.Label, Dir: dir})
	})
}

func (b *Book) find(n uint64) *Dataset {
	i, ok := slices.BinarySearchFunc(b.list, n, func(d *Dataset, n uint64) int { return int(int64(d.Number) - int64(n)) })
	if !ok {
		return nil
	}
	return b.list[i]
}

func (b *Book) remove(d *Dataset) {
	b.list = slices.DeleteFunc(b.list, func(other *Dataset) bool { return other == d })
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
	d.said[p.Rank], d.invalid, d.bytes, d.files = ask.Node, d.invalid || !p.Valid, d.bytes+p.Bytes, d.files+p.Files
	if d.Output && b.policy.FlushWait && !d.InPlace && p.Valid {
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
	if d.invalid {
		b.discard(d)
		return
	}
	d.state = written
	at := make([]int, d.Ranks)
	for rank, node := range d.said {
		at[rank] = node
	}
	b.driver.Commit(d.Number, d.Label, at, func(why string) {
		if why != "" {
			b.driver.Say(fmt.Sprintf("dataset %s does not count: %s", d.Name, why))
			b.discard(d)
		} else {
			b.counts(d)
		}
		b.settled()
	})
}

// counts: a dataset is stored.
func (b *Book) counts(d *Dataset) {
	d.state, d.Cached, d.Stored = counting, !d.InPlace, d.InPlace
	for _, old := range slices.Clone(b.list) { // a program gives a name again: the new one takes the place of the old
		if old != d && old.Name == d.Name && old.state == counting {
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
	b.prune()
}

// answered answers those who wait for a dataset to be in the prefix.
func (b *Book) answered(d *Dataset) {
	for _, ask := range d.waiting {
		b.driver.Answer(ask, Answer{})
	}
	d.waiting = nil
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

// flush has a dataset copied to the prefix, when those before it are.
func (b *Book) flush(d *Dataset) {
	if d.Stored || d.flushing {
		return
	}
	d.flushing = true
	b.flushes = append(b.flushes, d.Number)
	if len(b.flushes) == 1 {
		b.flushNext()
	}
}

func (b *Book) flushNext() {
	if len(b.flushes) == 0 {
		return
	}
	n := b.flushes[0]
	b.driver.Flush(n, func(err error) {
		b.flushes = b.flushes[1:]
		if d := b.find(n); d != nil {
			b.flushed(d, err)
		}
		b.flushNext()
		b.settled()
	})
}

func (b *Book) flushed(d *Dataset, err error) {
	d.flushing, d.Stored, d.stuck = false, err == nil, err != nil
	if err != nil {
		b.driver.Say(fmt.Sprintf("dataset %s is not copied to %s: %v", d.Name, b.policy.Prefix, err))
		for _, ask := range d.waiting {
			b.refuse(ask, "dataset %s is not copied to %s: %v", d.Name, b.policy.Prefix, err)
		}
		d.waiting = nil
		return
	}
	b.answered(d)
	b.prune()
}

// prune drops what newer ones have replaced. In the caches the newest checkpoints stay, and what is not in the prefix but ought to be.
func (b *Book) prune() {
	inCaches, inPrefix := 0, 0
	for _, d := range slices.Backward(slices.Clone(b.list)) {
		if d.state != counting || d.flushing {
			continue
		}
		if d.Cached && !d.Checkpoint && d.Stored { // a result is of no use there
			b.evict(d)
		}
		if d.Cached && d.offered() {
			if inCaches++; inCaches > b.policy.Keep {
				b.evict(d)
			}
		}
		if d.Stored && d.offered() {
			if inPrefix++; b.policy.InPrefix > 0 && inPrefix > b.policy.InPrefix && !d.Output {
				b.forget(d, true)
			}
		}
	}
}

// evict removes a dataset from the caches.
func (b *Book) evict(d *Dataset) {
	if !d.Stored {
		b.forget(d, false)
		return
	}
	d.Cached = false
	b.driver.Evict(d.Number)
}

// forget removes a dataset; with files, also those in the prefix.
func (b *Book) forget(d *Dataset, files bool) {
	b.remove(d)
	if b.current == d.Number {
		b.current = 0
		b.driver.Changed()
	}
	if d.Checkpoint {
		b.driver.Counts(d.Number, false)
	}
	b.driver.Forget(d.Number, files)
	for _, ask := range d.waiting {
		b.refuse(ask, "dataset %s is removed", d.Name)
	}
	d.waiting = nil
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
	d := b.candidate(below)
	if d == nil {
		b.driver.Answer(ask, Answer{})
		return
	}
	b.driver.Restore(*d, b.places(), func(inPrefix bool, err error) {
		if err == nil {
			l := d.Label
			l.InPlace = inPrefix
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

// candidate is the dataset to offer: the current one, else the newest; only such as are older than below, if that is not 0.
func (b *Book) candidate(below uint64) *Dataset {
	for _, d := range slices.Backward(b.list) {
		if d.offered() && (b.current == 0 || d.Number <= b.current) && (below == 0 || d.Number < below) {
			return d
		}
	}
	return nil
}

// places are the nodes of the program's ranks, -1: it has not joined.
func (b *Book) places() []int {
	at := make([]int, b.program.ranks)
	for rank := range at {
		at[rank] = -1
		if node, ok := b.program.at[rank]; ok {
			at[rank] = node
		}
	}
	return at
}

// Read: all ranks have read a dataset; if it is not valid, it is not offered again.
func (b *Book) Read(ask Ask, run, n uint64, valid bool) {
	if !b.here(ask, run) {
		return
	}
	d := b.find(n)
	if d == nil {
		b.refuse(ask, "there is no dataset %d", n)
		return
	}
	if !valid {
		d.Bad = true
		b.driver.Say(fmt.Sprintf("dataset %s could not be read by the program, and is not offered again", d.Name))
		if d.Checkpoint {
			b.driver.Counts(d.Number, false)
		}
		if b.current == d.Number {
			b.current = 0
		}
		b.driver.Changed()
	} else {
		b.below = 0
	}
	b.driver.Answer(ask, Answer{})
}

// named is the newest dataset of this name that counts; nil: there is none.
func (b *Book) named(name string) *Dataset {
	for _, d := range slices.Backward(b.list) {
		if d.Name == name && d.state == counting {
			return d
		}
	}
	return nil
}

// Current makes the dataset of a name the one to restart from.
func (b *Book) Current(name string) error {
	d := b.named(name)
	switch {
	case d == nil:
		return fmt.Errorf("there is no dataset %s", name)
	case !d.Checkpoint:
		return fmt.Errorf("dataset %s is no checkpoint", name)
	}
	if d.Bad { // somebody knows better
		d.Bad = false
		b.driver.Counts(d.Number, true)
	}
	b.current = d.Number
	b.driver.Changed()
	return nil
}

// Drop forgets the dataset of a name; with files, it is removed with those in the prefix.
func (b *Book) Drop(name string, files bool) error {
	d := b.named(name)
	if d == nil {
		return fmt.Errorf("there is no dataset %s", name)
	}
	b.forget(d, files)
	return nil
}

// DropAfter forgets all datasets that are newer than that of a name.
func (b *Book) DropAfter(name string) error {
	d := b.named(name)
	if d == nil {
		return fmt.Errorf("there is no dataset %s", name)
	}
	for _, other := range slices.Clone(b.list) {
		if other.Number > d.Number && other.state == counting {
			b.forget(other, false)
		}
	}
	return nil
}

// End: the program uses this no more. It is answered when all that it has written counts, and is where the policy wants it.
func (b *Book) End(ask Ask, run uint64) {
	if !b.here(ask, run) {
		return
	}
	b.ender = &ask
	b.end()
}

// Settle has copied to the prefix what ought to be there when no more follows: results, and the newest checkpoint; that by all means if the
// caches may be lost.
func (b *Book) Settle(unsafe bool) {
	newest := b.candidate(0)
	for _, d := range slices.Clone(b.list) {
		if d.state == counting && d.Cached && !d.Stored && !d.stuck && (d.Output || d == newest && (unsafe || b.policy.Flush > 0)) {
			b.flush(d)
		}
	}
}

// Stuck says whether something could not be copied to the prefix.
func (b *Book) Stuck() bool {
	return slices.ContainsFunc(b.list, func(d *Dataset) bool { return d.stuck })
}

// Busy says whether anything is being stored or copied.
func (b *Book) Busy() bool { return b.unsettled() > 0 || len(b.flushes) > 0 }

// end answers who waits for the end, when nothing is under way any more.
func (b *Book) end() {
	if b.ender == nil || b.unsettled() > 0 {
		return
	}
	b.Settle(false)
	if b.Busy() {
		return
	}
	ask := *b.ender
	b.ender = nil
	if b.Stuck() {
		b.refuse(ask, "not all that was written could be copied to %s: it stays in the caches", b.policy.Prefix)
		return
	}
	b.driver.Answer(ask, Answer{})
}
