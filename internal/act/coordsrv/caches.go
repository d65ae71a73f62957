package coordsrv

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/keep"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/ui"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

// Caches say that nodes keep what their ranks write, and how it survives the loss of some.
type Caches struct {
	Dir    string        // on each node, its own
	Scheme redset.Scheme // what sets of nodes do against losses
	Size   int           // of a set, at least; 0: as fits
	Flush  int           // every so many checkpoints one is copied to the store that all nodes see; 0: the last alone
	Mode   bulk.Mode     // of what goes from node to node
	// Scavenge is how long agents' caches wait for somebody who goes on with the job when this process is gone; then what they
	// have is copied to the store. 0: it never is.
	Scavenge time.Duration
}

// caches carries out what package keep decides: its nodes are the server's peers. All of it belongs to the loop's goroutine.
type caches struct {
	Caches
	*orders
	s       *Server
	keeper  *keep.Keeper
	rebuild struct { // what is being made again
		transfer uint64
		begun    time.Time
	}
}

func newCaches(s *Server, c Caches) *caches {
	o := newOrders(s.opt.Job, 0, c.Mode, func(node int) string { return s.agents.list[node].name }, func(node int) string { return s.agents.list[node].pieces })
	return &caches{Caches: c, s: s, orders: o}
}

// dir is where a checkpoint is on every node that has a part of it.
func (c *caches) dir(n uint64) string {
	j := dataset.Job{Record: dataset.Record{Dir: dataset.Store{Dir: c.Dir}.CachePath(c.s.opt.Job.Meta)}}
	return j.Checkpoints().Path(n)
}

// keepCaches begins to, when the agents have come, and completes what is known of the job's checkpoints by what they have.
func (s *Server) keepCaches(start *coord.Start) error {
	if s.opt.Caches == nil {
		return nil
	}
	c := s.caches
	c.keeper = keep.New(keep.Config{Job: s.agents.jobID, Ranks: s.opt.Spec.Ranks, Scheme: c.Scheme, Size: c.Size, Flush: c.Flush}, c, start.Images)
	start.Flushed = slices.Clone(start.Images)
	var first []int
	for i, p := range s.agents.list {
		c.keeper.Join(p.name, p.group, p.held)
		start.Last = max(start.Last, p.last)
		if i == 0 || i < len(s.agents.list)-s.opt.Spares {
			first = append(first, i)
		}
	}
	for _, n := range c.keeper.Held() {
		if !slices.Contains(start.Images, n) {
			start.Images = append(start.Images, n)
		}
	}
	slices.Sort(start.Images)
	if err := s.elsewhere(start.Images); err != nil {
		return err
	}
	if err := c.keeper.Check(first); err != nil {
		return fmt.Errorf("coordsrv: --redundancy %v, --set-size %d: %w", c.Scheme, c.Size, err)
	}
	return nil
}

// elsewhere says that the newest checkpoint is in the caches of other nodes: an older one does not take its place as long as it
// may turn up.
func (s *Server) elsewhere(images []uint64) error {
	n := s.opt.Job.Meta.Cached
	if !s.opt.Restart || s.opt.Only != 0 || n == 0 || len(images) > 0 && n <= slices.Max(images) {
		return nil
	}
	if len(images) > 0 && s.caches.keeper.Present(slices.Max(images)) {
		s.opt.Say(fmt.Sprintf("checkpoint %d is lost: all nodes that the job ran on are here, and none has it as it was written", n))
		return nil
	}
	text := "restart there"
	if len(images) > 0 {
		text += fmt.Sprintf(", or give it up: --checkpoint %d", slices.Max(images))
	}
	return fmt.Errorf("coordsrv: job %s: %w %d in the caches of these nodes, it is in those on which the job ran: %s",
		s.opt.Job.Meta.Name, ErrNoCheckpoint, n, text)
}

// commit has the checkpoint that the present ranks have written made to count.
func (c *caches) commit(n, epoch uint64) {
	var nodes []int
	var ranks [][]int
	for i, p := range c.s.agents.list {
		if !p.gone && len(p.ranks) > 0 {
			nodes, ranks = append(nodes, i), append(ranks, p.ranks)
		}
	}
	c.keeper.Commit(holding.ID{Job: c.s.agents.jobID, Start: c.s.agents.start, Epoch: epoch, Dataset: n}, holding.Label{}, keep.How{}, nodes, ranks)
}

// launch starts the ranks from a checkpoint in the caches, when what is lost of it is made again. An error: they do not have it.
func (c *caches) launch(image uint64) error {
	r, err := c.keeper.Resume(image)
	if err != nil {
		return err
	}
	for i, p := range c.s.agents.list {
		p.ranks = r.Ranks[i]
	}
	c.s.story.decided(image, r.Lost())
	c.keeper.Rebuild(r, func(err error) {
		if err != nil {
			c.s.ranks.launchFailed(err)
			return
		}
		spec := c.s.ranks.spec(image)
		spec.Restart = c.dir(image)
		c.s.ranks.begin(spec)
	})
	return nil
}

// Ask is keep's.
func (c *caches) Ask(node int, order keep.Order, then func(keep.Answer)) {
	p := c.s.agents.list[node]
	if r, ok := order.(keep.Rebuild); ok && r.Transfer != c.rebuild.transfer { // the first member's
		c.rebuild.transfer, c.rebuild.begun = r.Transfer, time.Now()
	}
	c.s.agents.order([]*peer{p}, func(_ *peer, number uint64) any { return c.message(node, number, order) }, func(answers []control.Message) {
		then(c.answer(answers[0]))
	})
}

// Tell is keep's.
func (c *caches) Tell(node int, order keep.Order) {
	c.s.agents.list[node].hear(control.Message{Start: c.s.agents.start, Body: c.message(node, 0, order)})
}

// Store is keep's.
func (c *caches) Store(work keep.Work, then func(error)) {
	do := c.work(work)
	c.s.wg.Go(func() {
		err := do()
		c.s.ask(func() {
			c.s.story.stored(work, err)
			then(err)
		})
	})
}

// Committed is keep's.
func (c *caches) Committed(n uint64, why string) {
	if why == "" {
		c.s.opt.Job.Meta.Cached = n
		c.s.record.save()
	}
	c.s.step(coord.Committed{Checkpoint: n, Err: why})
}

// Flushed is keep's.
func (c *caches) Flushed(n uint64) {
	c.s.story.log.Add(timeline.Event{Kind: timeline.Flushed, Checkpoint: n})
	c.s.datasets.dropForeign()
	c.s.step(coord.Flushed{Checkpoint: n})
}

// Repaired is keep's.
func (c *caches) Repaired(n uint64, node int, bytes int64, why string) {
	name := c.s.agents.list[node].name
	c.s.opt.Say(repaired(n, name, bytes, why))
	c.s.story.log.Add(timeline.Event{Kind: timeline.Repaired, Checkpoint: n, Node: name, Bytes: bytes, Reason: why})
}

// repaired tells of what was damaged.
func repaired(n uint64, node string, bytes int64, why string) string {
	return fmt.Sprintf("checkpoint %d: %s of what %s has of it were damaged, and have been repaired: %s", n, ui.Bytes(bytes), node, why)
}

// Rebuilt is keep's.
func (c *caches) Rebuilt(n uint64, lost string, on int, bytes int64) {
	took := time.Since(c.rebuild.begun)
	c.s.opt.Say(fmt.Sprintf("checkpoint %d: what %s held, %s, was made again on %s in %s", n, lost, ui.Bytes(bytes), c.s.agents.list[on].name,
		ui.Duration(took)))
	c.s.story.log.Add(timeline.Event{Kind: timeline.Rebuilt, Checkpoint: n, Node: c.s.agents.list[on].name, PartsOf: []string{lost},
		Bytes: bytes, Took: took})
	c.s.story.rebuilt(bytes, took)
}

// Say is keep's.
func (c *caches) Say(text string) { c.s.opt.Say(text) }

// scavenge flushes, when a job leaves that may go on later, the newest checkpoint that can be. It returns whether nothing is lost
// when the caches are removed.
func (s *Server) scavenge() bool {
	if s.caches == nil || s.end.code == 0 {
		return true
	}
	if after := s.caches.Scavenge; after > 0 && !slices.ContainsFunc(s.agents.list, func(p *peer) bool { return !p.gone }) {
		s.opt.Say(fmt.Sprintf("nodes that live will copy what their caches have to %s in %v: wait for that, or restart the job on these nodes",
			s.opt.Job.Dir, after))
		return false
	}
	k, over, found := s.caches.keeper, false, false
	s.await(k.Idle, s.agents.inbox.ready, nil)
	var reasons []string
	k.Scavenge(func(copied uint64, errs []error) {
		over, found = true, copied > 0
		if copied > 0 {
			s.opt.Say(fmt.Sprintf("checkpoint %d was copied to %s", copied, s.opt.Job.Dir))
		}
		for _, err := range errs {
			reasons = append(reasons, err.Error())
		}
	})
	s.await(func() bool { return over }, s.agents.inbox.ready, nil)
	if len(reasons) > 0 {
		s.opt.Say("the caches of the nodes keep what could not be copied: " + strings.Join(reasons, "; "))
	}
	// Where nobody who is here has anything of the newest checkpoint, those who are away may.
	newest := s.opt.Job.Meta.Cached
	return over && len(reasons) == 0 && (found || newest == 0 || k.Stored(newest))
}
