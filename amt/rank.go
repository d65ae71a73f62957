package amt

import (
	"fmt"
	"sync"
	"time"

	"github.com/byssus-hpc/byssus/amt/internal/tree"
	"github.com/byssus-hpc/byssus/amt/internal/wire"
	"github.com/byssus-hpc/byssus/internal/engine"
)

// How a rank goes on; measured by bench/tasks.
const (
	flushAfter   = 64  // messages handled in a row, after which what they sent leaves, and others are looked for; fewer if they take long
	settleAfter  = 16  // times that, after which epochs are settled
	waitingLooks = 32  // looks for a batch when nothing else is to be done
	mostLooks    = 512 // the same, before epochs are settled that were settled in vain

	longest = 1 << 20 // bytes of a batch of short messages, while the transport takes none

	farewell = 10 * time.Second // for which a rank that has failed tries to tell others
)

// A rank is the runtime on one rank. Its parts belong to the goroutine that drives the rank, which is that of the main function, but for what
// is for all (open), and what a part says that others may look at.
type rank struct {
	position
	population
	open
	t          transport
	outgoing   outgoing
	dispatcher dispatcher
	memory     memory
	epochs     epochs
	operations operations
	tasks      tasks
	main       mainFunction
	frames     frames
	loop       loop
	watch      watch
	tracer     *tracer // nil: it is not traced
}

// open is what any goroutine may use.
type open struct {
	inbox  inbox
	locals sync.Map // by *Local of some type: a pointer to the value
	calls  calls
}

// population is what a rank has of collections.
type population struct {
	collections []membership // by their numbers; nil: not created
	places      int          // of elements of other ranks that it remembers of each, a power of two
	phase       int          // how many are over
	reductions  map[any]any  // by *ElementReduction of some type: *combination
	combining   []combiner   // of them, those that have values to be given on
	ordering    ordering
	measures    measures
	restoring   []restorer // while collections are restored, by their places in the checkpoint
	stores      []ender    // are told when the program has ended well
	ordered     ordered
}

// A position is where a rank stands among all; it does not change.
type position struct {
	self, ranks int
	above       int   // the rank that this one gives what it reduces; -1: none
	below       []int // those that give theirs
}

func (p position) place() Place { return Place{p.self, p.ranks} }

func newRank(t wire.Transport, e engine.Engine, table []*entry) (*rank, error) {
	all, err := collectionTable()
	if err != nil {
		return nil, err
	}
	r := &rank{position: position{self: t.Rank(), ranks: t.Ranks()}, population: population{collections: make([]membership, len(all)), reductions: map[any]any{}}}
	r.measures.origin = int32(r.self)
	r.above, r.below = tree.Ordered(r.self, r.ranks)
	if r.tracer, err = newTracer(r); err != nil {
		return nil, err
	}
	r.t = transport{Transport: t, r: r, short: t.Size()}
	r.inbox.t, r.loop.r = t, r
	r.outgoing.init(r)
	r.dispatcher.init(r, table)
	r.epochs.init(r)
	r.tasks.init(r)
	r.operations.init(r)
	if err := r.watch.init(r); err != nil {
		return nil, err
	}
	if err := r.memory.init(r); err != nil {
		return nil, err
	}
	if r.places, err = remembered(); err != nil {
		return nil, err
	}
	if err := r.operations.open(e); err != nil {
		return nil, fmt.Errorf("amt: rank %d: %w", r.self, err)
	}
	return r, nil
}

// failure is why nothing goes on any more, if that is so.
func (r *rank) failure() error {
	if r.t.broken != nil {
		return r.t.broken
	}
	return r.main.failure()
}

// stuck tells whether this rank can do nothing before something comes from another.
func (r *rank) stuck() bool {
	d, o := &r.dispatcher, &r.operations
	return r.main.waits != nil && r.tasks.running == 0 && !r.inbox.some.Load() && !d.unread() && d.sorted.n == 0 &&
		len(r.outgoing.open) == 0 && len(r.epochs.dirty) == 0 && !o.dirty && !o.agreement.Due() && len(o.queue) == 0
}

// runs says what code of the program the rank runs.
func (r *rank) runs() string {
	switch {
	case r.dispatcher.handler.entry != nil:
		return r.dispatcher.handler.entry.String()
	case r.frames.code != nil:
		return r.frames.code.who()
	}
	return "the main function"
}
