package coord

import "time"

// Status is a job as others see it.
type Status struct {
	Phase      string        `json:"phase"`
	Ranks      int           `json:"ranks"`
	Connected  int           `json:"connected"`
	Image      uint64        `json:"restarted_from,omitempty"`
	Images     []uint64      `json:"checkpoints"`
	Restarts   int           `json:"restarts_without_progress"`
	Deaths     int           `json:"deaths_in_all"` // of ranks, for which the job was or is to be started again
	Number     uint64        `json:"now_taking,omitempty"`
	Stage      string        `json:"stage,omitempty"`
	StageSince time.Duration `json:"stage_since_ns,omitempty"`
	Detail     string        `json:"detail,omitempty"`         // what is waited for
	WaitingFor []int         `json:"waiting_for,omitempty"`    // the ranks that hold the agreement up
	Call       string        `json:"in_call,omitempty"`        // in which others wait for them
	Reason     string        `json:"ending_because,omitempty"` // what a rank said before it ended the job
	Attempt    int           `json:"attempt,omitempty"`
}

// OwnEnd says whether the job is over because the application has ended, well or not: nobody has ended it, and no rank has died.
func (m *Machine) OwnEnd() bool { return m.ending.own() }

// Robbed says whether the job is over because nodes were lost without which it could not go on, from a checkpoint that they may have.
func (m *Machine) Robbed() bool { return m.ending.robbed() }

// Lacking says whether the job is over because, since it was given its Start, nodes were missing without which it could not go on.
func (m *Machine) Lacking() bool { return m.ending.lacking() }

// Status returns the present state.
func (m *Machine) Status() Status {
	s := Status{Phase: m.run.phase.String(), Ranks: m.cfg.Ranks, Connected: m.ranks.connected(), Image: m.run.image,
		Images: append([]uint64{}, m.images.list...), Restarts: m.setbacks.count, Deaths: m.setbacks.all, Reason: m.verdict.reason}
	op := m.checkpoints.op
	if op == nil {
		return s
	}
	s.Number, s.Stage, s.StageSince, s.Attempt = op.number, op.stage.String(), op.since, op.tries.count
	if op.stage == agreeing {
		l := op.agree.late()
		s.Detail, s.WaitingFor, s.Call = op.agree.describe(), l.waitedFor(), l.call
	}
	return s
}
