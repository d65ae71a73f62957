package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// report writes the times of all tests to a file, and prints the slowest tests, the packages, what was skipped and what is flaky.
func (r *results) report(out io.Writer, dir string, budgets []harness.Budget, took time.Duration) error {
	b, err := json.MarshalIndent(r.done, "", "\t")
	if err != nil {
		return fmt.Errorf("times: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "times.json"), b, 0o666); err != nil {
		return fmt.Errorf("times: %w", err)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nslowest tests\tseconds\twaited for a share\tcost")
	for _, x := range r.slowest(20) {
		fmt.Fprintf(w, "%s %s\t%.1f\t%.1f\t%.1f\n", x.Package, x.Test, x.Seconds, x.Waited, x.Cost)
	}
	w.Flush()
	r.packages(w, budgets)
	w.Flush()
	r.skipped(out)
	fmt.Fprintf(out, "\n%d tests in %d min %d s\n", len(r.leaves()), int(took.Minutes()), int(took.Seconds())%60)
	return r.keepFlaky(out, filepath.Join(dir, "flaky"))
}

// packages prints what packages cost, and what they may.
func (r *results) packages(w *tabwriter.Writer, budgets []harness.Budget) {
	fmt.Fprintln(w, "\npackage\tseconds\tcost\tbudget")
	costs, elapsed := map[string]float64{}, map[string]float64{}
	for name, tests := range r.top() {
		for _, cost := range tests {
			costs[name] += cost
		}
	}
	for _, x := range r.done {
		if x.Test == "" {
			elapsed[x.Package] += x.Seconds
		}
	}
	var sum, allowed float64
	for _, name := range slices.SortedFunc(maps.Keys(costs), func(a, b string) int { return int(1000 * (costs[b] - costs[a])) }) {
		budget, over := "", ""
		if i := slices.IndexFunc(budgets, func(b harness.Budget) bool { return b.Package == name }); i >= 0 {
			budget = fmt.Sprintf("%.0f", budgets[i].Seconds)
			allowed += budgets[i].Seconds
			if costs[name] > budgets[i].Seconds {
				over = " OVER"
			}
		}
		sum += costs[name]
		if costs[name] >= 1 || budget != "" {
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%s%s\n", name, elapsed[name], costs[name], budget, over)
		}
	}
	fmt.Fprintf(w, "all\t\t%.0f\t%.0f\n", sum, allowed)
}

// skipped prints the tests that were skipped, and why.
func (r *results) skipped(out io.Writer) {
	n := 0
	for _, x := range r.leaves() {
		if x.Outcome != "skip" {
			continue
		}
		n++
		reason := ""
		for line := range strings.Lines(x.output.String()) {
			if _, text, ok := strings.Cut(line, ".go:"); ok {
				_, reason, _ = strings.Cut(strings.TrimSpace(text), ": ")
			}
		}
		fmt.Fprintf(out, "skipped: %s %s: %s\n", x.Package, x.Test, reason)
	}
	fmt.Fprintf(out, "\n%d tests were skipped\n", n)
}

// keepFlaky keeps the logs of flaky tests, and lists them.
func (r *results) keepFlaky(out io.Writer, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("flaky: %w", err)
	}
	for _, x := range r.flaky() {
		name := filepath.Join(dir, strings.NewReplacer("/", "-", " ", "_").Replace(x.Package+"."+x.Test)+".log")
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return fmt.Errorf("flaky: %w", err)
		}
		if err := os.WriteFile(name, []byte(x.output.String()), 0o666); err != nil {
			return fmt.Errorf("flaky: %w", err)
		}
		fmt.Fprintf(out, "FLAKY %s %s: failed, and passed when it was run once more: %s\n%s\n", x.Package, x.Test, name, harness.Tail(x.output.String()))
	}
	return nil
}
