package coordsrv

import (
	"sync"

	"github.com/byssus-hpc/byssus/internal/decide/coord"
)

// loop is how other goroutines reach the one that owns the job's state.
type loop struct {
	events  chan coord.Event
	queries chan func()
	stop    chan struct{}  // closed when the job is over
	wg      sync.WaitGroup // of the goroutines that the job has started
}

func newLoop() *loop {
	return &loop{events: make(chan coord.Event), queries: make(chan func()), stop: make(chan struct{})}
}

// post hands an event to the loop, from any goroutine.
func (l *loop) post(ev coord.Event) {
	select {
	case l.events <- ev:
	case <-l.stop:
	}
}

// ask runs f on the loop's goroutine; false: the job is over.
func (l *loop) ask(f func()) bool {
	done := make(chan struct{})
	select {
	case l.queries <- func() { f(); close(done) }:
		<-done
		return true
	case <-l.stop:
		return false
	}
}
