package coord

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// world plays everything around the machine: launchers that fail, ranks that die at any moment, disks that fill up.
type lifeWorld struct {
	t         *rapid.T
	m         *Machine
	cfg       Config
	now       time.Duration
	disk      map[uint64]bool // committed images
	launches  int
	sinceGood int // launches since the last commit
	finished  bool
	todo      []Event
}

func (w *lifeWorld) chance(percent int, what string) bool {
	return rapid.IntRange(0, 99).Draw(w.t, what) >= 100-percent // small numbers are drawn more often
}

func (w *lifeWorld) step(ev Event) {
	for _, a := range w.m.Step(w.now, ev) {
		w.perform(a)
	}
}

func (w *lifeWorld) perform(a Action) {
	if w.finished {
		if _, ok := a.(Reply); !ok {
			w.t.Fatalf("%+v after Finish", a)
		}
		return
	}
	switch a := a.(type) {
	case Launch:
		w.launch(a)
	case Kill:
		for r := range w.cfg.Ranks {
			w.todo = append(w.todo, node.Lost{Rank: r})
		}
		w.todo = append(w.todo, LauncherExit{Signal: 15})
	case Prepare:
		w.todo = append(w.todo, Prepared{a.Checkpoint, w.maybe("no space")})
	case Commit:
		ev := Committed{a.Checkpoint, w.maybe("no space")}
		if ev.Err == "" {
			w.disk[a.Checkpoint] = true
			w.sinceGood = 0
		}
		w.todo = append(w.todo, ev)
	case Drop:
		if !w.disk[a.Checkpoint] {
			w.t.Fatalf("drops checkpoint %d, which is not there", a.Checkpoint)
		}
		delete(w.disk, a.Checkpoint)
		if len(w.disk) == 0 {
			w.t.Fatal("dropped the last checkpoint")
		}
	case Send:
		w.answer(a)
	case Finish:
		w.finished = true
	}
}

func (w *lifeWorld) maybe(err string) string {
	if w.chance(15, "fails") {
		return err
	}
	return ""
}

func (w *lifeWorld) launch(a Launch) {
	w.launches++
	if w.sinceGood++; w.sinceGood > w.cfg.Retries+1+(triesPerImage+1)*(len(w.disk)+1) {
		w.t.Fatalf("%d starts without a new checkpoint: %d images, %d retries", w.sinceGood, len(w.disk), w.cfg.Retries)
	}
	if a.Image != 0 && !w.disk[a.Image] {
		w.t.Fatalf("goes back to checkpoint %d, which is not there", a.Image)
	}
	if w.chance(10, "launch fails") {
		w.todo = append(w.todo, LaunchFailed{Text: "no", Bad: w.chance(50, "bad"), Away: w.chance(30, "away")})
		return
	}
	for r := range w.cfg.Ranks {
		w.todo = append(w.todo, node.Hello{Ranks: []int{r}})
		if a.Image == 0 {
			continue
		}
		if w.chance(10, "restore fails") {
			w.todo = append(w.todo, node.Failed{Rank: r, Text: "crc", Damaged: w.chance(50, "damaged")})
		} else {
			w.todo = append(w.todo, node.Restored{Ranks: []int{r}})
		}
	}
}

// answer is what the ranks say to an order, each for itself or all at once.
func (w *lifeWorld) answer(s Send) {
	all := make([]int, w.cfg.Ranks)
	for r := range all {
		all[r] = r
	}
	if w.chance(50, "at once") {
		w.together(s, all)
		return
	}
	for _, r := range all {
		w.together(s, []int{r})
	}
}

func (w *lifeWorld) together(s Send, ranks []int) {
	switch s.Type {
	case abi.MsgRequest:
		w.todo = append(w.todo, node.Clocks{Ranks: ranks, Epoch: s.Epoch})
	case abi.MsgTargets:
		w.todo = append(w.todo, node.Met{Ranks: ranks, Epoch: s.Epoch, Version: s.Version})
	case abi.MsgStop:
		ev := node.Stopped{Ranks: ranks, Epoch: s.Epoch}
		if w.chance(5, "refuses") {
			ev.Refusals = []string{"socket"}
		}
		w.todo = append(w.todo, ev)
	case abi.MsgDrain:
		im := node.Image{Ranks: ranks, Epoch: s.Epoch}
		if w.chance(5, "image fails") {
			im.Text = "no space"
		}
		w.todo = append(w.todo, im, node.Resumed{Ranks: ranks, Epoch: s.Epoch})
	case abi.MsgExit:
		for _, r := range ranks {
			w.todo = append(w.todo, node.Lost{Rank: r, Ended: true, Code: abi.ExitStopped})
		}
		if ranks[len(ranks)-1] == w.cfg.Ranks-1 {
			w.todo = append(w.todo, LauncherExit{Code: abi.ExitStopped})
		}
	}
}

// die makes all ranks and the launcher go away, in some order.
func (w *lifeWorld) die() {
	evs := []Event{LauncherExit{Code: 9}}
	for r := range w.cfg.Ranks {
		evs = append(evs, node.Lost{Rank: r})
	}
	w.todo = append(w.todo, rapid.Permutation(evs).Draw(w.t, "order")...)
}

// TestLife plays random lives: every job ends, no start is made from an image that is not there, the last checkpoint is
// never dropped, and the number of starts without a new checkpoint is bounded.
func TestLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Ranks: rapid.IntRange(1, 3).Draw(t, "ranks"), Keep: rapid.IntRange(1, 3).Draw(t, "keep"),
			Retries: rapid.IntRange(0, 3).Draw(t, "retries"), Every: 10 * time.Second}
		w := &lifeWorld{t: t, cfg: cfg, disk: map[uint64]bool{}, m: New(cfg)}
		start := Start{Restart: rapid.Bool().Draw(t, "restart")}
		for n := range uint64(rapid.IntRange(0, 4).Draw(t, "images")) {
			start.Images = append(start.Images, n+1)
			w.disk[n+1] = true
		}
		w.step(start)
		for i := 0; !w.finished; i++ {
			w.turn(i)
		}
		w.step(Request{ID: 99})
	})
}

// turn lets one thing happen. After a while the user has had enough.
func (w *lifeWorld) turn(i int) {
	if len(w.todo) > 0 && !w.chance(10, "later") {
		ev := w.todo[0]
		w.todo = w.todo[1:]
		w.step(ev)
		return
	}
	switch k := rapid.IntRange(0, 99).Draw(w.t, "what"); {
	case i > 2000:
		w.t.Fatalf("no end: %+v", w.m.Status())
	case i > 400:
		w.step(Interrupt{130})
	case k == 99:
		w.step(Terminate{})
	case k > 90:
		w.step(Request{ID: uint64(i + 1), Stop: k == 98})
	case k > 70 && w.m.phase == Running:
		w.die()
	}
	if at, ok := w.m.Next(); ok {
		w.now = max(at, w.now)
	}
	w.step(Tick{})
}
