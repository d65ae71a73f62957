package coord

import (
	"math/rand/v2"
	"slices"
)

type opKind uint8

const (
	opCompute opKind = iota
	opSend           // buffered
	opRecv           // blocking: a request that is waited for at once
	opIrecv
	opColl   // blocking
	opCreate // a collective on comm that makes newComm with the given members
	opFree   // waits for nobody
	opPost   // a non-blocking collective
	opWait   // for all requests, or any of them
	opPoll   // as opWait, by tests with computation in between
	opPoke   // some tests with computation in between, whatever they say
)

// inPlace is what a posted collective does to its own input.
type inPlace uint8

const (
	apart inPlace = iota // leaves it alone
	small                // overwrites it; it is kept
	large                // overwrites it, and it is too large to be kept
)

type simOp struct {
	kind    opKind
	uid     int
	comm    int
	who     collKind
	root    int
	arrives bool // a synchronising call, which may have an arrival wait in front
	led     bool // a call in which the others wait for the root, with its word in front
	inPlace inPlace
	newComm int
	peer    int
	index   int   // of the message between the two
	req     int   // request that it makes
	reqs    []int // that are waited for
	all     bool
	steps   int
}

// program is what all ranks execute.
type program struct {
	ranks   [][]simOp
	members [][]int // of each communicator; 0 is none, 1 the world
	ops     []simOp // by uid, the first rank's view
	nreqs   []int
}

// What an author draws.
const (
	aComputation = iota
	aMessage
	aWait
	aPosted
	aRooted
	aSynchronising
	aCreation
	aFree
	nDrawn
)

// author draws a program. Its operations are drawn in one global order, which every rank follows for its own part, so that
// it cannot deadlock by itself. But nobody waits for a rank that receives a broadcast, or posts, so it may come late to
// that, after later operations: these are the programs that need raises and further attempts.
type author struct {
	program
	rng    *rand.Rand
	live   []int
	late   [][]simOp
	open   [][]int                 // requests that are not waited for yet, by rank
	made   []map[int]bool          // by uid: who has started it
	wanted [maxRanks][maxRanks]int // messages, from and to
	sent   [maxRanks][maxRanks]int
	byReq  []map[int]simOp
	rooted []collKind
	odds   [nDrawn]int // of each kind of operation; every program has its own
	soon   int         // how soon a rank does what it has put off
}

const world = 1

func newProgram(rng *rand.Rand) *program {
	n := 2 + rng.IntN(maxRanks-1)
	a := &author{rng: rng, live: []int{world}, late: make([][]simOp, n), open: make([][]int, n)}
	a.ranks, a.nreqs, a.byReq = make([][]simOp, n), make([]int, n), make([]map[int]simOp, n)
	a.members = [][]int{nil, nil}
	a.rooted = []collKind{everyone, fromRoot, toRoot}
	for r := range n {
		a.members[world] = append(a.members[world], r)
		a.byReq[r] = map[int]simOp{}
	}
	for i, most := range [nDrawn]int{4, 20, 10, 10, 20, 6, 2, 2} {
		a.odds[i] = rng.IntN(most)
	}
	a.odds[aSynchronising]++
	a.soon = 2 + rng.IntN(40)
	for range rng.IntN(4) {
		a.create()
	}
	for range 15 + rng.IntN(60) {
		a.draw()
	}
	a.finish()
	return &a.program
}

// emit appends an operation to a rank's program.
func (a *author) emit(r int, o simOp) {
	switch o.kind {
	case opPost, opIrecv, opRecv:
		o.req = a.nreqs[r]
		a.nreqs[r]++
		a.byReq[r][o.req] = o
		if o.kind != opRecv {
			a.open[r] = append(a.open[r], o.req)
		}
	}
	if o.uid >= 0 && o.kind != opFree {
		a.made[o.uid][r] = true
	}
	a.ranks[r] = append(a.ranks[r], o)
}

// put emits an operation, or puts it off when nobody waits for this rank's part in it. What has been put off comes some time
// later, at the latest with the next operation on its communicator that is not put off; their order there stays.
func (a *author) put(r int, o simOp) {
	off := o.kind == opPost || o.kind == opFree || o.who == fromRoot && r != o.root || o.who == toRoot && r == o.root
	off = off && o.comm != 0 && a.rng.IntN(2) == 0
	var still []simOp
	for _, l := range a.late[r] {
		stays := slices.ContainsFunc(still, func(x simOp) bool { return x.comm == l.comm })
		if o.comm == l.comm && !off || !stays && a.rng.IntN(a.soon) == 0 {
			a.emit(r, l)
		} else {
			still = append(still, l)
		}
	}
	a.late[r] = still
	if off {
		a.late[r] = append(a.late[r], o)
		return
	}
	a.emit(r, o)
}

func (a *author) pick() int {
	sum := 0
	for _, n := range a.odds {
		sum += n
	}
	n := a.rng.IntN(sum)
	for kind, odds := range a.odds {
		if n -= odds; n < 0 {
			return kind
		}
	}
	return aSynchronising
}

func (a *author) draw() {
	n := len(a.ranks)
	comm := a.live[a.rng.IntN(len(a.live))]
	o := simOp{uid: -1, comm: comm, root: a.members[comm][a.rng.IntN(len(a.members[comm]))]}
	switch kind := a.pick(); {
	case kind == aComputation:
		o = simOp{uid: -1, steps: 1 + a.rng.IntN(20)}
		if a.rng.IntN(12) == 0 {
			o.steps = 300
		}
		a.put(a.rng.IntN(n), o)
	case kind == aMessage:
		a.message(a.rng.IntN(n), a.rng.IntN(n))
	case kind == aWait:
		a.wait(a.rng.IntN(n))
	case kind == aPosted:
		o.kind, o.who = opPost, a.rooted[a.rng.IntN(3)]
		if o.who == everyone {
			o.inPlace = inPlace(max(0, a.rng.IntN(5)-2))
		}
		a.together(o)
	case kind == aRooted:
		o.kind, o.who = opColl, a.rooted[a.rng.IntN(3)] // or a v-variant, for which all wait
		o.led = o.who == fromRoot && a.rng.IntN(3) > 0
		a.together(o)
	case kind == aCreation && len(a.live) < 6:
		a.create()
	case kind == aFree && comm != world:
		o.kind = opFree
		a.together(o)
		a.live = slices.DeleteFunc(a.live, func(c int) bool { return c == comm })
	default:
		o.kind, o.arrives = opColl, true
		a.together(o)
	}
}

// create makes a communicator of some members of another one.
func (a *author) create() {
	o := simOp{kind: opCreate, comm: a.live[a.rng.IntN(len(a.live))], newComm: len(a.members)}
	var some []int
	for _, r := range a.members[o.comm] {
		if a.rng.IntN(3) > 0 || len(some) == 0 {
			some = append(some, r)
		}
	}
	a.together(o)
	a.members, a.live = append(a.members, some), append(a.live, o.newComm)
}

// together puts an operation into the program of every member.
func (a *author) together(o simOp) {
	o.uid = len(a.ops)
	a.ops, a.made = append(a.ops, o), append(a.made, map[int]bool{})
	for _, r := range a.members[o.comm] {
		a.put(r, o)
	}
}

func (a *author) message(from, to int) {
	o := simOp{uid: -1, kind: opIrecv, peer: from, index: a.wanted[from][to]}
	a.wanted[from][to]++
	if a.rng.IntN(3) == 0 {
		a.put(to, o) // and the message is sent some time later
		return
	}
	for a.sent[from][to] < a.wanted[from][to] {
		a.put(from, simOp{uid: -1, kind: opSend, peer: to})
		a.sent[from][to]++
	}
	kind := a.rng.IntN(3)
	if kind == 0 {
		o.kind = opRecv
	}
	a.put(to, o)
	if kind == 1 {
		a.open[to] = a.open[to][:len(a.open[to])-1]
		a.put(to, simOp{uid: -1, kind: opPoll, reqs: []int{a.nreqs[to] - 1}, all: true})
	}
}

// certain says whether a request will be complete whatever this rank does next.
func (a *author) certain(r, req int) bool {
	o := a.byReq[r][req]
	switch {
	case o.kind != opPost:
		return a.sent[o.peer][r] > o.index
	case o.who == fromRoot:
		return a.made[o.uid][o.root]
	case o.who == toRoot && r != o.root:
		return true
	}
	return len(a.made[o.uid]) == len(a.members[o.comm])
}

// wait lets a rank do something with some of its open requests.
func (a *author) wait(r int) {
	o := simOp{uid: -1, kind: opWait + opKind(a.rng.IntN(3)), all: a.rng.IntN(3) > 0, steps: 1 + a.rng.IntN(30)}
	var left []int
	for _, req := range a.open[r] {
		use := a.rng.IntN(2) == 0 && (o.kind == opPoke || a.certain(r, req))
		if use {
			o.reqs = append(o.reqs, req)
		}
		if !use || !o.all || o.kind == opPoke {
			left = append(left, req)
		}
	}
	if len(o.reqs) > 0 {
		a.open[r] = left
		a.put(r, o)
	}
}

// finish ends all that is open, and comes to MPI_Finalize.
func (a *author) finish() {
	for r := range a.ranks {
		for _, l := range a.late[r] {
			a.emit(r, l)
		}
		a.late[r] = nil
		for to := range a.ranks {
			for ; a.sent[r][to] < a.wanted[r][to]; a.sent[r][to]++ {
				a.emit(r, simOp{uid: -1, kind: opSend, peer: to})
			}
		}
	}
	for r := range a.ranks {
		if len(a.open[r]) > 0 {
			a.emit(r, simOp{uid: -1, kind: opWait, reqs: a.open[r], all: true})
		}
	}
	a.together(simOp{kind: opColl, comm: world})
}

// givenUp is a program in which a rank on its way to a target tests for a posted collective, and then does not need it yet.
func givenUp(rng *rand.Rand) *program {
	p := &program{members: [][]int{nil, {0, 1}, {0, 1}}, nreqs: []int{1, 1}, ranks: make([][]simOp, 2)}
	create := simOp{kind: opCreate, uid: 0, comm: world, newComm: 2}
	bcast := simOp{kind: opColl, uid: 1, comm: 2, who: fromRoot, root: 1}
	post := simOp{kind: opPost, uid: 2, comm: world}
	wait := simOp{kind: opWait, uid: -1, reqs: []int{0}, all: true}
	poke := simOp{kind: opPoke, uid: -1, reqs: []int{0}, all: true, steps: 5 + rng.IntN(40)}
	compute := func() simOp { return simOp{uid: -1, steps: 1 + rng.IntN(300)} }
	last := simOp{kind: opColl, uid: 3, comm: world}
	p.ops = []simOp{create, bcast, post, last}
	p.ranks[0] = []simOp{create, post, poke, bcast, compute(), compute(), wait, last}
	p.ranks[1] = []simOp{create, bcast, compute(), post, compute(), compute(), wait, last}
	return p
}

// lagging is a program in which one rank posts earlier, relative to another communicator, than the other does. It tests for what
// it has posted now and then, and does not need it.
func lagging(rng *rand.Rand) *program {
	const n = 300
	p := &program{members: [][]int{nil, {0, 1}, {0, 1}}, nreqs: []int{n, n}, ranks: make([][]simOp, 2)}
	p.ops = []simOp{{kind: opCreate, comm: world, newComm: 2}}
	p.ranks[0], p.ranks[1] = []simOp{p.ops[0]}, []simOp{p.ops[0]}
	lag, slow := 1+rng.IntN(3), 60+rng.IntN(100)
	var all []int
	for i := range n + lag {
		post := simOp{kind: opPost, uid: 2*i + 1, comm: 2, req: i}
		poke := simOp{kind: opPoke, uid: -1, reqs: []int{i}, all: true, steps: 30 + rng.IntN(100)}
		collective := simOp{kind: opColl, uid: 2*i + 2, comm: world}
		if i < n {
			p.ops = append(p.ops, post, collective)
			p.ranks[0] = append(p.ranks[0], post, poke, collective)
			p.ranks[1] = append(p.ranks[1], simOp{uid: -1, steps: slow}, collective)
			all = append(all, i)
		}
		if i >= lag {
			post.uid, post.req = post.uid-2*lag, i-lag
			p.ranks[1] = append(p.ranks[1], post)
		}
	}
	for r := range p.ranks {
		p.ranks[r] = append(p.ranks[r], simOp{kind: opWait, uid: -1, reqs: all, all: true})
	}
	return p
}

// entangled is a program in which rank 0 waits for a message that rank 1 sends after it has held, rank 2 is inside a
// collective that rank 0 comes to later, and rank 3 tests for something from rank 0: that looks like computation.
func entangled(rng *rand.Rand) *program {
	const x, y, z = 2, 3, 4
	p := &program{members: [][]int{nil, {0, 1, 2, 3}, {0, 1}, {1, 3}, {0, 2}}, nreqs: []int{1, 0, 0, 1}, ranks: make([][]simOp, 4)}
	for comm := x; comm <= z; comm++ {
		p.ops = append(p.ops, simOp{kind: opCreate, uid: comm - x, comm: world, newComm: comm})
	}
	onX := simOp{kind: opColl, uid: 3, comm: x, who: fromRoot, root: 1}
	onY := simOp{kind: opColl, uid: 4, comm: y, who: fromRoot, root: 1}
	onZ := simOp{kind: opColl, uid: 5, comm: z, who: fromRoot, root: 0}
	compute := simOp{uid: -1, steps: 1 + rng.IntN(300)}
	p.ranks[0] = []simOp{{kind: opRecv, uid: -1, peer: 1}, onX, onZ, {kind: opSend, uid: -1, peer: 3}}
	p.ranks[1] = []simOp{onX, compute, onY, {kind: opSend, uid: -1, peer: 0}}
	p.ranks[2] = []simOp{onZ}
	p.ranks[3] = []simOp{{kind: opIrecv, uid: -1, peer: 0}, {kind: opPoll, uid: -1, reqs: []int{0}, all: true}, onY}
	for r := range p.ranks {
		p.ranks[r] = append(slices.Clone(p.ops), p.ranks[r]...)
	}
	p.ops = append(p.ops, onX, onY, onZ)
	return p
}

// straggling is a program in which one rank computes, and the others wait for it in several ways.
func straggling(rng *rand.Rand) *program {
	p := &program{members: [][]int{nil, {0, 1, 2, 3}}, nreqs: []int{2, 2, 2, 2}, ranks: make([][]simOp, 4)}
	p.ops = []simOp{{kind: opPost, uid: 0, comm: world, who: fromRoot}, {kind: opPost, uid: 1, comm: world, req: 1},
		{kind: opColl, uid: 2, comm: world, arrives: true}, {kind: opColl, uid: 3, comm: world, who: fromRoot, led: true}}
	wait := simOp{kind: opWait, uid: -1, reqs: []int{0, 1}, all: true}
	tail := []simOp{p.ops[0], p.ops[1], wait, p.ops[2], p.ops[3]}
	p.ranks[0] = append([]simOp{{uid: -1, steps: 1000000}}, tail...)
	p.ranks[1] = tail
	poll := wait
	poll.kind = opPoll
	p.ranks[2] = []simOp{p.ops[0], p.ops[1], poll, p.ops[2], p.ops[3]}
	p.ranks[3] = []simOp{{uid: -1, steps: 1 + rng.IntN(100)}, p.ops[0], p.ops[1], wait, p.ops[2], p.ops[3]}
	if rng.IntN(2) == 0 { // that call comes first
		for r := range p.ranks {
			at := slices.IndexFunc(p.ranks[r], func(o simOp) bool { return o.kind == opPost })
			p.ranks[r] = slices.Insert(p.ranks[r][:len(p.ranks[r])-1], at, p.ops[3])
		}
	}
	return p
}
