package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/byssus-hpc/byssus/bench/internal/report"
)

// taskLimits are what the task runtime is held against: ratios to raw MPI where the names are of both, else nanoseconds.
var taskLimits = map[string]string{
	"RoundTrip8B":     "2.0",
	"OneWay8B":        "0.2",
	"EmptyCollective": "2.0 (of four MPI_Allreduce)",
	"Allreduces1000":  "1.5",
	"Local8B":         "100 ns",
	"EmptyRooted":     "500 ns",
}

// tasks compares the task runtime for Go with raw MPI in C, by turns.
func (b *bench) tasks(ctx context.Context) error {
	program := b.program("tasks", "go")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./bench/tasks")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bench: %v: %w: %s", cmd, err, text)
	}
	for _, mpi := range b.mpis {
		raw, ours := map[string][]float64{}, map[string][]float64{}
		var order []string
		for range b.rounds {
			one, err := b.native(ctx, mpi, b.program("tasks", mpi))
			if err != nil {
				return err
			}
			other, err := b.native(ctx, mpi, program)
			if err != nil {
				return err
			}
			figures(one.text, raw)
			order = figures(other.text, ours)
		}
		b.taskLines(mpi, order, raw, ours)
	}
	out := map[string][]float64{}
	for range b.rounds {
		var text bytes.Buffer
		cmd := exec.CommandContext(ctx, program)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "BYSSUS_AMT_RANKS=2"), &text, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("bench: %v: %w", cmd, err)
		}
		figures(text.String(), out)
	}
	for _, name := range []string{"RoundTrip8B", "OneWay8B", "Local8B", "EmptyCollective", "EmptyRooted"} {
		b.taskLine(name, "goroutines", out[name])
	}
	return nil
}

// figures adds what a program has measured, and returns the names in their order.
func figures(text string, into map[string][]float64) (order []string) {
	for line := range strings.Lines(text) {
		var name string
		var ns float64
		if n, _ := fmt.Sscanf(line, "tasks %s %f", &name, &ns); n == 2 {
			into[name] = append(into[name], ns)
			order = append(order, name)
		}
	}
	return order
}

// taskLines prints what was measured under an MPI.
func (b *bench) taskLines(mpi string, order []string, raw, ours map[string][]float64) {
	for _, name := range order {
		if raw[name] == nil {
			b.taskLine(name, mpi, ours[name])
			continue
		}
		sample{name: "Tasks/" + name + "/" + mpi, unit: "ns/op", native: raw[name], byssus: ours[name], limit: taskLimits[name]}.print(b.out)
	}
}

// taskLine prints a figure that raw MPI has none for.
func (b *bench) taskLine(name, where string, ns []float64) {
	if len(ns) == 0 {
		fmt.Fprintf(b.out, "# Tasks/%s/%s: no measurement\n", name, where)
		return
	}
	fmt.Fprintf(b.out, "BenchmarkTasks/%s/%s\t%d\t%.4g best-ns/op\t%.4g median-ns/op", name, where, len(ns), report.Best(ns), report.Median(ns))
	if limit := taskLimits[name]; strings.HasSuffix(limit, "ns") {
		fmt.Fprintf(b.out, "\t# limit %s", limit)
	}
	fmt.Fprintln(b.out)
}
