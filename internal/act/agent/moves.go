package agent

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// errAbandoned is why something ended that could not succeed because of others.
var errAbandoned = errors.New("given up, since others of the set cannot go on")

// moves are what an agent does with other agents: each has a goroutine, and can be given up by the number of its transfer, also
// before it has begun. While there are any, the threads of the process are such for batch work. What an agent does by itself (alone)
// leaves them in their class: the same threads answer programs, which wait for that.
type moves struct {
	wg    sync.WaitGroup
	all   context.Context
	end   context.CancelFunc
	usual bool // the threads' class otherwise

	mu        sync.Mutex
	running   map[uint64]*move
	abandoned map[uint64]bool
	left      int // goroutines
}

// move is what is done for one transfer: an agent may be several members of a set.
type move struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	left   int // goroutines
}

func newMoves() *moves {
	m := &moves{usual: usual(), running: map[uint64]*move{}, abandoned: map[uint64]bool{}}
	m.all, m.end = context.WithCancel(context.Background())
	return m
}

// do runs f; its context ends when the transfer is abandoned.
func (m *moves) do(transfer uint64, f func(context.Context)) {
	mv := m.begin(transfer)
	m.wg.Go(func() {
		f(mv.ctx)
		m.ended(transfer, mv)
	})
}

// alone runs f, which has nothing to do with other agents; its context ends when everything is given up.
func (m *moves) alone(f func(context.Context)) {
	m.wg.Go(func() { f(m.all) })
}

func (m *moves) begin(transfer uint64) *move {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left++; m.left == 1 && m.usual {
		batch(unix.SCHED_NORMAL, unix.SCHED_BATCH)
	}
	mv := m.running[transfer]
	if mv == nil {
		mv = &move{}
		mv.ctx, mv.cancel = context.WithCancelCause(m.all)
		m.running[transfer] = mv
	}
	mv.left++
	if m.abandoned[transfer] {
		mv.cancel(errAbandoned)
	}
	return mv
}

func (m *moves) ended(transfer uint64, mv *move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mv.left--; mv.left == 0 {
		mv.cancel(nil)
		delete(m.running, transfer)
	}
	if m.left--; m.left == 0 && m.usual {
		batch(unix.SCHED_BATCH, unix.SCHED_NORMAL)
	}
}

// abandon gives up what is done for a transfer.
func (m *moves) abandon(transfer uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.abandoned[transfer] = true
	if mv := m.running[transfer]; mv != nil {
		mv.cancel(errAbandoned)
	}
}

// close gives everything up, and returns when it has ended.
func (m *moves) close() {
	m.end()
	m.wg.Wait()
}
