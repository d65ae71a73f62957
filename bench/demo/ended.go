package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/job"
	"github.com/byssus-hpc/byssus/bench/internal/report"
)

// An ended run of a shot has left this.
type ended struct {
	loop    float64   // seconds
	steps   int       // in that time
	blocked []float64 // seconds, for each snapshot
	counted int
	field   string
	last    int
	slice   []byte
}

func (e ended) perStep() float64 { return 1e3 * e.loop / float64(e.steps) }

// share is how much of its time the program stood still for snapshots.
func (e ended) share() (percent float64) {
	for _, b := range e.blocked {
		percent += 100 * b / e.loop
	}
	return percent
}

// parse reads what a shot prints at its end.
func parse(text string) (e ended, err error) {
	for line := range strings.Lines(text) {
		var step int
		var seconds float64
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "snapshot":
			_, err = fmt.Sscan(rest, &step, &seconds)
			e.blocked = append(e.blocked, seconds)
		case "loop":
			_, err = fmt.Sscan(rest, &e.loop, &e.steps)
		case "snapshots":
			_, err = fmt.Sscan(rest, &e.counted)
		case "field":
			_, err = fmt.Sscan(rest, &e.field, &e.last)
		}
		if err != nil {
			return e, fmt.Errorf("%q: %w", line, err)
		}
	}
	if e.counted != len(e.blocked) {
		return e, fmt.Errorf("%d snapshots count, of %d", e.counted, len(e.blocked))
	}
	return e, nil
}

// costs prints what snapshots cost: without, and with.
func costs(native ended, without, with []ended) {
	steps := func(list []ended) (ms []float64) {
		for _, e := range list {
			ms = append(ms, e.perStep())
		}
		return ms
	}
	var shares, first, later, usual []float64
	for _, e := range with {
		shares, first = append(shares, e.share()), append(first, 1e3*e.blocked[0])
		for _, b := range e.blocked[1:] {
			later, usual = append(later, 1e3*b), append(usual, 100*1e3*b/(interval*e.perStep()))
		}
	}
	a, b := steps(without), steps(with)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(what, format string, values ...any) {
		fmt.Fprintf(w, "%s\t  "+format+"\t\n", append([]any{what}, values...)...)
	}
	fmt.Println()
	row("", "best\tmedian")
	row("a step natively, on this machine", "%.1f ms\t", native.perStep())
	row("on the nodes, without snapshots", "%.1f ms\t%.1f ms", report.Best(a), report.Median(a))
	row(fmt.Sprintf("with one every %d steps", interval), "%.1f ms\t%.1f ms", report.Best(b), report.Median(b))
	over := func(a, b float64) float64 { return 100 * (b/a - 1) }
	row("more, in all", "%.1f %%\t%.1f %%", over(report.Best(a), report.Best(b)), over(report.Median(a), report.Median(b)))
	row("of it, the program stands still", "%.1f %%\t%.1f %%", report.Best(shares), report.Median(shares))
	row("for the first one, in new memory", "%.0f ms\t%.0f ms", report.Best(first), report.Median(first))
	row("for a later one", "%.1f ms\t%.1f ms", report.Best(later), report.Median(later))
	row("of the time between two", "%.1f %%\t%.1f %%", report.Best(usual), report.Median(usual))
	w.Flush()
	fmt.Println()
}

// A line of a shot says that it was at a step.
type line struct {
	step int
	at   float64
}

// lines are those, and where among them a program begins.
func lines(text string) (list []line, begins []float64) {
	for l := range strings.Lines(text) {
		var n line
		if !strings.HasSuffix(l, "\n") {
			break
		}
		if k, _ := fmt.Sscanf(l, "step %d @%f", &n.step, &n.at); k == 2 {
			list = append(list, n)
		}
		if k, _ := fmt.Sscanf(l, "begun @%f", &n.at); k == 1 {
			begins = append(begins, n.at)
		}
	}
	return list, begins
}

func lastLine(text string) line {
	if list, _ := lines(text); len(list) > 0 {
		return list[len(list)-1]
	}
	return line{}
}

// times are when what happened, after a crash.
type times struct {
	snapshot, step                           int     // from which it went on, and at which it had been
	noticed, begun, rebuilt, restored, again float64 // seconds after the crash
}

// timesOf finds them in the job's timeline, and in what the program printed.
func timesOf(crash time.Time, events []job.Event, text string) (t times, err error) {
	for _, e := range events {
		switch at := e.Time.Sub(crash).Seconds(); {
		case e.Kind == "lost" && t.noticed == 0:
			t.noticed = at
		case e.Kind == "rebuilt":
			t.rebuilt = at
		}
	}
	since := func(at float64) float64 { return at - float64(crash.UnixNano())/1e9 }
	list, begins := lines(text)
	for l := range strings.Lines(text) {
		var took, at float64
		if k, _ := fmt.Sscanf(l, "restored %d %f @%f", &t.snapshot, &took, &at); k == 3 {
			t.restored = since(at)
		}
	}
	if t.noticed == 0 || t.rebuilt == 0 || t.restored == 0 || len(begins) != 2 {
		return t, errors.New("it has not gone on from a snapshot after the loss of a node")
	}
	t.begun = since(begins[1])
	second := slices.IndexFunc(list, func(l line) bool { return l.at > begins[1] })
	if second < 1 {
		return t, errors.New("it has not computed before and after")
	}
	t.step, t.again = list[second-1].step, math.Inf(1)
	for _, l := range list[second:] {
		if l.step >= t.step {
			t.again = since(l.at)
			break
		}
	}
	return t, nil
}

// print tells them, as parts.
func (t times) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(what string, seconds float64) { fmt.Fprintf(w, "%s\t  %.2f s\t\n", what, seconds) }
	fmt.Printf("\n  %s fell silent at step %d; the newest snapshot was that of step %d\n\n", lostNode, t.step, t.snapshot)
	row("until that is noticed, by default after 3 s", t.noticed)
	row("until all ranks are started again, on a spare", t.begun-t.noticed)
	row("until what the node held is made again", t.rebuilt-t.begun)
	row("until all ranks have their memory", t.restored-t.rebuilt)
	row(fmt.Sprintf("until step %d is computed again", t.step), t.again-t.restored)
	row("in all", t.again)
	w.Flush()
	fmt.Println()
}
