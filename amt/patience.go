package amt

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// PatienceVariable says how long a task or a handler runs, or a main function waits elsewhere than in this package, before it is told
// that it does ("90s"); a minute if it is not set, never if it is 0.
const PatienceVariable = "BYSSUS_AMT_PATIENCE"

const patientFor = time.Minute // before it says that something runs; then after twice as long, and so on

// A patience tells that a handler, an operation of a scope, or a main function that waits elsewhere than in the runtime, keeps its rank
// from everything else. It looks from a goroutine of its own, at a number that the rank's changes whenever it takes a batch or has nothing to
// do; what that does, if it stays the same, is read off its stack.
type patience struct {
	r     *rank
	beats atomic.Uint64
	lasts time.Duration // does not change; 0: nothing is told
	over  chan struct{}
}

func (p *patience) init(r *rank) error {
	p.r, p.lasts = r, patientFor
	text := os.Getenv(PatienceVariable)
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("amt: %s=%s: a time is wanted, such as 90s, or 0", PatienceVariable, text)
	}
	p.lasts = d
	return nil
}

// beat is called by the rank's goroutine.
func (p *patience) beat() { p.beats.Store(p.beats.Load() + 1) }

// begin has it look until end.
func (p *patience) begin() {
	if p.over = make(chan struct{}); p.lasts > 0 {
		go p.look(p.over)
	}
}

func (p *patience) end() {
	if p.over != nil {
		close(p.over)
		p.over = nil
	}
}

func (p *patience) look(over <-chan struct{}) {
	ticks := time.NewTicker(max(p.lasts/2, 1))
	defer ticks.Stop()
	var since time.Time // when it was first seen to do
	var does string     // this
	seen, told := p.beats.Load(), time.Duration(0)
	for {
		var now time.Time
		select {
		case <-over:
			return
		case now = <-ticks.C:
		}
		if beats := p.beats.Load(); beats != seen {
			seen, does = beats, ""
			continue
		}
		what, which := p.occupied(stacks())
		if what == "" || which != does {
			since, does, told = now, which, 0
			continue
		}
		if ran := now.Sub(since); ran >= max(p.lasts, 2*told) {
			told = ran
			fmt.Fprintf(os.Stderr, "amt: rank %d: %s runs since %v; this rank does nothing else meanwhile\n", p.r.self, what, ran.Round(max(p.lasts/100, 1)))
		}
	}
}

// stacks is the stacks of all goroutines.
func stacks() string {
	for size := 1 << 16; ; size *= 2 {
		b := make([]byte, size)
		if n := runtime.Stack(b, true); n < size || size > 1<<26 {
			return string(b[:n])
		}
	}
}

// occupied finds what the rank does in the stacks of all goroutines: a handler, or an operation, and which: its frames with the addresses
// in them, of the rank and of the message; or a main function that waits for what is not the runtime's. Else both are empty.
func (p *patience) occupied(stacks string) (what, which string) {
	r := p.r
	handles := fmt.Sprintf(".(*dispatcher).message(%p", &r.dispatcher)
	performs := fmt.Sprintf(".(*operations).perform(%p", &r.operations)
	runs := fmt.Sprintf(".(*rank).run(%p", r)
	for s := range strings.SplitSeq(stacks, "\n\n") {
		if _, frame, found := strings.Cut(s, performs); found {
			frame, _, _ = strings.Cut(frame, "\n")
			return "an operation of a scope", performs + frame
		}
		if above, frame, found := strings.Cut(s, handles); found {
			frame, _, _ = strings.Cut(frame, "\n")
			for _, e := range r.dispatcher.regions.table {
				if strings.Contains(above, "\n"+e.function+"(") {
					return e.String(), frame
				}
			}
			return "a handler", frame
		}
		if state := waitsElsewhere(s, runs); state != "" {
			return fmt.Sprintf("the main function (%s)", state), runs + state
		}
	}
	return "", ""
}

// waitsElsewhere is what a main function waits in, by its stack; empty if it computes, or waits for an epoch.
func waitsElsewhere(stack, runs string) string {
	if !strings.Contains(stack, runs) || strings.Contains(stack, ".(*loop).step(") {
		return ""
	}
	_, state, _ := strings.Cut(stack, "[")
	state, _, _ = strings.Cut(state, "]")
	state, _, _ = strings.Cut(state, ",") // how long follows
	for _, waits := range []string{"chan ", "select", "sync.", "semacquire", "sleep", "IO wait"} {
		if strings.HasPrefix(state, waits) {
			return state
		}
	}
	return ""
}
