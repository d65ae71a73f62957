package node

import (
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// Hold is how long a report may wait for the ranks that are to make it too.
const Hold = 20 * time.Millisecond

// How often the shared pages are looked at: while an agreement is sought, and while images are written or read.
const (
	seeking  = 10 * time.Millisecond
	watching = time.Second
)

// Sample is what a rank's shared page said at one moment; its words are not a consistent whole.
type Sample struct {
	PID           int    `json:"pid"`
	Phase         uint64 `json:"phase"`
	Where         uint64 `json:"where"`
	BytesDone     uint64 `json:"bytes_done"`
	BytesTotal    uint64 `json:"bytes_total"`
	ResidentAdded uint64 `json:"resident_added"`
	ExitCode      uint64 `json:"exit_code"`
}

// Message is an order to some ranks.
type Message struct {
	Ranks []int
	Order
}

// rank is what is known of a rank of this node.
type rank struct {
	gone           bool
	here, restored bool
	imaged         bool
	where          uint64
	part           []abi.Clock // of a report of clocks that is not whole yet
	epoch          uint64      // the attempt that it belongs to
	last           int         // one more than the index of the last report that waits and speaks of the rank
}

// Fold is the state of one start of a node's ranks. It is not safe for concurrent use.
type Fold struct {
	restart bool
	ranks   []int // ascending
	state   []rank
	live    int // ranks that are not gone

	waiting []Report
	since   time.Duration // when the first of them came
	ready   []Report

	have    map[uint64][]bool // in the present attempt: by communicator, which ranks are known to have it
	seeking bool              // the ranks look for a point at which to stop
	writing bool
	ending  bool // a rank has entered MPI_Finalize
	looked  time.Duration
	moved   [2]uint64 // sums over the shared pages, which tell whether anything moves
}

// New returns the fold of a start of these ranks.
func New(ranks []int, restart bool) *Fold {
	return &Fold{restart: restart, ranks: slices.Sorted(slices.Values(ranks)), state: make([]rank, len(ranks)), live: len(ranks), have: map[uint64][]bool{}}
}

// at is where a rank's state is.
func (f *Fold) at(id int) *rank {
	i, found := slices.BinarySearch(f.ranks, id)
	if !found {
		return &rank{} // the driver has refused it
	}
	return &f.state[i]
}

// Say takes in what a rank says, or what is seen of it.
func (f *Fold) Say(now time.Duration, r Report) {
	f.note(r)
	j, ok := r.(joint)
	if !ok {
		f.hold(now, r, speaksOf(r))
		if _, more := r.(Objects); !more {
			f.flush()
		}
		return
	}
	joined := f.joinOne(j)
	if joined == nil {
		joined = j
		f.hold(now, r, j.who())
	}
	if f.urgent(r) || counts(joined) && len(joined.who()) >= f.live {
		f.flush()
	}
}

// SayClocks takes in a part of a rank's report of its clocks; more: it is not the last.
func (f *Fold) SayClocks(now time.Duration, id int, epoch uint64, clocks []abi.Clock, more bool) {
	r := f.at(id)
	if r.epoch != epoch {
		r.epoch, r.part = epoch, nil
	}
	r.part = append(r.part, clocks...)
	if more {
		return
	}
	out := Clocks{Ranks: []int{id}, Epoch: epoch}
	for _, c := range r.part {
		out.Clocks = append(out.Clocks, Clock{c.Comm, c.Seq, c.NMembers, 1})
		f.mark(c.Comm, id)
	}
	r.part = nil
	f.Say(now, out)
}

// mark notes that a rank has a communicator.
func (f *Fold) mark(comm uint64, id int) {
	if f.have[comm] == nil {
		f.have[comm] = make([]bool, len(f.ranks))
	}
	if i, found := slices.BinarySearch(f.ranks, id); found {
		f.have[comm][i] = true
	}
}

// note keeps what is to be known of the ranks.
func (f *Fold) note(r Report) {
	switch r := r.(type) {
	case Hello:
		f.at(r.Ranks[0]).here = true
	case Restored:
		f.at(r.Ranks[0]).restored = true
	case Image:
		f.at(r.Ranks[0]).imaged = true
		f.writing = f.writing && slices.ContainsFunc(f.state, func(r rank) bool { return !r.gone && !r.imaged })
	case Raise:
		f.mark(r.Clock.Comm, r.Rank)
	case Lost:
		if s := f.at(r.Rank); !s.gone {
			s.gone = true
			f.live--
		}
	}
}

// speaksOf are the ranks of a report that no others can join.
func speaksOf(r Report) []int {
	switch r := r.(type) {
	case Failed:
		return []int{r.Rank}
	case Lost:
		return []int{r.Rank}
	case Left:
		return []int{r.Rank}
	case Reason:
		return []int{r.Rank}
	case Asked:
		return []int{r.Rank}
	case Moved:
		return []int{r.Rank}
	case Refused:
		return []int{r.Rank}
	case Raise:
		return []int{r.Rank}
	case Objects:
		return []int{r.Rank}
	}
	return nil
}

// urgent says whether somebody may wait for what one rank says.
func (f *Fold) urgent(r Report) bool {
	switch r := r.(type) {
	case Image:
		return r.Text != ""
	case Finalizing:
		first := !f.ending
		f.ending = true
		return first
	}
	return false
}

// joinOne makes a report part of one that waits, unless that speaks of the same rank already, or a later one does. Nil: of none.
func (f *Fold) joinOne(r joint) joint {
	for i, w := range slices.Backward(f.waiting) {
		old, ok := w.(joint)
		if !ok {
			continue
		}
		all, ok := old.join(r)
		if !ok {
			continue
		}
		if slices.ContainsFunc(r.who(), func(id int) bool { return f.at(id).last > i }) {
			return nil
		}
		f.waiting[i] = all
		f.speak(r.who(), i)
		return all.(joint)
	}
	return nil
}

func (f *Fold) hold(now time.Duration, r Report, who []int) {
	if len(f.waiting) == 0 {
		f.since = now
	}
	f.waiting = append(f.waiting, r)
	f.speak(who, len(f.waiting)-1)
}

// speak notes that a report that waits speaks of these ranks.
func (f *Fold) speak(who []int, i int) {
	for _, id := range who {
		f.at(id).last = i + 1
	}
}

func (f *Fold) flush() {
	f.ready, f.waiting = append(f.ready, f.waiting...), nil
	for i := range f.state {
		f.state[i].last = 0
	}
}

// Take returns what the coordinator is to hear now.
func (f *Fold) Take(now time.Duration) []Report {
	if len(f.waiting) > 0 && now >= f.since+Hold {
		f.flush()
	}
	out := f.ready
	f.ready = nil
	return out
}

// Next is when Take, or Look if the pages are to be looked at then, is due at the latest; false: no need.
func (f *Fold) Next() (at time.Duration, look, ok bool) {
	if every := f.every(); every > 0 {
		at, look, ok = f.looked+every, true, true
	}
	if len(f.waiting) > 0 && (!ok || f.since+Hold < at) {
		at, look, ok = f.since+Hold, false, true
	}
	return at, look, ok
}

// every is how often the pages are looked at, 0: never.
func (f *Fold) every() time.Duration {
	starting := slices.ContainsFunc(f.state, func(r rank) bool { return !r.gone && (!r.here || f.restart && !r.restored) })
	switch {
	case f.live == 0:
		return 0
	case f.seeking:
		return seeking
	case f.writing || starting:
		return watching
	}
	return 0
}

// Look takes in what the shared pages say, in the order of the ranks.
func (f *Fold) Look(now time.Duration, pages []Sample) {
	f.looked = now
	var moved [2]uint64
	var total uint64
	for i, p := range pages {
		moved[0], moved[1], total = moved[0]+p.BytesDone, moved[1]+p.Phase, total+p.BytesTotal
		if r := &f.state[i]; p.Where != r.where && !r.gone {
			r.where = p.Where
			f.Say(now, Where{[]int{f.ranks[i]}, uint32(p.Where)})
		}
	}
	if moved != f.moved {
		f.moved = moved
		f.Say(now, Progress{moved[0], total})
	}
}

// Hear takes in an order and returns which ranks are told what.
func (f *Fold) Hear(o Order) []Message {
	switch o.Type {
	case abi.MsgRequest:
		f.seeking, f.writing, f.have = true, false, map[uint64][]bool{}
	case abi.MsgStop, abi.MsgCancel:
		f.seeking, f.writing = false, false
	case abi.MsgDrain:
		f.writing = true
		for i := range f.state {
			f.state[i].imaged = false
		}
	}
	if o.Type != abi.MsgTargets {
		return []Message{{f.ranks, o}}
	}
	var out []Message
	for i, id := range f.ranks {
		own := o
		own.Targets = slices.DeleteFunc(slices.Clone(o.Targets), func(t Target) bool {
			list := f.have[t.Comm]
			return !t.Everyone && (list == nil || !list[i])
		})
		out = append(out, Message{[]int{id}, own})
	}
	return out
}
