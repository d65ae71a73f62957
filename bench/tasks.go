package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"Switch":          "300 ns",
	"WorkOn8":         "3.0 (of 2 ranks, the same work)",
}

// taskPairs are measured by turns in one process: the name of each ends so for what the other is held against.
var taskPairs = []struct{ native, ours, limit string }{
	{"/array", "/slice", "1.5 (native: arrays, which are not packed)"},
	{"/direct", "/home", "none (native: messages to elements that go straight to them, not by a home)"},
	{"/slice", "/element", "2.0 (native: as many bytes in messages)"},
	{"/handlers", "/elements", "1.3 (native: handlers instead of elements)"},
}

const (
	crowd    = 8 // ranks that share the processors of two
	relaying = 3 // ranks, one of which sends on
)

// tasks compares the task runtime for Go with raw MPI in C, by turns.
func (b *bench) tasks(ctx context.Context) error {
	program := b.program("tasks", "go")
	if err := goBuild(ctx, program, "./bench/tasks"); err != nil {
		return err
	}
	if err := goBuild(ctx, filepath.Join(b.dir, "libswitch.so"), "./bench/switch", "-buildmode=c-shared"); err != nil {
		return err
	}
	for _, mpi := range b.mpis {
		attached := b.program("switch", mpi)
		err := command(ctx, "mpicc."+mpi, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", attached,
			filepath.Join(b.sources, "switch.c"), "-L"+b.dir, "-lswitch", "-Wl,-rpath,"+b.dir)
		if err != nil {
			return err
		}
		raw, ours, single := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
		var order []string
		for range b.rounds {
			for _, run := range []struct {
				n    int
				into map[string][]float64
				argv []string
			}{
				{2, raw, []string{b.program("tasks", mpi)}},
				{2, ours, []string{program}},
				{crowd, ours, []string{program, "-only", "Work"}},
				{relaying, ours, []string{program, "-only", "Forward"}},
				{2, ours, []string{attached}},
				{2, single, []string{b.program("tasks", mpi), "single"}},
			} {
				out, err := b.nativeOn(ctx, mpi, run.n, run.argv...)
				if err != nil {
					return err
				}
				for _, name := range figures(out.text, fmt.Sprint("On", run.n), run.into) {
					if !slices.Contains(order, name) {
						order = append(order, name)
					}
				}
			}
		}
		b.taskLines(mpi, order, raw, ours)
		b.pairLines(mpi, ours)
		for _, name := range []string{"METG1", "METG8"} {
			sample{name: "Tasks/" + name + "/" + mpi + "/raw", unit: "ns/op", native: raw[name], byssus: ours[name+"/elements"], limit: "none"}.print(b.out)
		}
		sample{name: "Tasks/RawThreads/" + mpi, unit: "ns/op", native: single["RoundTrip8B"], byssus: raw["RoundTrip8B"], other: "serialized",
			limit: "none: raw MPI for threads that take turns, which is what the others are compared with (native is by MPI_Init)"}.print(b.out)
		sample{name: "Tasks/RawReceives/" + mpi, unit: "ns/op", native: raw["Allreduces1000"], byssus: raw["AllreducesBesideReceives"], other: "beside-receives",
			limit: "none: raw MPI_Allreduce while 16 receives of another communicator are posted, as the runtime's are"}.print(b.out)
		sample{name: "Tasks/WorkOn8/" + mpi, unit: "ns/op", native: ours["Work"], byssus: ours["WorkOn8"], limit: taskLimits["WorkOn8"]}.print(b.out)
	}
	out := map[string][]float64{}
	for range b.rounds {
		for ranks, args := range map[int][]string{2: nil, relaying: {"-only", "Forward"}} {
			var text bytes.Buffer
			cmd := exec.CommandContext(ctx, program, args...)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), fmt.Sprint("BYSSUS_AMT_RANKS=", ranks)), &text, os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("bench: %v: %w", cmd, err)
			}
			figures(text.String(), "", out)
		}
	}
	for _, name := range []string{"RoundTrip8B", "OneWay8B", "OneWayPacked", "Local8B", "EmptyCollective", "EmptyRooted"} {
		b.taskLine(name, "goroutines", out[name])
	}
	b.pairLines("goroutines", out)
	return nil
}

// goBuild compiles a program with cgo.
func goBuild(ctx context.Context, to, pkg string, flags ...string) error {
	return command(ctx, "env", append(append([]string{"CGO_ENABLED=1", "go", "build"}, flags...), "-o", to, pkg)...)
}

// command runs one that prints nothing if it succeeds.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bench: %v: %w: %s", cmd, err, text)
	}
	return nil
}

// figures adds what a program has measured, and returns the names in their order. That of work on another number of ranks than two is
// called by that.
func figures(text, on string, into map[string][]float64) (order []string) {
	for line := range strings.Lines(text) {
		var name string
		var ns float64
		if n, _ := fmt.Sscanf(line, "tasks %s %f", &name, &ns); n == 2 {
			if name == "Work" && on == fmt.Sprint("On", crowd) {
				name += on
			}
			if into[name] == nil {
				order = append(order, name)
			}
			into[name] = append(into[name], ns)
		}
	}
	return order
}

// taskLines prints what was measured under an MPI.
func (b *bench) taskLines(mpi string, order []string, raw, ours map[string][]float64) {
	for _, name := range order {
		switch {
		case ours[name] == nil || name == "WorkOn8" || strings.Contains(name, "/"):
			continue
		case raw[name] == nil:
			b.taskLine(name, mpi, ours[name])
			continue
		}
		sample{name: "Tasks/" + name + "/" + mpi, unit: "ns/op", native: raw[name], byssus: ours[name], limit: taskLimits[name]}.print(b.out)
	}
}

// pairLines prints what was measured by turns in one process.
func (b *bench) pairLines(where string, ours map[string][]float64) {
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		for _, pair := range taskPairs {
			of, ok := strings.CutSuffix(name, pair.native)
			if ok && ours[of+pair.ours] != nil {
				sample{name: "Tasks/" + of + "/" + where, unit: "ns/op", native: ours[name], byssus: ours[of+pair.ours], limit: pair.limit}.print(b.out)
			}
		}
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
