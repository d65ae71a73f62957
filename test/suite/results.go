package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An event is a line of `go test -json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// A result is what became of a test, or of a package (its test's name is empty), in one run of it.
type result struct {
	Package string  `json:"package"`
	Test    string  `json:"test,omitempty"`
	Outcome string  `json:"outcome"`                  // pass, fail, skip
	Seconds float64 `json:"seconds"`                  // without the time that it waited for a share
	Waited  float64 `json:"waited_seconds,omitempty"` // for its share of the machine
	Cost    float64 `json:"cost"`                     // seconds of the whole machine: with a share of half of it, half of its seconds
	shared  bool    // it has had a share
	output  strings.Builder
}

// results are those of all runs, in their order: what was run once more is there twice.
type results struct {
	done []*result
}

// shareLine is what harness.ShareFor logs.
var shareLine = regexp.MustCompile(`share: waited ([0-9.]+) s, held ([0-9.]+) s, (\d+) of (\d+) units`)

// withoutShare is what a test takes that has no share: one of two that run at a time.
const withoutShare = 0.5

// read adds what the events of a phase tell.
func (r *results) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	defer f.Close()
	running := map[[2]string]*result{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Package == "" {
			continue // a line of a build
		}
		e.Package = strings.TrimPrefix(e.Package, "github.com/byssus-hpc/byssus/")
		key := [2]string{e.Package, e.Test}
		now := running[key]
		if now == nil {
			now = &result{Package: e.Package, Test: e.Test}
			running[key] = now
		}
		switch e.Action {
		case "output":
			now.add(e.Output)
		case "pass", "fail", "skip":
			now.Outcome, now.Seconds = e.Action, e.Elapsed-now.Waited
			if now.Cost == 0 {
				now.Cost = now.Seconds * withoutShare
			}
			r.done = append(r.done, now)
			delete(running, key)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("events: %s: %w", file, err)
	}
	return nil
}

// add takes a line of a test's output.
func (r *result) add(text string) {
	r.output.WriteString(text)
	if m := shareLine.FindStringSubmatch(text); m != nil {
		waited, _ := strconv.ParseFloat(m[1], 64) // numbers by the expression
		held, _ := strconv.ParseFloat(m[2], 64)
		units, _ := strconv.ParseFloat(m[3], 64)
		of, _ := strconv.ParseFloat(m[4], 64)
		r.shared = true
		r.Waited += waited
		r.Cost += held * units / of
	}
}

// leaves are the results of tests without subtests.
func (r *results) leaves() []*result {
	parents := map[[2]string]bool{}
	for _, x := range r.done {
		for i, c := range x.Test {
			if c == '/' {
				parents[[2]string{x.Package, x.Test[:i]}] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(r.done), func(x *result) bool {
		return x.Test == "" || parents[[2]string{x.Package, x.Test}]
	})
}

// flaky are the tests that failed and passed when they were run once more.
func (r *results) flaky() []*result {
	failed := map[[2]string]*result{}
	var all []*result
	for _, x := range r.leaves() {
		key := [2]string{x.Package, x.Test}
		switch before := failed[key]; {
		case x.Outcome == "fail":
			failed[key] = x
		case before != nil:
			all = append(all, before)
			delete(failed, key)
		}
	}
	return all
}

// top sums up what each top-level test has cost, by package: its leaves, or, once, the tests around these that have had a share for them.
func (r *results) top() map[string]map[string]float64 {
	shared := map[[2]string]*result{}
	for _, x := range r.done {
		if x.shared {
			shared[[2]string{x.Package, x.Test}] = x
		}
	}
	counted := map[*result]bool{}
	sums := map[string]map[string]float64{}
	for _, x := range r.leaves() {
		for at := len(x.Test); !x.shared && at > 0; at = strings.LastIndexByte(x.Test[:at], '/') {
			if around := shared[[2]string{x.Package, x.Test[:at]}]; around != nil {
				x = around
			}
		}
		if counted[x] {
			continue
		}
		counted[x] = true
		name, _, _ := strings.Cut(x.Test, "/")
		if sums[x.Package] == nil {
			sums[x.Package] = map[string]float64{}
		}
		sums[x.Package][name] += x.Cost
	}
	return sums
}

// slowest are the n tests that took longest.
func (r *results) slowest(n int) []*result {
	all := r.leaves()
	slices.SortFunc(all, func(a, b *result) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return all[:min(n, len(all))]
}
