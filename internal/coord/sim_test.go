package coord

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/abi"
)

// This file runs the machine against simulated ranks that execute random programs of collectives, communicator
// creation, messages and computation, with every interleaving of steps and message delays that a seed can make.
// simRank is at the same time the reference for what the MPI half of a rank has to do.

const world = 1

type opKind int

const (
	opCompute opKind = iota
	opBarrier        // leaves when all members are in
	opBcast          // the root leaves at once, the others when the root is in
	opCreate         // a barrier on comm that makes newComm with the given members
	opSend           // buffered
	opRecv
	opFree // a barrier, after which the communicator is no more
)

type simOp struct {
	kind    opKind
	comm    uint64
	root    int
	newComm uint64
	peer    int
	steps   int
}

// simRank is a rank with its program, and its half of the agreement.
type simRank struct {
	id   int
	prog []simOp
	pc   int

	inside  bool // of the collective at pc
	left    int  // steps of computation
	clocks  map[uint64]uint64
	epoch   uint64
	pending bool
	stopped bool
	version uint64
	targets map[uint64]uint64
	said    uint64 // newest version for which MET was said
	waits   bool   // WAITING was said
	holds   bool   // SHARED said so: it waits for RESUME after its image
	imaged  bool
	where   uint32
}

type sim struct {
	t       *testing.T
	rng     *rand.Rand
	m       *Machine
	now     time.Duration
	ranks   []*simRank
	members map[uint64][]int
	entered map[uint64]map[int]uint64 // by communicator and rank: collectives entered
	mail    map[[2]int]int            // buffered messages by source and destination
	up      [][]Event                 // in flight, rank to agent
	down    [][]Send                  // in flight, agent to rank
	frozen  bool                      // STOP was sent: nobody may enter anything
	result  *Result
	retries int
	sharers int // ranks that write to one file
}

// newSim makes a random program. Its operations are drawn in one global order, which every rank follows for its own
// part, so that it cannot deadlock by itself; but a rank may come late to a broadcast of another one, after later
// operations, because nobody waits for it: these are the programs that need another attempt.
func newSim(t *testing.T, seed uint64) *sim {
	rng := rand.New(rand.NewPCG(seed, 7))
	n := 2 + rng.IntN(5)
	s := &sim{t: t, rng: rng, members: map[uint64][]int{}, entered: map[uint64]map[int]uint64{}, mail: map[[2]int]int{}}
	s.m = New(Config{Ranks: n, Keep: 2, Retries: 3})
	all := make([]int, n)
	for i := range n {
		all[i] = i
		s.ranks = append(s.ranks, &simRank{id: i, clocks: map[uint64]uint64{world: 0}})
	}
	s.sharers = rng.IntN(n + 1)
	s.up, s.down = make([][]Event, n), make([][]Send, n)
	s.members[world] = all
	s.entered[world] = map[int]uint64{}
	s.program(20 + rng.IntN(60))
	return s
}

func (s *sim) program(length int) {
	live := []uint64{world}
	next := uint64(2)
	late := make([][]simOp, len(s.ranks))
	put := func(r int, o simOp) {
		var still []simOp
		for _, l := range late[r] {
			if s.rng.IntN(6) == 0 || (o.kind != opCompute && o.kind != opSend && o.kind != opRecv && l.comm == o.comm) {
				s.ranks[r].prog = append(s.ranks[r].prog, l)
			} else {
				still = append(still, l)
			}
		}
		late[r] = still
		if o.kind == opBcast && o.root != r && s.rng.IntN(2) == 0 {
			late[r] = append(late[r], o)
			return
		}
		s.ranks[r].prog = append(s.ranks[r].prog, o)
	}
	for range length {
		comm := live[s.rng.IntN(len(live))]
		mem := s.members[comm]
		switch k := s.rng.IntN(10); {
		case k < 2:
			put(s.rng.IntN(len(s.ranks)), simOp{kind: opCompute, steps: 1 + s.rng.IntN(30)})
		case k < 5:
			src, dst := s.rng.IntN(len(s.ranks)), s.rng.IntN(len(s.ranks))
			put(src, simOp{kind: opSend, peer: dst})
			put(dst, simOp{kind: opRecv, peer: src})
		case k < 7:
			root := mem[s.rng.IntN(len(mem))]
			for _, r := range mem {
				put(r, simOp{kind: opBcast, comm: comm, root: root})
			}
		case k < 9 || len(live) > 6:
			for _, r := range mem {
				put(r, simOp{kind: opBarrier, comm: comm})
			}
		case s.rng.IntN(3) == 0 && comm != world:
			for _, r := range mem {
				put(r, simOp{kind: opFree, comm: comm})
			}
			live = remove(live, comm)
		default:
			for _, r := range mem {
				put(r, simOp{kind: opCreate, comm: comm, newComm: next})
			}
			for _, r := range mem {
				if s.rng.IntN(3) > 0 || len(s.members[next]) == 0 {
					s.members[next] = append(s.members[next], r)
				}
			}
			s.entered[next] = map[int]uint64{}
			live = append(live, next)
			next++
		}
	}
	for _, r := range s.ranks { // the rest, and MPI_Finalize
		r.prog = append(r.prog, late[r.id]...)
		late[r.id] = nil
		put(r.id, simOp{kind: opBarrier, comm: world})
	}
}

func remove(list []uint64, x uint64) []uint64 {
	var out []uint64
	for _, y := range list {
		if y != x {
			out = append(out, y)
		}
	}
	return out
}

func (r *simRank) send(s *sim, ev Event) { s.up[r.id] = append(s.up[r.id], ev) }

// behind says whether a clock of this rank is below its target.
func (r *simRank) behind() bool {
	for comm, seq := range r.clocks {
		if seq < r.targets[comm] {
			return true
		}
	}
	return false
}

// report says MET once per version, when it is true and the rank is not creating a communicator.
func (r *simRank) report(s *sim) {
	creating := r.inside && r.prog[r.pc].kind == opCreate
	if r.pending && r.version > r.said && !creating && !r.behind() {
		r.said, r.waits = r.version, false
		r.send(s, Met{r.id, r.epoch, r.version})
	}
}

// mayEnter decides on the collective at pc; false: hold.
func (r *simRank) mayEnter(s *sim, comm uint64) bool {
	seq := r.clocks[comm] + 1
	switch {
	case !r.pending || (r.version > 0 && seq <= r.targets[comm]):
		return true
	case r.version == 0 || !r.behind():
		return false
	}
	r.targets[comm] = seq
	r.send(s, Raise{r.id, r.epoch, abi.Clock{Comm: comm, Seq: seq}})
	return true
}

// step moves the rank; false: it could not move.
func (r *simRank) step(s *sim) bool {
	if r.stopped || r.pc == len(r.prog) {
		return false
	}
	o := r.prog[r.pc]
	moved := false
	switch {
	case o.kind == opCompute:
		r.where, moved = abi.WhereRun, true
		if r.left++; r.left == o.steps {
			r.left = 0
			r.pc++
		}
	case o.kind == opSend:
		s.mail[[2]int{r.id, o.peer}]++
		r.pc, moved = r.pc+1, true
	case o.kind == opRecv:
		moved = r.receive(s, o)
	case !r.inside:
		moved = r.enter(s, o)
	default:
		moved = r.leave(s, o)
	}
	r.report(s)
	return moved
}

func (r *simRank) receive(s *sim, o simOp) bool {
	k := [2]int{o.peer, r.id}
	if s.mail[k] > 0 {
		s.mail[k]--
		if r.waits {
			r.waits = false
			r.send(s, Waiting{Rank: r.id, Epoch: r.epoch, Where: abi.WhereRun})
		}
		r.where, r.pc = abi.WhereRun, r.pc+1
		return true
	}
	r.where = abi.WhereP2P
	if r.pending && r.version > 0 && r.behind() && !r.waits {
		r.waits = true
		r.send(s, Waiting{Rank: r.id, Epoch: r.epoch, Where: abi.WhereP2P})
		return true
	}
	return false
}

func (r *simRank) enter(s *sim, o simOp) bool {
	if !r.mayEnter(s, o.comm) {
		r.where = abi.WhereParked
		return false
	}
	if s.frozen {
		s.t.Fatalf("rank %d enters a collective on %d after STOP", r.id, o.comm)
	}
	r.clocks[o.comm]++
	s.entered[o.comm][r.id]++
	r.inside, r.where = true, abi.WhereCollective
	return true
}

func (r *simRank) leave(s *sim, o simOp) bool {
	seq := s.entered[o.comm][r.id]
	for _, other := range s.members[o.comm] {
		missing := s.entered[o.comm][other] < seq
		if missing && (o.kind != opBcast || (other == o.root && r.id != o.root)) {
			return false
		}
	}
	if o.kind == opCreate {
		for _, m := range s.members[o.newComm] {
			if m == r.id {
				r.clocks[o.newComm] = 0
			}
		}
	}
	if o.kind == opFree {
		delete(r.clocks, o.comm)
	}
	r.inside, r.where = false, abi.WhereRun
	r.pc++
	return true
}

// receiveMessage is the rank's helper thread.
func (r *simRank) receiveMessage(s *sim, msg Send) {
	switch msg.Type {
	case abi.MsgRequest:
		r.pending, r.epoch, r.version, r.said, r.waits, r.targets = true, msg.Epoch, 0, 0, false, map[uint64]uint64{}
		var cs []abi.Clock
		for comm, seq := range r.clocks {
			cs = append(cs, abi.Clock{Comm: comm, Seq: seq})
		}
		cut := s.rng.IntN(len(cs) + 1)
		r.send(s, Clocks{r.id, r.epoch, cs[:cut], true})
		r.send(s, Clocks{r.id, r.epoch, cs[cut:], false})
	case abi.MsgTargets:
		r.version = msg.Version
		for _, c := range msg.Targets {
			r.targets[c.Comm] = max(r.targets[c.Comm], c.Seq)
		}
		r.report(s)
	case abi.MsgStop:
		r.stopped, r.holds, r.imaged = true, false, false
		if r.id < s.sharers {
			o := abi.Object{Dev: 1, Inode: 9, Size: 100, Flags: abi.ObjectWrites | abi.ObjectEnd, FD: 3}
			r.send(s, Objects{r.id, r.epoch, "here", []Object{{Object: o}}})
		}
		r.send(s, Stopped{Rank: r.id, Epoch: r.epoch})
	case abi.MsgShared:
		r.holds = msg.Hold
		if len(msg.Shares) != 1 || msg.Shares[0].Owner != 0 {
			s.t.Fatalf("shares: %+v", msg.Shares)
		}
	case abi.MsgDrain:
		if r.holds != (s.sharers > 1) {
			s.t.Fatalf("rank %d holds: %v, with %d sharers", r.id, r.holds, s.sharers)
		}
		r.imaged = true
		r.send(s, Image{Rank: r.id, Epoch: r.epoch, Image: abi.Image{Bytes: 1}})
		if !r.holds {
			r.resume(s)
		}
	case abi.MsgResume:
		for _, other := range s.ranks {
			if !other.imaged {
				s.t.Fatalf("rank %d goes on before rank %d has its image", r.id, other.id)
			}
		}
		r.resume(s)
	case abi.MsgCancel:
		r.stopped, r.pending, r.waits = false, false, false
	}
}

// resume lets the application go on after its image.
func (r *simRank) resume(s *sim) {
	r.stopped, r.pending = false, false
	r.send(s, Resumed{Rank: r.id, Epoch: r.epoch, Stall: time.Millisecond})
}

// step hands an event to the machine and does what it says.
func (s *sim) step(ev Event) {
	for _, a := range s.m.Step(s.now, ev) {
		switch a := a.(type) {
		case Send:
			s.down[a.Rank] = append(s.down[a.Rank], a)
			s.frozen = s.frozen || a.Type == abi.MsgStop
			if a.Rank == 0 && a.Type == abi.MsgCancel {
				s.retries++
			}
			if a.Rank == 0 && (a.Type == abi.MsgDrain || a.Type == abi.MsgCancel) {
				s.frozen = false
			}
			if a.Rank == 0 && (a.Type == abi.MsgStop || a.Type == abi.MsgDrain) {
				s.checkQuiet()
			}
		case Prepare:
			s.step(Prepared{Checkpoint: a.Checkpoint})
		case Commit:
			s.step(Committed{Checkpoint: a.Checkpoint})
		case Reply:
			s.result = &a.Result
		}
	}
}

// checkQuiet: on every communicator all members have entered the same number of collectives.
func (s *sim) checkQuiet() {
	for comm, members := range s.members {
		for _, r := range members {
			if s.entered[comm][r] != s.entered[comm][members[0]] {
				s.t.Fatalf("stopped with rank %d at %d of communicator %d, rank %d at %d", r, s.entered[comm][r], comm, members[0], s.entered[comm][members[0]])
			}
		}
	}
}

// move lets a random one of the things happen that can happen; false: nothing can.
func (s *sim) move() bool {
	n := len(s.ranks)
	for _, i := range s.rng.Perm(3 * n) {
		r := s.ranks[i%n]
		switch i / n {
		case 0:
			was := r.where
			moved := r.step(s)
			if r.where != was {
				s.step(Where{r.id, r.where})
			}
			if moved {
				return true
			}
		case 1:
			if len(s.up[r.id]) > 0 {
				ev := s.up[r.id][0]
				s.up[r.id] = s.up[r.id][1:]
				s.step(ev)
				return true
			}
		case 2:
			if len(s.down[r.id]) > 0 {
				msg := s.down[r.id][0]
				s.down[r.id] = s.down[r.id][1:]
				r.receiveMessage(s, msg)
				return true
			}
		}
	}
	return false
}

// run executes the program with a checkpoint asked for at a random moment. It returns the machine's answer.
func (s *sim) run() Result {
	s.step(Start{})
	for i := range s.ranks {
		s.step(Hello{i})
	}
	at, steps := s.rng.IntN(400), 0
	for ; s.result == nil; steps++ {
		if steps > 200000 {
			s.t.Fatalf("no end: %s", s.m.Status().Detail)
		}
		if steps == at {
			s.step(Request{ID: 1})
		}
		if s.move() {
			s.now += time.Duration(s.rng.IntN(100)) * time.Microsecond
			continue
		}
		if s.ended() && s.m.op == nil {
			s.step(Request{ID: 2})
			continue
		}
		next, ok := s.m.Next()
		if !ok {
			s.t.Fatalf("nothing moves and nobody waits for a time")
		}
		s.now = max(next, s.now)
		s.step(Tick{})
	}
	for s.move() {
	}
	if !s.ended() {
		s.t.Fatal("the program did not end after the checkpoint")
	}
	return *s.result
}

func (s *sim) ended() bool {
	for _, r := range s.ranks {
		if r.pc != len(r.prog) {
			return false
		}
	}
	return true
}

func TestAgreementSimulated(t *testing.T) {
	first, count := uint64(1), uint64(8000)
	if v := os.Getenv("BYSSUS_TEST_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, count = n, 1
	}
	retried, most := 0, 0
	for seed := first; seed < first+count; seed++ {
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			s := newSim(t, seed)
			res := s.run()
			if res.Err != "" {
				t.Fatalf("no checkpoint: %s", res.Err)
			}
			if s.retries > 0 {
				retried++
			}
			most = max(most, s.retries)
		})
		if !ok {
			t.Fatalf("again with BYSSUS_TEST_SEED=%d", seed)
		}
	}
	t.Logf("%d programs, %d needed another attempt, at most %d", count, retried, most)
}
