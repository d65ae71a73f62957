package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// A sample holds one measurement of both sides, round by round; smaller is better.
type sample struct {
	name   string
	unit   string
	native []float64
	byssus []float64
	limit  string // what the measurement is held against, as text; it decides nothing
}

func best(v []float64) float64 { return slices.Min(v) }

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// print writes the sample as one line of Go's benchmark format. The ratio of the medians is taken round by round,
// so that a slow minute of the machine falls on both sides of it.
func (s sample) print(w io.Writer) {
	if len(s.native) == 0 || len(s.native) != len(s.byssus) {
		fmt.Fprintf(w, "# %s: no measurement\n", s.name)
		return
	}
	ratios := make([]float64, len(s.native))
	for i := range ratios {
		ratios[i] = s.byssus[i] / s.native[i]
	}
	fmt.Fprintf(w, "Benchmark%s-%d\t%d\t%.4g native-%s\t%.4g byssus-%s\t%.3f ratio-best\t%.3f ratio-median",
		s.name, runtime.NumCPU(), len(ratios), best(s.native), s.unit, best(s.byssus), s.unit, best(s.byssus)/best(s.native), median(ratios))
	if s.limit != "" {
		fmt.Fprintf(w, "\t# limit %s", s.limit)
	}
	fmt.Fprintln(w)
}

// header records on what the numbers were taken, as benchmark configuration lines.
func header(w io.Writer) {
	commit := "unknown"
	if out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	fmt.Fprintf(w, "commit: %s\ngoos: %s\ngoarch: %s\npkg: github.com/byssus-hpc/byssus/bench\n", commit, runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(w, "cpu: %s\ncores: %d\nkernel: %s\n", field("/proc/cpuinfo", "model name"), runtime.NumCPU(), file("/proc/sys/kernel/osrelease"))
	fmt.Fprintf(w, "memory: %s\n", field("/proc/meminfo", "MemTotal"))
	load(w)
}

// load records how busy the machine is besides.
func load(w io.Writer) { fmt.Fprintf(w, "load: %s\n", file("/proc/loadavg")) }

func file(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

// field returns the value of the first "key : value" line of a file.
func field(path, key string) string {
	for line := range strings.Lines(file(path)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
