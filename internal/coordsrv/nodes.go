package coordsrv

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/byssus-hpc/byssus/internal/agent"
	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/coord"
	"github.com/byssus-hpc/byssus/internal/dataset"
	"github.com/byssus-hpc/byssus/internal/node"
	"github.com/byssus-hpc/byssus/internal/pmi"
	"github.com/byssus-hpc/byssus/internal/recovery"
)

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

	absent string          // why its agent has not come, at the start; empty: it has
	traits control.Traits  // of the node
	group  string          // what fails together with it; empty: nothing
	pieces string          // address for what other agents send it
	last   uint64          // highest number of a checkpoint in its cache, when it came
	held   []recovery.Held // in its cache, then
	heard  atomic.Int64    // when it said something, in nanoseconds of Unix time
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

// joinSelf makes the agent of this machine, which lives in this process and is spoken to as one elsewhere would be.
func (s *Server) joinSelf() {
	store := *s.opt.Job // the agent's own: Meta changes here
	p := &peer{name: "this machine"}
	a := agent.NewNode(agent.NodeConfig{RunDir: s.opt.RunDir, JobID: s.jobID, Store: &store,
		Say: func(m control.Message) { s.inbox.put(said{p, m}) }})
	p.hear, p.close = a.Hear, func(bool) { a.Close() }
	s.peers = append(s.peers, p)
}

// hear takes in what an agent says. Of a start that is over only answers count.
func (s *Server) hear(m said) {
	switch b := m.Body.(type) {
	case control.Done:
		s.answered(b.Order, m.Message)
	case control.Sealed:
		s.answered(b.Order, m.Message)
	case control.Pages:
		s.answered(b.Order, m.Message)
	case departed:
		s.lost(m.from, b.why)
	case pmi.Up:
		if m.Start == s.number {
			s.meet(m.from, b)
		}
	case control.Here:
		if m.Start == s.number {
			s.meeting(b.Meeting)
		}
	case control.WantInput:
		if m.Start == s.number {
			s.wantInput(m.from, m.Start, b.Offset)
		}
	case control.Exited:
		if m.Start == s.number {
			s.exited(b)
		}
	case control.Launched:
		if m.Start == s.number {
			s.launched(b)
		}
	case control.Spawn:
		if m.Start == s.number {
			s.spawn(m.from, b)
		}
	case control.Executed:
		if m.Start == s.number {
			s.executed(b)
		}
	case node.Report:
		if m.Start == s.number {
			s.diedUntold(b)
			s.step(b)
		}
	}
}

// meeting lets ranks go on when those of all nodes have come to it.
func (s *Server) meeting(n uint64) {
	if s.met[n]++; s.met[n] == len(s.engaged()) {
		s.tell(control.AllHere{Meeting: n})
	}
}

// answer is one that is waited for.
type answer struct {
	from  *peer
	order any
	given time.Time
	then  func(control.Message)
}

// order gives agents an order each, with a number that their answers have; then hears these, in the order of the agents,
// when all are there, on the loop's goroutine. One that is gone has answered that it is.
func (s *Server) order(to []*peer, body func(p *peer, order uint64) any, then func([]control.Message)) {
	answers, left := make([]control.Message, len(to)), len(to)
	for i, p := range to {
		if p.gone {
			answers[i], left = isLost(p, "its agent is gone"), left-1
			continue
		}
		s.orders++
		ordered := body(p, s.orders)
		s.waiting[s.orders] = answer{p, ordered, time.Now(), func(m control.Message) {
			answers[i] = m
			if left--; left == 0 {
				then(answers)
			}
		}}
		p.hear(control.Message{Start: s.number, Body: ordered})
	}
	if left > 0 {
		return
	}
	if len(to) == 0 {
		answers = []control.Message{{Body: control.Done{Err: "coordsrv: there is no node left"}}}
	}
	s.wg.Go(func() { s.ask(func() { then(answers) }) })
}

// isLost is the answer of an agent that cannot answer any more.
func isLost(p *peer, why string) control.Message {
	return control.Message{Body: control.Done{Err: fmt.Sprintf("node %s was lost: %s", p.name, why)}}
}

func (s *Server) answered(order uint64, m control.Message) {
	if a, ok := s.waiting[order]; ok {
		delete(s.waiting, order)
		s.logAnswer(a, m)
		a.then(m)
	}
}

// tell gives the agents that have ranks an order that is not answered.
func (s *Server) tell(body any) {
	for _, p := range s.engaged() {
		p.hear(control.Message{Start: s.number, Body: body})
	}
}

// engaged are the agents that have ranks in the present start.
func (s *Server) engaged() []*peer {
	return slices.DeleteFunc(slices.Clone(s.peers), func(p *peer) bool { return p.gone || len(p.ranks) == 0 })
}

// keepers are the agents that make a place for a checkpoint: all that have ranks, in their caches; where there is one store,
// that all nodes see, one is enough.
func (s *Server) keepers() []*peer {
	if s.caches != nil {
		return s.engaged()
	}
	i := slices.IndexFunc(s.peers, func(p *peer) bool { return !p.gone })
	if i < 0 {
		return nil
	}
	return s.peers[i : i+1]
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

func (s *Server) prepare(n uint64) {
	to := s.engaged()
	s.order(to, func(_ *peer, order uint64) any { return control.Look{Order: order} }, func(pages []control.Message) {
		s.survey(n, to, pages)
	})
}

// survey has agents look for processes that are not the job's, and then the store make a place for the images.
func (s *Server) survey(n uint64, to []*peer, pages []control.Message) {
	ours := func(p *peer, order uint64) any {
		o := control.Survey{Order: order}
		for i, other := range to {
			if there, ok := pages[i].Body.(control.Pages); ok && other != p && other.seen == p.seen {
				o.Ours = append(o.Ours, other.pid)
				for _, r := range there.Ranks {
					o.Ours = append(o.Ours, r.PID)
				}
			}
		}
		return o
	}
	s.order(to, ours, func([]control.Message) {
		place := control.Prepare{Checkpoint: n}
		if s.caches != nil {
			place.Copies, place.Share = s.opt.Job.Meta.Keep+1, s.caches.keeper.Share(s.numbers(to))
		}
		s.order(s.keepers(), func(_ *peer, order uint64) any { place.Order = order; return place },
			func(answers []control.Message) { s.step(coord.Prepared{Checkpoint: n, Err: failure(answers)}) })
	})
}

// numbers are those that agents have among all.
func (s *Server) numbers(of []*peer) []int {
	var list []int
	for _, p := range of {
		list = append(list, slices.Index(s.peers, p))
	}
	return list
}

// commit: the agents seal what they hold, and get the record of the whole.
func (s *Server) commit(n, epoch uint64) {
	if s.caches != nil {
		s.caches.commit(n, epoch)
		return
	}
	to := s.engaged()
	s.order(to, func(p *peer, order uint64) any { return control.Seal{Order: order, Checkpoint: n, Ranks: p.ranks} }, func(answers []control.Message) {
		if why := failure(answers); why != "" {
			s.step(coord.Committed{Checkpoint: n, Err: why})
			return
		}
		s.record(n, answers)
	})
}

func (s *Server) record(n uint64, sealed []control.Message) {
	var parts []*dataset.Part
	for _, m := range sealed {
		if h, ok := m.Body.(control.Sealed); ok {
			parts = append(parts, &h.Part)
		}
	}
	record := s.opt.Job.Record(n, parts...)
	s.order(s.keepers(), func(_ *peer, order uint64) any { return control.Commit{Order: order, Checkpoint: n, Record: *record} }, func(answers []control.Message) {
		why := failure(answers)
		s.step(coord.Committed{Checkpoint: n, Err: why})
		if why == "" {
			s.dropForeign()
		}
	})
}

// discard removes what an attempt has left.
func (s *Server) discard(n uint64) {
	if s.caches != nil {
		s.caches.keeper.Discard(n)
		return
	}
	s.removeFrom(s.keepers(), func(order uint64) any { return control.Discard{Order: order, Checkpoint: n} })
}

// drop removes a committed checkpoint.
func (s *Server) drop(n uint64) {
	if s.caches != nil {
		s.caches.keeper.Drop(n)
		return
	}
	s.removeFrom(s.keepers(), func(order uint64) any { return control.Drop{Order: order, Checkpoint: n} })
}

// removeFrom removes something at agents; that it cannot be removed is told, and changes nothing.
func (s *Server) removeFrom(from []*peer, body func(order uint64) any) {
	s.order(from, func(_ *peer, order uint64) any { return body(order) }, func(answers []control.Message) {
		if why := failure(answers); why != "" {
			s.opt.Say(why)
		}
	})
}

// dropForeign removes the checkpoints of an earlier job of this name, now that this one has its own.
func (s *Server) dropForeign() {
	for _, n := range s.foreign {
		if m, err := dataset.ReadManifest(s.opt.Job.Path(n)); err == nil && m.ID != s.opt.Job.Meta.ID {
			s.removeForeign(n)
		}
	}
	s.foreign = nil
}

func (s *Server) removeForeign(n uint64) {
	if s.caches == nil {
		s.drop(n)
		return
	}
	job := *s.opt.Job
	s.wg.Go(func() {
		if err := job.Drop(n); err != nil {
			s.ask(func() { s.complain(err) })
		}
	})
}

// place gives each agent its ranks. At first they are spread over the nodes in blocks, without the spares; of those that
// have lost their node the next start is on a spare, or where there are fewest.
func (s *Server) place() {
	free := slices.DeleteFunc(slices.Clone(s.peers), func(p *peer) bool { return p.gone })
	if s.starts == 1 || len(free) == len(s.peers) {
		spreadOver(free[:max(len(free)-s.opt.Spares, 1)], s.opt.Spec.Ranks)
		return
	}
	for _, p := range s.peers {
		if !p.gone || len(p.ranks) == 0 {
			continue
		}
		to := slices.MinFunc(free, func(a, b *peer) int { return cmp.Compare(len(a.ranks), len(b.ranks)) })
		to.ranks = slices.Sorted(slices.Values(append(to.ranks, p.ranks...)))
		p.ranks = nil
	}
}

// spreadOver gives ranks to agents in blocks whose sizes differ by one at most.
func spreadOver(to []*peer, ranks int) {
	next := 0
	for i, p := range to {
		p.ranks = nil
		for range (ranks + len(to) - 1 - i) / len(to) {
			p.ranks = append(p.ranks, next)
			next++
		}
	}
}
