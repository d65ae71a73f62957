package coordsrv

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/agent"
	"github.com/byssus-hpc/byssus/internal/bulk"
	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/coord"
	"github.com/byssus-hpc/byssus/internal/dataset"
	"github.com/byssus-hpc/byssus/internal/mover"
	"github.com/byssus-hpc/byssus/internal/parity"
	"github.com/byssus-hpc/byssus/internal/recovery"
	"github.com/byssus-hpc/byssus/internal/redset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// Caches say that nodes keep what their ranks write, and how it survives the loss of some.
type Caches struct {
	Dir    string        // on each node, its own
	Scheme redset.Scheme // what sets of nodes do against losses
	Size   int           // of a set, 0: as fits
	Flush  int           // every so many checkpoints one is copied to the store that all nodes see; 0: the last alone
	Mode   bulk.Mode     // of what goes from node to node
}

// caches is what the loop knows of the checkpoints in them. All of it belongs to the loop's goroutine.
type caches struct {
	Caches
	transfers uint64          // numbers given
	flushed   map[uint64]bool // what the store has that all nodes see
	flushing  uint64          // what is being copied there, 0: nothing
	dropped   []uint64        // meanwhile
	commits   int
}

// dir is where a checkpoint is on every node that has a part of it.
func (c *caches) dir(meta dataset.Meta, n uint64) string {
	j := dataset.Job{Dir: dataset.Store{Dir: c.Dir}.CachePath(meta)}
	return j.Path(n)
}

// addHeld completes what is known of the job's checkpoints by what is in caches.
func (s *Server) addHeld(start *coord.Start) {
	if s.caches == nil {
		return
	}
	for _, n := range start.Images {
		s.caches.flushed[n] = true
		start.Flushed = append(start.Flushed, n)
	}
	for _, p := range s.peers {
		start.Last = max(start.Last, p.last)
		for n := range p.held {
			if !slices.Contains(start.Images, n) {
				start.Images = append(start.Images, n)
			}
		}
	}
	slices.Sort(start.Images)
}

// checkSets says whether the nodes can protect each other as was asked for, before anything runs.
func (s *Server) checkSets() error {
	if s.caches == nil {
		return nil
	}
	var members []redset.Member
	for i, p := range s.peers[:max(len(s.peers)-s.opt.Spares, 1)] {
		members = append(members, redset.Member{Node: i, Group: p.group})
	}
	_, err := redset.Divide(members, s.caches.Scheme, s.caches.Size)
	return err
}

// alive are the agents that are there.
func (s *Server) alive() []*peer {
	return slices.DeleteFunc(slices.Clone(s.peers), func(p *peer) bool { return p.gone })
}

// draft is a checkpoint on its way to its commit.
type draft struct {
	number, epoch uint64
	to            []*peer
	parts         []*dataset.Part
	sets          []redset.Set    // their nodes are indices in to
	headers       []parity.Header // by node; none without redundancy
	transfers     []uint64        // by set
}

// protect makes the redundancy of a checkpoint whose parts are sealed, then commits it.
func (s *Server) protect(d *draft) {
	if err := s.divide(d); err != nil {
		s.step(coord.Committed{Checkpoint: d.number, Err: err.Error()})
		return
	}
	if len(d.headers) == 0 {
		s.agree(d)
		return
	}
	keys := s.keys(d)
	s.orderEach(d.to, func(i int, order uint64) any {
		h := d.headers[i]
		return control.Encode{Order: order, Checkpoint: d.number, Header: h, Transfer: s.transfer(d.transfers[h.Set], keys[h.Set], s.members(d, h.Set), h.Own)}
	}, func(i int, m control.Message) {
		s.abandonOn(m, d.transfers[d.headers[i].Set], s.members(d, d.headers[i].Set))
	}, func(answers []control.Message) {
		if why := failure(answers); why != "" {
			s.step(coord.Committed{Checkpoint: d.number, Err: why})
			return
		}
		s.agree(d)
	})
}

// divide puts the nodes of a checkpoint into sets. Where there are too few nodes left for what was asked for, sets are as large
// as they can be.
func (s *Server) divide(d *draft) error {
	var members []redset.Member
	for i, p := range d.to {
		members = append(members, redset.Member{Node: i, Group: p.group})
	}
	scheme := s.caches.Scheme
	if len(d.to) == 1 {
		scheme = redset.Single
	}
	var err error
	if d.sets, err = redset.Divide(members, scheme, s.caches.Size); err != nil && s.starts > 1 {
		d.sets, err = redset.Divide(members, scheme, 0)
	}
	if err != nil || scheme == redset.Single {
		return err
	}
	d.headers, d.transfers = make([]parity.Header, len(d.to)), make([]uint64, len(d.sets))
	for i, set := range d.sets {
		s.caches.transfers++
		d.transfers[i] = s.caches.transfers
		h := parity.Header{ID: s.identity(d), Scheme: set.Scheme, Set: i, Sets: len(d.sets)}
		for _, m := range set.Members {
			p := d.to[m.Node]
			member, err := agent.Member(p.name, p.group, d.parts[m.Node])
			if err != nil {
				return err
			}
			h.Members = append(h.Members, member)
		}
		for own, m := range set.Members {
			h.Own = own
			d.headers[m.Node] = h
		}
	}
	return nil
}

func (s *Server) identity(d *draft) parity.ID {
	return parity.ID{Job: s.jobID, Start: s.number, Epoch: d.epoch, Dataset: d.number}
}

// members are the agents of a set.
func (s *Server) members(d *draft, set int) []*peer {
	var list []*peer
	for _, m := range d.sets[set].Members {
		list = append(list, d.to[m.Node])
	}
	return list
}

// ringKeys are those of the links between the neighbours of a ring: no plan has others. Each is used once.
type ringKeys struct{ forth, back []bulk.Key } // from member i to the next one, and from that to i

func newRingKeys(members int) ringKeys {
	k := ringKeys{make([]bulk.Key, members), make([]bulk.Key, members)}
	for i := range members {
		k.forth[i], k.back[i] = bulk.NewKey(), bulk.NewKey()
	}
	return k
}

func (s *Server) keys(d *draft) []ringKeys {
	var list []ringKeys
	for _, set := range d.sets {
		list = append(list, newRingKeys(len(set.Members)))
	}
	return list
}

// transfer tells a member how it reaches its neighbours.
func (s *Server) transfer(id uint64, k ringKeys, members []*peer, me int) mover.Transfer {
	n := len(members)
	next, before := (me+1)%n, (me+n-1)%n
	t := mover.Transfer{ID: id, Me: me, Mode: s.caches.Mode, Peers: make([]mover.Peer, n)}
	t.Peers[before] = mover.Peer{Out: k.back[before], In: k.forth[before]}
	t.Peers[next] = mover.Peer{Out: k.forth[me], In: k.back[me]}
	if n == 2 { // each is both to the other, by one link each way
		t.Peers[next].In = k.forth[next]
	}
	for _, i := range []int{before, next} {
		if members[i] != nil {
			t.Peers[i].Address = members[i].pieces
		}
	}
	return t
}

// abandonOn ends a transfer everywhere when one of its members cannot do its share.
func (s *Server) abandonOn(m control.Message, transfer uint64, members []*peer) {
	if failure([]control.Message{m}) == "" {
		return
	}
	for _, p := range members {
		if p != nil && !p.gone {
			p.hear(control.Message{Start: s.number, Body: control.Abandon{Transfer: transfer}})
		}
	}
}

// agree gives all nodes the record of a checkpoint. It is committed as soon as no loss that its sets survive can take the record,
// and only then anybody is told.
func (s *Server) agree(d *draft) {
	s.order(d.to, func(p *peer, order uint64) any {
		i := slices.Index(d.to, p)
		record := s.opt.Job.Record(d.number, d.parts[i])
		record.Node, record.Start, record.Epoch = p.name, s.number, d.epoch
		if len(d.headers) > 0 {
			record.Parity = []string{agent.ParityName(&d.headers[i])}
		}
		return control.Commit{Order: order, Checkpoint: d.number, Record: *record}
	}, func(answers []control.Message) {
		have := map[int]bool{}
		for i, m := range answers {
			if failure([]control.Message{m}) == "" {
				have[i] = true
				d.to[i].held[d.number] = s.holding(d, i)
			}
		}
		for _, set := range d.sets {
			if set.Survives(have) {
				s.step(coord.Committed{Checkpoint: d.number, Err: failure(answers)})
				return
			}
		}
		s.caches.commits++
		if why := failure(answers); why != "" {
			s.opt.Say(fmt.Sprintf("checkpoint %d is committed, but what one node has of it counts as lost: %s", d.number, why))
		}
		s.step(coord.Committed{Checkpoint: d.number})
		if every := s.caches.Flush; every > 0 && s.caches.commits%every == 0 && s.caches.flushing == 0 {
			s.flush(d.number, func(why string) {
				if why != "" {
					s.opt.Say(fmt.Sprintf("checkpoint %d was not copied to %s: %s", d.number, s.opt.Job.Dir, why))
				}
			})
		}
	})
}

// holding is what a node has of a checkpoint that it has committed.
func (s *Server) holding(d *draft, i int) *recovery.Held {
	h := &recovery.Held{ID: s.identity(d), Ranks: slices.Clone(d.to[i].ranks)}
	if len(d.headers) > 0 {
		h.Members = []parity.Header{d.headers[i]}
	}
	return h
}

// withdraw removes what there is in caches of a checkpoint that nobody was told of.
func (s *Server) withdraw(n uint64) {
	for _, p := range s.peers {
		delete(p.held, n)
	}
	s.removeFrom(s.alive(), func(order uint64) any { return control.Discard{Order: order, Checkpoint: n} })
}

// dropEverywhere removes a committed checkpoint from the caches, and from the store that all nodes see.
func (s *Server) dropEverywhere(n uint64) {
	if n == s.caches.flushing {
		s.caches.dropped = append(s.caches.dropped, n)
		return
	}
	for _, p := range s.peers {
		delete(p.held, n)
	}
	s.removeFrom(s.alive(), func(order uint64) any { return control.Drop{Order: order, Checkpoint: n} })
	if !s.caches.flushed[n] {
		return
	}
	delete(s.caches.flushed, n)
	job := *s.opt.Job
	s.wg.Go(func() {
		if err := job.Drop(n); err != nil {
			s.ask(func() { s.complain(err) })
		}
	})
}

// plan says how the job goes on from a checkpoint in the caches.
func (s *Server) plan(n uint64, of []*peer) (*recovery.Plan, error) {
	var nodes []recovery.Node
	for _, p := range of {
		nodes = append(nodes, recovery.Node{Name: p.name, Held: p.held[n]})
	}
	return recovery.Decide(s.jobID, n, s.opt.Spec.Ranks, nodes)
}

// fromCaches makes whole what a plan says, then starts the ranks where their images are.
func (s *Server) fromCaches(n uint64, plan *recovery.Plan, of []*peer, then func(err error)) {
	for _, p := range s.peers {
		p.ranks = nil
	}
	for i, p := range of {
		p.ranks = plan.Ranks[i]
	}
	s.rebuild(n, plan.Rebuild, of, then)
}

// rebuild makes lost members again, one after the other.
func (s *Server) rebuild(n uint64, left []recovery.Rebuild, of []*peer, then func(err error)) {
	if len(left) == 0 {
		then(nil)
		return
	}
	r, began := left[0], time.Now()
	var members, to []*peer
	var own []int
	for i, node := range r.Members {
		if node < 0 {
			members = append(members, nil)
			continue
		}
		members = append(members, of[node])
		to, own = append(to, of[node]), append(own, i)
	}
	s.caches.transfers++
	id, keys := s.caches.transfers, newRingKeys(len(members))
	s.orderEach(to, func(i int, order uint64) any {
		h := r.Header
		h.Own = own[i]
		return control.Rebuild{Order: order, Checkpoint: n, Header: h, Lost: r.Header.Own, Transfer: s.transfer(id, keys, members, own[i])}
	}, func(_ int, m control.Message) { s.abandonOn(m, id, members) }, func(answers []control.Message) {
		if why := failure(answers); why != "" {
			then(errors.New(why))
			return
		}
		s.enter(n, r, of[r.To], func(err error) {
			if err == nil {
				lost := r.Header.Members[r.Header.Own]
				s.rebuilt(lost.Bytes(), time.Since(began))
				s.opt.Say(fmt.Sprintf("checkpoint %d: what %s held, %s, was made again on %s in %s", n, lost.Node,
					ui.Bytes(lost.Bytes()), of[r.To].name, ui.Duration(time.Since(began))))
				s.rebuild(n, left[1:], of, then)
				return
			}
			then(err)
		})
	})
}

// enter makes what was made again count.
func (s *Server) enter(n uint64, r recovery.Rebuild, p *peer, then func(err error)) {
	held := &recovery.Held{ID: r.Header.ID}
	if old := p.held[n]; old != nil && old.ID == held.ID {
		held = &recovery.Held{ID: old.ID, Members: slices.Clone(old.Members)}
	}
	held.Members = append(held.Members, r.Header)
	part := &dataset.Part{}
	var names []string
	for _, h := range held.Members {
		m := h.Members[h.Own]
		for _, f := range m.Files {
			part.Files = append(part.Files, dataset.File{Name: f.Name, Size: f.Size, HeaderCRC: fmt.Sprintf("%08x", f.Digest)})
		}
		held.Ranks = append(held.Ranks, recovery.RanksOf(m)...)
		names = append(names, agent.ParityName(&h))
	}
	slices.Sort(held.Ranks)
	record := s.opt.Job.Record(n, part)
	record.Node, record.Start, record.Epoch, record.Parity = p.name, held.Start, held.Epoch, names
	s.order([]*peer{p}, func(_ *peer, order uint64) any { return control.Commit{Order: order, Checkpoint: n, Record: *record} },
		func(answers []control.Message) {
			if why := failure(answers); why != "" {
				then(errors.New(why))
				return
			}
			p.held[n] = held
			then(nil)
		})
}

// flush copies a checkpoint to the store that all nodes see. Then is told why that was not possible, empty: it was.
func (s *Server) flush(n uint64, then func(why string)) {
	of := s.alive()
	plan, err := s.plan(n, of)
	if err == nil && len(plan.Rebuild) > 0 {
		err = fmt.Errorf("coordsrv: flush checkpoint %d: a part of it is lost, and not made again yet", n)
	}
	if err != nil {
		then(err.Error())
		return
	}
	s.caches.flushing = n
	job := *s.opt.Job
	s.wg.Go(func() {
		_, err := job.Prepare(n)
		s.ask(func() {
			if err != nil {
				s.flushedAs(n, err, then)
				return
			}
			s.flushParts(n, plan, of, then)
		})
	})
}

func (s *Server) flushParts(n uint64, plan *recovery.Plan, of []*peer, then func(why string)) {
	var to []*peer
	var ranks [][]int
	for i, p := range of {
		if len(plan.Ranks[i]) > 0 {
			to, ranks = append(to, p), append(ranks, plan.Ranks[i])
		}
	}
	s.orderEach(to, func(i int, order uint64) any { return control.Flush{Order: order, Checkpoint: n, Ranks: ranks[i]} },
		func(int, control.Message) {}, func(answers []control.Message) {
			if why := failure(answers); why != "" {
				s.flushedAs(n, errors.New(why), then)
				return
			}
			record := s.opt.Job.Record(n, sealedParts(answers)...)
			job := *s.opt.Job
			s.wg.Go(func() {
				err := job.Commit(n, record)
				s.ask(func() { s.flushedAs(n, err, then) })
			})
		})
}

// flushedAs ends a flush, and drops what was to be dropped meanwhile.
func (s *Server) flushedAs(n uint64, err error, then func(why string)) {
	s.caches.flushing = 0
	if err != nil {
		job := *s.opt.Job
		s.wg.Go(func() { _ = job.Discard(n) }) // what it leaves is removed when the job is next run
		then(err.Error())
	} else {
		s.caches.flushed[n] = true
		s.dropForeign()
		s.step(coord.Flushed{Checkpoint: n})
		then("")
	}
	for _, old := range s.caches.dropped {
		s.dropEverywhere(old)
	}
	s.caches.dropped = nil
}

// sealedParts are those in answers.
func sealedParts(answers []control.Message) []*dataset.Part {
	var parts []*dataset.Part
	for _, m := range answers {
		if h, ok := m.Body.(control.Sealed); ok {
			parts = append(parts, &h.Part)
		}
	}
	return parts
}

// scavenge flushes, when a job leaves that may go on later, the newest checkpoint that can be, since its nodes may be others
// then. It returns whether nothing is lost when the caches are removed.
func (s *Server) scavenge() bool {
	if s.caches == nil || s.code == 0 {
		return true
	}
	s.await(func() bool { return s.caches.flushing == 0 })
	numbers := map[uint64]bool{}
	for _, p := range s.peers {
		for n := range p.held {
			numbers[n] = true
		}
	}
	var newest uint64
	for n := range s.caches.flushed {
		newest = max(newest, n)
	}
	var reasons []string
	for _, n := range slices.SortedFunc(maps.Keys(numbers), func(a, b uint64) int { return cmp.Compare(b, a) }) {
		if n <= newest {
			break
		}
		result := make(chan string, 1)
		s.flush(n, func(why string) { result <- why })
		s.await(func() bool { return len(result) > 0 })
		if len(result) == 0 {
			return false // there is no time left
		}
		why := <-result
		if why == "" {
			s.opt.Say(fmt.Sprintf("checkpoint %d was copied to %s", n, s.opt.Job.Dir))
			break
		}
		reasons = append(reasons, why)
	}
	if len(reasons) > 0 {
		s.opt.Say("the caches of the nodes keep what could not be copied: " + strings.Join(reasons, "; "))
	}
	return len(reasons) == 0
}
