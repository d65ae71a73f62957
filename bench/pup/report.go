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

func best(v []float64) float64 { return slices.Min(v) }

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// ratios are the quotients of two series, round by round, so that a slow minute of the machine falls on both sides.
func ratios(a, b []float64) []float64 {
	list := make([]float64, len(a))
	for i := range list {
		list[i] = a[i] / b[i]
	}
	return list
}

// print writes what was measured of a variant as one line of Go's benchmark format, and notes it for the table. Times
// are the best ones of one repetition; GB/s and ns/object are of processor time; ratios are to the first variant,
// larger is slower.
func (b *bench) print(c comparison, name string, m, first series) {
	cpu, objects := best(m.cpu), float64(c.objects)
	gbs := float64(c.bytes) / cpu
	cpuBest, cpuMedian := cpu/best(first.cpu), median(ratios(m.cpu, first.cpu))
	wallBest, wallMedian := best(m.wall)/best(first.wall), median(ratios(m.wall, first.wall))
	packed := float64(m.packed) / objects
	fmt.Fprintf(b.out, "BenchmarkPUP/%s/%s-%d\t%d\t%.0f ns/op\t%.0f cpu-ns/op\t%.3f GB/s\t%.2f ns/object\t%.1f packed-B/object"+
		"\t%.1f alloc-B/object\t%.3f allocs/object"+
		"\t%.3f cpu-ratio-best\t%.3f cpu-ratio-median\t%.3f wall-ratio-best\t%.3f wall-ratio-median\n",
		c.name, name, runtime.GOMAXPROCS(0), m.repeat*len(m.cpu), best(m.wall), cpu, gbs, cpu/objects, packed,
		m.bytes/objects, m.allocs/objects, cpuBest, cpuMedian, wallBest, wallMedian)
	b.rows = append(b.rows, []string{c.name, name, fmt.Sprintf("%.2f", cpu/objects), fmt.Sprintf("%.2f", best(m.wall)/objects),
		fmt.Sprintf("%.3f", gbs), fmt.Sprintf("%.1f", packed),
		fmt.Sprintf("%.1f", m.bytes/objects), fmt.Sprintf("%.2f", m.allocs/objects), fmt.Sprintf("%.2f", cpuBest), fmt.Sprintf("%.2f", cpuMedian),
		fmt.Sprintf("%.2f", wallBest), fmt.Sprintf("%.2f", wallMedian)})
}

// table writes all results once more, for the eye.
func (b *bench) table() {
	const row = "# %-20s%12s%12s%9s%8s%9s%8s%10s%8s%11s%8s\n"
	last := ""
	for _, r := range b.rows {
		if r[0] != last {
			last = r[0]
			fmt.Fprintf(b.out, "#\n# %s: times of the best round, ratios to the first line\n", last)
			fmt.Fprintf(b.out, row, "", "CPU ns/obj", "wall ns/obj", "GB/s", "B/obj", "alloc B", "allocs",
				"CPU best", "median", "wall best", "median")
		}
		fmt.Fprintf(b.out, row, r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11])
	}
}

// note prints a remark that benchmark tools skip.
func (b *bench) note(format string, args ...any) { fmt.Fprintf(b.out, "# "+format+"\n", args...) }

// header records on what the numbers were taken, as benchmark configuration lines.
func header(w io.Writer) {
	commit := "unknown"
	if out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	fmt.Fprintf(w, "commit: %s\ngoos: %s\ngoarch: %s\n", commit, runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(w, "pkg: github.com/byssus-hpc/byssus/bench/pup\ncpu: %s\n", field("/proc/cpuinfo", "model name"))
	fmt.Fprintf(w, "cores: %d\nkernel: %s\n", runtime.NumCPU(), file("/proc/sys/kernel/osrelease"))
	fmt.Fprintf(w, "go: %s\nmemory: %s\n", runtime.Version(), field("/proc/meminfo", "MemTotal"))
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
