package coordsrv

import (
	"fmt"
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/abi"
	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/coord"
	"github.com/byssus-hpc/byssus/internal/keep"
	"github.com/byssus-hpc/byssus/internal/node"
	"github.com/byssus-hpc/byssus/internal/timeline"
)

// This file tells the log what happens, from what the machine hears and orders and from what agents answer. All of it belongs to
// the loop's goroutine.

// story is what has been told, as far as what follows depends on it.
type story struct {
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

// openLog begins the log of this byssus.
func (s *Server) openLog() {
	s.log = timeline.Open(s.opt.Job.Dir, s.opt.Job.Term, s.opt.Say)
	began := timeline.Event{Kind: timeline.Began, Restart: s.opt.Restart, MPI: s.opt.Spec.MPI.Name, Ranks: s.opt.Spec.Ranks,
		Spares: s.opt.Spares}
	for _, h := range s.opt.Hosts {
		began.Nodes = append(began.Nodes, h.Name)
	}
	s.log.Add(began)
}

// closeLog ends it, with how the job has ended.
func (s *Server) closeLog(code int, err error) {
	ended := timeline.Event{Kind: timeline.Ended, Code: code, Reason: s.opt.Job.Meta.Reason}
	if err != nil {
		ended.Reason = err.Error()
	}
	s.log.Add(ended)
	s.log.Close()
}

// wish: somebody asks for a checkpoint, who may get the one that is begun.
func (s *Server) wish(by string) {
	t := &s.story
	switch {
	case t.open:
		s.log.Add(timeline.Event{Kind: timeline.Asked, Checkpoint: t.number, By: by})
	case !slices.Contains(t.wishes, by):
		t.wishes = append(t.wishes, by)
	}
}

// logEvent tells what the machine is about to hear.
func (s *Server) logEvent(ev coord.Event) {
	t := &s.story
	switch ev := ev.(type) {
	case node.Image:
		if ev.Epoch != t.epoch {
			t.epoch, t.bytes = ev.Epoch, 0
		}
		t.bytes += int64(ev.Bytes)
	case node.Asked:
		if !t.asked { // batch systems ask all
			t.asked = true
			s.wish(timeline.BySignal)
		}
	case node.Lost:
		s.logLoss(ev)
	case coord.Committed:
		if ev.Err == "" {
			s.log.Add(timeline.Event{Kind: timeline.Committed, Checkpoint: ev.Checkpoint})
		}
	}
}

// logLoss tells of the first rank of a start that is lost: its launcher ends the others.
func (s *Server) logLoss(ev node.Lost) {
	if s.story.lost || s.killed != 0 || ev.Ended && ev.Code == 0 {
		return
	}
	s.story.lost = true
	why := "its process is gone"
	if ev.Ended {
		why = fmt.Sprintf("it has ended by itself with %d", ev.Code)
	}
	s.log.Add(timeline.Event{Kind: timeline.Lost, Start: s.number, LostRanks: []int{ev.Rank}, Noticed: ev.Ago, Reason: why})
}

// logAction tells what the machine orders.
func (s *Server) logAction(a coord.Action) {
	t := &s.story
	switch a := a.(type) {
	case coord.Launch:
		t.open, t.wishes, t.lost = false, nil, false
	case coord.Prepare:
		t.number, t.open, t.attempt = a.Checkpoint, true, 0
		if len(t.wishes) == 0 {
			t.wishes = []string{timeline.ByTimer}
		}
		for _, by := range t.wishes {
			s.wish(by)
		}
		t.wishes = nil
	case coord.Send:
		s.logOrder(a.Type)
	case coord.Commit:
		s.log.Add(timeline.Event{Kind: timeline.Written, Checkpoint: a.Checkpoint, Bytes: t.bytes})
	case coord.Discard:
		t.open = false
		s.log.Add(timeline.Event{Kind: timeline.Failed, Checkpoint: a.Checkpoint, Reason: a.Why})
	case coord.Drop:
		s.log.Add(timeline.Event{Kind: timeline.Dropped, Checkpoint: a.Checkpoint})
	case coord.Took:
		r := a.Result
		s.log.Add(timeline.Event{Kind: timeline.Taken, Checkpoint: r.Checkpoint, Attempt: r.Attempts, Bytes: int64(r.Bytes),
			Stall: r.Stall, Took: r.Took})
	}
}

// logOrder tells how far a checkpoint has come, by what the ranks are told.
func (s *Server) logOrder(order uint16) {
	t := &s.story
	switch order {
	case abi.MsgRequest:
		t.open, t.attempt = true, t.attempt+1
	case abi.MsgStop:
		t.open = false
		s.log.Add(timeline.Event{Kind: timeline.Agreed, Checkpoint: t.number, Attempt: t.attempt})
	case abi.MsgDrain:
		s.log.Add(timeline.Event{Kind: timeline.Stopped, Checkpoint: t.number, Attempt: t.attempt})
	case abi.MsgExit:
		t.lost = true
	}
}

// logPhase tells when the job runs, and keeps why it does not.
func (s *Server) logPhase(st coord.Status) {
	was := s.story.phase
	s.story.phase = st.Phase
	switch {
	case st.Phase == was:
	case st.Phase == coord.Running.String():
		s.log.Add(timeline.Event{Kind: timeline.Running, Start: s.number, Checkpoint: st.Image})
	case st.Phase == coord.Backoff.String():
		s.story.reason = st.Reason
	}
}

// logDecision tells from which checkpoint the job is to go on, and which nodes' parts of it have to be made again for that.
func (s *Server) logDecision(image uint64, parts []string) {
	if image != 0 {
		s.log.Add(timeline.Event{Kind: timeline.Decided, Checkpoint: image, PartsOf: parts, Reason: s.story.reason})
	}
}

// logAnswer tells what an agent has done, or why it could not.
func (s *Server) logAnswer(a answer, m control.Message) {
	e := timeline.Event{Took: time.Since(a.given)}
	switch o := a.order.(type) {
	case control.Seal:
		e.Kind, e.Checkpoint = timeline.Sealed, o.Checkpoint
	case control.Encode:
		e.Kind, e.Checkpoint = timeline.Encoded, o.Checkpoint
	case control.Commit:
		e.Kind, e.Checkpoint = timeline.Recorded, o.Checkpoint
	case control.Rebuild:
		e.Kind, e.Checkpoint = timeline.Rebuilt, o.Checkpoint
	case control.Flush:
		e.Kind, e.Checkpoint = timeline.Copied, o.Checkpoint
	case control.Inspect:
		e.Kind, e.Checkpoint = timeline.Inspected, o.Checkpoint
	case control.Discard:
		e.Kind, e.Checkpoint = timeline.Withdrawn, o.Checkpoint
	default:
		return
	}
	if s.remote != nil {
		e.Node = a.from.name
	}
	if part, ok := m.Body.(control.Sealed); ok {
		for _, f := range part.Part.Files {
			e.Bytes += f.Size
		}
	}
	e.Reason = failure([]control.Message{m})
	switch {
	case e.Reason != "":
		e.Kind, e.InsteadOf = timeline.Unable, e.Kind
	case e.Kind == timeline.Rebuilt: // it is told when the record is there, too
		return
	}
	if e.InsteadOf == timeline.Copied {
		s.story.why = e.Reason
	}
	s.log.Add(e)
}

// logWork tells how far a copy to the store has come, by what was done there for it.
func (s *Server) logWork(work keep.Work, err error) {
	if err != nil {
		s.story.why = err.Error()
	}
	switch w := work.(type) {
	case keep.Place:
		if err == nil {
			s.log.Add(timeline.Event{Kind: timeline.Flushing, Checkpoint: w.Checkpoint})
		}
	case keep.Clear:
		s.log.Add(timeline.Event{Kind: timeline.Unflushed, Checkpoint: w.Checkpoint, Reason: s.story.why})
	}
}
