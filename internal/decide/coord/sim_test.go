package coord

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// These files run the machine against simulated ranks, which execute random programs of collectives (blocking and posted),
// arrival waits, communicators, messages and computation, with every interleaving of steps and message delays that a
// seed can make. Checkpoints are asked for at random moments; after some of them all ranks are killed, and the job goes on
// from an image, several times in one program. Of the real MPI nothing survives that.
//
// At STOP and at the first word of the drain the simulation asks: is nobody inside a blocking collective; has every member
// posted what any member has entered or observed; have members chosen alike where to have arrival waits. At the end: has
// every rank completed every collective once, with the right result.

// rules are what the simulated ranks do wrong on purpose, so that it can be seen that the simulation would notice.
type rules struct {
	reportPosted  bool // what is posted counts as reached
	observeAnyway bool // completions are observed at any time
	enterAnyway   bool // collectives are entered at any time
	meetInside    bool // a rank meets inside a blocking collective
	silentRaise   bool // a rank goes beyond a target and does not say so
	waitSilently  bool // a rank that is behind and waits for a posted one does not raise it
	silentTests   bool // a rank that tests again and again does not say that it waits
	silentInside  bool // a rank inside a blocking collective does not say that it waits
	impatient     bool // a rank that tests raises after the same time, again and again
	forgetPosted  bool // what was posted is not posted again
	largeIsPosted bool // what has overwritten its input is posted again
	keepNoInput   bool // small inputs are not kept
	freeForgets   bool // a communicator is freed whatever is open on it
	drainForgets  bool // what a checkpoint has completed does not count as observed
	ownMode       bool // each member chooses by its own measurements
	countTwice    bool // a call that is made again counts again
	ownTargets    bool // agents tell targets to those ranks alone that have reported the communicator
	newestFirst   bool // an agent's reports overtake each other
}

// counts are what happened in many programs.
type counts struct {
	programs, checkpoints int
	stuck, most           int // checkpoints that needed further attempts since the ranks did not meet; the most of one
	spoilt                int // that had to be made again since a rank refused, failed or died
	restarts, postedAgain int // from an image; collectives that were posted again there
	modes                 int // decisions of a rank to have arrival waits, or no more
	held                  int // completions that were there and not observed for some time
	raises                int
	versions              uint64 // the most of one attempt
}

type sim struct {
	rng      *rand.Rand
	rules    rules
	counts   counts
	m        *Machine
	now      time.Duration
	patience time.Duration // after which a rank that stands still does something about it
	window   int           // synchronising calls for which a mode is chosen
	prog     *program
	ranks    []*simRank
	mpi      []realComm     // by communicator
	begun    []bool         // in this life: by rank, uid and part
	up       [][]any        // in flight, rank to agent: node.Report or clocksPart
	down     [][]node.Order // in flight, agent to rank
	nodes    []*simNode
	home     []*simNode // by rank
	met      bool       // STOP was sent in this attempt
	frozen   bool       // and nobody may enter anything
	alive    bool
	images   map[uint64][]simState
	plans    int  // checkpoints and deaths that are still to come
	stuck    int  // attempts of the present checkpoint in which the ranks did not meet
	spoilt   bool // and there were others
	asked    bool
	result   *Result
	sharers  int  // ranks that write to one file
	slow     bool // the library has not noticed something
	todo     []Event
}

// simNode is the agent of some of the ranks.
type simNode struct {
	fold  *node.Fold
	ranks []int
	up    []node.Report // in flight, agent to coordinator
	down  []node.Order  // in flight, coordinator to agent
}

// clocksPart is a part of a rank's report of its clocks.
type clocksPart struct {
	clocks []abi.Clock
	epoch  uint64
	more   bool
}

// say: a rank's word has come to its agent.
func (n *simNode) say(s *sim, rank int, ev any) {
	if p, ok := ev.(clocksPart); ok {
		n.fold.SayClocks(s.now, rank, p.epoch, p.clocks, p.more)
	} else {
		n.fold.Say(s.now, ev.(node.Report))
	}
	n.up = append(n.up, n.fold.Take(s.now)...)
}

// look reads the shared pages when it is time to.
func (n *simNode) look(s *sim) {
	at, look, ok := n.fold.Next()
	if !ok || at > s.now {
		return
	}
	if look {
		var pages []node.Sample
		for _, r := range n.ranks {
			pages = append(pages, node.Sample{Where: uint64(s.ranks[r].where)})
		}
		n.fold.Look(s.now, pages)
	}
	n.up = append(n.up, n.fold.Take(s.now)...)
}

// simError is what the simulation has found.
type simError string

func (s *sim) fail(format string, args ...any) { panic(simError(fmt.Sprintf(format, args...))) }

func newSim(seed uint64, rules rules, write func(*rand.Rand) *program) *sim {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := &sim{rng: rng, rules: rules, patience: time.Millisecond, window: 2 + rng.IntN(3), prog: write(rng)}
	n := len(s.prog.ranks)
	s.m = New(Config{Ranks: n, Keep: 2, Retries: 20, Patience: 5 * time.Millisecond})
	s.images, s.sharers, s.plans = map[uint64][]simState{}, rng.IntN(n+1), 1+rng.IntN(6)
	return s
}

// value is what a rank contributes to an operation.
func value(uid, rank int) pair { return pair{int64(uid+1)*1000 + int64(rank+1)*int64(uid+7)} }

// measured is an interval between calls, and a cost of arrival waits, as a member might measure them.
func (s *sim) measured() pair { return pair{1000 + s.rng.Int64N(1000), s.rng.Int64N(25)} }

// launch begins a life: from an image, or from the beginning.
func (s *sim) launch(image uint64) {
	n := len(s.prog.ranks)
	states := s.images[image]
	if image != 0 && states == nil {
		s.fail("checkpoint %d is not there", image)
	}
	s.up, s.down, s.ranks, s.alive, s.frozen = make([][]any, n), make([][]node.Order, n), nil, true, false
	s.place(image != 0)
	s.begun = make([]bool, n*len(s.prog.ops)*int(nParts))
	s.mpi = make([]realComm, len(s.prog.members))
	for i := range s.mpi {
		s.mpi[i].size = len(s.prog.members[i])
	}
	for i := range n {
		r := &simRank{id: i, prog: s.prog.ranks[i], real: make([]bool, s.prog.nreqs[i]+1+len(s.mpi)), targets: make([]uint64, len(s.mpi))}
		if image == 0 {
			r.st = simState{comms: make([]simComm, len(s.mpi)), reqs: make([]simReq, s.prog.nreqs[i]+1+len(s.mpi)), completed: make([]uint8, len(s.prog.ops))}
			r.st.comms[world] = simComm{known: true, wait: true}
		} else {
			r.st = states[i].clone()
			r.postAgain(s)
			r.send(s, node.Restored{Ranks: []int{i}})
		}
		s.ranks = append(s.ranks, r)
		r.send(s, node.Hello{Ranks: []int{i}})
	}
}

// place gives each rank to a node.
func (s *sim) place(restart bool) {
	n := len(s.prog.ranks)
	s.nodes, s.home = make([]*simNode, 1+s.rng.IntN(n)), make([]*simNode, n)
	for i := range s.nodes {
		s.nodes[i] = &simNode{}
	}
	for i := range n {
		s.home[i] = s.nodes[s.rng.IntN(len(s.nodes))]
		s.home[i].ranks = append(s.home[i].ranks, i)
	}
	s.nodes = slices.DeleteFunc(s.nodes, func(n *simNode) bool { return len(n.ranks) == 0 })
	for _, n := range s.nodes {
		n.fold = node.New(n.ranks, restart)
	}
}

// start is a collective of the real MPI.
func (s *sim) start(r *simRank, o *simOp, p part, number uint64, value pair) int {
	once := &s.begun[(r.id*len(s.prog.ops)+o.uid)*int(nParts)+int(p)]
	if *once {
		s.fail("rank %d starts operation %d twice, part %d", r.id, o.uid, p)
	}
	*once = true
	kind := o.who
	if p != asked && p != word {
		kind = everyone
	}
	i, err := s.mpi[o.comm].start(r.id, sameCall{o.uid, p, number}, kind, o.root, value)
	if err != nil {
		s.fail("communicator %d: %v", o.comm, err)
	}
	return i
}

// lastOf is the collective that a rank has started last.
func (s *sim) lastOf(comm, rank int) int { return s.mpi[comm].started[rank] - 1 }

// complete: the program of a rank has the result of an operation.
func (s *sim) complete(r *simRank, o *simOp, result pair) {
	var want int64
	switch {
	case o.who == fromRoot:
		want = value(o.uid, o.root)[0]
	case o.who == everyone || r.id == o.root:
		for _, m := range s.prog.members[o.comm] {
			want += value(o.uid, m)[0]
		}
	}
	if result[0] != want {
		s.fail("rank %d: operation %d has the result %d, not %d", r.id, o.uid, result[0], want)
	}
	r.st.completed[o.uid]++
}

// -- the helper thread of a rank ------------------------------------------------------------------------------------------

func (r *simRank) receiveMessage(s *sim, msg node.Order) {
	switch msg.Type {
	case abi.MsgRequest:
		r.reportClocks(s, msg.Epoch)
	case abi.MsgTargets:
		r.version = msg.Version
		for _, c := range msg.Targets {
			r.targets[c.Comm] = max(r.targets[c.Comm], c.Seq)
		}
		r.report(s)
	case abi.MsgStop:
		r.stop(s)
	case abi.MsgShared:
		r.holds = msg.Hold
		if len(msg.Shares) != 1 || msg.Shares[0].Owner != 0 {
			s.fail("shares: %+v", msg.Shares)
		}
	case abi.MsgDrain:
		r.image(s, msg.Checkpoint)
	case abi.MsgResume:
		for _, other := range s.ranks {
			if !other.imaged {
				s.fail("rank %d goes on before rank %d has its image", r.id, other.id)
			}
		}
		r.resume(s)
	case abi.MsgCancel:
		if r.stopped {
			r.resume(s)
		}
		r.pending, r.waits = false, false
	}
}

func (r *simRank) reportClocks(s *sim, epoch uint64) {
	r.pending, r.epoch, r.version, r.said, r.waits, r.patient = true, epoch, 0, 0, false, 0
	clear(r.targets)
	var cs []abi.Clock
	for i := range r.st.comms {
		c := &r.st.comms[i]
		if c.freed && s.rng.IntN(2) == 0 && s.freedByAll(i) {
			c.known = false
		}
		seq := c.reached()
		if s.rules.reportPosted {
			seq = c.posted
		}
		if c.known {
			cs = append(cs, abi.Clock{Comm: uint64(i), Seq: seq, NMembers: uint32(len(s.prog.members[i]))})
		}
	}
	cut := s.rng.IntN(len(cs) + 1)
	r.send(s, clocksPart{cs[:cut], r.epoch, true})
	r.send(s, clocksPart{cs[cut:], r.epoch, false})
}

func (r *simRank) stop(s *sim) {
	r.stopped, r.holds, r.imaged = true, false, false
	if r.id < s.sharers {
		o := abi.Object{Dev: 1, Inode: 9, Size: 100, Flags: abi.ObjectWrites | abi.ObjectEnd, FD: 3}
		r.send(s, node.Objects{Rank: r.id, Epoch: r.epoch, Objects: []node.Object{{Object: o, Domain: "here"}}})
	}
	ev := node.Stopped{Ranks: []int{r.id}, Epoch: r.epoch}
	if s.rng.IntN(100) == 0 {
		ev.Passing = []string{"a child"}
	}
	r.send(s, ev)
}

// image drains and writes; that may fail, and one that hears meanwhile that another has failed gives up.
func (r *simRank) image(s *sim, n uint64) {
	if r.holds != (s.sharers > 1) {
		s.fail("rank %d holds: %v, with %d sharers", r.id, r.holds, s.sharers)
	}
	cancelled := slices.ContainsFunc(s.down[r.id], func(m node.Order) bool { return m.Type == abi.MsgCancel })
	if cancelled && s.rng.IntN(2) == 0 {
		return
	}
	fails := s.rng.IntN(40) == 0
	if !fails || s.rng.IntN(2) == 0 {
		r.drain(s)
	}
	if fails {
		r.send(s, node.Image{Ranks: []int{r.id}, Epoch: r.epoch, Text: fmt.Sprintf("rank %d: no space", r.id)})
		return
	}
	if image := s.images[n]; image != nil {
		image[r.id] = r.st.clone()
	}
	r.imaged = true
	r.send(s, node.Image{Ranks: []int{r.id}, Epoch: r.epoch, Bytes: 1})
	if !r.holds {
		r.resume(s)
	}
}

// resume lets the application go on after its image, or without one.
func (r *simRank) resume(s *sim) {
	r.stopped, r.pending, r.waits = false, false, false
	if s.rules.countTwice && r.st.pc < len(r.prog) && r.prog[r.st.pc].arrives && r.st.stage != beginning {
		r.comm(r.prog[r.st.pc].comm).calls++
	}
	r.send(s, node.Resumed{Ranks: []int{r.id}, Epoch: r.epoch, Stall: time.Millisecond})
}

// -- what is checked --------------------------------------------------------------------------------------------------------

func (s *sim) freedByAll(comm int) bool {
	for _, m := range s.prog.members[comm] {
		if !s.ranks[m].st.comms[comm].freed {
			return false
		}
	}
	return true
}

// checkQuiet asks whether everybody may be stopped.
func (s *sim) checkQuiet() {
	for _, r := range s.ranks {
		if r.blocked() {
			s.fail("stopped with rank %d inside a blocking collective", r.id)
		}
	}
	for comm, members := range s.prog.members {
		var most uint64
		for _, m := range members {
			most = max(most, s.ranks[m].comm(comm).reached())
		}
		for _, m := range members {
			if c := s.ranks[m].comm(comm); c.posted < most {
				s.fail("stopped with rank %d at %d of communicator %d, where another has reached %d", m, c.posted, comm, most)
			}
		}
	}
	s.checkModes()
}

// checkModes: members that have come to the same call of a communicator have chosen the same mode for it.
func (s *sim) checkModes() {
	for comm, members := range s.prog.members {
		var longest []bool
		for _, m := range members {
			modes := s.ranks[m].comm(comm).modes
			n := min(len(modes), len(longest))
			if !slices.Equal(modes[:n], longest[:n]) {
				s.fail("communicator %d: members have chosen different modes", comm)
			}
			if len(modes) > n {
				longest = modes
			}
		}
	}
}

// checkEnd: every rank has completed every operation of its communicators once.
func (s *sim) checkEnd() {
	s.checkQuiet()
	for uid, o := range s.prog.ops {
		for _, m := range s.prog.members[o.comm] {
			if n := s.ranks[m].st.completed[uid]; o.kind != opFree && n != 1 {
				s.fail("rank %d has completed operation %d %d times", m, uid, n)
			}
		}
	}
}

// checkTargets: the first targets are no further than somebody has come.
func (s *sim) checkTargets(cs []node.Target) {
	for _, c := range cs {
		var most uint64
		for _, r := range s.ranks {
			most = max(most, r.comm(int(c.Comm)).reached())
		}
		if c.Seq > most {
			s.fail("the target of communicator %d is %d, and nobody has come further than %d", c.Comm, c.Seq, most)
		}
	}
}

// -- the driver of the machine ----------------------------------------------------------------------------------------------

// step hands an event to the machine and does what it says.
func (s *sim) step(ev Event) {
	s.todo = append(s.todo, ev)
	for len(s.todo) > 0 {
		ev, s.todo = s.todo[0], s.todo[1:]
		for _, a := range s.m.Step(s.now, ev) {
			s.perform(a)
		}
	}
}

func (s *sim) perform(a Action) {
	switch a := a.(type) {
	case Launch:
		if a.Image != 0 {
			s.counts.restarts++
		}
		s.launch(a.Image)
	case Send:
		if s.alive {
			s.deliver(a)
		}
	case Prepare:
		s.todo = append(s.todo, Prepared{Checkpoint: a.Checkpoint})
	case Commit:
		s.todo = append(s.todo, Committed{Checkpoint: a.Checkpoint})
	case Drop:
		delete(s.images, a.Checkpoint)
	case Discard:
		delete(s.images, a.Checkpoint)
	case Took:
		s.counts.checkpoints++
	case Reply:
		s.replied(a.Result)
	case Finish:
		s.fail("the job ends: %+v", s.m.reason)
	}
}

func (s *sim) deliver(a Send) {
	for _, n := range s.nodes {
		n.down = append(n.down, a.Order)
	}
	switch a.Type {
	case abi.MsgTargets:
		s.counts.versions = max(s.counts.versions, a.Version)
		if a.Version == 1 {
			s.checkTargets(a.Targets)
		}
		if a.Version > 300 {
			s.fail("the targets go up for ever: version %d", a.Version)
		}
	case abi.MsgRequest:
		s.met = false
	case abi.MsgStop:
		s.met, s.frozen = true, true
		s.checkQuiet()
	case abi.MsgDrain:
		s.frozen = false
		s.checkQuiet()
		s.images[a.Checkpoint] = make([]simState, len(s.ranks))
	case abi.MsgCancel:
		s.frozen, s.spoilt = false, s.met
		if !s.met {
			s.stuck++
		}
	}
}

// replied: a checkpoint that fails does so because the simulation made it fail, or because the ranks died.
func (s *sim) replied(res Result) {
	switch {
	case res.Err == "":
	case strings.HasSuffix(res.Err, ": no space"), res.Err == "rank 0 died", res.Err == "the job is ending":
		s.spoilt = true
		s.plans++
	default:
		s.fail("no checkpoint: %s", res.Err)
	}
	if s.stuck > 0 {
		s.counts.stuck++
	}
	if s.spoilt {
		s.counts.spoilt++
	}
	s.counts.most = max(s.counts.most, s.stuck)
	s.result = &res
	s.asked, s.stuck, s.spoilt = false, 0, false
}

// kill ends all ranks.
func (s *sim) kill() {
	s.alive = false
	s.up, s.down = make([][]any, len(s.ranks)), make([][]node.Order, len(s.ranks))
	for _, n := range s.nodes {
		n.up, n.down = nil, nil
	}
	for i := range s.ranks {
		s.step(node.Lost{Rank: i})
	}
	s.step(LauncherExit{Signal: 9})
}

// plan lets something happen: a checkpoint is asked for, or the job dies.
func (s *sim) plan() {
	s.plans--
	if len(s.m.images.list) > 0 && s.m.phase == Running && s.rng.IntN(2) == 0 {
		s.kill()
		return
	}
	if s.m.phase == Running && !s.asked {
		s.asked = true
		s.step(Request{ID: 1})
	}
}

// move lets a random one of the things happen that can happen; false: nothing can.
func (s *sim) move() bool {
	n := len(s.ranks)
	var order [5 * maxRanks]int
	all := 3*n + 2*len(s.nodes)
	for i := range all {
		order[i] = i
	}
	for left := all; left > 0 && s.alive; left-- {
		k := s.rng.IntN(left)
		i := order[k]
		order[k] = order[left-1]
		if i < 3*n && s.moveOne(s.ranks[i%n], i/n) || i >= 3*n && s.carry(s.nodes[(i-3*n)/2], i%2 == 0) {
			return true
		}
	}
	return false
}

func (s *sim) moveOne(r *simRank, what int) bool {
	switch {
	case what == 0:
		return r.step(s)
	case what == 1 && len(s.up[r.id]) > 0:
		ev := s.up[r.id][0]
		s.up[r.id] = s.up[r.id][1:]
		s.home[r.id].say(s, r.id, ev)
		return true
	case what == 2 && len(s.down[r.id]) > 0:
		msg := s.down[r.id][0]
		s.down[r.id] = s.down[r.id][1:]
		r.receiveMessage(s, msg)
		return true
	}
	return false
}

// carry takes a message from an agent to the coordinator, or back.
func (s *sim) carry(n *simNode, up bool) bool {
	switch {
	case up && len(n.up) > 0:
		at := 0
		if s.rules.newestFirst {
			at = len(n.up) - 1
		}
		ev := n.up[at]
		n.up = slices.Delete(n.up, at, at+1)
		s.step(ev)
		return true
	case !up && len(n.down) > 0:
		o := n.down[0]
		n.down = n.down[1:]
		if o.Targets = slices.Clone(o.Targets); s.rules.ownTargets {
			for i := range o.Targets {
				o.Targets[i].Everyone = false
			}
		}
		for _, m := range n.fold.Hear(o) {
			for _, r := range m.Ranks {
				s.down[r] = append(s.down[r], m.Order)
			}
		}
		return true
	}
	return false
}

// timer is when the next rank has stood still for a while, or the machine wants to be told the time.
func (s *sim) timer() (time.Duration, bool) {
	at, ok := s.m.Next()
	for _, r := range s.ranks {
		if t := r.since + s.patience; s.alive && r.since > 0 && t > s.now && (!ok || t < at) {
			at, ok = t, true
		}
	}
	for _, n := range s.nodes {
		if t, _, due := n.fold.Next(); s.alive && due && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// run executes the program, with checkpoints and deaths at random moments.
func (s *sim) run() {
	s.step(Start{})
	next := 1 + s.rng.IntN(500)
	for steps := 1; ; steps++ {
		ended := s.ended()
		if ended && s.plans <= 0 && s.m.op == nil {
			s.checkEnd()
			return
		}
		if steps > 300000 {
			s.fail("no end: %s", s.m.Status().Detail)
		}
		if s.plans > 0 && (steps >= next || ended) {
			s.plan()
			next = steps + 1 + s.rng.IntN(800)
		}
		s.turn()
	}
}

// turn lets one thing happen, and some time pass.
func (s *sim) turn() {
	if at, ok := s.m.Next(); ok && at <= s.now {
		s.step(Tick{})
	}
	for _, n := range s.nodes {
		if s.alive {
			n.look(s)
		}
	}
	s.slow = false
	if s.move() || s.slow {
		s.now += time.Duration(s.rng.IntN(100)) * time.Microsecond
		return
	}
	at, ok := s.timer()
	if !ok && !s.ended() {
		s.fail("nothing moves and nobody waits for a time")
	}
	s.now = max(at, s.now)
	s.step(Tick{})
}

func (s *sim) ended() bool {
	for _, r := range s.ranks {
		if r.st.pc != len(r.prog) {
			return false
		}
	}
	return s.alive
}

// simulate runs one program; what it finds is an error.
func simulate(seed uint64, rules rules, write func(*rand.Rand) *program) (c counts, err error) {
	var s *sim
	defer func() {
		if s != nil {
			c = s.counts
		}
		if found := recover(); found != nil {
			text, ok := found.(simError)
			if !ok {
				panic(found)
			}
			err = fmt.Errorf("seed %d: %s", seed, text)
		}
	}()
	s = newSim(seed, rules, write)
	s.run()
	return s.counts, nil
}

func (c *counts) add(d counts) {
	c.programs++
	c.checkpoints += d.checkpoints
	c.stuck += d.stuck
	c.most = max(c.most, d.most)
	c.spoilt += d.spoilt
	c.restarts += d.restarts
	c.postedAgain += d.postedAgain
	c.modes += d.modes
	c.held += d.held
	c.raises += d.raises
	c.versions = max(c.versions, d.versions)
}

// TestAgreementSimulated runs as many programs as there is time for; BYSSUS_TEST_LONG=1: many more. BYSSUS_TEST_SEED=N runs
// one again.
func TestAgreementSimulated(t *testing.T) {
	first, count, limit := uint64(1), uint64(20000), 20*time.Second
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		count, limit = 150000, time.Hour
	}
	if v := os.Getenv("BYSSUS_TEST_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, count = n, 1
	}
	var all counts
	began := time.Now()
	for seed := first; seed < first+count && time.Since(began) < limit; seed++ {
		c, err := simulate(seed, rules{}, newProgram)
		if err != nil {
			t.Fatalf("%v; again with BYSSUS_TEST_SEED=%d", err, seed)
		}
		all.add(c)
	}
	t.Logf("%+v", all)
}

// TestSimulationNotices breaks one rule after the other: the simulation finds it within some programs.
func TestSimulationNotices(t *testing.T) {
	for name, c := range map[string]struct {
		rules rules
		write func(*rand.Rand) *program
	}{
		"what is posted counts as reached":                        {rules{reportPosted: true}, newProgram},
		"completions are observed at any time":                    {rules{observeAnyway: true}, newProgram},
		"collectives are entered at any time":                     {rules{enterAnyway: true}, newProgram},
		"a rank meets inside a blocking collective":               {rules{meetInside: true}, newProgram},
		"a rank does not say that it goes beyond a target":        {rules{silentRaise: true}, newProgram},
		"a rank that is behind waits in silence for a posted one": {rules{waitSilently: true}, newProgram},
		"a rank that tests again and again says nothing":          {rules{silentTests: true}, newProgram},
		"what was posted is not posted again":                     {rules{forgetPosted: true}, newProgram},
		"what has overwritten a large input is posted again":      {rules{largeIsPosted: true}, newProgram},
		"inputs are not kept":                                     {rules{keepNoInput: true}, newProgram},
		"a communicator is freed whatever is open on it":          {rules{freeForgets: true}, newProgram},
		"what a checkpoint has completed does not count":          {rules{drainForgets: true}, givenUp},
		"each member chooses by its own measurements":             {rules{ownMode: true}, newProgram},
		"a call that is made again counts again":                  {rules{countTwice: true}, newProgram},
		"targets are for those that have reported":                {rules{ownTargets: true}, newProgram},
		"reports of a node overtake each other":                   {rules{newestFirst: true}, newProgram},
		"a rank says nothing inside a blocking collective":        {rules{silentInside: true}, entangled},
		"a rank that tests raises again and again":                {rules{impatient: true}, lagging},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 50; seed++ {
				if _, err := simulate(seed, rules{}, c.write); err != nil {
					t.Fatalf("with nothing broken: %v", err)
				}
			}
			for seed := uint64(1); seed <= 20000; seed++ {
				if _, err := simulate(seed, c.rules, c.write); err != nil {
					t.Logf("found: %v", err)
					return
				}
			}
			t.Error("not noticed")
		})
	}
}

// TestStragglerIsNotWaitedFor: ranks that are in an arrival wait, or wait for a root's word, or for what they have posted, are stopped at once
// though another computes for a very long time before it comes to that.
func TestStragglerIsNotWaitedFor(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		s := newSim(seed, rules{}, straggling)
		s.plans, s.sharers = 0, 0
		s.step(Start{})
		for turns := 0; s.result == nil; turns++ {
			if turns == 400 {
				s.step(Request{ID: 1})
			}
			s.turn()
		}
		if n := s.ranks[0].st.left; s.ranks[0].st.pc != 0 || n > 3000 {
			t.Errorf("seed %d: %+v, when the straggler is at its operation %d, step %d", seed, s.result, s.ranks[0].st.pc, n)
		}
	}
}
