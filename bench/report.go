package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"

	"github.com/byssus-hpc/byssus/bench/internal/report"
)

// A sample holds one measurement of both sides, round by round; smaller is better.
type sample struct {
	name   string
	unit   string
	native []float64
	byssus []float64
	other  string // what byssus holds where it is not Byssus
	limit  string // what the measurement is held against, as text; it decides nothing
}

// print writes the sample as one line of Go's benchmark format. The ratio of the medians is taken round by round,
// so that a slow minute of the machine falls on both sides of it.
func (s sample) print(w io.Writer) {
	if len(s.native) == 0 || len(s.native) != len(s.byssus) {
		fmt.Fprintf(w, "# %s: no measurement\n", s.name)
		return
	}
	ratios := report.Ratios(s.byssus, s.native)
	other := cmp.Or(s.other, "byssus")
	fmt.Fprintf(w, "Benchmark%s-%d\t%d\t%.4g native-%s\t%.4g %s-%s\t%.3f ratio-best\t%.3f ratio-median",
		s.name, runtime.NumCPU(), len(ratios), report.Best(s.native), s.unit, report.Best(s.byssus), other, s.unit, report.Best(s.byssus)/report.Best(s.native), report.Median(ratios))
	if s.limit != "" {
		fmt.Fprintf(w, "\t# limit %s", s.limit)
	}
	fmt.Fprintln(w)
}
