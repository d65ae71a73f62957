package coordsrv

import (
	"fmt"
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/keep"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// story tells the log, and the user, what happens: from what the machine hears and orders, and from what agents answer. It belongs to
// the loop's goroutine.
type story struct {
	log   *timeline.Writer
	say   func(text string)
	named bool // nodes are: they are elsewhere

	told
	report   *lossReport          // of nodes, while the job does not go on yet
	sealedAt map[uint64]time.Time // when the images of a checkpoint were written
}

// told is what has been told, as far as what follows depends on it.
type told struct {
	number  uint64   // of the checkpoint that is being taken
	open    bool     // who asks for one now gets that
	attempt int      // at it
	wishes  []string // who has asked for the next one
	asked   bool     // a rank was sent a SIGTERM
	epoch   uint64   // of the attempt whose images have bytes
	bytes   int64
	phase   string // of the job
	reason  string // why it goes back
	lost    bool   // that a rank of this start was lost has been told, or is no news
	why     string // the last copy to the store has failed
}

// begin begins the log of this byssus.
func (t *story) begin(opt *Options) {
	t.say, t.named = opt.Say, len(opt.Hosts) > 0
	t.log = timeline.Open(opt.Job.Dir, opt.Job.Term, opt.Say)
	began := timeline.Event{Kind: timeline.Began, Restart: opt.Restart, MPI: opt.Spec.MPI.Name, Ranks: opt.Spec.Ranks,
		Spares: opt.Spares}
	for _, h := range opt.Hosts {
		began.Nodes = append(began.Nodes, h.Name)
	}
	t.log.Add(began)
}

// end ends it, with how the job has ended.
func (t *story) end(code int, reason string, err error) {
	ended := timeline.Event{Kind: timeline.Ended, Code: code, Reason: reason}
	if err != nil {
		ended.Reason = err.Error()
	}
	t.log.Add(ended)
	t.log.Close()
}

// requested: somebody asks for a checkpoint, who may get the one that is begun.
func (t *story) requested(by string) {
	switch {
	case t.open:
		t.log.Add(timeline.Event{Kind: timeline.Asked, Checkpoint: t.number, By: by})
	case !slices.Contains(t.wishes, by):
		t.wishes = append(t.wishes, by)
	}
}

// heard tells what the machine is about to hear.
func (t *story) heard(ev coord.Event, start uint64, killed bool) {
	switch ev := ev.(type) {
	case node.Image:
		if ev.Epoch != t.epoch {
			t.epoch, t.bytes = ev.Epoch, 0
		}
		t.bytes += int64(ev.Bytes)
	case node.Asked:
		if !t.asked { // batch systems ask all
			t.asked = true
			t.requested(timeline.BySignal)
		}
	case node.Lost:
		t.rankLost(ev, start, killed)
	case coord.Committed:
		if ev.Err == "" {
			t.log.Add(timeline.Event{Kind: timeline.Committed, Checkpoint: ev.Checkpoint})
		}
	}
}

// rankLost tells of the first rank of a start that is lost: its launcher ends the others.
func (t *story) rankLost(ev node.Lost, start uint64, killed bool) {
	if t.lost || killed || ev.Ended && ev.Code == 0 {
		return
	}
	t.lost = true
	why := "its process is gone"
	if ev.Ended {
		why = fmt.Sprintf("it has ended by itself with %d", ev.Code)
	}
	t.log.Add(timeline.Event{Kind: timeline.Lost, Start: start, LostRanks: []int{ev.Rank}, Noticed: ev.Ago, Reason: why})
}

// ordered tells what the machine orders.
func (t *story) ordered(a coord.Action) {
	switch a := a.(type) {
	case coord.Launch:
		t.open, t.wishes, t.lost = false, nil, false
	case coord.Prepare:
		t.number, t.open, t.attempt = a.Checkpoint, true, 0
		if len(t.wishes) == 0 {
			t.wishes = []string{timeline.ByTimer}
		}
		for _, by := range t.wishes {
			t.requested(by)
		}
		t.wishes = nil
	case coord.Send:
		t.sent(a.Type)
	case coord.Commit:
		t.log.Add(timeline.Event{Kind: timeline.Written, Checkpoint: a.Checkpoint, Bytes: t.bytes})
	case coord.Discard:
		t.open = false
		t.log.Add(timeline.Event{Kind: timeline.Failed, Checkpoint: a.Checkpoint, Reason: a.Why})
	case coord.Drop:
		t.log.Add(timeline.Event{Kind: timeline.Dropped, Checkpoint: a.Checkpoint})
	case coord.Took:
		r := a.Result
		t.log.Add(timeline.Event{Kind: timeline.Taken, Checkpoint: r.Checkpoint, Attempt: r.Attempts, Bytes: int64(r.Bytes),
			Stall: r.Stall, Took: r.Took})
	}
}

// sent tells how far a checkpoint has come, by what the ranks are told.
func (t *story) sent(order uint16) {
	switch order {
	case abi.MsgRequest:
		t.open, t.attempt = true, t.attempt+1
	case abi.MsgStop:
		t.open = false
		t.log.Add(timeline.Event{Kind: timeline.Agreed, Checkpoint: t.number, Attempt: t.attempt})
	case abi.MsgDrain:
		t.log.Add(timeline.Event{Kind: timeline.Stopped, Checkpoint: t.number, Attempt: t.attempt})
	case abi.MsgExit:
		t.lost = true
	}
}

// reached tells when the job runs, and keeps why it does not.
func (t *story) reached(st coord.Status, start uint64) {
	was := t.phase
	t.phase = st.Phase
	switch {
	case st.Phase == was:
	case st.Phase == coord.Running.String():
		t.log.Add(timeline.Event{Kind: timeline.Running, Start: start, Checkpoint: st.Image})
	case st.Phase == coord.Backoff.String():
		t.reason = st.Reason
	}
}

// decided tells from which checkpoint the job is to go on, and which nodes' parts of it have to be made again for that.
func (t *story) decided(image uint64, parts []string) {
	if image != 0 {
		t.log.Add(timeline.Event{Kind: timeline.Decided, Checkpoint: image, PartsOf: parts, Reason: t.reason})
	}
}

// answered tells what an agent has done, or why it could not.
func (t *story) answered(a answer, m control.Message) {
	e := timeline.Event{Took: time.Since(a.given)}
	var of holding.Stream
	switch o := a.order.(type) {
	case control.Seal:
		e.Kind, e.Checkpoint, of = timeline.Sealed, o.Checkpoint, o.Stream
	case control.Encode:
		e.Kind, e.Checkpoint, of = timeline.Encoded, o.Checkpoint, o.Header.Stream
	case control.Commit:
		e.Kind, e.Checkpoint, of = timeline.Recorded, o.Checkpoint, o.Stream
	case control.Rebuild:
		e.Kind, e.Checkpoint, of = timeline.Rebuilt, o.Checkpoint, o.Header.Stream
	case control.Repair:
		e.Kind, e.Checkpoint, of = timeline.Repaired, o.Checkpoint, o.Header.Stream
	case control.Flush:
		e.Kind, e.Checkpoint, of = timeline.Copied, o.Checkpoint, o.Stream
	case control.Inspect:
		e.Kind, e.Checkpoint, of = timeline.Inspected, o.Checkpoint, o.Stream
	case control.Discard:
		e.Kind, e.Checkpoint, of = timeline.Withdrawn, o.Checkpoint, o.Stream
	case control.SealInPlace:
		e.Kind, e.Checkpoint, of = timeline.Sealed, o.Checkpoint, o.Stream
	default:
		return
	}
	if of != 0 {
		e.Checkpoint, e.Dataset = 0, e.Checkpoint
	}
	if t.named {
		e.Node = a.from.name
	}
	if part, ok := m.Body.(control.Sealed); ok {
		for _, f := range part.Part.Files {
			e.Bytes += f.Size
		}
	}
	if encoded, ok := m.Body.(control.Encoded); ok {
		e.Bytes = encoded.Sent
	}
	e.Reason = failure([]control.Message{m})
	switch {
	case e.Reason != "":
		e.Kind, e.InsteadOf = timeline.Unable, e.Kind
	case e.Kind == timeline.Rebuilt, e.Kind == timeline.Repaired: // it is told when the record is there, too; and when all have done their share
		return
	}
	if e.InsteadOf == timeline.Copied {
		t.why = e.Reason
	}
	t.log.Add(e)
}

// stored tells how far a copy to the store has come, by what was done there for it.
func (t *story) stored(work keep.Work, err error) {
	if err != nil {
		t.why = err.Error()
	}
	switch w := work.(type) {
	case keep.Place:
		if err == nil {
			t.log.Add(timeline.Event{Kind: timeline.Flushing, Checkpoint: w.Checkpoint})
		}
	case keep.Clear:
		t.log.Add(timeline.Event{Kind: timeline.Unflushed, Checkpoint: w.Checkpoint, Reason: t.why})
	}
}
