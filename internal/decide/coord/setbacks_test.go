package coord

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// Programs that die at one point of their work, at random, or from some point on because their state is poisoned there, on machines
// that are not equally fast each time. Each job ends within the bound; what can come to its end does.

type killer int

const (
	fixed    killer = iota // always at the same point
	random                 // at any time, seldom enough for a checkpoint between two of them
	poisoned               // once its state is spoilt, which happens once, soon after that: only older images are sound
	killers
)

func (k killer) String() string { return [...]string{"fixed", "random", "poisoned"}[k] }

// mortal is one such job, of one rank.
type mortal struct {
	rng     *rand.Rand
	kind    killer
	m       *Machine
	now     time.Duration
	todo    []Event
	total   float64 // work that it takes to come to the end, in seconds of a fast machine
	work    float64 // that is done
	speed   float64 // of this life
	dies    float64 // the point at which it does
	spoils  float64 // the point at which its state is poisoned
	delay   float64 // after which it dies of that
	spoilt  bool
	sound   bool // the poison has had its day
	running bool
	images  map[uint64]mortalImage
	deaths  int
	way     bool // a sound image was there when it died first
	ended   bool
	exit    int
}

type mortalImage struct {
	work   float64
	spoilt bool
}

func newMortal(seed uint64) *mortal {
	rng := rand.New(rand.NewPCG(seed, 38))
	w := &mortal{rng: rng, kind: killer(rng.IntN(int(killers))), images: map[uint64]mortalImage{}}
	every := time.Duration(1+rng.IntN(20)) * time.Second
	w.total = (5 + 40*rng.Float64()) * every.Seconds()
	w.spoils = w.total * rng.Float64()
	w.delay = (0.2 + 2*rng.Float64()) * every.Seconds()
	w.m = New(Config{Ranks: 1, Keep: 1 + rng.IntN(3), Every: every, Retries: 3, Restarts: 100})
	w.step(Start{})
	return w
}

func (w *mortal) step(ev Event) {
	for _, a := range w.m.Step(w.now, ev) {
		switch a := a.(type) {
		case Launch:
			w.launch(a)
		case Prepare:
			w.todo = append(w.todo, Prepared{a.Checkpoint, ""})
		case Send:
			w.answer(a)
		case Commit:
			w.images[a.Checkpoint] = mortalImage{w.work, w.spoilt}
			w.todo = append(w.todo, Committed{a.Checkpoint, ""})
		case Drop:
			delete(w.images, a.Checkpoint)
		case Finish:
			w.ended, w.exit = true, a.Code
		}
	}
}

func (w *mortal) launch(a Launch) {
	im := w.images[a.Image]
	w.work, w.spoilt, w.running, w.speed = im.work, im.spoilt, true, 0.85+0.15*w.rng.Float64()
	w.sound = w.sound || w.deaths > 0 && !w.spoilt
	switch w.kind {
	case fixed:
		w.dies = w.spoils
	case random:
		w.dies = w.work + (3+10*w.rng.ExpFloat64())*w.m.cfg.Every.Seconds()
	case poisoned:
		w.dies = w.total + 1
		if !w.sound {
			w.dies = w.spoils + w.delay
		}
	}
	w.todo = append(w.todo, node.Hello{Ranks: []int{0}})
	if a.Image != 0 {
		w.todo = append(w.todo, node.Restored{Ranks: []int{0}})
	}
}

func (w *mortal) answer(s Send) {
	r := []int{0}
	switch s.Type {
	case abi.MsgRequest:
		w.todo = append(w.todo, node.Clocks{Ranks: r, Epoch: s.Epoch})
	case abi.MsgTargets:
		w.todo = append(w.todo, node.Met{Ranks: r, Epoch: s.Epoch, Version: s.Version})
	case abi.MsgStop:
		w.todo = append(w.todo, node.Stopped{Ranks: r, Epoch: s.Epoch})
	case abi.MsgDrain:
		w.todo = append(w.todo, node.Image{Ranks: r, Epoch: s.Epoch}, node.Resumed{Ranks: r, Epoch: s.Epoch})
	}
}

// passes: the program computes for as long as nothing else happens, to its end or its death at the most.
func (w *mortal) passes() {
	until := w.now + 10*time.Second
	if at, ok := w.m.Next(); ok {
		until = min(until, max(at, w.now+time.Millisecond))
	}
	if !w.running {
		w.now = until
		w.step(Tick{})
		return
	}
	goal := min(w.total, w.dies)
	if need := time.Duration((goal - w.work) / w.speed * 1e9); w.now+need <= until {
		w.now += max(need, 0)
		w.work, w.running = goal, false
		w.over()
		return
	}
	w.work += (until - w.now).Seconds() * w.speed
	w.spoilt = w.spoilt || w.kind == poisoned && !w.sound && w.work > w.spoils
	w.now = until
	w.step(Tick{})
}

func (w *mortal) over() {
	if w.work >= w.total {
		w.step(node.Fini{Ranks: []int{0}})
		w.step(node.Lost{Rank: 0, Ended: true})
		w.step(LauncherExit{})
		return
	}
	if w.deaths++; w.deaths == 1 {
		for _, im := range w.images {
			w.way = w.way || !im.spoilt
		}
	}
	w.step(node.Lost{Rank: 0})
	w.step(LauncherExit{Code: 9})
}

// play returns what is wrong, empty when nothing is.
func (w *mortal) play() string {
	for i := 0; !w.ended; i++ {
		switch {
		case i > 100000:
			return "no end"
		case len(w.todo) > 0:
			ev := w.todo[0]
			w.todo = w.todo[1:]
			w.step(ev)
		default:
			w.passes()
		}
	}
	switch {
	case w.deaths > w.m.cfg.Restarts+1:
		return "more deaths than the bound lets"
	case w.kind == fixed && w.exit == 0:
		return "came to its end through its death"
	case w.kind == fixed && w.deaths > 4*(w.m.cfg.Retries+1):
		return "restarted again and again to die at one point"
	case w.kind != fixed && w.exit != 0 && w.way:
		return "did not come to its end"
	}
	return ""
}

func TestSetbacks(t *testing.T) {
	const programs = 10000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	found := map[string]int{}
	deaths := map[killer][]int{}
	for i := range uint64(programs) {
		w := newMortal(seed + i)
		if what := w.play(); what != "" {
			if found[what]++; found[what] < 3 {
				t.Logf("program %d: %s: %s: every %v, keep %d, total %.0f, spoils %.0f, %d deaths, exit %d", i, w.kind, what, w.m.cfg.Every, w.m.cfg.Keep, w.total, w.spoils, w.deaths, w.exit)
			}
		}
		deaths[w.kind] = append(deaths[w.kind], w.deaths)
	}
	for k := range killers {
		slices.Sort(deaths[k])
		t.Logf("%v: %d programs, deaths: median %d, most %d", k, len(deaths[k]), deaths[k][len(deaths[k])/2], deaths[k][len(deaths[k])-1])
	}
	if len(found) > 0 {
		t.Error(fmt.Sprint(found))
	}
}
