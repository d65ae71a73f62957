package coordsrv

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/agent"
	"github.com/byssus-hpc/byssus/internal/bulk"
	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/coord"
	"github.com/byssus-hpc/byssus/internal/dataset"
	"github.com/byssus-hpc/byssus/internal/keep"
	"github.com/byssus-hpc/byssus/internal/mover"
	"github.com/byssus-hpc/byssus/internal/parity"
	"github.com/byssus-hpc/byssus/internal/redset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// Caches say that nodes keep what their ranks write, and how it survives the loss of some.
type Caches struct {
	Dir    string        // on each node, its own
	Scheme redset.Scheme // what sets of nodes do against losses
	Size   int           // of a set, at least; 0: as fits
	Flush  int           // every so many checkpoints one is copied to the store that all nodes see; 0: the last alone
	Mode   bulk.Mode     // of what goes from node to node
}

// caches carries out what package keep decides: its nodes are the server's peers. All of it belongs to the loop's goroutine.
type caches struct {
	Caches
	s       *Server
	keeper  *keep.Keeper
	rings   map[uint64]*ring // of transfers that not all members have been told of
	mpi     string           // what rank 0 last said of its MPI and its program, for manifests
	app     string
	rebuild time.Time // when what is being made again was begun
}

// ring has the keys of the links between the neighbours of a set: no plan has others. Each is used once.
type ring struct {
	forth, back []bulk.Key // from member i to the next one, and from that to i
	left        int        // members that have not been told
}

// dir is where a checkpoint is on every node that has a part of it.
func (c *caches) dir(n uint64) string {
	j := dataset.Job{Dir: dataset.Store{Dir: c.Dir}.CachePath(c.s.opt.Job.Meta)}
	return j.Path(n)
}

// keepCaches begins to, when the agents have come, and completes what is known of the job's checkpoints by what they have.
func (s *Server) keepCaches(start *coord.Start) error {
	if s.opt.Caches == nil {
		return nil
	}
	c := s.caches
	c.keeper = keep.New(keep.Config{Job: s.jobID, Ranks: s.opt.Spec.Ranks, Scheme: c.Scheme, Size: c.Size, Flush: c.Flush}, c, start.Images)
	start.Flushed = slices.Clone(start.Images)
	var first []int
	for i, p := range s.peers {
		c.keeper.Join(p.name, p.group, p.held)
		start.Last = max(start.Last, p.last)
		if i == 0 || i < len(s.peers)-s.opt.Spares {
			first = append(first, i)
		}
	}
	for _, n := range c.keeper.Held() {
		if !slices.Contains(start.Images, n) {
			start.Images = append(start.Images, n)
		}
	}
	slices.Sort(start.Images)
	return c.keeper.Check(first)
}

// commit has the checkpoint that the present ranks have written made to count.
func (c *caches) commit(n, epoch uint64) {
	var nodes []int
	var ranks [][]int
	for i, p := range c.s.peers {
		if !p.gone && len(p.ranks) > 0 {
			nodes, ranks = append(nodes, i), append(ranks, p.ranks)
		}
	}
	c.keeper.Commit(parity.ID{Job: c.s.jobID, Start: c.s.number, Epoch: epoch, Dataset: n}, nodes, ranks)
}

// launch starts the ranks from a checkpoint in the caches, when what is lost of it is made again. An error: they do not have it.
func (c *caches) launch(image uint64) error {
	r, err := c.keeper.Resume(image)
	if err != nil {
		return err
	}
	for i, p := range c.s.peers {
		p.ranks = r.Ranks[i]
	}
	c.rebuild = time.Now()
	c.keeper.Rebuild(r, func(err error) {
		if err != nil {
			c.s.launchFailed(err)
			return
		}
		spec := c.s.spec(image)
		spec.Restart = c.dir(image)
		c.s.begin(spec)
	})
	return nil
}

// Ask is keep's.
func (c *caches) Ask(node int, order keep.Order, then func(keep.Answer)) {
	p := c.s.peers[node]
	c.s.order([]*peer{p}, func(_ *peer, number uint64) any { return c.message(p, number, order) }, func(answers []control.Message) {
		then(c.answer(answers[0]))
	})
}

// message is an order as agents hear it.
func (c *caches) message(p *peer, number uint64, order keep.Order) any {
	switch o := order.(type) {
	case keep.Seal:
		return control.Seal{Order: number, Checkpoint: o.Checkpoint, Ranks: o.Ranks}
	case keep.Encode:
		return control.Encode{Order: number, Checkpoint: o.Header.Dataset, Header: o.Header,
			Transfer: c.transfer(o.Transfer, o.Members, o.Header.Own)}
	case keep.Rebuild:
		return control.Rebuild{Order: number, Checkpoint: o.Header.Dataset, Header: o.Header, Lost: o.Lost,
			Transfer: c.transfer(o.Transfer, o.Members, o.Header.Own)}
	case keep.Record:
		m := c.record(o.Dataset, o.Files)
		m.Node, m.Start, m.Epoch = p.name, o.Start, o.Epoch
		for _, h := range o.Members {
			m.Parity = append(m.Parity, agent.ParityName(&h))
		}
		return control.Commit{Order: number, Checkpoint: o.Dataset, Record: *m}
	case keep.Withdraw:
		return control.Discard{Order: number, Checkpoint: o.Checkpoint}
	case keep.Drop:
		return control.Drop{Order: number, Checkpoint: o.Checkpoint}
	case keep.Flush:
		return control.Flush{Order: number, Checkpoint: o.Checkpoint, Ranks: o.Ranks}
	case keep.Abandon:
		return control.Abandon{Transfer: o.Transfer}
	}
	return nil
}

// answer is what an agent has answered.
func (c *caches) answer(m control.Message) keep.Answer {
	switch b := m.Body.(type) {
	case control.Done:
		return keep.Answer{Err: b.Err, Follows: b.Follows}
	case control.Sealed:
		if b.Part.MPI != "" {
			c.mpi, c.app = b.Part.MPI, b.Part.App
		}
		files, err := agent.FilesOf(&b.Part)
		if err != nil {
			return keep.Answer{Err: err.Error()}
		}
		return keep.Answer{Files: files}
	}
	return keep.Answer{Err: fmt.Sprintf("coordsrv: an agent answers %T", m.Body)}
}

// record is the manifest of so many files.
func (c *caches) record(n uint64, files []parity.File) *dataset.Manifest {
	p := &dataset.Part{MPI: c.mpi, App: c.app}
	for _, f := range files {
		p.Files = append(p.Files, dataset.File{Name: f.Name, Size: f.Size, HeaderCRC: fmt.Sprintf("%08x", f.Digest)})
	}
	return c.s.opt.Job.Record(n, p)
}

// transfer tells a member how it reaches its neighbours.
func (c *caches) transfer(id uint64, members []int, me int) mover.Transfer {
	n := len(members)
	next, before := (me+1)%n, (me+n-1)%n
	k := c.ring(id, members)
	t := mover.Transfer{ID: id, Me: me, Mode: c.Mode, Peers: make([]mover.Peer, n)}
	t.Peers[before] = mover.Peer{Out: k.back[before], In: k.forth[before]}
	t.Peers[next] = mover.Peer{Out: k.forth[me], In: k.back[me]}
	if n == 2 { // each is both to the other, by one link each way
		t.Peers[next].In = k.forth[next]
	}
	for _, i := range []int{before, next} {
		if members[i] >= 0 {
			t.Peers[i].Address = c.s.peers[members[i]].pieces
		}
	}
	return t
}

// ring has the keys of a transfer, until all its members have been told.
func (c *caches) ring(id uint64, members []int) *ring {
	k := c.rings[id]
	if k == nil {
		k = &ring{}
		for _, node := range members {
			k.forth, k.back = append(k.forth, bulk.NewKey()), append(k.back, bulk.NewKey())
			if node >= 0 {
				k.left++
			}
		}
		c.rings[id] = k
	}
	if k.left--; k.left == 0 {
		delete(c.rings, id)
	}
	return k
}

// Tell is keep's.
func (c *caches) Tell(node int, order keep.Order) {
	c.s.peers[node].hear(control.Message{Start: c.s.number, Body: c.message(c.s.peers[node], 0, order)})
}

// Store is keep's.
func (c *caches) Store(work keep.Work, then func(error)) {
	job := *c.s.opt.Job
	var record *dataset.Manifest
	if e, ok := work.(keep.Enter); ok {
		record = c.record(e.Checkpoint, e.Files)
	}
	c.s.wg.Go(func() {
		var err error
		switch w := work.(type) {
		case keep.Place:
			_, err = job.Prepare(w.Checkpoint)
		case keep.Enter:
			err = job.Commit(w.Checkpoint, record)
		case keep.Clear:
			err = job.Discard(w.Checkpoint)
		case keep.Remove:
			err = job.Drop(w.Checkpoint)
		}
		c.s.ask(func() { then(err) })
	})
}

// Committed is keep's.
func (c *caches) Committed(n uint64, why string) { c.s.step(coord.Committed{Checkpoint: n, Err: why}) }

// Flushed is keep's.
func (c *caches) Flushed(n uint64) {
	c.s.dropForeign()
	c.s.step(coord.Flushed{Checkpoint: n})
}

// Rebuilt is keep's.
func (c *caches) Rebuilt(n uint64, lost string, on int, bytes int64) {
	took := time.Since(c.rebuild)
	c.s.opt.Say(fmt.Sprintf("checkpoint %d: what %s held, %s, was made again on %s in %s", n, lost, ui.Bytes(bytes), c.s.peers[on].name,
		ui.Duration(took)))
	c.s.rebuilt(bytes, took)
	c.rebuild = time.Now()
}

// Say is keep's.
func (c *caches) Say(text string) { c.s.opt.Say(text) }

// scavenge flushes, when a job leaves that may go on later, the newest checkpoint that can be. It returns whether nothing is lost
// when the caches are removed.
func (s *Server) scavenge() bool {
	if s.caches == nil || s.code == 0 {
		return true
	}
	k, over := s.caches.keeper, false
	s.await(k.Idle)
	var reasons []string
	k.Scavenge(func(copied uint64, errs []error) {
		over = true
		if copied > 0 {
			s.opt.Say(fmt.Sprintf("checkpoint %d was copied to %s", copied, s.opt.Job.Dir))
		}
		for _, err := range errs {
			reasons = append(reasons, err.Error())
		}
	})
	s.await(func() bool { return over })
	if len(reasons) > 0 {
		s.opt.Say("the caches of the nodes keep what could not be copied: " + strings.Join(reasons, "; "))
	}
	return over && len(reasons) == 0
}
