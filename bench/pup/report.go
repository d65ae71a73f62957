package main

import (
	"fmt"
	"runtime"

	"github.com/byssus-hpc/byssus/bench/internal/report"
)

// print writes what was measured of a variant as one line of Go's benchmark format, and notes it for the table. Times
// are the best ones of one repetition; GB/s and ns/object are of processor time; ratios are to the first variant,
// larger is slower.
func (b *bench) print(c comparison, name string, m, first series) {
	cpu, objects := report.Best(m.cpu), float64(c.objects)
	gbs := float64(c.bytes) / cpu
	cpuBest, cpuMedian := cpu/report.Best(first.cpu), report.Median(report.Ratios(m.cpu, first.cpu))
	wallBest, wallMedian := report.Best(m.wall)/report.Best(first.wall), report.Median(report.Ratios(m.wall, first.wall))
	packed := float64(m.packed) / objects
	fmt.Fprintf(b.out, "BenchmarkPUP/%s/%s-%d\t%d\t%.0f ns/op\t%.0f cpu-ns/op\t%.3f GB/s\t%.2f ns/object\t%.1f packed-B/object"+
		"\t%.1f alloc-B/object\t%.3f allocs/object"+
		"\t%.3f cpu-ratio-best\t%.3f cpu-ratio-median\t%.3f wall-ratio-best\t%.3f wall-ratio-median\n",
		c.name, name, runtime.GOMAXPROCS(0), m.repeat*len(m.cpu), report.Best(m.wall), cpu, gbs, cpu/objects, packed,
		m.bytes/objects, m.allocs/objects, cpuBest, cpuMedian, wallBest, wallMedian)
	b.rows = append(b.rows, []string{c.name, name, fmt.Sprintf("%.2f", cpu/objects), fmt.Sprintf("%.2f", report.Best(m.wall)/objects),
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
