package snapshot

import (
	"context"
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// A State is a member's, from the time when all began, or restored last, to the next.
type State byte

// The states.
const (
	Healthy State = iota
	Corrupt       // its process has died
)

// watch is what is known of the members' states, by a conversation of its own: it waits beside other calls.
type watch struct {
	turn    chan struct{} // one call at a time
	talk    conversation
	epoch   uint64 // that it is of
	version uint64 // of what is known, 0: nothing is
}

// close hangs up, unless somebody waits.
func (w *watch) close() {
	select {
	case w.turn <- struct{}{}:
		w.talk.close()
		<-w.turn
	default:
	}
}

// States says of each member whether it lives: at once when that has changed since the last call, or this is the first of an epoch; else it waits.
// It may be called beside other calls. All members are told the same.
//
//	go func() { // for each epoch
//		for {
//			states, err := s.States(epoch)
//			if err != nil || slices.Contains(states, snapshot.Corrupt) {
//				cancel() // what waits for a member that has died, so that Restore is called
//				return
//			}
//		}
//	}()
func (s *Snapshots) States(ctx context.Context) ([]State, error) {
	w := &s.watch
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, s.wrap("states", ctx.Err())
	}
	defer func() { <-w.turn }()
	if now := s.run.Load(); now != w.epoch {
		w.talk.close()
		w.epoch, w.version = now, 0
	}
	ask := client.Asked{Request: client.Request{Type: client.ReqState, Rank: uint32(s.group.Member), NRanks: uint32(s.group.Members), Dataset: w.version}, Text: []string{"", s.group.Name}}
	answer, err := w.talk.ask(ctx, os.Getenv(agentVariable), ask)
	if err == nil {
		err = refusal(answer)
	}
	if err == nil && (len(answer.Text) == 0 || len(answer.Text[0]) != s.group.Members) {
		err = fmt.Errorf("it does not tell of %d members: %w", s.group.Members, ErrAgent)
	}
	if err != nil {
		return nil, s.wrap("states", err)
	}
	w.version = answer.Dataset
	states := make([]State, s.group.Members)
	for i, c := range []byte(answer.Text[0]) {
		states[i] = State(c - '0')
	}
	return states, nil
}
