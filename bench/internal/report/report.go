// Package report has what the benchmark programs print alike: on what machine and commit, and how rounds become one
// figure. It guarantees that a ratio is taken round by round, so that a slow minute of the machine falls on both sides.
package report

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// Best is the smallest value of a series, which must not be empty.
func Best(v []float64) float64 { return slices.Min(v) }

// Median is the middle value of a series, which must not be empty.
func Median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Ratios are the quotients of two series of equal length, round by round.
func Ratios(a, b []float64) []float64 {
	list := make([]float64, len(a))
	for i := range list {
		list[i] = a[i] / b[i]
	}
	return list
}

// Header records on what the numbers of a package were taken, as configuration lines of Go's benchmark format.
func Header(w io.Writer, pkg string) {
	commit := "unknown"
	if out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	fmt.Fprintf(w, "commit: %s\ngoos: %s\ngoarch: %s\npkg: %s\n", commit, runtime.GOOS, runtime.GOARCH, pkg)
	fmt.Fprintf(w, "cpu: %s\ncores: %d\nkernel: %s\n", Field("/proc/cpuinfo", "model name"), runtime.NumCPU(), file("/proc/sys/kernel/osrelease"))
	fmt.Fprintf(w, "go: %s\nmemory: %s\n", runtime.Version(), Field("/proc/meminfo", "MemTotal"))
	Load(w)
}

// Load records how busy the machine is besides.
func Load(w io.Writer) { fmt.Fprintf(w, "load: %s\n", file("/proc/loadavg")) }

func file(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

// Field returns the value of the first "key : value" line of a file, or "unknown".
func Field(path, key string) string {
	for line := range strings.Lines(file(path)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
