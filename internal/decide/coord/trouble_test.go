package coord

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// This file plays whole jobs in which anything goes wrong at any stage: ranks that fail, hang, die, refuse, finalize;
// stores and launchers that do not answer; users that ask for checkpoints and send signals at any moment. Ranks follow
// the states of rank/core/life/checkpoint.c; a rank that works on its image cannot finish before all do, since their drains
// wait for each other.

type troubleState int

const (
	tIdle troubleState = iota
	tPending
	tStopped
	tWorking
	tHeld
	tGone
)

type troubleRank struct {
	id     int
	state  troubleState
	epoch  uint64
	in     []node.Order
	out    []Event
	hung   bool // hears nothing any more
	exit   bool
	failed bool // its image cannot be written
	leave  bool
	cancel bool
	since  time.Duration // when it was stopped
}

type trouble struct {
	t        *testing.T
	rng      *rand.Rand
	m        *Machine
	cfg      Config
	now      time.Duration
	ranks    []*troubleRank
	launcher bool
	stubborn KillHow // what it takes to end the launcher
	kill     KillHow
	code     int
	prepared uint64
	disk     []uint64
	store    []Event // what the store will say, in order
	storeAt  time.Duration
	asked    map[uint64]time.Duration
	nextID   uint64
	term     time.Duration // when SIGTERM came, 0: not
	leaving  bool
	commits  int // since SIGTERM
	finished bool
	patient  bool // the user only asks for checkpoints, until enough time has gone by
	exit     int
}

func newTrouble(t *testing.T, seed uint64) *trouble {
	rng := rand.New(rand.NewPCG(seed, 11))
	w := &trouble{t: t, rng: rng, asked: map[uint64]time.Duration{}}
	w.cfg = Config{Ranks: 1 + rng.IntN(4), Keep: 1 + rng.IntN(2), Retries: rng.IntN(3), Grace: time.Duration(1+rng.IntN(30)) * time.Second}
	if rng.IntN(2) == 0 {
		w.cfg.Every = time.Duration(1+rng.IntN(3000)) * time.Second
	}
	w.m, w.patient = New(w.cfg), rng.IntN(2) == 0
	return w
}

func (w *trouble) one(n int) bool { return w.rng.IntN(n) == 0 }

func (w *trouble) step(ev Event) {
	for _, a := range w.m.Step(w.now, ev) {
		w.perform(a)
	}
	if im, ok := ev.(node.Image); ok && im.Text != "" && im.Epoch == w.m.epoch && w.m.op != nil && w.m.op.stage == writing {
		w.t.Fatal("a rank has failed, and the others are not told")
	}
}

func (w *trouble) perform(a Action) {
	switch a := a.(type) {
	case Launch:
		w.launch(a)
	case Kill:
		w.kill = max(w.kill, a.How)
	case Prepare:
		if a.Checkpoint <= w.prepared {
			w.t.Fatalf("number %d again, after %d", a.Checkpoint, w.prepared)
		}
		w.prepared = a.Checkpoint
		w.later(Prepared{a.Checkpoint, w.maybe()})
	case Commit:
		w.later(Committed{a.Checkpoint, w.maybe()})
	case Drop:
		w.disk = slices.DeleteFunc(w.disk, func(n uint64) bool { return n == a.Checkpoint })
		if len(w.disk) == 0 {
			w.t.Fatal("dropped the last checkpoint")
		}
	case Send:
		for _, r := range w.ranks {
			if r.state != tGone {
				r.in = append(r.in, a.Order)
			}
		}
	case Reply:
		if _, ok := w.asked[a.ID]; !ok {
			w.t.Fatalf("request %d is answered twice", a.ID)
		}
		delete(w.asked, a.ID)
	case Finish:
		w.finished, w.exit = true, a.Code
	}
}

func (w *trouble) maybe() string {
	if w.one(8) {
		return "no space"
	}
	return ""
}

// later: the store answers in order, mostly at once, sometimes after minutes, or an hour.
func (w *trouble) later(ev Event) {
	w.store = append(w.store, ev)
	switch {
	case w.one(20):
		w.storeAt = w.now + time.Hour
	case w.one(6):
		w.storeAt = w.now + time.Duration(w.rng.IntN(200))*time.Second
	}
}

func (w *trouble) launch(a Launch) {
	if w.leaving {
		w.t.Fatal("started again after it was asked to leave")
	}
	if w.launcher {
		w.t.Fatal("started beside a launcher that is still there")
	}
	if a.Image != 0 && !slices.Contains(w.disk, a.Image) {
		w.t.Fatalf("goes back to checkpoint %d, which is not there", a.Image)
	}
	w.launcher, w.kill, w.code = true, 0, 0
	w.stubborn = KillAsk + KillHow(w.rng.IntN(3))
	if w.one(100) {
		w.stubborn = KillBoth + 1
	}
	w.ranks = nil
	for i := range w.cfg.Ranks {
		r := &troubleRank{id: i, hung: w.one(60), failed: w.one(30)}
		r.out = append(r.out, node.Hello{Ranks: []int{i}})
		if a.Image != 0 {
			r.out = append(r.out, node.Restored{Ranks: []int{i}})
		}
		if r.hung && w.one(2) {
			r.out = nil
		}
		w.ranks = append(w.ranks, r)
	}
}

func (r *troubleRank) say(ev Event) { r.out = append(r.out, ev) }

func (w *trouble) die(r *troubleRank, ev node.Lost) {
	r.state, r.in = tGone, nil
	ev.Rank = r.id
	r.out = append(r.out, ev)
}

func (r *troubleRank) goOn() {
	if r.state >= tStopped {
		r.say(node.Resumed{Ranks: []int{r.id}, Epoch: r.epoch, Stall: time.Millisecond})
	}
	r.state, r.cancel = tIdle, false
}

// hear is the rank's helper thread.
func (w *trouble) hear(r *troubleRank) {
	m := r.in[0]
	r.in = r.in[1:]
	current := m.Epoch == r.epoch
	switch {
	case m.Type == abi.MsgRequest && r.state == tIdle:
		r.state, r.epoch, r.cancel = tPending, m.Epoch, false
		r.say(node.Clocks{Ranks: []int{r.id}, Epoch: r.epoch})
	case m.Type == abi.MsgTargets && r.state == tPending && current:
		if w.one(50) {
			return // it does not meet
		}
		r.say(node.Met{Ranks: []int{r.id}, Epoch: r.epoch, Version: m.Version})
	case m.Type == abi.MsgStop && r.state == tPending && current:
		r.state, r.since = tStopped, w.now
		ev := node.Stopped{Ranks: []int{r.id}, Epoch: r.epoch}
		if w.one(10) {
			ev.Passing = []string{"child"}
		}
		if w.one(40) {
			ev.Refusals, ev.Passing = []string{"socket"}, nil
		}
		r.say(ev)
	case m.Type == abi.MsgDrain && r.state == tStopped && current:
		r.state, r.leave, r.exit = tWorking, m.ExitAfter, false
	case m.Type == abi.MsgCancel && current && r.state != tIdle:
		if r.cancel = true; r.state != tWorking {
			r.goOn()
		}
	case m.Type == abi.MsgResume && current && r.state == tHeld:
		r.goOn()
	case m.Type == abi.MsgExit && current:
		if r.exit = true; r.state != tWorking {
			w.die(r, node.Lost{Ended: true, Code: abi.ExitStopped})
		}
	}
}

// work: the drains are done when all ranks are in them and none has failed.
func (w *trouble) work(r *troubleRank) bool {
	bad := r.cancel || r.failed
	for _, o := range w.ranks {
		if !bad && (o.state < tWorking || o.state == tGone || o.hung || o.failed) {
			return false
		}
	}
	ev := node.Image{Ranks: []int{r.id}, Epoch: r.epoch, Bytes: 1}
	if bad {
		ev.Text = "given up"
	}
	if w.one(30) {
		ev.Text, bad = "no space", true
	}
	r.say(ev)
	switch {
	case r.exit:
		w.die(r, node.Lost{Ended: true, Code: abi.ExitStopped})
	case r.leave && !bad:
		r.state = tHeld
	default:
		r.goOn()
	}
	return true
}

// move lets one thing happen that can happen now; false: nothing can.
func (w *trouble) move() bool {
	if len(w.store) > 0 && w.now >= w.storeAt && w.one(2) {
		ev := w.store[0]
		w.store = w.store[1:]
		if c, ok := ev.(Committed); ok && c.Err == "" {
			w.disk = append(w.disk, c.Checkpoint)
			if w.term != 0 {
				w.commits++
			}
		}
		w.step(ev)
		return true
	}
	for _, i := range w.rng.Perm(len(w.ranks)) {
		r := w.ranks[i]
		switch {
		case len(r.out) > 0:
			ev := r.out[0]
			r.out = r.out[1:]
			w.step(ev)
			return true
		case r.hung || r.state == tGone:
		case len(r.in) > 0:
			w.hear(r)
			return true
		case r.state == tWorking && w.work(r):
			return true
		}
	}
	return w.launcherMoves() || len(w.store) > 0 && w.now >= w.storeAt
}

// launcherMoves: it ends when its ranks have ended, and ends them when it is ended.
func (w *trouble) launcherMoves() bool {
	if !w.launcher {
		return false
	}
	alive := false
	for _, r := range w.ranks {
		if r.state != tGone && (w.kill >= KillRanks || w.kill == KillAsk && !r.hung && r.state <= tPending) {
			w.die(r, node.Lost{})
			return true
		}
		alive = alive || r.state != tGone
	}
	if w.kill >= w.stubborn || !alive && w.stubborn == KillAsk {
		w.launcher = false
		ev := LauncherExit{Code: w.code}
		if w.kill == KillBoth {
			ev = LauncherExit{Signal: 9}
		}
		w.step(ev)
		for _, r := range w.ranks {
			if r.state != tGone {
				w.die(r, node.Lost{})
			}
		}
		return true
	}
	return false
}

// user does something.
func (w *trouble) user() {
	k := w.rng.IntN(100)
	if w.patient && (k >= 40 && k < 60 || k >= 70 || !w.one(20)) {
		return
	}
	switch {
	case k < 40:
		w.nextID++
		w.asked[w.nextID] = w.now
		w.step(Request{ID: w.nextID, Stop: w.one(10)})
	case k < 50:
		if w.term == 0 {
			w.term, w.leaving = max(w.now, 1), true
			if w.finished {
				return
			}
		}
		if w.one(2) {
			w.step(node.Asked{})
		} else {
			w.step(Terminate{})
		}
	case k < 52:
		w.leaving = true
		w.step(Interrupt{130})
	case k < 60 && len(w.ranks) > 0:
		r := w.ranks[w.rng.IntN(len(w.ranks))]
		if r.state != tGone {
			w.code = 9
			w.die(r, node.Lost{})
		}
	case k < 66 && len(w.ranks) > 0:
		w.ranks[w.rng.IntN(len(w.ranks))].hung = true
	case k < 70 && len(w.ranks) > 0:
		w.ranks[w.rng.IntN(len(w.ranks))].failed = true
	case k < 72 && len(w.ranks) > 0:
		if r := w.ranks[w.rng.IntN(len(w.ranks))]; r.state == tIdle { // else it waits before MPI_Finalize
			r.say(node.Finalizing{Ranks: []int{r.id}})
		}
	case k < 74 && len(w.ranks) > 0:
		w.loseNode(w.rng.IntN(len(w.ranks)), 1+w.rng.IntN(len(w.ranks)))
	}
}

// loseNode: these ranks are gone with their node, and with what they had said and nobody has heard.
func (w *trouble) loseNode(first, n int) {
	ev := NodeLost{Name: "a node", Why: "silent"}
	for _, r := range w.ranks[first:min(first+n, len(w.ranks))] {
		if r.state != tGone {
			r.state, r.in, r.out = tGone, nil, nil
			ev.Ranks = append(ev.Ranks, r.id)
		}
	}
	w.step(ev)
}

// check holds what must hold at any moment.
func (w *trouble) check() {
	longest := prepareLimit + agreeLimit + stopLimit + workLimit + commitLimit + goOnLimit + 4*killGrace + startLimit
	for id, since := range w.asked {
		if w.now-since > 3*longest {
			w.t.Fatalf("request %d is not answered after %v: %+v", id, w.now-since, w.m.Status())
		}
	}
	for _, r := range w.ranks {
		if limit := stopLimit + workLimit + commitLimit + goOnLimit + 4*killGrace + lastWait; r.state >= tStopped && r.state != tGone && w.launcher && w.now-r.since > limit {
			w.t.Fatalf("rank %d stands still for %v: %+v", r.id, w.now-r.since, w.m.Status())
		}
	}
	if w.term != 0 && !w.finished && w.now > w.term+w.cfg.Grace {
		w.t.Fatalf("still there %v after SIGTERM: %+v", w.now-w.term, w.m.Status())
	}
}

// passes lets time go by to the next moment at which something is due.
func (w *trouble) passes() {
	at, ok := w.m.Next()
	if len(w.store) > 0 && (!ok || w.storeAt < at) {
		at, ok = w.storeAt, true
	}
	longer := 5
	if w.patient {
		longer = 500
	}
	if soon := w.now + time.Duration(w.rng.IntN(longer*1000))*time.Millisecond; !ok || soon < at && w.one(3) {
		at = soon
	}
	w.now = max(w.now, at)
	w.step(Tick{})
	w.check()
}

func (w *trouble) run() {
	w.step(Start{})
	for i := 0; !w.finished; i++ {
		switch {
		case i > 50000:
			w.t.Fatalf("no end: %+v", w.m.Status())
		case i > 600 && w.one(20) && (!w.patient || i > 3000 || w.now > 20*time.Hour):
			w.leaving = true
			w.step(Interrupt{130})
		case w.one(12):
			w.user()
		case w.patient && w.m.phase == Running && w.m.op == nil && len(w.asked) == 0 && w.one(4):
			w.nextID++
			w.asked[w.nextID] = w.now
			w.step(Request{ID: w.nextID})
		case !w.move():
			w.passes()
		}
	}
	if len(w.asked) > 0 {
		w.t.Fatalf("not answered at the end: %v", w.asked)
	}
	if w.exit == abi.ExitStopped && len(w.disk) == 0 {
		w.t.Fatal("left as after a checkpoint, and there is none")
	}
	if w.exit == codeTerminated && w.commits > 0 {
		w.t.Fatal("a checkpoint was committed after SIGTERM, and the exit code does not say so")
	}
}

func TestTrouble(t *testing.T) {
	first, count := uint64(1), uint64(1500)
	if v := os.Getenv("BYSSUS_TEST_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, count = n, 1
	}
	codes := map[int]int{}
	for seed := first; seed < first+count; seed++ {
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w := newTrouble(t, seed)
			w.run()
			codes[w.exit]++
		})
		if !ok {
			t.Fatalf("again with BYSSUS_TEST_SEED=%d", seed)
		}
	}
	t.Logf("%d jobs; exit codes and how many: %v", count, codes)
}
