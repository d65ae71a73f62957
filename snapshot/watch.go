package snapshot

import (
	"context"
	"fmt"
	"os"
	"sync"

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
	use     sync.Mutex
	talk    conversation
	version uint64 // of what is known, 0: nothing is
}

// close hangs up, unless somebody waits.
func (w *watch) close() {
	if w.use.TryLock() {
		w.talk.close()
		w.use.Unlock()
	}
}

// States says of each member whether it lives: at once when that has changed since the last call, or this is the first; else it waits. It may be
// called beside other calls, one of them at a time. All members are told the same.
func (s *Snapshots) States(ctx context.Context) ([]State, error) {
	w := &s.watch
	if !w.use.TryLock() {
		return nil, fmt.Errorf("snapshot: states: found another call of it at the same time: %w", ErrUse)
	}
	defer w.use.Unlock()
	ask := client.Asked{Request: client.Request{Type: client.ReqState, Rank: uint32(s.group.Member), NRanks: uint32(s.group.Members), Dataset: w.version}}
	answer, err := w.talk.ask(ctx, os.Getenv(agentVariable), ask)
	if err == nil {
		err = refusal(answer)
	}
	if err == nil && (len(answer.Text) == 0 || len(answer.Text[0]) != s.group.Members) {
		err = fmt.Errorf("it does not tell of %d members: %w", s.group.Members, ErrAgent)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: states: %w", err)
	}
	w.version = answer.Dataset
	states := make([]State, s.group.Members)
	for i, c := range []byte(answer.Text[0]) {
		states[i] = State(c - '0')
	}
	return states, nil
}
