package amt

import (
	"sync"
	"sync/atomic"

	"github.com/byssus-hpc/byssus/amt/internal/wire"
)

// An inbox is what goroutines other than a rank's own want of it: any may ask, and what they ask for is done by the rank's, in that order.
type inbox struct {
	t    wire.Transport
	some atomic.Bool
	mu   sync.Mutex
	list []func()
}

// ask has the rank's own goroutine do something.
func (in *inbox) ask(do func()) {
	in.mu.Lock()
	in.list = append(in.list, do)
	in.some.Store(true)
	in.mu.Unlock()
	in.t.Wake()
}

// take returns what others want.
func (in *inbox) take() []func() {
	in.mu.Lock()
	defer in.mu.Unlock()
	list := in.list
	in.list = nil
	in.some.Store(false)
	return list
}
