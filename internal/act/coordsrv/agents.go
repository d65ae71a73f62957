package coordsrv

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
)

// agents are those of the job's nodes: what they are ordered, and what they answer. It belongs to the loop's goroutine, but for the
// inbox.
type agents struct {
	*loop
	opt   *Options
	jobID [16]byte
	story *story

	list    []*peer
	remote  *remote // nil: there is none elsewhere
	clients string  // where programs of this machine are heard; empty: agents elsewhere say so themselves
	inbox   *inbox
	start   uint64            // the number of the present start, which messages carry; 0: there is none
	orders  uint64            // given, that are answered
	waiting map[uint64]answer // to them
}

// peer is the agent of a node, as the loop knows it.
type peer struct {
	name  string
	hear  func(control.Message) // gives it an order; does not wait
	close func(forget bool)     // ends it, or the connection to it, when what was ordered is done; forget: its cache, too
	end   func()                // ends the process on its node, nil: it lives here
	over  chan struct{}         // closed when that has ended
	ended error                 // how, once it has; nil: well
	pid   int                   // of its agent
	seen  string                // what it has in common with those that see its processes
	ranks []int                 // of the present start
	gone  bool
	lost  string // why, when it is
	group string // what fails together with it; empty: nothing
	arrival
	heard atomic.Int64 // when it said something, in nanoseconds of Unix time
}

// arrival is what an agent told when it came.
type arrival struct {
	absent string          // why it has not come; empty: it has
	traits control.Traits  // of the node
	pieces string          // address for what other agents send it
	last   uint64          // highest number of a checkpoint in its cache
	writes uint64          // and of a dataset of files
	held   []recovery.Held // in its cache
}

// lastHeard is when the agent said something last.
func (p *peer) lastHeard() time.Time { return time.Unix(0, p.heard.Load()) }

// tidies waits until an agent that was told to leave has ended, and returns why it has not done so well.
func (p *peer) tidies(limit <-chan struct{}) error {
	select {
	case <-p.over:
		return p.ended
	case <-limit:
	}
	select {
	case <-p.over: // while another was waited for
		return p.ended
	default:
		return fmt.Errorf("it has not ended within %v", leaveLimit)
	}
}

// said is what an agent has said.
type said struct {
	from *peer
	control.Message
}

// inbox is what agents have said and the loop has not heard yet.
type inbox struct {
	mu    sync.Mutex
	list  []said
	ready chan struct{} // there may be something
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put does not wait: an agent that the loop is giving an order may have something to say.
func (b *inbox) put(m said) {
	b.mu.Lock()
	b.list = append(b.list, m)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []said {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list
}

// answer is one that is waited for.
type answer struct {
	from  *peer
	order any
	given time.Time
	then  func(control.Message)
}

// joinSelf makes the agent of this machine, which lives in this process and is spoken to as one elsewhere would be.
func (a *agents) joinSelf() error {
	store := *a.opt.Job // the agent's own: Meta changes here
	p := &peer{name: "this machine"}
	own := agent.NewNode(agent.NodeConfig{RunDir: a.opt.RunDir, JobID: a.jobID, Store: &store,
		Say: func(m control.Message) { a.inbox.put(said{p, m}) }})
	p.hear, p.close = own.Hear, func(bool) { own.Close() }
	a.list = append(a.list, p)
	var err error
	a.clients, err = own.Serve()
	return err
}

// order gives agents an order each, with a number that their answers have; then hears these, in the order of the agents,
// when all are there, on the loop's goroutine. One that is gone has answered that it is.
func (a *agents) order(to []*peer, body func(p *peer, order uint64) any, then func([]control.Message)) {
	answers, left := make([]control.Message, len(to)), len(to)
	for i, p := range to {
		if p.gone {
			answers[i], left = isLost(p, "its agent is gone"), left-1
			continue
		}
		a.orders++
		ordered := body(p, a.orders)
		a.waiting[a.orders] = answer{p, ordered, time.Now(), func(m control.Message) {
			answers[i] = m
			if left--; left == 0 {
				then(answers)
			}
		}}
		p.hear(control.Message{Start: a.start, Body: ordered})
	}
	if left > 0 {
		return
	}
	if len(to) == 0 {
		answers = []control.Message{{Body: control.Done{Err: "coordsrv: there is no node left"}}}
	}
	a.wg.Go(func() { a.ask(func() { then(answers) }) })
}

// isLost is the answer of an agent that cannot answer any more.
func isLost(p *peer, why string) control.Message {
	return control.Message{Body: control.Done{Err: fmt.Sprintf("node %s was lost: %s", p.name, why)}}
}

func (a *agents) answered(order uint64, m control.Message) {
	if w, ok := a.waiting[order]; ok {
		delete(a.waiting, order)
		a.story.answered(w, m)
		w.then(m)
	}
}

// tell gives the agents that have ranks an order that is not answered.
func (a *agents) tell(body any) {
	for _, p := range a.engaged() {
		p.hear(control.Message{Start: a.start, Body: body})
	}
}

// alive are the agents that are not gone.
func (a *agents) alive() []*peer {
	return slices.DeleteFunc(slices.Clone(a.list), func(p *peer) bool { return p.gone })
}

// engaged are the agents that have ranks in the present start.
func (a *agents) engaged() []*peer {
	return slices.DeleteFunc(slices.Clone(a.list), func(p *peer) bool { return p.gone || len(p.ranks) == 0 })
}

// numbers are those that agents have among all.
func (a *agents) numbers(of []*peer) []int {
	var list []int
	for _, p := range of {
		list = append(list, slices.Index(a.list, p))
	}
	return list
}

// failure is the first that answers say went wrong.
func failure(answers []control.Message) string {
	for _, m := range answers {
		if d, ok := m.Body.(control.Done); ok && d.Err != "" {
			return d.Err
		}
	}
	return ""
}
