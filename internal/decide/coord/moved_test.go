package coord

import (
	"slices"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// orders are the types of what is sent among actions.
func orders(list []Action) []uint16 {
	var types []uint16
	for _, a := range list {
		if s, ok := a.(Send); ok {
			types = append(types, s.Type)
		}
	}
	return types
}

// TestMoved lets a rank become another process at each stage of a checkpoint: what the one before has said counts for nothing, and
// the attempt is made again with the new one.
func TestMoved(t *testing.T) {
	for _, stage := range []stage{preparing, agreeing, stopping, writing} {
		t.Run(stage.String(), func(t *testing.T) {
			m, now := New(Config{Ranks: 2, Keep: 1, Grace: time.Minute}), time.Duration(0)
			step := func(ev Event) []Action {
				now += time.Millisecond
				return m.Step(now, ev)
			}
			both := []int{0, 1}
			step(Start{})
			step(node.Hello{Ranks: both})
			step(Request{ID: 1})
			to := func(want uint16, evs ...Event) {
				t.Helper()
				var sent []uint16
				for _, ev := range evs {
					sent = append(sent, orders(step(ev))...)
				}
				if !slices.Contains(sent, want) {
					t.Fatalf("sent %v, wanted %d among them", sent, want)
				}
			}
			agree := func() {
				t.Helper()
				to(abi.MsgTargets, node.Clocks{Ranks: both, Epoch: m.epoch})
				to(abi.MsgStop, node.Met{Ranks: both, Epoch: m.epoch, Version: m.op.agree.version})
			}
			if stage >= agreeing {
				to(abi.MsgRequest, Prepared{Checkpoint: m.op.number})
			}
			if stage >= stopping {
				agree()
			}
			if stage >= writing {
				to(abi.MsgDrain, node.Stopped{Ranks: both, Epoch: m.epoch})
			}
			before := m.epoch
			sent := orders(step(node.Moved{Rank: 1}))
			if stage == preparing {
				to(abi.MsgRequest, Prepared{Checkpoint: m.op.number})
			} else {
				if !slices.Contains(sent, uint16(abi.MsgCancel)) {
					t.Fatalf("sent %v, wanted CANCEL", sent)
				}
				step(node.Resumed{Ranks: []int{0}, Epoch: before}) // rank 1 has nothing to go on from
				now += time.Second
				to(abi.MsgRequest, Tick{})
			}
			agree()
			to(abi.MsgDrain, node.Stopped{Ranks: both, Epoch: m.epoch})
			if acts := step(node.Image{Ranks: both, Epoch: m.epoch}); !slices.ContainsFunc(acts, func(a Action) bool { _, ok := a.(Commit); return ok }) {
				t.Errorf("%v, wanted a commit", acts)
			}
		})
	}
}

// TestRefusedByName ends a job of which a process was about to do what cannot be, whatever the launcher's code is then.
func TestRefusedByName(t *testing.T) {
	m := New(Config{Ranks: 1, Keep: 1, Retries: 3, Grace: time.Minute})
	m.Step(1, Start{})
	m.Step(2, node.Hello{Ranks: []int{0}})
	acts := m.Step(3, node.Refused{Rank: 0, Text: "this place has its rank already"})
	acts = append(acts, m.Step(4, node.Refused{Rank: 0, Text: "once more"})...)
	acts = append(acts, m.Step(5, node.Lost{Rank: 0})...)
	acts = append(acts, m.Step(6, LauncherExit{Code: 0})...)
	said, kills, code := 0, 0, -1
	for _, a := range acts {
		switch a := a.(type) {
		case Say:
			said++
		case Kill:
			kills++
		case Finish:
			code = a.Code
		}
	}
	if said != 1 || kills == 0 || code != abi.ExitRefused || m.Status().Reason != "rank 0: this place has its rank already" {
		t.Errorf("said %d times, %d kills, exit code %d, reason %q: %v", said, kills, code, m.Status().Reason, acts)
	}
}
