package keep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

var simJob = [16]byte{7}

// owner is a byssus that runs the job: a keeper, the connections to its agents, and what coord decides, in short: a checkpoint
// now and then, two are kept and the newest that was copied, back to the newest good one after a loss.
type owner struct {
	w       *world
	number  uint64
	dead    bool
	k       *Keeper
	pending []map[uint64]func(Answer) // by node
	asked   uint64
	fifo    [][2]int64 // by node: when the last message there, and from there, arrives
	lost    []bool
	ranks   [][]int // by node, while the job runs
	start   uint64  // of the ranks
	busy    bool    // a commit is under way
	images  []uint64
	bad     map[uint64]bool
	doubted map[uint64]bool // a rank has found it damaged
	storing map[uint64]bool // checkpoints on which the store works
}

// promise is what was told of a checkpoint: the sets whose members had it, and which of these have lost it since.
type promise struct {
	how  redset.Scheme
	sets [][]holder
}

// holder is who is a member: a node, and the lives that its memory had then.
type holder struct {
	name         string // of the member
	node, memory int
	missed       bool // it was lost before it could record it
}

// simulation is one schedule.
type simulation struct {
	*world
	cfg      Config
	last     uint64 // number of a checkpoint
	starts   uint64
	promises map[uint64]*promise
	commits  int // until the job is over

	increments bool
}

// begin: a byssus takes the job, with all nodes: agents that had died come back with what their nodes remember.
func (s *simulation) begin() {
	s.owners++
	stored := sorted(s.store)
	o := &owner{w: s.world, number: s.owners, bad: map[uint64]bool{}, doubted: map[uint64]bool{}, storing: map[uint64]bool{}}
	o.k = New(s.cfg, &link{s, o}, stored)
	s.owner = o
	for _, a := range s.agents {
		a.up, a.life, a.tmp = true, a.life+1, map[uint64]*part{}
		var held []recovery.Held
		for _, n := range sorted(a.disk) {
			held = append(held, *a.disk[n])
		}
		o.k.Join(a.name(), "", held)
		o.pending = append(o.pending, map[uint64]func(Answer){})
	}
	o.fifo, o.lost = make([][2]int64, len(s.agents)), make([]bool, len(s.agents))
	for _, n := range append(o.k.Held(), stored...) {
		if !slices.Contains(o.images, n) {
			o.images = append(o.images, n)
		}
	}
	slices.Sort(o.images)
	s.goBack(o)
}

func sorted[T any](m map[uint64]T) []uint64 {
	var list []uint64
	for n := range m {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// goBack starts the ranks from the newest image that can be had, or anew.
func (s *simulation) goBack(o *owner) {
	o.ranks = nil
	o.k.Settled(func() { s.choose(o) })
}

func (s *simulation) choose(o *owner) {
	var there []int
	for i, lost := range o.lost {
		if !lost {
			there = append(there, i)
		}
	}
	if len(there) == 0 {
		s.counts["all nodes lost"]++
		return
	}
	for _, n := range slices.Backward(o.images) {
		if o.bad[n] {
			continue
		}
		r, err := o.k.Resume(n)
		if err == nil {
			s.resume(o, r)
			return
		}
		s.checkPromise(o, n, err)
		if o.k.Stored(n) {
			s.counts["from the store"]++
			s.spread(o, there)
			return
		}
		o.bad[n] = true
	}
	s.counts["anew"]++
	s.spread(o, there)
}

// checkPromise: what was told to be committed can be had, while no more have lost it than its sets survive.
func (s *simulation) checkPromise(o *owner, n uint64, err error) {
	p := s.promises[n]
	if p == nil {
		return
	}
	for _, members := range p.sets {
		set, lost := redset.Set{Scheme: p.how}, map[int]bool{}
		for m, h := range members {
			set.Members = append(set.Members, redset.Member{Node: m})
			if a := s.agents[h.node]; h.missed || o.lost[h.node] || a.memory != h.memory || a.rotten[n] {
				lost[m] = true
			}
		}
		if !set.Survives(lost) {
			s.counts["more lost than covered"]++
			return
		}
	}
	s.fault("checkpoint %d was told to be committed, and cannot be had: %v", n, err)
}

// resume makes whole what is lost, then lets the ranks run.
func (s *simulation) resume(o *owner, r *Resumption) {
	given := map[int]bool{}
	for _, ranks := range r.Ranks {
		for _, rank := range ranks {
			given[rank] = true
		}
	}
	if len(given) != s.cfg.Ranks {
		s.fault("checkpoint %d: %d of %d ranks go on", r.Checkpoint, len(given), s.cfg.Ranks)
	}
	o.k.Rebuild(r, func(err error) {
		if err != nil { // another node was lost: again, with those that are left
			s.counts["rebuilding disturbed"]++
			s.after(200, 400, func() { s.again(o) })
			return
		}
		for i, ranks := range r.Ranks {
			h := s.agents[i].disk[r.Checkpoint]
			for _, rank := range ranks {
				if !o.lost[i] && s.agents[i].up && (h == nil || !slices.Contains(h.Ranks, rank)) {
					s.fault("rank %d goes on at %s, which has no image of it", rank, s.agents[i].name())
				}
			}
		}
		if s.readable(o, r) {
			s.counts["resumed"]++
			s.runs(o, r.Ranks)
		}
	})
}

// readable says whether the ranks find what they go on from as it was written; else it is looked through, once.
func (s *simulation) readable(o *owner, r *Resumption) bool {
	rotten := false
	for i, ranks := range r.Ranks {
		rotten = rotten || len(ranks) > 0 && s.agents[i].rotten[r.Checkpoint]
	}
	again := func() { s.after(200, 400, func() { s.again(o) }) }
	switch {
	case !rotten:
		return true
	case o.doubted[r.Checkpoint]:
		s.counts["damaged again"]++
		o.bad[r.Checkpoint] = true
		again()
	default:
		s.counts["damaged"]++
		o.doubted[r.Checkpoint] = true
		o.k.Inspect(r.Checkpoint, again)
	}
	return false
}

// rot: something that a node has of a checkpoint is not as it was written any more.
func (s *simulation) rot(i int) {
	a := s.agents[i]
	if have := sorted(a.disk); len(have) > 0 {
		a.rotten[have[len(have)-1-s.rng.IntN(min(len(have), 2))]] = true
	}
}

func (s *simulation) again(o *owner) {
	if !o.dead && o.ranks == nil {
		s.goBack(o)
	}
}

// spread gives ranks to nodes in blocks; the last of many nodes is a spare.
func (s *simulation) spread(o *owner, there []int) {
	if len(there) > 2 {
		there = there[:len(there)-1]
	}
	ranks := make([][]int, len(s.agents))
	for r := range s.cfg.Ranks {
		i := there[r*len(there)/s.cfg.Ranks]
		ranks[i] = append(ranks[i], r)
	}
	s.runs(o, ranks)
}

// runs: the ranks compute, and write a checkpoint after a while; but some may have been lost meanwhile.
func (s *simulation) runs(o *owner, ranks [][]int) {
	s.starts++
	o.start, o.ranks = s.starts, ranks
	for i, list := range ranks {
		if len(list) > 0 && o.lost[i] {
			s.after(200, 400, func() { s.again(o) })
			o.ranks = nil
			return
		}
	}
	start := o.start
	s.after(100, 1000, func() { s.checkpoint(o, start) })
}

// checkpoint: all ranks have written.
func (s *simulation) checkpoint(o *owner, start uint64) {
	if o.dead || o.start != start || o.ranks == nil || o.busy {
		return
	}
	if s.commits--; s.commits < 0 {
		return // the job is over
	}
	s.last++
	id := holding.ID{Job: simJob, Start: start, Epoch: s.last, Dataset: s.last}
	var nodes []int
	var ranks [][]int
	for i, list := range o.ranks {
		if len(list) > 0 {
			nodes, ranks = append(nodes, i), append(ranks, list)
			s.agents[i].tmp[s.last] = &part{ranks: list}
		}
	}
	o.busy = true
	o.k.Commit(id, holding.Label{}, How{Increments: s.increments}, nodes, ranks)
}

// committed: as coord does.
func (s *simulation) committed(o *owner, n uint64, why string) {
	o.busy = false
	if why != "" {
		s.counts["not committed"]++
		o.k.Discard(n)
	} else {
		s.counts["committed"]++
		o.images = append(o.images, n)
		s.prune(o)
	}
	if o.ranks == nil {
		s.after(200, 400, func() { s.again(o) })
		return
	}
	start := o.start
	s.after(100, 1000, func() { s.checkpoint(o, start) })
}

// prune keeps two, and the newest that was copied.
func (s *simulation) prune(o *owner) {
	var kept []uint64
	good, safe := 0, false
	for _, n := range slices.Backward(slices.Clone(o.images)) {
		last := o.k.Stored(n) && !o.bad[n] && !safe
		if good >= 2 && !last {
			delete(s.promises, n)
			o.k.Drop(n)
			continue
		}
		kept, safe = append(kept, n), safe || last
		if !o.bad[n] {
			good++
		}
	}
	slices.Reverse(kept)
	o.images = kept
}

// lose: a node is lost, for this owner or with all that it remembers; the owner notices at once or after its patience.
func (s *simulation) lose(i int) {
	o, a := s.owner, s.agents[i]
	if !a.up {
		return
	}
	amnesia := s.rng.IntN(2) == 0
	a.die(amnesia)
	s.counts["nodes lost"]++
	notice := []int64{1, 3000}[s.rng.IntN(2)]
	s.after(notice, notice+20, func() {
		if o.dead || o.lost[i] {
			return
		}
		o.lost[i] = true
		o.k.Lost(i)
		for _, id := range sorted(o.pending[i]) {
			then := o.pending[i][id]
			delete(o.pending[i], id)
			then(Answer{Err: a.name() + " is lost"})
		}
		if o.ranks != nil && len(o.ranks[i]) > 0 {
			o.ranks = nil
			if !o.busy {
				s.after(200, 400, func() { s.again(o) })
			}
		}
	})
}

// ownerDies: another byssus takes the job later.
func (s *simulation) ownerDies() {
	s.counts["owners lost"]++
	s.owner.dead = true
	for _, a := range s.agents {
		a.die(false)
	}
	s.after(100, 5000, s.begin)
}

// link is how an owner reaches its nodes: in order, with delays, as long as both are there.
type link struct {
	s *simulation
	o *owner
}

// fifo is when a message arrives that is sent now: not before those that were sent before it.
func (l *link) fifo(node, way int) int64 {
	at := max(l.s.now+l.s.rng.Int64N(30), l.o.fifo[node][way])
	l.o.fifo[node][way] = at
	return at - l.s.now
}

func (l *link) Ask(node int, order Order, then func(Answer)) {
	o := l.o
	o.asked++
	id := o.asked
	o.pending[node][id] = then
	if o.lost[node] {
		l.s.after(1, 1, func() { l.answer(node, id, Answer{Err: "it is lost"}) })
		return
	}
	l.deliver(node, order, func(a Answer) {
		d := l.fifo(node, 1)
		l.s.after(d, d, func() { l.answer(node, id, a) })
	})
}

func (l *link) answer(node int, id uint64, a Answer) {
	then := l.o.pending[node][id]
	if then == nil || l.o.dead {
		return
	}
	delete(l.o.pending[node], id)
	then(a)
}

func (l *link) deliver(node int, order Order, answer func(Answer)) {
	a, life, d := l.s.agents[node], l.s.agents[node].life, l.fifo(node, 0)
	l.s.after(d, d, func() {
		if a.up && a.life == life && !l.o.dead {
			a.hear(l.o, order, answer)
		}
	})
}

func (l *link) Tell(node int, order Order) { l.deliver(node, order, func(Answer) {}) }

func (l *link) Store(work Work, then func(error)) {
	n := target(work)
	if l.o.storing[n] {
		l.s.fault("%T of checkpoint %d while the store works on it", work, n)
	}
	l.o.storing[n] = true
	l.s.after(1, 2500, func() {
		delete(l.o.storing, n)
		switch w := work.(type) {
		case Enter:
			l.s.store[w.Checkpoint] = w.Files
			if len(w.Files) != l.s.cfg.Ranks {
				l.s.fault("checkpoint %d: %d files in the store, wanted %d", w.Checkpoint, len(w.Files), l.s.cfg.Ranks)
			}
		case Remove:
			delete(l.s.store, w.Checkpoint)
		}
		if !l.o.dead {
			then(nil)
		}
	})
}

// target is the checkpoint that a work is about.
func target(work Work) uint64 {
	switch w := work.(type) {
	case Place:
		return w.Checkpoint
	case Enter:
		return w.Checkpoint
	case Clear:
		return w.Checkpoint
	case Remove:
		return w.Checkpoint
	}
	return 0
}

func (l *link) Committed(n uint64, why string) {
	if why == "" {
		l.s.promise(l.o, n)
	}
	l.s.after(1, 1, func() {
		if !l.o.dead {
			l.s.committed(l.o, n, why)
		}
	})
}

// promise notes who has what is told to be committed.
func (s *simulation) promise(o *owner, n uint64) {
	p := &promise{how: redset.Single}
	sets := map[int][]holder{}
	for i, node := range o.k.nodes {
		h := node.held[n]
		if h == nil || len(h.Members) == 0 {
			continue
		}
		m := h.Members[0]
		p.how = m.Scheme
		if sets[m.Set] == nil {
			for _, x := range m.Members {
				var at int
				if _, err := fmt.Sscanf(x.Node, "n%d", &at); err != nil {
					s.fault("member %q", x.Node)
				}
				sets[m.Set] = append(sets[m.Set], holder{name: x.Node, node: at, missed: true})
			}
		}
		sets[m.Set][m.Own] = holder{name: m.Members[m.Own].Node, node: i, memory: s.agents[i].recorded[n]}
	}
	for _, members := range sets {
		p.sets = append(p.sets, members)
		set, missed := redset.Set{Scheme: p.how}, map[int]bool{}
		for m, h := range members {
			set.Members = append(set.Members, redset.Member{Node: m})
			if h.missed {
				missed[m] = true
			}
		}
		if !set.Survives(missed) {
			s.fault("checkpoint %d is told to be committed, and cannot be had", n)
		}
	}
	if len(sets) > 0 {
		s.promises[n] = p
	}
}

func (l *link) Flushed(n uint64) {
	l.s.counts["copied"]++
	if l.o.ranks != nil {
		l.s.prune(l.o)
	}
}

func (l *link) Repaired(uint64, int, int64, string) { l.s.counts["told of repairs"]++ }

func (l *link) Rebuilt(n uint64, lost string, on int, bytes int64) {
	l.s.counts["rebuilt"]++
	if fmt.Sprint("n", on) == lost {
		l.s.counts["mended"]++
	}
	for _, members := range l.s.promiseSets(n) {
		for m := range members {
			if members[m].name == lost {
				members[m] = holder{name: lost, node: on, memory: l.s.agents[on].recorded[n]}
			}
		}
	}
}

func (s *simulation) promiseSets(n uint64) [][]holder {
	if p := s.promises[n]; p != nil {
		return p.sets
	}
	return nil
}

func (l *link) Say(string) {}

// newSimulation plans one schedule.
func newSimulation(seed uint64, counts map[string]int) *simulation {
	rng := rand.New(rand.NewPCG(seed, 3))
	n := 3 + rng.IntN(10)
	w := &world{rng: rng, store: map[uint64][]holding.File{}, moves: map[[2]uint64]*move{}, counts: counts}
	for i := range n {
		w.agents = append(w.agents, &simAgent{w: w, index: i, disk: map[uint64]*recovery.Held{}, tmp: map[uint64]*part{}, recorded: map[uint64]int{},
			rotten: map[uint64]bool{}, building: map[uint64]uint64{}})
	}
	s := &simulation{world: w, promises: map[uint64]*promise{}, commits: 6 + rng.IntN(12), cfg: Config{Job: simJob,
		Ranks: n + rng.IntN(n), Scheme: []redset.Scheme{redset.XOR, redset.Partner, redset.PartnerOf(2), redset.Single}[min(rng.IntN(10)/3, 3)],
		Size: []int{0, 2, 3}[rng.IntN(3)], Flush: rng.IntN(4)}}
	s.increments = seed%2 == 0
	w.after(0, 0, s.begin)
	for range rng.IntN(n + 3) {
		w.after(0, 15000, func() { s.lose(rng.IntN(n)) })
	}
	for range rng.IntN(4) {
		w.after(0, 15000, func() { s.rot(rng.IntN(n)) })
	}
	for range rng.IntN(3) {
		w.after(1000, 15000, func() {
			if s.owner != nil && !s.owner.dead {
				s.ownerDies()
			}
		})
	}
	return s
}

// TestSimulation: random schedules of commits, copies, losses of nodes with and without their memory, and of the owner: what was
// told to be committed can be had while no more is lost than its sets survive, everything comes to an end, and nobody is asked
// for what it has not.
func TestSimulation(t *testing.T) {
	const schedules, first = 10000, 1
	counts := map[string]int{}
	for seed := uint64(first); seed < first+schedules; seed++ {
		s := newSimulation(seed, counts)
		ended := s.run(200000)
		switch o := s.owner; {
		case s.wrong != "":
			t.Fatalf("seed %d, %d nodes, %+v: %s", seed, len(s.agents), s.cfg, s.wrong)
		case !ended:
			t.Fatalf("seed %d: it does not end", seed)
		case o.busy:
			t.Fatalf("seed %d: a commit never ended", seed)
		case s.commits >= 0 && o.ranks == nil && slices.Contains(o.lost, false):
			t.Fatalf("seed %d: the job does not go on", seed)
		}
	}
	t.Log(counts)
	for _, what := range []string{"committed", "not committed", "resumed", "rebuilt", "rebuilding disturbed", "from the store", "anew",
		"copied", "more lost than covered", "damaged", "made good", "told of repairs", "increments", "rotten base", "found when copied", "mended", "owners lost", "nodes lost", "all nodes lost", "others gone"} {
		if counts[what] == 0 {
			t.Errorf("%s: never", what)
		}
	}
}
