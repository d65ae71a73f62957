package coord

import (
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// simRank is a rank with its program, and at the same time the reference for what the MPI half of a rank has to do. Words,
// for one communicator: every collective has a number, 1, 2, 3 and so on, the same on all members.
//
//   - posted: how many this rank has started, blocking or not;
//   - entered: the highest number of a blocking one that it has entered, or of one that cannot be posted again;
//   - observed: the highest number of a non-blocking one of whose completion it has made use;
//   - reached, the higher of the last two: what all members must have posted before anybody is stopped.
type simRank struct {
	id   int
	prog []simOp
	st   simState

	// What lies in the process, and is gone with it.
	real    []bool // by request: the real MPI says it is complete
	epoch   uint64
	pending bool
	stopped bool
	version uint64
	targets []uint64      // by communicator
	said    uint64        // newest version for which MET was said
	waits   bool          // WAITING was said
	since   time.Duration // when it began to stand where it is, 0: it does not
	patient int           // how often it has raised a target in this attempt for what it may not need
	held    bool          // something that is complete is not observed here
	holds   bool          // SHARED said so: it waits for RESUME after its image
	imaged  bool
	where   uint32
}

// simState is what an image holds of a rank.
type simState struct {
	pc, stage, left int
	tries           int // tests of the present operation
	comms           []simComm
	reqs            []simReq // behind the program's: of each communicator what it has sent as a root; the arrival wait
	sent            [maxRanks]int
	completed       []uint8 // by uid
}

// simComm is a communicator as one member sees it.
type simComm struct {
	known, freed              bool
	posted, entered, observed uint64
	calls                     int    // synchronising calls that are over
	wait                      bool   // their mode
	exchanged                 bool   // measurements, for the call under way
	modes                     []bool // that were chosen, call by call
	led                       int    // calls with a root's word that are over
	straight                  bool   // of these, but for the first of a window, none has it
}

func (c *simComm) reached() uint64 { return max(c.entered, c.observed) }

// simReq is a request of the application, or an arrival wait.
type simReq struct {
	op       simOp
	part     part
	started  bool
	consumed bool
	done     bool // its result is known: a checkpoint has completed it
	number   uint64
	at       int  // which collective of the real MPI
	buffer   pair // its input, while that is not overwritten
	kept     pair
	result   pair
}

// Stages of a blocking collective.
const (
	beginning  = iota
	exchanging // inside the exchange in front of it
	arriving   // in the arrival wait
	entering
	inside
)

func (st *simState) clone() simState {
	out := *st
	out.comms, out.reqs, out.completed = slices.Clone(st.comms), slices.Clone(st.reqs), slices.Clone(st.completed)
	for i := range out.comms {
		out.comms[i].modes = slices.Clone(out.comms[i].modes)
	}
	return out
}

func (r *simRank) comm(id int) *simComm { return &r.st.comms[id] }

func (r *simRank) arrivalWait() *simReq { return &r.st.reqs[len(r.st.reqs)-1] }

// lead is the number of the request by which the rank has sent its word on a communicator.
func (r *simRank) lead(comm int) int { return len(r.st.reqs) - 2 - comm }

// blocked says whether the rank is inside a blocking collective.
func (r *simRank) blocked() bool { return r.st.stage == inside || r.st.stage == exchanging }

func (r *simRank) send(s *sim, ev any) { s.up[r.id] = append(s.up[r.id], ev) }

// behind says whether this rank has still to post something that another member has entered or observed.
func (r *simRank) behind() bool {
	for i := range r.st.comms {
		if c := &r.st.comms[i]; c.known && c.posted < r.targets[i] {
			return true
		}
	}
	return false
}

// report says MET once per version, when it is true.
func (r *simRank) report(s *sim) {
	if r.pending && r.version > r.said && !(r.blocked() && !s.rules.meetInside) && !r.behind() {
		r.said, r.waits = r.version, false
		r.send(s, node.Met{Ranks: []int{r.id}, Epoch: r.epoch, Version: r.version})
	}
}

// reach is a communicator and a number that this rank is about to enter or to observe there.
type reach struct {
	comm   int
	number uint64
}

// may decides whether the rank may reach all that; false: it has to hold. Posting is always allowed.
func (r *simRank) may(s *sim, all []reach) bool {
	over := false
	for _, m := range all {
		limit := r.comm(m.comm).reached()
		if r.version > 0 {
			limit = max(limit, r.targets[m.comm])
		}
		over = over || m.number > limit
	}
	switch {
	case !r.pending || !over:
		return true
	case r.version == 0 || !r.behind():
		return false
	}
	for _, m := range all {
		r.raise(s, m)
	}
	return true
}

func (r *simRank) raise(s *sim, m reach) {
	if m.number <= r.targets[m.comm] {
		return
	}
	r.targets[m.comm] = m.number
	s.counts.raises++
	if !s.rules.silentRaise {
		r.send(s, node.Raise{Rank: r.id, Epoch: r.epoch, Clock: node.Clock{Comm: uint64(m.comm), Seq: m.number, Members: uint32(len(s.prog.members[m.comm]))}})
	}
}

// step moves the rank; false: it could not move.
func (r *simRank) step(s *sim) bool {
	if r.stopped || r.st.pc == len(r.prog) {
		return false
	}
	o, pc, moved := &r.prog[r.st.pc], r.st.pc, true
	switch o.kind {
	case opCompute:
		r.where = abi.WhereRun
		if r.st.left++; r.st.left == o.steps {
			r.next()
		}
	case opSend:
		r.st.sent[o.peer]++
		r.next()
	case opIrecv:
		r.st.reqs[o.req] = simReq{op: *o, started: true}
		r.next()
	case opRecv:
		if q := &r.st.reqs[o.req]; !q.started {
			*q = simReq{op: *o, started: true}
		}
		moved = r.await(s, []int{o.req}, true)
	case opWait:
		moved = r.await(s, o.reqs, o.all)
	case opPoll, opPoke:
		r.poll(s, o)
	case opPost:
		moved = r.postOrHold(s, o)
	case opFree:
		moved = r.free(s, o)
	default:
		moved = r.collective(s, o)
	}
	if r.st.pc != pc {
		r.goOn(s)
	}
	r.report(s)
	return moved
}

func (r *simRank) next() {
	r.st.pc, r.st.stage, r.st.left = r.st.pc+1, beginning, 0
	r.st.tries = 0
}

// goOn takes back that the rank stands still.
func (r *simRank) goOn(s *sim) {
	r.where, r.since, r.held = abi.WhereRun, 0, false
	if r.waits {
		r.waits = false
		r.send(s, node.Waiting{Ranks: []int{r.id}, Epoch: r.epoch, Where: abi.WhereRun})
	}
}

// -- blocking collectives ------------------------------------------------------------------------------------------------

func (r *simRank) collective(s *sim, o *simOp) bool {
	c := r.comm(o.comm)
	switch r.st.stage {
	case beginning:
		return r.begin(s, o, c)
	case exchanging:
		i := s.lastOf(o.comm, r.id)
		if !s.mpi[o.comm].complete(i, r.id) {
			return r.standInside(s)
		}
		r.chooseMode(s, c, s.mpi[o.comm].result(i, r.id))
		r.st.stage = beginning
		r.goOn(s)
		return true
	case arriving:
		if !r.look(s, []int{len(r.st.reqs) - 1}, true) {
			return r.stand(s, []int{len(r.st.reqs) - 1}, true, false)
		}
		r.goOn(s)
		if q := r.arrivalWait(); q.part == offer {
			r.chooseMode(s, c, q.result)
			c.modes = append(c.modes, c.wait)
		} else if q.part == word && c.led%s.window == 0 {
			c.straight = q.result[0] != 0
		}
		r.st.stage = entering
		return true
	case entering:
		ok := r.enter(s, o, asked)
		if ok {
			r.st.stage = inside
		}
		return ok
	}
	return r.leave(s, o, c)
}

// begin is what a call does first. A call that was held, or found in its arrival wait, is made again and goes on where it was.
func (r *simRank) begin(s *sim, o *simOp, c *simComm) bool {
	turn := c.calls > 0 && c.calls%s.window == 0 && !c.exchanged
	switch {
	case o.led && !(c.straight && c.led%s.window > 0):
		return r.beginLed(s, o, c)
	case !o.arrives:
		if o.led {
			c.modes = append(c.modes, false)
		}
		r.st.stage = entering
	case turn && c.wait:
		r.post(s, len(r.st.reqs)-1, o, offer, s.measured())
		r.st.stage = arriving
	case turn:
		if !r.enter(s, o, exchange) {
			return false
		}
		r.st.stage = exchanging
	case c.wait:
		r.post(s, len(r.st.reqs)-1, o, arrival, pair{})
		c.modes = append(c.modes, true)
		r.st.stage = arriving
	default:
		c.modes = append(c.modes, false)
		r.st.stage = entering
	}
	return true
}

// beginLed sends the root's word, or waits for it. The root goes on at once; but it has one request for that on a communicator.
func (r *simRank) beginLed(s *sim, o *simOp, c *simComm) bool {
	c.modes = append(c.modes, true)
	if r.id != o.root {
		r.post(s, len(r.st.reqs)-1, o, word, pair{})
		r.st.stage = arriving
		return true
	}
	mine := r.lead(o.comm)
	if q := &r.st.reqs[mine]; q.started && !q.consumed && !r.look(s, []int{mine}, true) {
		c.modes = c.modes[:len(c.modes)-1]
		return r.stand(s, []int{mine}, true, false)
	}
	if c.led%s.window == 0 {
		c.straight = c.led > 0 && s.measured()[1]*200 >= s.measured()[0]
	}
	value := pair{}
	if c.straight {
		value[0] = 1
	}
	r.post(s, mine, o, word, value)
	r.st.stage = entering
	return true
}

// chooseMode decides on the arrival waits of the next window, by the least interval and the least cost of all members.
func (r *simRank) chooseMode(s *sim, c *simComm, least pair) {
	if s.rules.ownMode {
		least = s.measured()
	}
	wait := least[1]*200 < least[0]
	if wait != c.wait {
		s.counts.modes++
	}
	c.wait, c.exchanged = wait, true
}

// enter goes into a blocking collective of the real MPI, or holds.
func (r *simRank) enter(s *sim, o *simOp, p part) bool {
	c := r.comm(o.comm)
	if !r.may(s, []reach{{o.comm, c.posted + 1}}) && !s.rules.enterAnyway {
		r.where = abi.WhereParked
		return false
	}
	if s.frozen {
		s.fail("rank %d enters a collective on %d after STOP", r.id, o.comm)
	}
	value := value(o.uid, r.id)
	if p == exchange {
		value = s.measured()
	}
	c.posted++
	c.entered = c.posted
	s.start(r, o, p, c.posted, value)
	r.where = abi.WhereCollective
	return true
}

func (r *simRank) leave(s *sim, o *simOp, c *simComm) bool {
	i := s.lastOf(o.comm, r.id)
	if !s.mpi[o.comm].complete(i, r.id) {
		return r.standInside(s)
	}
	s.complete(r, o, s.mpi[o.comm].result(i, r.id))
	if o.arrives {
		c.calls, c.exchanged = c.calls+1, false
	}
	if o.led {
		c.led++
	}
	if o.kind == opCreate && slices.Contains(s.prog.members[o.newComm], r.id) {
		*r.comm(o.newComm) = simComm{known: true, wait: true}
	}
	r.next()
	return true
}

// standInside says that the rank waits inside a blocking collective; it does not meet there.
func (r *simRank) standInside(s *sim) bool {
	if !r.pending || r.version == 0 || r.said == r.version || r.waits || s.rules.silentInside {
		return false
	}
	r.waits = true
	r.send(s, node.Waiting{Ranks: []int{r.id}, Epoch: r.epoch, Where: abi.WhereCollective, Call: "MPI_Bcast"})
	return true
}

// free gives a communicator up. What is open on it counts as entered: it cannot be posted again.
func (r *simRank) free(s *sim, o *simOp) bool {
	c := r.comm(o.comm)
	if !s.rules.freeForgets {
		if !r.may(s, []reach{{o.comm, c.posted}}) {
			r.where = abi.WhereParked
			return false
		}
		c.entered = c.posted
	}
	c.freed = true
	r.next()
	return true
}

// -- posted ones ---------------------------------------------------------------------------------------------------------

// postOrHold starts a non-blocking collective of the program; one that cannot be posted again counts as entered.
func (r *simRank) postOrHold(s *sim, o *simOp) bool {
	c := r.comm(o.comm)
	entered := o.inPlace == large && !s.rules.largeIsPosted
	if entered && !r.may(s, []reach{{o.comm, c.posted + 1}}) {
		r.where = abi.WhereParked
		return false
	}
	r.post(s, o.req, o, asked, value(o.uid, r.id))
	if entered {
		c.entered = c.posted
	}
	r.next()
	return true
}

func (r *simRank) post(s *sim, req int, o *simOp, p part, value pair) {
	r.real[req] = false
	c := r.comm(o.comm)
	c.posted++
	q := &r.st.reqs[req]
	*q = simReq{op: *o, part: p, started: true, number: c.posted, buffer: value}
	if p != asked {
		q.op.inPlace = apart
	}
	if p != asked && p != word {
		q.op.who = everyone
	}
	r.startReal(s, q)
	if q.op.inPlace == small && !s.rules.keepNoInput {
		q.kept = value
	}
}

// startReal hands the buffer to the real MPI, which may overwrite it at once.
func (r *simRank) startReal(s *sim, q *simReq) {
	q.at = s.start(r, &q.op, q.part, q.number, q.buffer)
	if q.op.inPlace != apart {
		q.buffer = pair{-1 << 40}
	}
}

// postAgain starts what was posted and not complete at the checkpoint, in its order on each communicator.
func (r *simRank) postAgain(s *sim) {
	var again []*simReq
	for i := range r.st.reqs {
		if q := &r.st.reqs[i]; q.started && !q.consumed && !q.done && q.op.comm != 0 {
			again = append(again, q)
		}
	}
	slices.SortFunc(again, func(x, y *simReq) int { return int(x.number) - int(y.number) })
	for _, q := range again {
		if r.comm(q.op.comm).freed {
			s.fail("rank %d has to post on communicator %d again, which is freed", r.id, q.op.comm)
		}
		if q.op.inPlace != apart {
			q.buffer = q.kept
		}
		s.counts.postedAgain++
		if q.at = never; !s.rules.forgetPosted {
			r.startReal(s, q)
		}
	}
}

// limit is up to where all members have posted, when they are stopped. Of a communicator that all have freed nobody may
// have reported the clock any more; there it is all that was posted.
func (r *simRank) limit(comm int) uint64 { return max(r.targets[comm], r.comm(comm).reached()) }

// drain completes what all members have posted. From now on it counts as observed: a member whose part in this checkpoint
// is cancelled has not completed it, and must not post again what others do not.
func (r *simRank) drain(s *sim) {
	for i := range r.st.reqs {
		q := &r.st.reqs[i]
		if !q.started || q.consumed || q.done || q.op.comm == 0 || q.number > r.limit(q.op.comm) {
			continue
		}
		if !s.mpi[q.op.comm].complete(q.at, r.id) {
			s.fail("rank %d drains for ever: %+v", r.id, q.op)
		}
		q.done, q.result = true, s.mpi[q.op.comm].result(q.at, r.id)
	}
	for i := range r.st.comms {
		if c := &r.st.comms[i]; c.known && !s.rules.drainForgets {
			c.observed = max(c.observed, r.limit(i))
		}
	}
}

// ready looks, without consuming, whether a request is complete.
func (r *simRank) ready(s *sim, i int) bool {
	q := &r.st.reqs[i]
	switch {
	case q.done || r.real[i]:
		return true
	case q.op.comm == 0:
		r.real[i] = s.ranks[q.op.peer].st.sent[r.id] > q.op.index
	case s.mpi[q.op.comm].complete(q.at, r.id):
		r.real[i] = s.rng.IntN(4) > 0 // the library need not notice at once
		s.slow = s.slow || !r.real[i]
	}
	return r.real[i]
}

// look consumes all requests, or one of them: what is complete and may be observed. All or none of several are.
func (r *simRank) look(s *sim, reqs []int, all bool) bool {
	var use []int
	open := 0
	for _, i := range reqs {
		if !r.st.reqs[i].consumed {
			open++
			if r.ready(s, i) {
				use = append(use, i)
			}
		}
	}
	switch {
	case open == 0:
		return true
	case all && len(use) < open || len(use) == 0:
		return false
	case all:
		return r.consume(s, use)
	}
	s.rng.Shuffle(len(use), func(i, j int) { use[i], use[j] = use[j], use[i] })
	for _, i := range use {
		if r.consume(s, []int{i}) {
			return true
		}
	}
	return false
}

// consume makes use of complete requests, if it may.
func (r *simRank) consume(s *sim, use []int) bool {
	var all []reach
	for _, i := range use {
		if q := &r.st.reqs[i]; q.op.comm != 0 {
			all = append(all, reach{q.op.comm, q.number})
		}
	}
	if !r.may(s, all) && !s.rules.observeAnyway {
		if !r.held {
			s.counts.held++
		}
		r.held, r.where = true, abi.WhereParked
		return false
	}
	for _, i := range use {
		q := &r.st.reqs[i]
		q.consumed = true
		if q.op.comm == 0 {
			continue
		}
		if !q.done {
			q.result = s.mpi[q.op.comm].result(q.at, r.id)
		}
		c := r.comm(q.op.comm)
		c.observed = max(c.observed, q.number)
		if q.part == asked {
			s.complete(r, &q.op, q.result)
		}
	}
	return true
}

// await is a wait for requests.
func (r *simRank) await(s *sim, reqs []int, all bool) bool {
	if !r.look(s, reqs, all) {
		return r.stand(s, reqs, all, false)
	}
	r.next()
	return true
}

// poll tests, and computes a little between two tests.
func (r *simRank) poll(s *sim, o *simOp) {
	if r.st.left > 0 {
		r.st.left--
		return
	}
	r.st.left = s.rng.IntN(4)
	r.st.tries++
	done := r.look(s, o.reqs, o.all)
	r.where = abi.WhereRun
	if done || o.kind == opPoke && r.st.tries == o.steps {
		r.next()
		return
	}
	r.stand(s, o.reqs, false, true)
}

// stand is what a rank does that waits, or tests again and again, for requests that are not complete. When it has stood for
// a while on its way to a target, the others may be holding before they post what it waits for. needed: it cannot go on before
// all of them are complete.
func (r *simRank) stand(s *sim, reqs []int, needed, tests bool) bool {
	if r.since == 0 {
		r.since = s.now
	}
	where := r.unfinished(s, reqs)
	if where == 0 {
		return false
	}
	if !tests {
		r.where = where
	}
	if !r.pending || r.version == 0 || !r.behind() {
		return false
	}
	moved, raised := false, false
	if !r.waits && (!tests || r.stoodFor(s, s.patience) && !s.rules.silentTests) {
		r.waits, moved = true, true
		r.send(s, node.Waiting{Ranks: []int{r.id}, Epoch: r.epoch, Where: where, Call: "MPI_Wait"})
	}
	if s.rules.waitSilently || !r.stoodFor(s, r.enough(s, needed)) {
		return moved
	}
	for _, i := range reqs {
		q := &r.st.reqs[i]
		if q.op.comm != 0 && !q.consumed && !r.real[i] && !q.done && q.number > r.targets[q.op.comm] {
			r.raise(s, reach{q.op.comm, q.number})
			raised = true
		}
	}
	if raised && !needed {
		r.patient++
	}
	return moved || raised
}

func (r *simRank) stoodFor(s *sim, d time.Duration) bool { return s.now-r.since >= d }

// enough is for how long a rank stands before it raises what it stands for. A rank that tests, or waits for any of several,
// may go on without it. It has more patience each time, since others may come to need more of it on their way to what it does
// not need of them, and so on for ever.
func (r *simRank) enough(s *sim, needed bool) time.Duration {
	if needed || s.rules.impatient {
		return s.patience
	}
	return s.patience << min(r.patient, 20)
}

// unfinished is what requests wait for that are not complete: messages or collectives; 0: all are complete.
func (r *simRank) unfinished(s *sim, reqs []int) uint32 {
	where := uint32(0)
	for _, i := range reqs {
		if q := &r.st.reqs[i]; !q.consumed && !q.done && !r.real[i] {
			if q.op.comm == 0 {
				return abi.WhereP2P
			}
			where = abi.WhereCollective
		}
	}
	return where
}
